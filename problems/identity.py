"""When two answers count as the same: by syntax tree for Python, by moves for a route, else by words."""

from __future__ import annotations

import contextlib
import hashlib
import re

from problems.python_syntax import shared_tree
from problems.tree_text import tree_text


def identity(answer: str, answer_format: str) -> bytes:
    """16 bytes, equal for answers that differ in layout alone (comments and spacing in Python, white space in text).

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
