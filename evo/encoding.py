"""Text for outputs that cannot show all of it: one rule for the command line, the screen and the lines of a search; and
hidden characters made visible for pages and pictures."""

from __future__ import annotations

import codecs
import os
import re
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
"""Substitutes for our own signs in an encoding that lacks them."""
ERRORS = "evo.spelled"
"""The name of the rule, as an error handler of streams."""
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\uffff]"
    "|[\U000e0000-\U000e0fff]"
)


def spell(text: str, encoding: str | None) -> str:
    """The text as a terminal of that encoding can show it; a character that it lacks becomes a question mark, so that
    a line keeps its width."""
    if text.isascii() or (encoding or "utf-8").lower().startswith("utf"):
        return text
    return text.encode(encoding or "ascii", ERRORS).decode(encoding or "ascii")


def visible(text: str) -> str:
    """The text with every character visible, so that none is taken for another and none upsets a parser, a font or the
    direction of writing: control characters as their pictures (␀), other hidden characters, lone surrogates and marks
    of direction as <U+202E>. Newlines and tabs stay. Escaping for HTML comes after this."""
    return _HIDDEN.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def is_text(argument: str) -> bool:
    """Whether all of an argument could be read; bytes that are no UTF-8 come as surrogates, which no database takes."""
    return not any("\ud800" <= char <= "\udfff" for char in argument)


def prepare_streams() -> None:
    """From here on, no print fails for a character that the stream's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # another object in its place, or closed
            stream.reconfigure(errors=ERRORS)  # type: ignore[union-attr]


def leave_ascii(arguments: Sequence[str]) -> None:
    """Restart this process with UTF-8 for file names and arguments if Python was set to read them as ASCII
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
