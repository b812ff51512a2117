"""What the parent makes of a fork's messages and of its end: nothing in them is believed but its own outputs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from problems.sandbox.child.wire import HOST_CALL, RESULT, Malformed, Unplain, decode, encode
from problems.sandbox.contract import CaseOutcome, CaseStatus, HostCall, Limits
from problems.sandbox.worker import Exit, Heard, Worker
from problems.signal_names import signal_name

STATUSES: tuple[CaseStatus, ...] = ("ok", "error", "timeout", "memory", "output", "crash")
HOST_CALLS = 100_000
"""Calls of the host that one evaluation may make."""
Failure = tuple[CaseStatus, str]
_TEXT = 4000


class LimitPassed(Exception):
    """The fork broke a limit that its messages show: (status, message)."""


def too_much_output(limits: Limits) -> str:
    return f"more than {limits.output} bytes of output"


def reason(ended: Exit, cpu_limit: float) -> Failure:
    """Of a fork that ended by itself while more was wanted of it. cpu_limit: its hard limit in seconds, 0 for none."""
    code = os.waitstatus_to_exitcode(ended.status)
    if code >= 0:
        return "crash", f"the program ended its process (exit code {code})"
    if -code == signal.SIGXCPU or (-code == signal.SIGKILL and 0 < cpu_limit <= ended.cpu_seconds + 0.5):
        return "timeout", "more CPU time than allowed"
    if -code == signal.SIGKILL:
        return "memory", "killed by the kernel, most likely for memory"
    return "crash", f"killed by {signal_name(-code)}"


def read_messages(worker: Worker, limits: Limits, take: Callable[[Heard], bool]) -> tuple[Failure | None, Exit | None]:
    """Pass everything that a fork sends to `take`, until that returns True or the fork ends. A fork that breaks a rule
    is ended: (why it was ended, None if it was not; how it ended, None if it still runs).

    take: may raise Malformed or LimitPassed
    """
    while True:
        failure: Failure | None = None
        heard, done = Heard(), False
        try:
            heard = worker.listen()
            done = take(heard)
            if heard.malformed and not done:
                raise Malformed("bytes that are no message")
            if heard.overfull:
                failure = "output", f"more than {limits.scratch} bytes of files"
            elif heard.exit is None and not done and (over := worker.overdue()):
                failure = "timeout", over
        except Malformed:
            failure = "crash", "what it wrote is not a result"
        except LimitPassed as passed:
            failure = passed.args
        ended = heard.exit
        if failure is not None and ended is None:
            ended = worker.kill()
        if done or ended is not None:
            return failure, ended


def read_result(
    worker: Worker,
    limits: Limits,
    read: Callable[[bytes], Any],
    *,
    bounded: bool,
    host_call: HostCall | None = None,
) -> tuple[bytes, Any, Failure | None, Exit]:
    """(a fork's output up to the limit, what `read` made of its one RESULT or None, why it was ended or None, how it
    ended).

    read: may raise Malformed; bounded: whether more output than allowed ends it, else the rest is dropped
    host_call: answers the fork, whose time it does not take
    """
    output, results = bytearray(), list[Any]()

    def take(heard: Heard) -> bool:
        output.extend(heard.output[: max(0, limits.output + bounded - len(output))])
        for kind, body in heard.frames:
            if kind == HOST_CALL and host_call is not None and not results:
                answer_host_call(worker, body, host_call)
                continue
            if kind != RESULT or results:
                raise Malformed("an unexpected message")
            results.append(read(body))
        if len(output) > limits.output:
            raise LimitPassed("output", too_much_output(limits))
        return False

    failure, ended = read_messages(worker, limits, take)
    assert ended is not None
    return bytes(output[: limits.output]), next(iter(results), None), failure, ended


def answer_host_call(worker: Worker, body: bytes, host_call: HostCall | None) -> None:
    """Make one call of the host for a fork and send the reply; the fork's deadline waits. Raises Malformed."""
    began = time.perf_counter()
    name, positional, named = plain_fields(body, (str, str, str))
    args, kwargs = decode(positional), decode(named)
    if type(args) is not list or type(kwargs) is not dict or not all(type(key) is str for key in kwargs):
        raise Malformed("no arguments")
    reply: dict[str, Any] = {"value": "null", "error": None}
    if host_call is None:
        reply["error"] = "NameError: there is no host_call here"
    else:
        try:
            value = host_call(name, tuple(args), kwargs)
        except Exception as error:
            reply["error"] = f"{type(error).__name__}: {error}"[:_TEXT]
        else:
            try:
                reply["value"] = encode(value)
            except Unplain as error:
                reply["error"] = f"TypeError: the host answered with {error}"
    worker.tell(reply)
    worker.deadline.pause(time.perf_counter() - began)


def case_outcome(body: bytes) -> CaseOutcome:
    """A RESULT frame of a candidate, believed in nothing but its own outputs. Raises Malformed."""
    fields = plain_fields(body, (str, str, str, str, (int, float), (int, float)))
    status, value, stdout, message, wall, cpu = fields
    if status not in STATUSES:
        raise Malformed("no such status")
    return CaseOutcome(
        status,
        decode(value) if status == "ok" else None,
        stdout,
        message[:_TEXT],
        _duration(wall),
        _duration(cpu),
    )


def plain_fields(body: bytes, kinds: tuple[Any, ...]) -> list[Any]:
    """The JSON array in a frame, of exactly these types; Malformed otherwise."""
    fields = decode(body)
    if type(fields) is not list or len(fields) != len(kinds):
        raise Malformed("not the fields of a result")
    for item, kind in zip(fields, kinds, strict=True):
        if not isinstance(item, kind):
            raise Malformed("a field of another type")
    return fields


def _duration(seconds: float) -> float:
    return float(seconds) if 0 <= seconds < 1e6 else 0.0
