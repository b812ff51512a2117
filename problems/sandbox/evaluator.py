"""A user's scorer file out of process: loaded once in a worker, forked for every call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from problems.sandbox import ending, scratch
from problems.sandbox.child.wire import Malformed, decode, encode
from problems.sandbox.contract import (
    WALL_FACTOR,
    EvaluatorOutcome,
    EvaluatorSpec,
    Limits,
    SandboxFault,
    ScratchFile,
)
from problems.sandbox.oracle import Oracle, answer_question
from problems.sandbox.pool import start_worker
from problems.sandbox.worker import Worker, WorkerDied
from problems.sandbox.worker_pool import WorkerPool

_STARTS = 3


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
            lambda: start_worker(lambda: Worker(mode, limits, spec, environment=environment)),
            workers,
            f"{spec.path}: the evaluator is closed",
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
        oracle: Oracle | None = None,
    ) -> EvaluatorOutcome:
        """Call a function of the file (or a method: dotted names are followed) in a fresh fork of its worker.

        args: plain data, or ScratchFile(name) for the path of one of `files`
        timeout: seconds of CPU time, or of wall time where it sleeps (problems.sandbox.patience), after which the whole
            process tree is killed
        files: name -> text, written into the scratch folder first
        oracle: what `oracle(name, *args, **kwargs)` of the file's module asks, in this thread; its time is not the
            call's. Its exception is a RuntimeError there, with its class and text
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
            "asks": oracle is not None,
        }
        return self._request(task, timeout, oracle)

    def _request(self, task: dict[str, Any], timeout: float, oracle: Oracle | None) -> EvaluatorOutcome:
        died = ""
        for _ in range(_STARTS):
            worker = self._pool.take()
            try:
                return self._run(worker, task, timeout, oracle)
            except WorkerDied as error:
                died = str(error)
                worker.soiled = True
            except BaseException:
                worker.soiled = True
                raise
            finally:
                self._pool.give(worker)
        raise SandboxFault(f"{self._spec.path}: its worker died {_STARTS} times over one call: {died}")

    def _run(self, worker: Worker, task: dict[str, Any], timeout: float, oracle: Oracle | None) -> EvaluatorOutcome:
        folder = None
        if worker.scratch is not None:
            folder = scratch.make(worker.hello["uid"] if os.geteuid() == 0 else None, worker.scratch)
        try:
            return self._listen(worker, {**task, "scratch": folder}, timeout, oracle)
        finally:
            if folder is not None:
                scratch.remove(folder)

    def _listen(self, worker: Worker, task: dict[str, Any], timeout: float, oracle: Oracle | None) -> EvaluatorOutcome:
        limits = replace(self._limits, cpu_seconds=timeout, wall_seconds=timeout * WALL_FACTOR)
        worker.begin(task, limits, 0, ending.frame_limit(limits), apart=oracle is not None)
        ask = None if oracle is None else partial(answer_question, worker, oracle=oracle)
        output, reply, failure, ended = ending.hear_out(worker, limits, _read_reply, bounded=False, ask=ask)
        stdout = output.decode("utf-8", "replace")
        wall = worker.patience.wall
        if failure is None and reply is not None:
            status, value, message = reply
            return EvaluatorOutcome(status, value, message, stdout, wall, ended.cpu_seconds)
        if failure is None:
            failure = ending.reason(ended, 0)
        return EvaluatorOutcome(
            failure[0], message=failure[1], stdout=stdout, wall_seconds=wall, cpu_seconds=ended.cpu_seconds
        )


def _read_reply(body: bytes) -> list[Any]:
    """[status, value, message]. Raises Malformed."""
    status, value, message = ending.plain_fields(body, (str, str, str))
    if status not in ("ok", "error", "memory"):
        raise Malformed("no such status")
    return [status, decode(value), message]
