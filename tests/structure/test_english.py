"""The worst habits of this project's English stay out of what users read: pages, help and messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import click
import pytest
from modules import ROOT, trees

from evo.cli import evo

HABITS = {
    r"\banew\b": "again",
    r"\bnobody\b": "no one, or the passive voice",
    r"\bcannot be had\b": "is not available",
    r"\b(goes|go|went|going) on\b(?! to\b)": "continues",
    r"\ban own\b": "your, a custom",
    r"\bin the place of\b": "instead of",
    r"\bunder way\b": "in progress, running",
    r"\bhas come to\b|\bhave come to\b": "has reached",
    r"\bwhere there (is|are) no\b": "without, if there is no",
    r"\bwhere it (has|is|can|does)\b": "if it",
    r"\b(is|are|was|were) told\b": "is given, is reported",
    r"\blies in\b|\blie in\b": "is in",
    r"\bwhat (it|they) (is|are) (asked|told|shown)\b": "name the thing",
}
DOCSTRING_HABITS = {
    r"\bof (its|their|his|her) own\b": "separate",
    r"\bwhere (there|no|none|nothing)\b": "if",
    r"\bwhat (it|they|there) (is|are|has|have|does|do|says?)\b": "name the thing",
    r"\bbesides?\b": "with, next to, in addition to",
    r"\bstands?\b": "is",
    r"\bsomebody\b|\bwhoever\b": "a user, a process: name it",
    r"\bso many\b": "this many, that many",
}
TO_MEND = ("evo/progress/",)
"""Paths whose docstrings were never read for habits; each that is mended leaves."""
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *(page for folder in ("docs", "examples", "bench/results") for page in sorted((ROOT / folder).rglob("*.md"))),
]


def habits_in(text: str, habits: Mapping[str, str] = HABITS) -> list[str]:
    """Each habit in a text, with its words and the replacement."""
    return [
        f"{match[0]!r} (write: {instead})"
        for habit, instead in habits.items()
        for match in re.finditer(habit, text, re.I)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_are_plain(page):
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    assert not habits_in(prose)


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for part in command.list_commands(context):
            inner = command.get_command(context, part)
            assert inner is not None
            yield from commands(inner, f"{name} {part}")


def test_help_is_plain_and_stands_by_itself():
    faults = []
    for name, command in commands(evo, "evo"):
        texts = [(name, command.help or "")]
        texts += [(f"{name} {o.opts[0]}", o.help or "") for o in command.params if isinstance(o, click.Option)]
        faults += [f"{place}: {fault}" for place, text in texts for fault in habits_in(text)]
        faults += [f"{place}: begins with 'of'" for place, text in texts if text.startswith("of ")]
        faults += [f"{place}: no help" for place, text in texts if not text]
    assert not faults, "\n".join(faults)


def messages() -> Iterator[tuple[str, str]]:
    """(place, text) of every string in a raise statement, and of every string printed by the command line."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and node.exc is not None:
                parts = [
                    n.value for n in ast.walk(node.exc) if isinstance(n, ast.Constant) and isinstance(n.value, str)
                ]
                yield f"{path}:{node.lineno}", " ".join(parts)


def test_messages_are_plain():
    faults = [f"{place}: {fault}" for place, text in messages() for fault in habits_in(text)]
    assert not faults, "\n".join(faults)


def docstrings() -> Iterator[tuple[str, str]]:
    """(place, text) of every docstring of the packages, those of constants included."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield f"{path}:{node.lineno}", text


def test_docstrings_are_plain():
    texts = list(docstrings())
    assert len(texts) > 1500
    faults = [f"{place}: {fault}" for place, text in texts for fault in habits_in(text, HABITS | DOCSTRING_HABITS)]
    left = {path for path in TO_MEND if any(fault.startswith(path) for fault in faults)}
    assert left == set(TO_MEND), "mended: take it from TO_MEND"
    assert not [fault for fault in faults if not fault.startswith(TO_MEND)], "\n".join(faults)
