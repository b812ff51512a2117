"""How much of a parent an answer keeps, by the form of the answer."""

import pytest

from problems.identity import LONGEST, kept, share_kept

PROGRAM = "def f(x):\n    y = x + 1\n\n    z = y * 2\n    return z\n"


@pytest.mark.parametrize(
    ("parent", "child", "share"),
    [
        ("RRDD", "RRDD", 1.0),
        ("RRDD", "RRUU", 0.5),
        ("RRDDLL", "RULL", 0.5),  # R at its beginning, LL at its end
        ("RRRR", "RR", 0.5),  # nothing is counted twice
        ("RRDD", "", 0.0),
        ("RRDD", "ULUL", 0.0),
    ],
)
def test_of_a_route_its_beginning_and_its_end(parent, child, share):
    assert share_kept(parent, child, "route") == share == sum(kept(parent, child))


@pytest.mark.parametrize(
    ("child", "share"),
    [
        (PROGRAM, 1.0),
        (PROGRAM.replace("y * 2", "y * 3"), 0.75),
        (PROGRAM.replace("\n", "   \n\n"), 1.0),  # space at line ends and blank lines are not the program
        ("    return z\n    z = y * 2\ndef f(x):\n", 0.25),  # the same order, or it is no longer that program
        ("pass", 0.0),
        ("", 0.0),
    ],
)
@pytest.mark.parametrize("form", ["python", "text"])
def test_of_code_and_text_the_lines_in_their_order(child, share, form):
    assert share_kept(PROGRAM, child, form) == share


def test_of_a_single_line_its_words():
    assert share_kept("a long line of words", "a short line of words", "text") == 0.8
    assert share_kept("a long line of words", "a\nlong\nline", "text") == 0.6


def test_what_cannot_be_compared_is_unknown():
    assert share_kept("", "R", "route") is None and share_kept("\n \n", "x = 1", "python") is None
    many = "x = 1\n" * (LONGEST + 1)
    assert share_kept(many, PROGRAM, "python") is None and share_kept(PROGRAM, many, "python") is None
