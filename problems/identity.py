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
    form = ""
    if answer_format == "route":
        form = "route:" + re.sub(r"[\s,]+", "", answer).upper()
    elif answer_format == "python" and (tree := shared_tree(answer)) is not None:
        with contextlib.suppress(RecursionError):
            form = "tree:" + tree_text(tree)
    form = form or "text:" + " ".join(answer.split())
    return hashlib.blake2b(form.encode("utf-8", "surrogatepass"), digest_size=16).digest()


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
