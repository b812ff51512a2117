"""An answer's text out of its wrapping: code fences and line ends."""

from __future__ import annotations

import ast
import re
import warnings

_FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_SHORT = {"python": ("python", "py", "python3")}


def unfenced(answer: str, language: str = "python", wanted: str = "") -> str:
    """The code of an answer: the content of its fence, newlines normalised, no blank lines around it, one newline last.

    Python that parses is taken as it is: a fence in it is part of a string. With several fences, the first that is
    marked with `language` and contains `wanted`; else the first so marked; else the first. A fence that is never closed
    runs to the end. Without a fence, the text itself.
    """
    text = answer.replace("\r\n", "\n").replace("\r", "\n")
    if "```" not in text or (language == "python" and _parses(text)):
        return _framed(text)
    fences = [(mark.lower(), body) for mark, body in _FENCE.findall(text)]
    if fences:
        marked = [body for mark, body in fences if mark in _SHORT.get(language, (language,))]
        bodies = marked or [body for _, body in fences]
        text = next((body for body in bodies if wanted and wanted in body), bodies[0])
    return _framed(text)


def _framed(text: str) -> str:
    lines = text.rstrip().split("\n")
    while len(lines) > 1 and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines) + "\n"


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in an answer is not ours to report
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
