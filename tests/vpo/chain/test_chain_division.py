"""Blocks that hold several programs, and programs that the end of the text cut."""

from __future__ import annotations

import pytest

from vpo.chain import Chain, parse

ONE = "def f(x):\n    return x + 1"
TWO = "def f(x):\n    return 1 + x"
THREE = "def f(x):\n    y = x\n    return y + 1"
CUT = "def f(x):\n    return (x +"


def fence(code: str) -> str:
    return f"```python\n{code}\n```"


def test_the_headings_of_the_layout_divide_a_block_and_what_stands_above_belongs_to_all() -> None:
    parts = [
        f"# Program {i}: {idea}\n{code}" for i, idea, code in ((1, "direct", ONE), (2, "short", TWO), (3, "", THREE))
    ]
    assert parse(fence("\n\n".join(parts)), "python", 3) == Chain(tuple(parts))
    shared = parse(fence("\n\n".join(["LIMIT = 3", *parts])), "python", 3)
    assert shared.error is None and all(answer.startswith("LIMIT = 3\n") for answer in shared.answers)
    cut = parse(f"```python\n{parts[0]}\n{parts[1]}\n# Program 3\n{CUT}", "python", 3, truncated=True)
    assert cut == Chain(tuple(parts[:2]), "2 of 3 answers found: unclosed code fence")


@pytest.mark.parametrize(
    "block",
    [
        f"{ONE}\n\n{TWO}",  # a name defined again
        "# Step 1: read\nimport sys\n# Step 2: add\ndef f(x):\n    return x + 1",
        "# Method 1: double\ndef g(x):\n    return 2 * x\n# Method 2: use it\ndef f(x):\n    return g(x)",
        "answer_1 = 4\nanswer_2 = 5\n\ndef f():\n    return answer_1 + answer_2",
        "def f(x):\n    # program 1\n    y = x\n    # program 2\n    return y",
        'TEXT = """\n---\n# program 1\n"""\n\ndef f():\n    return TEXT',
    ],
)
def test_one_program_with_headings_of_its_own_stays_whole(block: str) -> None:
    assert parse(fence(block), "python", 3).answers == (block,)


@pytest.mark.parametrize("answers", [1, 3])
@pytest.mark.parametrize("rest", ["# Test cases\nprint(f(1))\nprint(f(", "assert f(1) == (", "f([1, 2"])
def test_a_usage_example_that_was_cut_does_not_take_the_program_with_it(answers: int, rest: str) -> None:
    chain = parse(f"```python\n{ONE}\n\n{rest}", "python", answers, truncated=True)
    assert len(chain.answers) == 1 and chain.answers[0].startswith(ONE)


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


def test_a_layout_copied_from_the_prompt_is_no_answer() -> None:
    copied = "# Program 1\ndef f(x):\n    ..."
    assert parse(f"{fence(copied)}\n{fence('...')}\n{fence(ONE)}\n{fence(TWO)}", "python", 2).answers == (ONE, TWO)
    assert parse(fence(copied), "python", 1).answers == ()


def test_repeats_that_differ_in_layout_or_comments_are_dropped() -> None:
    again = "def f( x ):  # adds one\n\n    # here\n    return (x+1)"
    chain = parse(f"{fence(ONE)}\n{fence(again)}", "python", 2)
    assert chain == Chain((ONE,), "1 of 2 answers found: 1 repeated another")


@pytest.mark.parametrize(
    "other",
    [
        ONE.replace("x", "y"),
        ONE + " + 0",
        f"{ONE}\nprint(f(int(input())))",
        f"{ONE}\ny = f(1)",
        'def f(x):\n    """Adds one."""\n    return x + 1',
        f"{ONE}\n\nassert f(1) == 2",
        "def f(x):\n    pass",
    ],
)
def test_renamed_variables_other_bodies_and_what_is_read_make_another_answer(other: str) -> None:
    assert parse(f"{fence(ONE)}\n{fence(other)}", "python", 2).answers == (ONE, other)
