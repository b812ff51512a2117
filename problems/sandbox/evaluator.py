"""A user's scorer file out of process: loaded once in a worker, forked for every call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from problems.sandbox import result, scratch
from problems.sandbox.child.wire import Malformed, decode, encode
from problems.sandbox.contract import WALL_FACTOR, CaseOutcome, EvaluatorSpec, HostCall, Limits, ScratchFile
from problems.sandbox.worker import Worker
from problems.sandbox.worker_pool import WorkerPool, outlive_workers


class Evaluator:
    """Calls functions of one scorer file. Thread-safe: each thread's call has a worker of its own, up to `workers`."""

    def __init__(
        self,
        mode: str,
        spec: EvaluatorSpec,
        limits: Limits,
        workers: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._spec, self._limits = spec, limits
        self._pool = WorkerPool(
            lambda: Worker(mode, limits, spec, environment=environment),
            workers,
            f"{spec.path}: the evaluator is closed",
            costly=True,
        )

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._pool.close()

    def call(
        self,
        function: str,
        *args: Any,
        timeout: float,
        files: Mapping[str, str] | None = None,
        host_call: HostCall | None = None,
    ) -> CaseOutcome:
        """Call a function of the file (or a method: dotted names are followed) in a fresh fork of its worker.

        args: plain data, or ScratchFile(name) for the path of one of `files`
        timeout: seconds of CPU time, or of wall time if it sleeps (problems.sandbox.deadline), after which the whole
            process tree is killed
        files: name -> text, written into the scratch folder first
        host_call: answers `host_call(name, *args, **kwargs)` of the file's module, in this thread; its time does not
            count. Its exception is a RuntimeError there, with its class and text
        Raises SandboxFault for faults of the sandbox, Unplain (a TypeError) for other arguments.
        """
        written = dict(files or {})
        for name in written:
            if os.path.basename(name) != name or name in ("", ".", ".."):
                raise ValueError(f"a scratch file needs a plain name, not {name!r}")
        task: dict[str, Any] = {
            "function": function,
            "arguments": [[True, a.name] if isinstance(a, ScratchFile) else [False, encode(a)] for a in args],
            "files": written,
            "calls_host": host_call is not None,
        }
        return outlive_workers(lambda: self._run(task, timeout, host_call), f"one call of {self._spec.path}")

    def _run(self, task: dict[str, Any], timeout: float, host_call: HostCall | None) -> CaseOutcome:
        with self._pool.lend() as worker:
            folder = None
            if worker.scratch is not None:
                folder = scratch.make(worker.hello["uid"] if os.geteuid() == 0 else None, worker.scratch)
            try:
                return self._listen(worker, {**task, "scratch": folder}, timeout, host_call)
            finally:
                if folder is not None:
                    scratch.remove(folder)

    def _listen(self, worker: Worker, task: dict[str, Any], timeout: float, host_call: HostCall | None) -> CaseOutcome:
        limits = replace(self._limits, cpu_seconds=timeout, wall_seconds=timeout * WALL_FACTOR)
        worker.begin(task, limits)
        output, reply, failure, ended = result.read_result(
            worker, limits, _read_reply, bounded=False, host_call=host_call
        )
        value = None
        if failure is None and reply is not None:
            status, value, message = reply
        else:
            status, message = failure or result.reason(ended, 0)
        text = output.decode("utf-8", "replace")
        return CaseOutcome(status, value, text, message, worker.deadline.wall, ended.cpu_seconds)


def _read_reply(body: bytes) -> list[Any]:
    """[status, value, message]. Raises Malformed."""
    status, value, message = result.plain_fields(body, (str, str, str))
    if status not in ("ok", "error", "memory"):
        raise Malformed("no such status")
    return [status, decode(value), message]
