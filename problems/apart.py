"""`evo.call`: a function of an answer, called in another sandbox process than the caller's.

A scorer and the answers that it executes share a process, as in any Python program. A scorer that would rather have
an answer apart calls its functions so: it sends plain data and gets plain data back (numpy arrays arrive as lists), and
nothing of the answer is ever in the process of the scorer.

Standard library alone at the top: processes of scorers load it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox, SandboxSession

host_call: Callable[..., Any] | None = None
"""In a scorer's process, set in every evaluation: asks the process that holds the sandbox (AnswerCalls)."""
called: list[str] = []
"""The functions of answers that were called in this evaluation."""
SECONDS = 30.0
MOST_ANSWERS = 8


class AnswerError(ValueError):
    """Raised by a user's score(): the answer is at fault; the message becomes its feedback."""


def call(answer: str, name: str, /, *args: Any, **kwargs: Any) -> Any:
    """The result of the function `name` of an answer, which runs in a separate sandbox process.

    answer: its code, or the path of its file. Several calls in one evaluation meet the same process, so that what the
        answer keeps in its module stays
    args, kwargs, and the result: plain data (numbers, texts, lists, tuples, dicts, sets, numpy arrays as lists)
    Raises AnswerError, which fails the answer, if it raises, takes too long, returns anything else, or returns nothing
        and has changed its arguments: such changes stay in its own process.
    """
    if "\n" not in answer and os.path.isfile(answer):  # noqa: PTH113 (without pathlib)
        with open(answer, encoding="utf-8") as file:
            answer = file.read()
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"{name!r} is no name of a function")
    if host_call is not None:
        reply = host_call("call", answer, name, list(args), kwargs)
    else:
        from problems.sandbox import shared_sandbox

        with AnswerCalls(shared_sandbox(), SECONDS) as calls:
            reply = calls("call", (answer, name, list(args), kwargs), {})
    called.append(name)
    if reply["error"]:
        raise AnswerError(f"{name}(): {reply['error']}")
    return reply["value"]


class AnswerCalls:
    """The side of `call` that has the sandbox: a session for each answer of one evaluation. Use it in a `with` block.

    seconds: of CPU time that all calls may take together
    """

    def __init__(self, sandbox: Sandbox, seconds: float) -> None:
        self._sandbox, self._left = sandbox, seconds
        self._sessions: dict[str, SandboxSession] = {}

    def __enter__(self) -> AnswerCalls:
        return self

    def __exit__(self, *exception: Any) -> None:
        for session in self._sessions.values():
            session.__exit__(*exception)

    def __call__(self, _: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """{"value", "error": "" or why there is none}. The request comes from a process that may hold an answer."""
        from problems.sandbox.child.wire import decode, encode
        from problems.sandbox.contract import WALL_FACTOR, Limits

        answer, name, positional, named = args
        if not all(part.isidentifier() for part in str(name).split(".")) or len(self._sessions) > MOST_ANSWERS:
            raise ValueError("no call of an answer")
        if self._left <= 0:
            return {"value": None, "error": "no time is left for further calls"}
        if answer not in self._sessions:
            limits = Limits(cpu_seconds=self._left, wall_seconds=self._left * WALL_FACTOR)
            self._sessions[answer] = self._sandbox.session(str(answer), limits)
        bindings = {"_evo_args": positional, "_evo_kwargs": named}
        outcome = self._sessions[answer].evaluate(f"{name}(*_evo_args, **_evo_kwargs)", bindings)
        self._left -= max(outcome.cpu_seconds, outcome.wall_seconds if outcome.status == "timeout" else 0.0)
        failed = "" if outcome.status == "ok" else outcome.message or outcome.status
        if outcome.status == "ok" and outcome.value is None and (positional or named):
            left = self._sessions[answer].evaluate("[_evo_args, _evo_kwargs]")
            if left.status != "ok" or encode(left.value) != encode(decode(encode([positional, named]))):
                failed = "it changed its arguments, and evo.call brings back only what a function returns"
        return {"value": outcome.value, "error": failed}
