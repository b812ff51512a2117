"""What the command line says when something is wrong, and with which exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from problems.contract import ScorerFault
from problems.redaction import redact

INTERRUPTED = 130
"""The exit code of a command that was interrupted with everything committed."""


class BadInput(ValueError):
    """The user's input cannot be used: one line that says what would be, without keys or passwords; exit code 2."""

    def __init__(self, message: str = "") -> None:
        super().__init__(redact(message))


@contextmanager
def at_file(what: str) -> Iterator[None]:
    """In this block the system's errors are BadInput. what: the file, or the option that names it"""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{what}: {error.strerror or error}") from error


def not_trainable(policy: str) -> BadInput:
    """Of a policy whose weights are not in this process."""
    return BadInput(f"policy {policy} has no weights here to train; name embedded:NAME, a hub id or a directory")


def check_whole_sampling(top_p: float) -> None:
    """Raise BadInput if what is sampled so cannot be learned from by reward."""
    if top_p < 1:
        raise BadInput(
            f"at top-p {top_p:g} the log-probabilities are those of the likeliest tokens alone, and training would "
            "compare them with those of all: sample at top-p 1 (evo run --top-p 1, no top_p in the policy's address)"
        )


class UnusableScorer(ScorerFault):
    """No problem of a new run can score its seed answer, so there is no run; exit code 2."""


class SearchFailed(Exception):
    """A run could not continue through a fault of ours or of the user's scorer; exit code 1, everything committed."""


def database_lost(error: Exception) -> SearchFailed:
    """Of a run whose database was there and cannot be written any more."""
    return SearchFailed(f"the database can no longer be written: {error}")
