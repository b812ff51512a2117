"""No text takes long or much memory to read, however it is made.

Each reading runs in a process that the kernel ends beyond a CPU time and refuses memory beyond a limit.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from functools import partial

import pytest
from support.run_limited import DONE, MEMORY, NO_MEMORY, run_limited

from problems.identity import identity
from problems.openevolve.evolve_block import NotSpliceable, splice
from problems.python_syntax import strip_fence
from vpo.chain import parse_chain
from vpo.chain.edits import MOST_BLOCKS
from vpo.chain.parsing import LONGEST_TEXT


def store(text: str) -> None:
    """What becomes of an answer before it is scored."""
    with contextlib.suppress(NotSpliceable):
        splice("a = 1\n# EVOLVE-BLOCK-START\nb = 1\n# EVOLVE-BLOCK-END", strip_fence(text))
    identity(strip_fence(text), "python")


DEF = "def f(): return 1\n"
EDIT = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
LINE_ENDS = "a\n" * 30_000
SHAPES: dict[str, Callable[[int], str]] = {
    "search markers": lambda n: "<<<<<<< SEARCH\n" * (n // 15),
    "search marker with spaces": lambda n: "<<<<<<< SEARCH" + " " * (n - 15) + "x",
    "edits": lambda n: EDIT * (n // len(EDIT)),
    "dividers": lambda n: "<<<<<<< SEARCH\n" + "=======\n" * (n // 8),
    "dotted import": lambda n: "from a" + ".a" * (n // 2 - 6) + " import b",
    "odd dotted import": lambda n: "from ℘" + " . \\\n℘" * (n // 8) + " import b",
    "dotted import in a block": lambda n: "```python\nimport a" + ".a" * (n // 2 - 20) + "\n```",
    "statements": lambda n: "```python\n" + "a\n" * (n // 2 - 10) + "```",
    "statements and a fault": lambda n: "```python\n" + "a\n" * (n // 2 - 10) + "b c\n```",
    "format string": lambda n: "```python\nx = f'" + "{a}" * (n // 3 - 10) + "'\n```",
    "docstrings": lambda n: ("```python\n" + "def f():\n '''a'''\n" * 40 + "```\n") * (n // 800),
    "prose after code": lambda n: (DEF + "And then.\n") * (n // 30),
    "versions": lambda n: "```python\n" + DEF * (n // 18 - 2) + "```",
    "headings": lambda n: "```python\n" + f"# program 1\n{DEF}" * (n // 31) + "```",
    "closing marks of every length": lambda n: "".join("`" * k + "\n" + "`" * k + "\n" for k in range(180, 3, -1))
    + "\n" * (n - 34_000),
    "blank lines": lambda n: "\n" * n,
    "blank lines and a fence": lambda n: "\n" * (n - 10) + "```\nx",
    "one long fence line": lambda n: "x y\n```" + "a" * (n - 8),
    "parentheses": lambda n: "```python\n" + "(" * (n - 20),
    "tags": lambda n: "<answer_1>" * (n // 10),
    "routes": lambda n: "<route_1>RRD</route_1>" * (n // 22),
    "thoughts": lambda n: "<think>" * (n // 7),
    "cells": lambda n: ">aa " * (n // 4),
}  # fmt: skip
WAYS: dict[str, Callable[[str], object]] = {
    "programs": lambda text: parse_chain(text, "python", 3),
    "program": lambda text: parse_chain(text, "python", 1),
    "edits": lambda text: parse_chain(text, "python", 1, diff_parent=LINE_ENDS),
    "texts": lambda text: parse_chain(text, "text", 3),
    "routes": lambda text: parse_chain(text, "route", 3),
    "maze language": lambda text: parse_chain(text, "route", 3, prompt_format="maze-compact"),
    "storing": store,
}


SIZE = 40_000


def repeated(piece: str) -> str:
    return piece * (SIZE // len(piece))


LOOSE = [
    repeated("```\n"), repeated("```python\n"), repeated(f"```python\n{DEF}```\n"), repeated("<think>"),
    repeated("```python\ndef f(: return\n```\n"), f"```python\n{repeated(DEF)}```", "```" + repeated(" ") + "`",
    f"```python\n{repeated('# program 1' + chr(10) + DEF)}```", "```" + repeated("a") + "`", repeated("`"),
    "```py" + repeated(" ") + "x", "```python " + repeated("```x"), "```python\n" + repeated("("),
    "```python\n" + repeated("-") + "1\n```", "```python\nx = " + repeated("1+") + "1\n```", repeated("<  "),
    "<answer_1" + repeated(" ") + "x", repeated("<answer_1>"), repeated("---\n" + DEF), repeated("~~~a\n```b\n"),
    "def f(): pass\n\n" + repeated("And then some.\n\n"), repeated(DEF + "Prose.\n"), repeated("x ```python\n"),
    "def f(:\n" + repeated("x = 1\n"), "```python\n" + repeated("def f(:\n"), "<answer_1>```\n" + repeated("``` "),
    "```python\n" + repeated("import a\n") + f"# program 1\n{DEF}# program 2\ndef f(): return a\n```",
    "```python\n" + "".join(f"def h{i}(): return h{i + 1}()\n" for i in range(SIZE // 40))
    + "".join(f"# program {i}\ndef f(): return h0() + {i}\n" for i in range(60)) + "```",
]  # fmt: skip


TEXTS = {shape: partial(make, LONGEST_TEXT - 100) for shape, make in SHAPES.items()}
TEXTS |= {str(place): partial(str, text) for place, text in enumerate(LOOSE)}


@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
def test_reading_is_bounded_in_time_and_memory(name: str) -> None:
    """Each text is made in the child, and read there in every way."""
    text: list[str] = []
    readings = [lambda way=way: way(text[0]) for way in WAYS.values()]
    assert run_limited(lambda: text.append(TEXTS[name]()), *readings) == DONE, [*WAYS]


@pytest.mark.parametrize(
    ("work", "status"),
    [(lambda: sum(iter(int, 1)), -signal.SIGPROF), (lambda: bytearray(2 * MEMORY), NO_MEMORY), (int, DONE)],
)
def test_the_limits_hold(work: Callable[[], object], status: int) -> None:
    assert run_limited(int, work, cpu_seconds=0.05) == status


def test_an_over_long_answer_is_an_error_that_says_how_long_it_may_be() -> None:
    chain = parse_chain("x" * (LONGEST_TEXT + 1), "text", 1)
    assert chain.answers == ()
    assert chain.error == "65537 characters written where at most 65536 are read; write less"
    assert parse_chain("x" * LONGEST_TEXT, "text", 1).answers


def test_thinking_does_not_count_as_length() -> None:
    text = f"<think>{'so ' * LONGEST_TEXT}</think>\n```python\n{DEF}```"
    assert parse_chain(text, "python", 1).answers == (DEF.strip(),)


def test_more_edits_than_are_read_are_an_error() -> None:
    text = "\n".join(EDIT.replace("\nb\n", f"\n{'b' * (i % 7 + 1)}\na\n") for i in range(MOST_BLOCKS + 1))
    chain = parse_chain(text, "python", 1, diff_parent="a\n")
    assert chain.answers == () and chain.error is not None and f"more than {MOST_BLOCKS} edit blocks" in chain.error


def test_a_long_program_is_read_whole() -> None:
    program = "\n".join(f"def function_{i}(first, second):\n    return first + second * {i}" for i in range(700))
    assert len(program) > 40_000
    assert parse_chain(f"```python\n{program}\n```", "python", 1).answers == (program,)
