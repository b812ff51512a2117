"""Code fences in a model's text: closed or not, glued to prose or tags, opened twice, or never opened at all."""

from __future__ import annotations

import re
import textwrap
from bisect import bisect_left
from dataclasses import dataclass
from itertools import islice

from vpo.chain.syntax import is_program, parse_code

MOST = 256
"""Blocks that are looked at in one text; a chain has at most some dozens, and hostile text could hold 10^5."""

# Possessive throughout: no line, however it is made, is gone through more than once
_OPENING = re.compile(r"[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([^\s`{]*+)[ \t]*+([^`]*+)$")
_ONE_LINE = re.compile(r"[ \t]*+`{3,}+(?:python|py)[\d.]*+[ \t]++([^`].*)$", re.IGNORECASE)
_LATE_OPENING = re.compile(r"(?m)(?<=[^\s`~])[ \t]*+(`{3,}+(?:python|py)[\d.]*+)[ \t]*+$", re.IGNORECASE)
_GLUED_TAG = re.compile(r"(?m)^([ \t]*+`{3,}+)[ \t]*+(</?[a-z]\w*+>)", re.IGNORECASE)
PYTHON = re.compile(r"(?:python|py)[\d.]*+", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """A fenced stretch of text. language: as written; closed: False if the text ended inside it."""

    language: str
    code: str
    closed: bool


def read_fences(text: str) -> list[Block]:
    """Every fenced block, in order, at most MOST.

    A bare fence right after a stretch of valid Python closes a block whose opening fence is missing.
    """
    lines = _GLUED_TAG.sub(r"\1\n\2", _LATE_OPENING.sub(r"\n\1", text)).split("\n")
    marked = [i for i, line in enumerate(lines) if "```" in line or "~~~" in line]
    blocks: list[Block] = []
    next_line = outside = 0  # outside: the first line since the last block
    for i in marked:
        if i < next_line:
            continue
        if len(blocks) == MOST:
            break
        next_line = i + 1
        if (single := _one_line(lines[i])) is not None:
            blocks.append(Block("python", single, True))
            outside = i + 1
        elif opening := _OPENING.match(lines[i]):
            before = "\n".join(lines[outside:i]).strip("\n")
            if not opening[2] and not opening[3] and is_program(parse_code(before)):
                blocks.append(Block("", before, True))
                outside = i + 1
                continue
            mark, language, rest = opening[1], opening[2], opening[3]
            start = i + 1
            first = [rest] if rest and PYTHON.fullmatch(language) else []
            end, last, closed = _end_of_block(lines, marked, start, mark, first)
            body = textwrap.dedent("\n".join(first + lines[start:end] + last)).strip("\n")
            if not language and PYTHON.fullmatch(body.partition("\n")[0].strip()):
                body = body.partition("\n")[2]  # the language slipped onto the first line, if it parses as a name
            if body.strip():
                blocks.append(Block(language, body, closed))
            # An opening fence that ended the block is the next one's first line
            next_line = outside = end if end < len(lines) and _opens_python(lines[end]) and not last else end + 1
    return blocks


def _one_line(line: str) -> str | None:
    """The code of "```python x = 1```"."""
    single = _ONE_LINE.match(line)
    code = single[1].rstrip() if single else ""
    return code.rstrip("`") if code.endswith("```") else None


def _end_of_block(
    lines: list[str], marked: list[int], start: int, mark: str, first: list[str]
) -> tuple[int, list[str], bool]:
    """(the line that ends the block, the code on that line, whether the block was closed).

    marked: the lines that hold a fence

    Fences inside a docstring do not end it: if the code up to the first fence is not valid Python but the code up to
    one of the next few is, that fence is the end.
    """
    ends: list[tuple[int, list[str]]] = []
    for i in islice(marked, bisect_left(marked, start), None):
        stripped = lines[i].strip()
        if stripped and set(stripped) == {mark[0]} and len(stripped) >= len(mark):
            ends.append((i, []))
        elif stripped.endswith(mark) and not _OPENING.match(lines[i]):
            ends.append((i, [lines[i].rstrip()[: -len(mark)]]))
        elif _opens_python(lines[i]):
            ends.append((i, []))
        if len(ends) == 4:
            break
    for i, last in ends if len(ends) > 1 else []:
        if parse_code(textwrap.dedent("\n".join(first + lines[start:i] + last))) is not None:
            return i, last, True
    return (*ends[0], True) if ends else (len(lines), [], False)


def _opens_python(line: str) -> bool:
    opening = _OPENING.match(line)
    return bool(opening and PYTHON.fullmatch(opening[2]))
