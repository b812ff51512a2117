"""What reading must hold on any text: no exception, at most m answers, nothing invented."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from vpo.chain import parse

PIECES = (
    "```", "```python", "~~~", "````", "\n", "\n\n", "---\n", "</think>", "<think>", "<answer_1>", "</answer_1>",
    "<answer_2>", "# program 1\n", "# Program 2: shorter\n", "Program 3:\n", "**Solution 1**\n", "Sure, here it is: ",
    "def f(x):\n    return x\n", "def f(x):\n    return x + 1\n", "def g(y):\n    return f(y)\n", "def f(x:\n",
    "import math\n", "print(f(1))\n", "assert f(1) == 1\n", "    return (", '"""', "'''", "class A:\n    pass\n",
    "@cache\n", "    ", "x = [1,\n", "...\n", "return", "é\0", "\ud800", "\r\n", "<route_1>RRD</route_1>",
    "<route_1", "<response_1>", "</response_1>", "<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n",
    "(" * 300, "-" * 9000,
)  # fmt: skip
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=40).map("".join)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


@settings(max_examples=100, deadline=None)
@given(texts, st.integers(1, 5), st.booleans())
def test_any_text_is_read_without_raising_or_inventing(text: str, answers: int, truncated: bool) -> None:
    chain = parse(text, "python", answers, truncated=truncated)
    others = [parse(text, form, answers, truncated=truncated) for form in ("route", "text", "tagged")]
    edited = parse(text, "python", 1, diff_parent="def f(x):\n    return x\n")
    assert all(len(one.answers) <= answers for one in (chain, *others, edited))
    assert (chain.error is None) == (len(chain.answers) == answers)
    assert len(set(chain.answers)) == len(chain.answers)
    written = text.replace("\r\n", "\n")
    for answer in chain.answers:
        assert answer.strip()
        lines = [line.strip() for line in answer.split("\n") if line.strip()]
        assert all(line in written for line in lines), "every line of an answer stands in the text"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True), st.data())
def test_distinct_programs_come_back_as_they_were_written(numbers: list[int], data: st.DataObject) -> None:
    codes = [f"def f(x):\n    return x * {number}" for number in numbers]
    between = data.draw(st.sampled_from(["\n", "\n---\n", "\n\nAnother one, faster:\n\n", "\n## Program 2\n"]))
    opening = data.draw(st.sampled_from(["```python", "```", "```py", "~~~python"]))
    closing = opening[:3]
    text = between.join(f"{opening}\n{code}\n{closing}" for code in codes)
    assert parse(text, "python", len(codes)).answers == tuple(codes)
    assert parse(text[: -len(closing) - 1], "python", len(codes), truncated=True).answers == tuple(codes)
