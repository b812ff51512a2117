"""Text for outputs that cannot show all of it: one rule for the command line, the screen and the lines of a search."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

ASCII = str.maketrans(
    {
        "●": "o", "▲": "^", "■": "#", "◆": "*", "▼": "v", "○": "0", "△": "A", "□": "=",
        "─": "-", "│": "|", "┤": "|", "└": "`", "┴": "+", "━": "=", "╺": "-", "…": "~", "·": ".", "Δ": "d", "→": ">",
        "←": "<", "↑": "^", "↓": "v", "±": "~", "×": "x", "–": "-", "−": "-", "▸": ">", "✓": "+",
    }
    | dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True))
    | {chr(0x2800 + n): "." if n else " " for n in range(256)}
)  # fmt: skip
"""What stands for our own signs where the encoding has none of them."""
ERRORS = "evo.spelled"
"""The name of the rule, as an error handler of streams."""


def spell(text: str, encoding: str | None) -> str:
    """The text as a terminal of that encoding can show it; what it has no sign for becomes a question mark, so that a
    line keeps its width."""
    if text.isascii() or (encoding or "utf-8").lower().startswith("utf"):
        return text
    return text.encode(encoding or "ascii", ERRORS).decode(encoding or "ascii")


def is_text(argument: str) -> bool:
    """Whether all of an argument could be read; bytes that are no UTF-8 come as surrogates, which no database takes."""
    return not any("\ud800" <= char <= "\udfff" for char in argument)


def prepare_streams() -> None:
    """From here on nothing that is printed fails for want of a character."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # another object in its place, or closed
            stream.reconfigure(errors=ERRORS)  # type: ignore[union-attr]


def leave_ascii(arguments: Sequence[str]) -> None:
    """Begin this process anew with UTF-8 for file names and arguments, where Python was told to read them as ASCII
    (LC_ALL=C with PYTHONUTF8=0): it could open no file with another character in its name. What it prints keeps the
    encoding that it had. arguments: of the interpreter, as in sys.orig_argv
    """
    if sys.getfilesystemencoding().lower() not in ("ascii", "us-ascii") or os.environ.get("PYTHONUTF8") == "1":
        return
    os.environ["PYTHONUTF8"] = "1"
    os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding if sys.stdout is not None else "ascii")
    os.execv(sys.executable, [sys.executable, *arguments[1:]])


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(ASCII)
    return "".join(char if char.isascii() else "?" for char in text), error.end


codecs.register_error(ERRORS, _spelled)
