"""The identity of an answer: by syntax tree for Python, by moves for a route, else by words."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from problems.python_syntax import shared_tree


def identity(answer: str, answer_format: str) -> bytes:
    """16 bytes, equal for answers that differ only in layout (comments and spacing in Python, white space in text).

    Python without a tree (problems.python_syntax) falls back to its text. Docstrings count: they are part of the tree.
    """
    return hashlib.blake2b(
        _normal_form(answer, answer_format).encode("utf-8", "surrogatepass"), digest_size=16
    ).digest()


def _normal_form(answer: str, answer_format: str) -> str:
    if answer_format == "python":
        tree = shared_tree(answer)
        if tree is not None:
            with contextlib.suppress(RecursionError):
                return "tree:" + tree_text(tree)
    if answer_format == "route":
        return "route:" + re.sub(r"[\s,]+", "", answer).upper()
    return "text:" + " ".join(answer.split())


def tree_text(node: object) -> str:
    """The tree as CPython 3.11 and 3.12 dump it, which stored identities are of; ast.dump takes twice as long. Raises
    RecursionError."""
    kind: type = type(node)
    if isinstance(node, ast.AST):
        parts = []
        for name, optional in _fields(kind):
            value = getattr(node, name)
            if value is not None or not optional:
                parts.append(f"{name}={tree_text(value)}")
        return f"{kind.__name__}({', '.join(parts)})"
    if isinstance(node, list):
        return f"[{', '.join([tree_text(one) for one in node])}]"
    return repr(node)


@cache
def _fields(kind: Any) -> list[tuple[str, bool]]:
    """The fields of a kind of node, and whether each may be missing."""
    return [(name, getattr(kind, name, ...) is None) for name in kind._fields]


def kept(parent: Sequence[object], child: Sequence[object]) -> tuple[float, float]:
    """The common beginning of two sequences and their common end beyond it, as shares of the length of `parent`."""
    most = min(len(parent), len(child))
    first = next((i for i in range(most) if parent[i] != child[i]), most)
    last = next((i for i in range(most - first) if parent[-1 - i] != child[-1 - i]), most - first)
    return first / max(len(parent), 1), last / max(len(parent), 1)
