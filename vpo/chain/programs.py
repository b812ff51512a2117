"""Python programs from a model's text: which of its code blocks are answers, or the code in it if it has no fences.

Nothing here runs the code. Of the ways to write it loosely, those are read that stored replies have: fences glued to
the end of a sentence or of the last line of code, never closed or closed by the next one; several programs in one block
between lines `---` or tags; a block that the token limit cut, or that runs into prose.
"""

from __future__ import annotations

import ast
import re
import textwrap
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice

from problems.python_syntax import count_tokens, shared_tree

ALLOWANCE = 24_000
"""Tokens of Python that are parsed to read one text, a part counts each time that it is parsed within something else.
Text beyond that has no syntax tree; the answers of a text of some 30 KB stay far below."""
MOST_FENCES = 256
"""Blocks that are looked at in one text; a chain has at most some dozens, and hostile text could hold 10^5."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

# Possessive throughout: no line, however it is made, is gone through more than once
_OPENING = re.compile(r"[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([^\s`{]*+)[^`]*+$")
_LATE_OPENING = re.compile(r"(?<=[^\s`~])[ \t]*+(`{3,}+(?:python|py)[\d.]*+)[ \t]*+$", re.IGNORECASE)
_PYTHON = re.compile(r"(?:python|py)[\d.]*+", re.IGNORECASE)
_DIVIDER = re.compile(r"(?im)^[ \t]*+(?:-{3,}+|(?:</?[a-z]++[\s_#-]*+\d*+>[ \t]*+)++)[ \t]*+$")
_HEADING = re.compile(r"(?m)^# Program \d{1,2}\b")
"""Of the layout that vpo.chain.wording shows."""
_CODE_START = re.compile(r"(?m)^(?:async def |def |class |import \w|from [\w.]++ import |@\w)")
_DEFINED = re.compile(r"(?m)^(?:async[ \t]++)?(?:def|class)[ \t]++(\w++)")


def find_programs(text: str, answers: int) -> tuple[list[str], str]:
    """The Python programs in `text`, in order, and why others were left out ("" if none were).

    A closed block counts even if it is not valid Python: that is a fault of the answer, and its score shows it. If the
    text ends inside a block, only the complete part counts. Blocks that merely call what an earlier block defines are
    usage examples. For one answer, the block that defines the most names wins (models build up to the whole program).
    """
    with _limit_parsing():
        blocks = _read_blocks(text)
        complaint = ""
        codes: list[str] = []
        for block in _python_blocks(blocks):
            codes += _split(block.code, block.closed, answers)
            if not block.closed and parse_code(block.code) is None:
                complaint = "unclosed code fence"
        if not blocks:
            codes = _bare(text)
        codes = [code for code in _without_examples(codes) if not is_placeholder(parse_code(code))]
        if answers == 1 and codes:
            return [max(codes, key=lambda code: len(_defined_names(parse_code(code))))], ""  # the first of equals
        return codes, complaint or ("" if codes else "no Python code block")


@dataclass(frozen=True)
class _Block:
    """A fenced stretch of text. language: as written; closed: False if the text ended inside it."""

    language: str
    code: str
    closed: bool


def _read_blocks(text: str) -> list[_Block]:
    """Every fenced block, in order, at most MOST_FENCES."""
    lines = list[str]()
    for line in text.split("\n"):  # a fence at the end of a sentence gets a line of its own
        lines += _LATE_OPENING.sub(r"\n\1", line).split("\n") if "```" in line else [line]
    marked = [i for i, line in enumerate(lines) if "```" in line or "~~~" in line]
    blocks: list[_Block] = []
    next_line = 0
    for i in marked:
        opening = _OPENING.match(lines[i]) if i >= next_line else None
        if opening is None or len(blocks) == MOST_FENCES:
            continue
        end, last, closed = _end_of_block(lines, marked, i + 1, opening[1])
        code = textwrap.dedent("\n".join(lines[i + 1 : end] + last)).strip("\n")
        if code.strip():
            blocks.append(_Block(opening[2], code, closed))
        # An opening fence that ended the block is the next one's first line
        next_line = end if end < len(lines) and _opens_python(lines[end]) and not last else end + 1
    return blocks


def _end_of_block(lines: list[str], marked: list[int], start: int, mark: str) -> tuple[int, list[str], bool]:
    """(the line that ends the block, the code on that line, whether the block was closed).

    marked: the lines that hold a fence

    Fences inside a docstring do not end it: if the code up to the first fence is not valid Python but the code up to
    one of the next few is, that fence is the end.
    """
    ends: list[tuple[int, list[str]]] = []
    for i in islice(marked, bisect_left(marked, start), None):
        stripped = lines[i].strip()
        if (stripped and set(stripped) == {mark[0]} and len(stripped) >= len(mark)) or _opens_python(lines[i]):
            ends.append((i, []))
        elif stripped.endswith(mark) and not _OPENING.match(lines[i]):
            ends.append((i, [lines[i].rstrip()[: -len(mark)]]))
        if len(ends) == 4:
            break
    for i, last in ends if len(ends) > 1 else []:
        if parse_code(textwrap.dedent("\n".join(lines[start:i] + last))) is not None:
            return i, last, True
    return (*ends[0], True) if ends else (len(lines), [], False)


def _opens_python(line: str) -> bool:
    opening = _OPENING.match(line)
    return bool(opening and _PYTHON.fullmatch(opening[2]))


def _python_blocks(blocks: list[_Block]) -> list[_Block]:
    """The blocks meant as Python. Other languages count only if there is nothing else and they parse."""
    named = any(_PYTHON.fullmatch(block.language) for block in blocks)
    return [
        block
        for block in blocks
        if _PYTHON.fullmatch(block.language)
        or not (block.language or named)
        or (not (block.language and named) and _is_program(parse_code(block.code)))
    ]


def _split(code: str, closed: bool, answers: int) -> list[str]:
    """The programs in one block: it, or its parts under the headings of the layout, or between dividers. Other valid
    Python is not divided: a divider may be in a string."""
    edges = [heading.start() for heading in islice(_HEADING.finditer(code), 2 * answers)] if answers > 1 else []
    if len(edges) > 1:  # what stands above the first belongs to all
        ends = [*edges[1:], len(code)]
        parts = [code[: edges[0]] + code[start:end] for start, end in zip(edges, ends, strict=True)]
    elif parse_code(code) is not None:
        return [code]
    else:
        parts = [part for part in _DIVIDER.split(code, MOST_FENCES) if part.strip()]
    programs = [program for part in parts if (program := _before_the_cut(part.strip("\n")))]
    return programs or ([code] if closed and len(parts) == 1 else parts[:1] if closed else [])


def _before_the_cut(code: str) -> str:
    """The complete part of code that was cut, or that runs into prose: all of it if it parses, else without its last
    statements at the top if these begin no definition of another name; else ""."""
    if parse_code(code) is not None:
        return code
    lines = code.split("\n")
    starts = [i for i, line in enumerate(lines) if line[:1].strip() and line[0] not in ")]}#"]
    for i in reversed(starts[-8:]):
        kept = "\n".join(lines[:i]).strip("\n")
        if names := _defined_names(parse_code(kept)):
            return kept if set(_DEFINED.findall("\n".join(lines[i:]))) <= names else ""
    return ""


def _bare(text: str) -> list[str]:
    """Programs written without any fence: the text, its parts between dividers, or the code in one after prose."""
    codes: list[str] = []
    for part in [text] if parse_code(text) is not None else _DIVIDER.split(text, MOST_FENCES):
        code = part.strip("\n")
        if not _is_program(parse_code(code)):
            start = _CODE_START.search(code)
            code = _before_the_cut(code[start.start() :].strip("\n")) if start else ""
        codes += [code] if _is_program(parse_code(code)) else []
    return codes


def _without_examples(codes: list[str]) -> list[str]:
    if len(codes) < 2:
        return codes
    known: set[str] = set()
    kept = []
    for code in codes:
        tree = parse_code(code)
        names = _defined_names(tree)
        if names or not (tree and _called_names(tree) & known):
            kept.append(code)
        known |= names
    return kept


class _Reading:
    """The trees of the text being read: its blocks are parsed more than once. left: tokens that may still be parsed"""

    def __init__(self) -> None:
        self.left = ALLOWANCE
        self.trees: dict[str, ast.Module | None] = {}
        self._uncounted: list[str] = []
        self._characters = 0

    def allows(self, code: str) -> bool:
        """Whether code may be parsed, which is then taken from what is left. No code has more tokens than characters,
        so tokens are counted only once there are many characters."""
        self._uncounted.append(code)
        self._characters += len(code)
        if self._characters <= ALLOWANCE:
            return True
        for uncounted in self._uncounted[:-1]:
            self.left -= count_tokens(uncounted)
        self._uncounted = []
        tokens = count_tokens(code)
        if tokens > self.left:
            return False
        self.left -= tokens
        return True


_READING: ContextVar[_Reading | None] = ContextVar("reading", default=None)


@contextmanager
def _limit_parsing() -> Iterator[None]:
    """Within this, `parse_code` works on at most ALLOWANCE tokens, so that no text takes long, however it is made."""
    token = _READING.set(_Reading())
    try:
        yield
    finally:
        _READING.reset(token)


def parse_code(code: str) -> ast.Module | None:
    """Its syntax tree, to be left unchanged, or None (problems.python_syntax, ALLOWANCE)."""
    reading = _READING.get()
    if reading is None:
        return shared_tree(code)
    if code not in reading.trees:
        reading.trees[code] = shared_tree(code) if reading.allows(code) else None
    return reading.trees[code]


def _is_program(tree: ast.Module | None) -> bool:
    """Whether it does anything: "Sure" and "x, y" are valid Python too."""
    return tree is not None and any(
        not isinstance(node, ast.Expr) or isinstance(node.value, (ast.Call, ast.Await)) for node in tree.body
    )


def is_placeholder(tree: ast.Module | None) -> bool:
    """Whether it is a layout repeated from a prompt: only comments and `...`, at the top or in every body."""
    return tree is not None and all(_is_dots(node) for node in tree.body)


def _is_dots(node: ast.stmt) -> bool:
    if isinstance(node, DEFINITIONS):
        return all(_is_dots(inner) for inner in node.body)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def _defined_names(tree: ast.Module | None) -> set[str]:
    """Functions and classes at the top level."""
    return {node.name for node in tree.body if isinstance(node, DEFINITIONS)} if tree else set()


def _called_names(node: ast.AST) -> set[str]:
    """The plain names that are called in it."""
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}
