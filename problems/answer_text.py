"""An answer's text out of its wrapping: code fences and line ends."""

from __future__ import annotations

import re

from problems.python_syntax import parse_python

# Possessive: no line is gone through twice
_FENCE = re.compile(r"^[ \t]*+```[ \t]*+([\w+-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+```|\Z)", re.DOTALL | re.MULTILINE)
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*+\n)++")
_SHORT = {"python": ("python", "py", "python3")}


def strip_fence(answer: str, language: str = "python", wanted: str = "") -> str:
    """The code of an answer: the content of its fence, newlines normalised, no blank lines around it, one newline last.

    Python that parses is taken as it is: a fence in it is part of a string. With several fences, the first that is
    marked with `language` and contains `wanted`; else the first so marked; else the first. A fence that is never closed
    runs to the end. Without a fence, the text itself.
    """
    text = answer.replace("\r\n", "\n").replace("\r", "\n")
    if "```" not in text or (language == "python" and parse_python(text) is not None):
        return _frame(text)
    fences = [(mark.lower(), body) for mark, body in _FENCE.findall(text)]
    if fences:
        marked = [body for mark, body in fences if mark in _SHORT.get(language, (language,))]
        bodies = marked or [body for _, body in fences]
        text = next((body for body in bodies if wanted and wanted in body), bodies[0])
    return _frame(text)


def _frame(text: str) -> str:
    return _BLANK_LINES.sub("", text.rstrip()) + "\n"
