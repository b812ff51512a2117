"""Which exit code an error gives: 2 for the user's input, 1 for a known fault, none for a bug."""

from __future__ import annotations

import signal
import traceback

from evo.errors import BadInput, SearchFailed, UnusableScorer
from islands.errors import (
    BadName,
    DatabaseMoved,
    DatabaseUnavailable,
    RunBusy,
    RunExists,
    UnknownRun,
    driver_message,
    is_database_fault,
)
from problems.child_process import WorkerAnswer
from problems.contract import BadAddress, ScorerFault
from problems.sandbox.contract import SandboxFault, SandboxUnavailable, signal_name
from vpo.policies.contract import PolicyUnavailable
from vpo.training import TrainingStopped

_INPUT = (
    BadInput, BadAddress, BadName, DatabaseUnavailable, RunBusy, RunExists, UnknownRun, SandboxUnavailable,
    UnusableScorer,
)  # fmt: skip
_FAULTS = (SearchFailed, ScorerFault, SandboxFault, PolicyUnavailable, TrainingStopped, OSError)


def exit_code_of(error: Exception) -> int | None:
    """2 for the user's input, 1 for a known fault; None for a bug, whose traceback is wanted."""
    if isinstance(error, _INPUT) and not isinstance(error, DatabaseMoved):
        return 2
    return 1 if isinstance(error, (*_FAULTS, DatabaseMoved)) or is_database_fault(error) else None


def answer_of_error(error: Exception) -> WorkerAnswer:
    """The answer of a worker whose work raised this: a known fault keeps its class and its message only."""
    if exit_code_of(error) is None:
        return WorkerAnswer(bug="".join(traceback.format_exception(error)))
    message = " ".join(str(error).split())
    try:
        return WorkerAnswer(fault=type(error)(message))
    except TypeError:  # a class of another library, whose errors take more
        return WorkerAnswer(fault=SearchFailed(message))


def message_of(error: Exception) -> str:
    """What to print for an error with an exit code. Of a database's fault, the driver's message: SQLAlchemy's has the
    whole statement."""
    return f"the database failed: {driver_message(error)}" if is_database_fault(error) else str(error)


def describe_exit(code: int) -> str:
    """The end of a process that said nothing itself. code: negative for the signal that ended it"""
    if code == -signal.SIGKILL:
        return "its process was killed (signal 9); out of memory?"
    return f"its process died of {signal_name(-code)}" if code < 0 else f"exit code {code}"
