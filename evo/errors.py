"""What the command line says when something is wrong, and with which exit code."""

from __future__ import annotations


class BadInput(ValueError):
    """The user's input cannot be used: one line that says what would be; exit code 2."""


class SearchFailed(Exception):
    """A run could not go on through a fault of ours or of the user's scorer; exit code 1, everything committed."""
