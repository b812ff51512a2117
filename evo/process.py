"""What this process hears and says as a process: signals that ask it to end (Ctrl-C, TERM, the end of a terminal),
arguments, streams that lack a character, and lines broken between words."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator

from problems.redaction import redact

_COMMAND = re.compile(r"\bevo [a-z]+ \S")
STAGE = "EVO_STAGE"
"""In the environment of a pipeline's stages."""
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def handling(handler: Callable[[int], object], *numbers: signal.Signals) -> Iterator[None]:
    """In this block these signals call the handler with their number. An ignored one stays ignored, as HUP under nohup;
    outside the main thread, which alone may set handlers, nothing changes."""
    main = threading.current_thread() is threading.main_thread()
    heard = [number for number in numbers if main and signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _: handler(number)) for number in heard}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former or signal.SIG_DFL)


def is_stage() -> bool:
    """Whether this process is a stage of a pipeline, which says itself how to continue."""
    return STAGE in os.environ


def is_text(argument: str) -> bool:
    """Whether all of an argument could be read; bytes that are no UTF-8 come as surrogates, which no database takes."""
    return not any("\ud800" <= char <= "\udfff" for char in argument)


def prepare_streams() -> None:
    """From here on, no print fails for a character that the stream's encoding lacks: it is a question mark."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # another object in its place, or closed
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
