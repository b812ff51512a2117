"""An answer in a separate sandbox process from its scorer, so that it can neither forge nor break its score.

A scorer's file that imports or executes an answer was written for one process. Most need little of the answer: they
call its functions with plain values and arrays, and measure the results. That much works across two processes
(problems.shims.answer_proxy is the scorer's side). The seed shows whether it is enough for a scorer: it must get the
same numbers in one process and in two, in at most MOST_CALLS exchanges. If not, answers share the scorer's process,
and `evo check` reports why.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems.python_syntax import parse_source
from problems.sandbox.child.wire import Array, Kept
from problems.sandbox.contract import WALL_FACTOR, CaseOutcome, Compiled, Limits

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox
    from problems.sandbox.session import SandboxSession

SHIMS = Path(__file__).parent / "shims"
"""Files that a sandbox worker loads in front of a user's."""
MOST_CALLS = 200
"""Exchanges that a seed may take: each costs a tenth of a millisecond or more, in three processes."""
_SETUP = (SHIMS / "answer_values.py").read_text(encoding="utf-8") + '\n__name__ = "program"\n'
_REQUESTS = {
    "names": "_evo_names(globals())",
    "value": "globals()[_evo_request[0]]",
    "call": "globals()[_evo_request[0]](*_evo_arrays(_evo_request[1]), **_evo_arrays(_evo_request[2]))",
}
COMPILED: Compiled = ((_SETUP, "exec"), *((text, "eval") for text in _REQUESTS.values()))
"""Code that every answer's process needs, compiled once by its worker."""


class IsolatedAnswer:
    """One answer's session: the host_call of its scorer.

    seconds: of CPU time that its calls may take together
    exchanges: so far
    """

    def __init__(self, session: SandboxSession, seconds: float) -> None:
        self._session, self._seconds = session, seconds
        self.exchanges = 0
        self._used = 0.0

    def names(self) -> dict[str, Any]:
        """The reply to its scorer's first request, to be sent before that: an exchange less."""
        return self._reply("names", ())

    def __call__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The reply that answer_proxy reads."""
        self.exchanges += 1
        return self._reply(name, args)

    def _reply(self, name: str, args: tuple[Any, ...]) -> dict[str, Any]:
        if self._used > self._seconds:
            outcome = CaseOutcome("timeout", message=f"more than {self._seconds:g} s of CPU time")
        else:
            outcome = self._session.evaluate(_REQUESTS[name], {"_evo_request": keep_arrays(list(args))})
        self._used += max(outcome.cpu_seconds, outcome.wall_seconds if outcome.status == "timeout" else 0.0)
        limit = f" (timeout is {self._seconds:g} s)" if outcome.status == "timeout" else ""
        reply = {"status": outcome.status, "message": outcome.message + limit, "stdout": outcome.stdout}
        return {**reply, "value": keep_arrays(outcome.value)}


@contextlib.contextmanager
def isolate_answer(sandbox: Sandbox, code: str, limits: Limits, seconds: float) -> Iterator[IsolatedAnswer]:
    """The answer in a session for as long as the block lasts. limits: of the scorer's evaluation."""
    own = Limits(seconds, seconds * WALL_FACTOR, limits.memory, limits.output, limits.file)
    with sandbox.session(code, own, setup=_SETUP) as session:
        yield IsolatedAnswer(session, seconds)


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
