"""Diff mode: SEARCH/REPLACE blocks in OpenEvolve's form, applied to the parent in order.

The matching is that of openevolve.utils.code_utils, in linear time. The grammar takes more: other lengths of the
markers, and lines of prose or of the program that look like one.
"""

from __future__ import annotations

import re

from problems.python_syntax import parse_python

MOST_BLOCKS = 128
"""More edit blocks than this in one answer are refused."""

_MOST_DIVIDERS = 8
"""Lines of one block that are tried as its divider."""
_SEARCH, _DIVIDER, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
# Possessive: no line is gone through twice
_MARKERS = {
    _SEARCH: re.compile(r"[ \t]*+<{5,9}+[ \t]*+SEARCH[ \t]*+:?+[ \t]*+"),
    _DIVIDER: re.compile(r"[ \t]*+={7}[ \t]*+"),
    _REPLACE: re.compile(r"[ \t]*+>{5,9}+[ \t]*+REPLACE[ \t]*+:?+[ \t]*+"),
}


class EditFault(ValueError):
    """The edits cannot be applied; one line that names the block."""


def has_edits(text: str) -> bool:
    """Whether the text tries to edit at all."""
    return any(_marker(line) in (_SEARCH, _REPLACE) for line in text.split("\n"))


def apply_edits(parent: str, text: str, left_out: list[str] | None = None) -> str:
    """`parent` with the edit blocks of `text` applied in order.

    A SEARCH part matches whole lines of the program: equal lines, else lines that differ only in trailing spaces. A
    block whose SEARCH part is empty or not in the program is left out, as in OpenEvolve; the reason, which names it, is
    added to `left_out`. Raises EditFault if a block is malformed, if all are left out, or if nothing changes.
    """
    blocks = _read_blocks(text)
    lines = parent.split("\n")
    bare = [line.rstrip() for line in lines]
    missed: list[str] = []
    doubtful = False  # whether a REPLACE part holds a divider that its SEARCH part does not account for
    for number, divisions in enumerate(blocks, 1):
        name = f"edit block {number} of {len(blocks)}"
        divisions = [division for division in divisions if division[0].strip()]
        if not divisions:
            missed.append(f"{name}: the SEARCH part is empty")
            continue
        for search, replacement in reversed(divisions):  # the most of a SEARCH part that the program has
            wanted = search.split("\n")
            place = _find(lines, wanted)
            if place < 0:
                place = _find(bare, [line.rstrip() for line in wanted])
            if place >= 0:
                given = replacement.split("\n")
                lines[place : place + len(wanted)] = given
                bare[place : place + len(wanted)] = [line.rstrip() for line in given]
                doubtful |= _dividers(given) > _dividers(wanted)
                break
        else:
            missed.append(f"{name}: its SEARCH part is not in the program: {_first_line(divisions[0][0])!r}")
    if len(missed) == len(blocks):
        raise EditFault(missed[0])
    program = "\n".join(lines)
    if doubtful and (parse_python(parent) is None or parse_python(program) is None):
        raise EditFault(f"malformed edit block: a second line {_DIVIDER}, which would stand in the program")
    if program == parent:
        raise EditFault("the edits change nothing")
    if left_out is not None:
        left_out += missed
    return program


def _dividers(lines: list[str]) -> int:
    return sum(_marker(line) == _DIVIDER for line in lines)


def _marker(line: str) -> str | None:
    """The marker that makes up the whole line."""
    if line.lstrip()[:1] not in ("<", "=", ">"):
        return None
    return next((marker for marker, pattern in _MARKERS.items() if pattern.fullmatch(line)), None)


def _read_blocks(text: str) -> list[list[tuple[str, str]]]:
    """Of every block the ways to divide it into a SEARCH and a REPLACE part, trailing white space removed: at its first
    divider, or at one of the next, since a heading in a docstring may be underlined like one."""
    blocks: list[list[tuple[str, str]]] = []
    body: list[str] | None = None  # the lines since SEARCH
    dividers: list[int] = []
    held = False  # whether the SEARCH part holds a line like its first one; the REPLACE part may keep it
    for line in text.split("\n"):
        marker = _marker(line)
        if marker == _SEARCH and body is not None and not dividers:
            held = True  # it is a line of the program
        if marker == _SEARCH and (body is None or (dividers and not held)):
            if body is not None:
                raise EditFault(f"malformed edit block: a line {_SEARCH} where {_REPLACE} was due")
            body, dividers, held = [], [], False
        elif marker == _REPLACE:
            if body is None or not dividers:
                raise EditFault(
                    f"malformed edit block: a line {_REPLACE} where {_DIVIDER if body else _SEARCH} was due"
                )
            ways = [("\n".join(body[:i]).rstrip(), "\n".join(body[i + 1 :]).rstrip()) for i in dividers]
            blocks.append(ways)
            if len(blocks) > MOST_BLOCKS:
                raise EditFault(f"more than {MOST_BLOCKS} edit blocks; write the program as a whole")
            body = None
        elif body is not None:
            if marker == _DIVIDER and len(dividers) < _MOST_DIVIDERS:
                dividers.append(len(body))
            body.append(line)
    if body is not None or not blocks:
        raise EditFault("malformed edit block: a SEARCH, =======, REPLACE line is missing")
    return blocks


def _find(lines: list[str], wanted: list[str]) -> int:
    """The first place where the wanted lines follow each other, or -1. Linear: str.find is."""
    program, sought = ("\n" + "\n".join(part) + "\n" for part in (lines, wanted))
    place = program.find(sought)
    return -1 if place < 0 else program.count("\n", 0, place)


def _first_line(search: str) -> str:
    line = next(line.strip() for line in search.split("\n") if line.strip())
    return line if len(line) <= 60 else line[:57] + "..."
