"""What the end of a fork says about the candidate in it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from problems.sandbox.child.wire import ORACLE, RESULT, Malformed, decode
from problems.sandbox.contract import CaseOutcome, CaseStatus, Limits
from problems.sandbox.worker import Exit, Worker
from problems.signal_names import signal_name

STATUSES: tuple[CaseStatus, ...] = ("ok", "error", "timeout", "memory", "output", "crash")
FAILED = "what it wrote is not a result"
_TEXT = 4000


def frame_limit(limits: Limits) -> int:
    """The longest message a candidate may send: a value and an output, each as escaped JSON inside JSON."""
    return 16 * limits.output + (1 << 16)


def too_much_scratch(limits: Limits) -> str:
    return f"more than {limits.scratch} bytes of files"


def too_much_output(limits: Limits) -> str:
    return f"more than {limits.output} bytes of output"


def reason(ended: Exit, cpu_limit: float) -> tuple[CaseStatus, str]:
    """Of a fork that ended by itself while more was wanted of it. cpu_limit: its hard limit in seconds, 0 for none."""
    code = os.waitstatus_to_exitcode(ended.status)
    if code >= 0:
        return "crash", f"the program ended its process (exit code {code})"
    if -code == signal.SIGXCPU or (-code == signal.SIGKILL and 0 < cpu_limit <= ended.cpu_seconds + 0.5):
        return "timeout", "more CPU time than allowed"
    if -code == signal.SIGKILL:
        return "memory", "killed by the kernel, most likely for memory"
    return "crash", f"killed by {signal_name(-code)}"


def hear_out(
    worker: Worker,
    limits: Limits,
    read: Callable[[bytes], Any],
    *,
    bounded: bool,
    ask: Callable[[bytes], float] | None = None,
) -> tuple[bytes, Any, tuple[CaseStatus, str] | None, Exit]:
    """What a fork says until it ends or is ended: (its output up to the limit, what `read` made of its one RESULT or
    None, why it was ended or None, how it ended).

    read: may raise Malformed; bounded: whether more output than allowed ends it, else the rest is dropped
    ask: answers a question of the fork's, and returns the seconds that took, which are not the fork's
    """
    output, result, ended = bytearray(), None, None
    failure: tuple[CaseStatus, str] | None = None
    while ended is None:
        try:
            heard = worker.listen()
            ended = heard.exit
            output += heard.output[: max(0, limits.output + bounded - len(output))]
            for kind, body in heard.frames:
                if kind == ORACLE and ask is not None and result is None:
                    worker.patience.pause(ask(body))
                    continue
                if kind != RESULT or result is not None:
                    raise Malformed("a message that nobody asked for")
                result = read(body)
            if heard.malformed:
                raise Malformed("bytes that are no message")
            if len(output) > limits.output:
                failure = "output", too_much_output(limits)
            elif heard.overfull:
                failure = "output", too_much_scratch(limits)
            elif ended is None and (over := worker.overdue()):
                failure = "timeout", over
        except Malformed:
            failure = "crash", FAILED
        if failure is not None and ended is None:
            ended = worker.kill()
    return bytes(output[: limits.output]), result, failure, ended


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
