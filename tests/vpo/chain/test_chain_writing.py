"""What is written as a chain is what its parser reads."""

import pytest

from vpo.chain import parse, write_chain, write_edits

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
    chain = parse(write_chain(answers[:count], kind), kind, count)
    assert list(chain.answers) == answers[:count] and chain.error is None


def test_an_ordinary_change_is_a_block():
    parent = "\n".join(f"x{n} = {n}" for n in range(20))
    child = parent.replace("x7 = 7", "x7 = 70").replace("x15 = 15\n", "")
    text = write_edits(parent, child)
    assert text.count("<<<<<<< SEARCH") == 2 and "x1 = 1\n" not in text
    assert parse(text, "python", 1, diff_parent=parent).answers == (child,)
