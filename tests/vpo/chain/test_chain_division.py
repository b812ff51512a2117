"""Blocks that hold several programs, and programs that the end of the text cut."""

from __future__ import annotations

import ast

import pytest

from vpo.chain import parse

ONE = "def f(x):\n    return x + 1"
TWO = "def f(x):\n    return 1 + x"
THREE = "def f(x):\n    y = x\n    return y + 1"
CUT = "def f(x):\n    return (x +"


def fence(code: str) -> str:
    return f"```python\n{code}\n```"


def stripped(answers: tuple[str, ...]) -> list[str]:
    """Without comments: a heading stays with its program."""
    return [ast.unparse(ast.parse(answer)) for answer in answers]


PLAIN = [ast.unparse(ast.parse(code)) for code in (ONE, TWO, THREE)]


@pytest.mark.parametrize(
    "heading",
    [
        "# Program {}",
        "# program {}, complete",
        "# Program {}: a different algorithm",
        "## Solution {}:",
        "# Solution #{}",
        "# answer_{}",
        "# **Approach {}**",
        "#p{}",
        "program {}:",
        "Program {}",
        "**Version {}**",
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["first too", "first without"])
def test_numbered_headings_divide_a_block(heading: str, first: bool) -> None:
    parts = [f"{heading.format(i)}\n{code}" for i, code in enumerate((ONE, TWO, THREE), 1)]
    if not first:
        parts[0] = ONE
    chain = parse(fence("\n\n".join(parts)), "python", 3)
    assert chain.error is None
    assert stripped(chain.answers) == PLAIN


def test_ordinals_divide_too() -> None:
    block = f"# First solution\n{ONE}\n# The second solution\n{TWO}\n# Last solution\n{THREE}"
    assert stripped(parse(fence(block), "python", 3).answers) == PLAIN


@pytest.mark.parametrize(
    "block",
    [
        "# Step 1: read\nimport sys\n# Step 2: add\ndef f(x):\n    return x + 1",
        "# Method 1: double\ndef g(x):\n    return 2 * x\n# Method 2: use it\ndef f(x):\n    return g(x)",
        "answer_1 = 4\nanswer_2 = 5\n\ndef f():\n    return answer_1 + answer_2",
        "def f(x):\n    # program 1\n    y = x\n    # program 2\n    return y",
        'TEXT = """\n---\n# program 1\n"""\n\ndef f():\n    return TEXT',
    ],
)
def test_one_program_with_headings_of_its_own_stays_whole(block: str) -> None:
    assert parse(fence(block), "python", 3).answers == (block,)


def test_what_stands_above_the_first_belongs_to_all_and_imports_to_those_that_use_them() -> None:
    block = (
        "LIMIT = 3\n\n# Program 1\nimport math\nfrom typing import *\ndef f(x: List):\n    return math.sqrt(LIMIT)\n\n"
        "# Program 2\ndef f(x: List):\n    return LIMIT\n\n# Program 3\ndef f(x):\n    return math.exp(LIMIT)"
    )
    one, two, three = parse(fence(block), "python", 3).answers
    for answer in (one, two, three):
        assert answer.startswith("LIMIT = 3")
    assert "import math" not in two and "from typing import *" in two
    assert "import math" in three and "def f(x: List)" not in three


def test_a_helper_between_two_versions_belongs_to_the_one_that_uses_it() -> None:
    block = f"{ONE}\n\ndef twice(x):\n    return 2 * x\n\ndef f(x):\n    return twice(x) - x + 1"
    one, two = parse(fence(block), "python", 2).answers
    assert one == ONE
    assert "def twice" in two and two.count("def f") == 1


def test_programs_without_functions_are_divided_by_their_headings() -> None:
    one, two = "n = int(input())\nprint(n + 1)", "print(int(input()) + 1)"
    chain = parse(fence(f"# Program 1\n{one}\n\n# Program 2\n{two}"), "python", 2)
    assert stripped(chain.answers) == [one, two]


@pytest.mark.parametrize("last", ["", "\n```"])
def test_broken_programs_under_headings_do_not_spoil_the_whole_ones(last: str) -> None:
    chain = parse(f"```python\n# program 1\n{ONE}\n# program 2\n{TWO}\n# program 3\n{CUT}{last}", "python", 3)
    assert stripped(chain.answers) == PLAIN[:2]
    assert chain.error is not None and chain.error.startswith("2 of 3")


def test_a_version_that_was_cut_is_left_out() -> None:
    chain = parse(f"```python\n{ONE}\n\n{TWO}\n\n{CUT}", "python", 3, truncated=True)
    assert stripped(chain.answers) == PLAIN[:2]
    assert chain.error == "2 of 3 answers found: unclosed code fence"


@pytest.mark.parametrize("answers", [1, 3])
@pytest.mark.parametrize("rest", ["# Test cases\nprint(f(1))\nprint(f(", "assert f(1) == (", "f([1, 2"])
def test_a_usage_example_that_was_cut_does_not_take_the_program_with_it(answers: int, rest: str) -> None:
    chain = parse(f"```python\n{ONE}\n\n{rest}", "python", answers, truncated=True)
    assert len(chain.answers) == 1
    assert ast.unparse(ast.parse(chain.answers[0])).startswith(PLAIN[0])


@pytest.mark.parametrize("text", [f"def g(x):\n    return x\n\n{CUT}", CUT, f"import math\n{CUT}"])
def test_a_program_that_was_cut_is_no_answer(text: str) -> None:
    for answers in (1, 3):
        assert parse("```python\n" + text, "python", answers, truncated=True).answers == ()


@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize("prose", ["Fitness: 2 of 3", "This adds one, in O(1).", "2. **Another:**\n"])
def test_prose_inside_a_block_is_cut_off(answers: int, prose: str) -> None:
    text = f"{fence(f'{ONE}{chr(10)}{chr(10)}{prose}')}\n{fence(TWO)}"
    assert parse(text, "python", answers).answers == (ONE, TWO)[:answers]
    reopened = f"```python\n{ONE}\n\n{prose}\n{fence(TWO)}"
    assert parse(reopened, "python", answers).answers == (ONE, TWO)[:answers]


def test_assertions_at_the_end_are_left_out_and_output_is_not() -> None:
    assert parse(fence(f"{ONE}\n\nassert f(1) == 3\nassert f(2) == 3, 'no'"), "python", 1).answers == (ONE,)
    for tail in ("print(f(2))", "assert f(1) == 2\nprint(f(1))", "assert 1"):
        assert parse(fence(f"{ONE}\n{tail}"), "python", 1).answers == (f"{ONE}\n{tail}",)


def test_a_layout_copied_from_the_prompt_is_no_answer() -> None:
    copied = "# Program 1\ndef f(x):\n    ..."
    assert parse(f"{fence(copied)}\n{fence('...')}\n{fence(ONE)}\n{fence(TWO)}", "python", 2).answers == (ONE, TWO)
    assert parse(fence(copied), "python", 1).answers == ()


def test_code_without_fences_between_prose() -> None:
    text = f"Here is one:\n\n{ONE}\n\nAnd a second way to do it, shorter:\n\n{TWO}\n\nDone. Both work."
    assert parse(text, "python", 2).answers == (ONE, TWO)


@pytest.mark.parametrize(
    "same",
    [
        "def f( x ):  # adds one\n\n    # here\n    return (x+1)",
        'def f(x):\n    """Adds one."""\n    return x + 1',
        f"{ONE}\n\n# Example\nprint(f(2), 'is 3')\nassert f(1) == 2\nf([1, -2])",
        '"""A module."""\ndef f(x):\n    "Adds\\n one."\n    return x + 1',
    ],
)
def test_repeats_that_differ_in_layout_comments_docstrings_or_examples_are_dropped(same: str) -> None:
    chain = parse(f"{fence(ONE)}\n{fence(same)}", "python", 2)
    assert chain.answers == (ONE,)
    assert chain.error == "1 of 2 answers found: 1 repeated another"


@pytest.mark.parametrize(
    "other",
    [
        ONE.replace("x", "y"),
        ONE + " + 0",
        f"{ONE}\nprint(f(int(input())))",
        f"{ONE}\ny = f(1)",
        'def f(x):\n    """Stub."""',
        "def f(x):\n    pass",
    ],
)
def test_renamed_variables_other_bodies_and_what_is_read_make_another_answer(other: str) -> None:
    assert parse(f"{fence(ONE)}\n{fence(other)}", "python", 2).answers == (ONE, other)


def test_what_holds_a_docstring_alone_equals_what_does_nothing() -> None:
    stub, nothing = 'def f(x):\n    """Stub."""', "def f(x):\n    pass"
    assert parse(f"{fence(stub)}\n{fence(nothing)}", "python", 2).answers == (stub,)
