"""Requests to the sandbox and its answers, as plain records."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Mode = Literal["auto", "bwrap", "landlock", "none"]
CaseStatus = Literal["ok", "error", "timeout", "memory", "output", "crash"]
HostCall = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]
"""Answers `problems.apart.host_call(name, *args, **kwargs)` in the sandbox: (name, args, kwargs) -> its value."""


class SandboxUnavailable(Exception):
    """This machine has no isolation of the requested kind; the message names the remedy."""


class SandboxFault(Exception):
    """The sandbox itself broke (a worker that cannot start, a protocol error): ours, never an answer's."""


WALL_FACTOR = 10
"""The longest wall time, as a multiple of the CPU time allowed: what a busy machine may take."""


@dataclass(frozen=True)
class Limits:
    """Bounds on one candidate. Times are per case; sizes in bytes.

    cpu_seconds: decide; a candidate that only sleeps has as much wall time (problems.sandbox.worker)
    """

    cpu_seconds: float = 6.0
    wall_seconds: float = 6.0 * WALL_FACTOR
    memory: int = 1 << 30
    output: int = 1 << 20
    file: int = 16 << 20
    scratch: int = 64 << 20
    processes: int = 1


@dataclass(frozen=True)
class Program:
    """Hostile code and the cases to run it on.

    mode "calls": `code` is executed once as a module, then each case, a Python expression such as "f([1, 2], k=3)",
        is evaluated in its namespace. Only values of plain types come back (None, bool, int, float, complex, str,
        bytes, list, tuple, dict, set, frozenset; numpy scalars and arrays as their lists); anything else is an error.
    mode "stdin": `code` is run as __main__ once per case, the case as standard input; `value` is standard output.
    setup: trusted lines executed in the namespace before `code` (imports that a test set assumes)
    """

    code: str
    cases: tuple[str, ...]
    mode: Literal["calls", "stdin"] = "calls"
    setup: str = ""


@dataclass(frozen=True)
class CaseOutcome:
    """One case of a program, or one call of a scorer's function; times are the parent's measure.

    status: "error" if it raised, or returned what is not plain data; "crash" if its process ended by itself
    value: the decoded value if status is "ok"; a dataclass instance of a scorer arrives as the dict of its fields
    message: exception type and text, or which limit was hit; safe to show in a prompt
    """

    status: CaseStatus
    value: Any = None
    message: str = ""
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class EvaluatorSpec:
    """A scorer file (an OpenEvolve evaluator, a user's score function).

    path: the Python file that is loaded once, in the worker, before any answer is seen
    readable: further files and folders it may read
    folder: its own, in which every evaluation may write for itself, where the machine has mount namespaces and overlays
    isolated: False runs it in a plain child process (a trusted scorer that needs the network or devices)
    environment: variables it sees
    """

    path: str
    readable: tuple[str, ...] = ()
    isolated: bool = True
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def signal_name(number: int) -> str:
    """The name, such as SIGSEGV; a real-time signal has none, and a program may end by one too."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
