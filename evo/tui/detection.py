"""Whether there is a terminal to paint on."""

from __future__ import annotations

import os
from typing import IO

from rich.console import Console

SERVED = "TEXTUAL_DRIVER"
"""Set where the screen is shown in a browser (evo.tui.serve): it then needs no terminal."""


def can_show(console: Console) -> bool:
    """Whether the console is a terminal that a screen can be painted on, or a browser shows it."""
    if os.environ.get(SERVED):
        return True
    if not console.is_terminal or console.is_dumb_terminal:
        return False
    fd = descriptor(console.file)
    return fd is not None and os.isatty(fd)


def descriptor(file: IO[str]) -> int | None:
    """The file's descriptor, where it has one."""
    try:
        return file.fileno()
    except (AttributeError, OSError, ValueError):
        return None
