"""The identity of an answer: by syntax tree for Python, by moves for a route, else by words."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
import sys
from collections.abc import Sequence

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


def tree_text(tree: ast.AST) -> str:
    """The tree as CPython 3.11 and 3.12 dump it, which stored identities are of. Raises RecursionError."""
    if sys.version_info >= (3, 13):
        return ast.dump(tree, show_empty=True)
    return ast.dump(tree)


def kept(parent: Sequence[object], child: Sequence[object]) -> tuple[float, float]:
    """The common beginning of two sequences and their common end beyond it, as shares of the length of `parent`."""
    most = min(len(parent), len(child))
    first = next((i for i in range(most) if parent[i] != child[i]), most)
    last = next((i for i in range(most - first) if parent[-1 - i] != child[-1 - i]), most - first)
    return first / max(len(parent), 1), last / max(len(parent), 1)
