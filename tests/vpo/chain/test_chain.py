"""Chains: what models write is read as chains.yaml says, what is requested and written reads back, and on any text
reading holds its promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vpo.chain import Chain, default_max_tokens, instructions, parse_chain, write_chain, write_edits

READ = yaml.safe_load(Path(__file__).with_name("chains.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("rule", READ)
def test_reading(rule: str) -> None:
    for answer_format, answers, text, read, error, *others in READ[rule]:
        settings: dict[str, Any] = others[0] if others else {}
        assert parse_chain(text, answer_format, answers, **settings) == Chain(tuple(read), error), text


@pytest.mark.parametrize("answer_format", ["python", "route", "text"])
def test_only_chains_are_asked_to_spread(answer_format: str) -> None:
    assert "trade-off" in instructions(answer_format, 3) and "3" in instructions(answer_format, 3)
    assert "trade-off" not in instructions(answer_format, 1)


def test_the_instructions_are_not_answers_themselves() -> None:
    for answer_format in ("python", "route", "text"):
        chain = parse_chain(instructions(answer_format, 3), answer_format, 3)
        assert chain.answers == () or answer_format == "text"


def test_a_layout_of_programs_shows_what_is_to_be_filled_in() -> None:
    method = "import sys\n\nclass Solution:\n    def f(self, x: int) -> int:\n        pass\n"
    for start in ("def f(x,\n      y=1):\n    pass\n", "from math import *\ndef f(x, y=1):\n    return 0"):
        shown = instructions("python", 3, start=start)
        assert shown.count("def f(x,") == 3 and shown.count("y=1):\n    ...\n```") == 3
        assert parse_chain(shown, "python", 3).answers == ()
    assert "class Solution:\n    def f(self, x: int) -> int:\n        ...\n```" in instructions(
        "python", 1, start=method
    )
    for start in ("", "def f(:", "def f(): pass", "def f():\n    pass\ndef g():\n    pass", "x = {1}\n" + method):
        assert instructions("python", 2, start=start) == instructions("python", 2)
    assert len({line for line in instructions("python", 5).split("\n") if line.startswith("# Program")}) == 5


def test_requests_that_make_no_sense_are_refused() -> None:
    for arguments in (("poem", 1, False), ("python", 0, False), ("python", 2, True), ("route", 1, True)):
        with pytest.raises(ValueError):
            instructions(arguments[0], arguments[1], diff=arguments[2])
    with pytest.raises(ValueError):
        parse_chain("", "python", 3, diff_parent="x = 1")


def test_room_grows_with_the_chain() -> None:
    for answer_format in ("python", "route", "text"):
        assert default_max_tokens(answer_format, 1) < default_max_tokens(answer_format, 3)
    assert default_max_tokens("route", 3, "maze-compact") < default_max_tokens("route", 3)


def test_the_request_names_the_tags() -> None:
    assert "<response_1>" not in instructions("tagged", 1) and "its tags included" in instructions("tagged", 1)
    assert "<response_3> and </response_3>" in instructions("tagged", 3)


PROGRAMS = [
    "def f(x):\n    return x + 1",
    "def f(x):\n    y = x\n    return y * 2",
    "import math\n\n\ndef f(x):\n    return math.pi",
]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        ("python", PROGRAMS),
        ("route", ["RRDD", "DDRR", "RDRD"]),
        ("text", ["one", "two\nlines", "3"]),
        ("tagged", ["<think>x</think>\n<response>hi</response>", "<answer>Rome</answer>", "<answer>x</answer>"]),
    ],
)
def test_a_chain_is_read_as_it_was_written(kind, answers, count):
    chain = parse_chain(write_chain(answers[:count], kind), kind, count)
    assert list(chain.answers) == answers[:count] and chain.error is None


def test_an_ordinary_change_is_a_block():
    parent = "\n".join(f"x{n} = {n}" for n in range(20))
    child = parent.replace("x7 = 7", "x7 = 70").replace("x15 = 15\n", "")
    text = write_edits(parent, child)
    assert text.count("<<<<<<< SEARCH") == 2 and "x1 = 1\n" not in text
    assert parse_chain(text, "python", 1, diff_parent=parent).answers == (child,)


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


@settings(max_examples=50, deadline=None)
@given(texts, st.integers(1, 5), st.booleans())
def test_any_text_is_read_without_raising_or_inventing(text: str, answers: int, truncated: bool) -> None:
    chain = parse_chain(text, "python", answers, truncated=truncated)
    others = [parse_chain(text, form, answers, truncated=truncated) for form in ("route", "text", "tagged")]
    edited = parse_chain(text, "python", 1, diff_parent="def f(x):\n    return x\n")
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
    assert parse_chain(text, "python", len(codes)).answers == tuple(codes)
    assert parse_chain(text[: -len(closing) - 1], "python", len(codes), truncated=True).answers == tuple(codes)
