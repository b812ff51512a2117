"""What the public functions raise and warn of by themselves; the rest comes from the rooms that they call."""

from __future__ import annotations


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or a notebook's stop button, after everything that was under way is committed. Says how to go on.

    name: of the run or comparison, or the directory of a training; None where nothing was stored yet
    """

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class ScorerWarning(UserWarning):
    """A scorer failed on some problems of a run; the others went on."""
