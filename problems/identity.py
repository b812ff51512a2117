"""When two answers count as the same: by syntax tree for Python, by moves for a route, else by words."""

from __future__ import annotations

import ast
import hashlib
import re
import warnings


def identity(answer: str, answer_format: str) -> bytes:
    """16 bytes, equal for answers that differ in layout alone (comments and spacing in Python, white space in text).

    Python that does not parse falls back to its text. Docstrings count: they are part of the tree.
    """
    return hashlib.blake2b(
        _normal_form(answer, answer_format).encode("utf-8", "surrogatepass"), digest_size=16
    ).digest()


def _normal_form(answer: str, answer_format: str) -> str:
    if answer_format == "python":
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an invalid escape in an answer is not ours to report
                return "tree:" + ast.dump(ast.parse(answer))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass
    if answer_format == "route":
        return "route:" + re.sub(r"[\s,]+", "", answer).upper()
    return "text:" + " ".join(answer.split())
