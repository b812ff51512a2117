"""Python source with its syntax tree: edits by the place of a node, so that comments and layout stay as they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from problems.python_syntax import parse_python

_BLOCK_START = re.compile(r"^[^\n\w]*EVOLVE-BLOCK-START")
_BLOCK_END = re.compile(r"^[^\n\w]*EVOLVE-BLOCK-END")
_Node = TypeVar("_Node", bound=ast.AST)
Placed = ast.expr | ast.stmt
ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.AugAssign)


def open_lines(text: str) -> set[int]:
    """The lines that may change, counted from 1: all of them, or those between EVOLVE-BLOCK marks where there are
    any."""
    lines = text.split("\n")
    if not any(_BLOCK_START.match(line) for line in lines):
        return set(range(1, len(lines) + 1))
    found, inside = set(), False
    for number, line in enumerate(lines, 1):
        if _BLOCK_START.match(line):
            inside = True
        elif _BLOCK_END.match(line):
            inside = False
        elif inside:
            found.add(number)
    return found


@dataclass(frozen=True)
class SourceTree:
    """A program that parses. Offsets are those of its UTF-8 bytes, as the tree counts columns."""

    text: str
    tree: ast.Module

    @classmethod
    def of(cls, text: str) -> SourceTree | None:
        tree = parse_python(text)
        return None if tree is None else cls(text, tree)

    @cached_property
    def data(self) -> bytes:
        return self.text.encode()

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.data.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        return starts

    @cached_property
    def _open(self) -> set[int]:
        return open_lines(self.text)

    @cached_property
    def above(self) -> dict[ast.AST, ast.AST]:
        """What each node stands in."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def start(self, node: Placed) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: Placed) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def segment(self, node: Placed) -> str:
        return self.data[self.start(node) : self.end(node)].decode()

    def changeable(self, *kinds: type[_Node]) -> list[_Node]:
        """The nodes of these kinds in lines that may change, without those inside f-strings and annotations, whose
        places the tree does not tell or which do nothing."""
        return [node for node in self._walk(self.tree) if isinstance(node, kinds) and self._in_open(node)]

    def _walk(self, node: ast.AST) -> Iterator[ast.AST]:
        yield node
        if isinstance(node, ast.JoinedStr):
            return
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._walk(child)

    def _in_open(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.expr | ast.stmt):
            return False
        return all(line in self._open for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))

    def replace(self, start: int, end: int, text: str) -> str:
        return (self.data[:start] + text.encode() + self.data[end:]).decode()

    def replace_expression(self, node: ast.expr, text: str) -> str:
        """With other text in an expression's place, in parentheses where it needs them and has none."""
        start, end = self.start(node), self.end(node)
        enclosed = self.data[start - 1 : start] == b"(" and self.data[end : end + 1] == b")"
        simple = re.fullmatch(r"[\w.]+", text) is not None
        return self.replace(start, end, text if simple or enclosed else f"({text})")

    def lines_of(self, node: ast.stmt) -> tuple[int, int] | None:
        """Offsets of the whole lines that a statement has to itself, None where it shares them."""
        start, end = self._starts[node.lineno - 1], self._starts[node.end_lineno or node.lineno]
        before, after = self.data[start : self.start(node)], self.data[self.end(node) : end]
        alone = not before.strip() and not after.split(b"#")[0].strip()
        return (start, min(end, len(self.data))) if alone else None

    def function_of(self, node: ast.AST) -> ast.AST:
        """The function that a node stands in, else the module."""
        while not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module):
            node = self.above[node]
        return node

    def names_in(self, node: ast.AST) -> list[str]:
        """The arguments and variables of a function, in a fixed order."""
        found = {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
        found |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        return sorted(found)

    def reckoned_with(self, node: ast.AST) -> list[str]:
        """Those of them that stand in arithmetic or a comparison somewhere, and so are numbers as far as can be
        told."""
        found = {
            one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(self.above[one], ARITHMETIC)
        }
        return [name for name in self.names_in(node) if name in found]

    def bodies(self) -> list[Sequence[ast.stmt]]:
        """Every list of statements in lines that may change."""
        found: list[Sequence[ast.stmt]] = []
        for node in ast.walk(self.tree):
            for field in ("body", "orelse", "finalbody"):
                body = getattr(node, field, None)
                if isinstance(body, list) and body and all(self._in_open(one) for one in body):
                    found.append(body)
        return found
