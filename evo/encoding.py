"""Text for pages, streams and terminals: hidden characters made visible, and lines broken between words."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import warnings
from contextlib import suppress

from problems.redaction import redact

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\uffff]"
    "|[\U000e0000-\U000e0fff]"
)


_COMMAND = re.compile(r"\bevo [a-z]+ \S")


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
    """From here on, no print fails for a character that the stream's encoding lacks: it is a question mark."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # another object in its place, or closed
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def print_warnings_plainly() -> None:
    """From now on a warning is a line without the place in the source that raised it."""
    warnings.formatwarning = lambda message, *_: f"{wrap_words(f'evo: warning: {redact(str(message))}')}\n"


def wrap_words(text: str, width: int | None = None) -> str:
    """The text as lines of words for a terminal, which would break its lines within a word; off a terminal one line. A
    text with a command stays as it is, so that the command can be copied, and so do words that are longer than a line.

    width: of the terminal; None for that of stderr
    """
    text = " ".join(text.split()) if width is None else text
    if _COMMAND.search(text) or width is None and not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns if width is None else width
    lines = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
        ) or [line]  # fmt: skip
    return "\n".join(lines)
