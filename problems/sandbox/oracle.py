"""The parent's side of a question that a process in the sandbox asks: what it may be answered by, and the exchange."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from problems.sandbox import ending
from problems.sandbox.child.wire import Malformed, Unplain, decode, encode
from problems.sandbox.worker import Worker

Oracle = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]
ORACLE_CALLS = 100_000
"""Questions that one evaluation may ask its oracle."""


def answer_question(worker: Worker, body: bytes, oracle: Oracle | None) -> float:
    """Put one question to the oracle and send the reply; returns the seconds that it took. Raises Malformed."""
    began = time.perf_counter()
    name, positional, named = ending.plain_fields(body, (str, str, str))
    args, kwargs = decode(positional), decode(named)
    if type(args) is not list or type(kwargs) is not dict or not all(type(key) is str for key in kwargs):
        raise Malformed("no arguments")
    reply: dict[str, Any] = {"value": "null", "error": None}
    if oracle is None:
        reply["error"] = "NameError: there is no oracle here"
    else:
        try:
            value = oracle(name, tuple(args), kwargs)
        except Exception as error:
            reply["error"] = f"{type(error).__name__}: {error}"[:4000]
        else:
            try:
                reply["value"] = encode(value)
            except Unplain as error:
                reply["error"] = f"TypeError: the oracle answered with {error}"
    worker.tell(reply)
    return time.perf_counter() - began
