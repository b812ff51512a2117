"""An answer in a sandbox process of its own, for a judge in another: so that it can neither forge nor fault its score.

A scorer's file that imports or executes an answer was written for one process. Most ask little of the answer: they call
its functions with plain values and arrays, and measure what comes back. That much works across two processes
(problems.shims.answer_apart is the judge's side). Whether it is enough for a scorer is shown by its seed, which must
come to the same numbers in one process and in two, in at most MOST_CALLS exchanges; else its answers go on sharing the
judge's process, and why is told (`evo check`).
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from problems.python_syntax import parse_source
from problems.sandbox.child.wire import Array, Kept
from problems.sandbox.contract import WALL_FACTOR, CaseOutcome, Compiled, Limits

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox
    from problems.sandbox.session import Session

MOST_CALLS = 200
"""Exchanges that a seed may take: each costs a tenth of a millisecond or more, in three processes."""
_SETUP = """
def _evo_plain(value, depth=0):
    import sys
    numpy = sys.modules.get("numpy")
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return True
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return value.dtype != object
    if depth < 20 and isinstance(value, (list, tuple, set, frozenset)):
        return all(_evo_plain(item, depth + 1) for item in value)
    if depth < 20 and isinstance(value, dict):
        return all(_evo_plain(item, depth + 1) for pair in value.items() for item in pair)
    return False
def _evo_names(space):
    import types
    found = []
    for name, value in list(space.items()):
        if name.startswith(("_evo_", "__")) or isinstance(value, types.ModuleType):
            continue
        if isinstance(value, type):
            kind = "class"
        else:
            kind = "call" if callable(value) else "value" if _evo_plain(value) else "other"
        found.append((name, kind))
    return found
def _evo_arrays(value):
    kind = type(value)
    if kind.__name__ == "Array":
        import numpy
        return numpy.array(list(value))
    if kind in (list, tuple):
        return kind([_evo_arrays(item) for item in value])
    if kind is dict:
        return {key: _evo_arrays(item) for key, item in value.items()}
    return value
__name__ = "program"
"""
_ASKED = {
    "names": "_evo_names(globals())",
    "value": "globals()[_evo_asked[0]]",
    "call": "globals()[_evo_asked[0]](*_evo_arrays(_evo_asked[1]), **_evo_arrays(_evo_asked[2]))",
}
COMPILED: Compiled = ((_SETUP, "exec"), *((text, "eval") for text in _ASKED.values()))
"""What every answer's process needs, for its worker to have ready."""


class AnswerApart:
    """One answer's session, asked by its judge.

    seconds: of CPU time that its calls may take together
    asked: exchanges so far
    """

    def __init__(self, session: Session, seconds: float) -> None:
        self._session, self._seconds = session, seconds
        self.asked = 0
        self._used = 0.0

    def names(self) -> dict[str, Any]:
        """What its judge asks first, to be told before it asks: an exchange less."""
        return self._reply("names", ())

    def __call__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The reply that answer_apart reads."""
        self.asked += 1
        return self._reply(name, args)

    def _reply(self, name: str, args: tuple[Any, ...]) -> dict[str, Any]:
        if self._used > self._seconds:
            outcome = CaseOutcome("timeout", message=f"more than {self._seconds:g} s of CPU time")
        else:
            outcome = self._session.evaluate(_ASKED[name], {"_evo_asked": keep_arrays(list(args))})
        self._used += max(outcome.cpu_seconds, outcome.wall_seconds if outcome.status == "timeout" else 0.0)
        limit = f" (timeout is {self._seconds:g} s)" if outcome.status == "timeout" else ""
        told = {"status": outcome.status, "message": outcome.message + limit, "stdout": outcome.stdout}
        return {**told, "value": keep_arrays(outcome.value)}


@contextlib.contextmanager
def answer_apart(sandbox: Sandbox, code: str, limits: Limits, seconds: float) -> Iterator[AnswerApart]:
    """The answer in a session for as long as the block lasts. limits: of the judge's evaluation."""
    own = Limits(seconds, seconds * WALL_FACTOR, limits.memory, limits.output, limits.file)
    with sandbox.session(code, own, setup=_SETUP) as session:
        yield AnswerApart(session, seconds)


def keep_arrays(value: Any) -> Any:
    """The value as it crosses with its numpy arrays."""
    if isinstance(value, Array):
        return Kept(value)
    if type(value) in (list, tuple):
        return type(value)([keep_arrays(item) for item in value])
    if type(value) is dict:
        return {key: keep_arrays(item) for key, item in value.items()}
    return value


def imported_by(code: str) -> tuple[str, ...]:
    """Installed packages that a program imports at its top: loaded once for all its answers."""
    try:
        tree = parse_source(code)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return tuple(sorted(name for name in names if _installed(name)))


def _installed(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in ("evo", "vpo", "islands", "problems"):
        return False
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False
