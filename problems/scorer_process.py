"""A user's scorer file in its process: opened when it is first called, and again if the sandbox has changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems.contract import ScorerFault
from problems.isolated_answer import COMPILED, IsolatedAnswer, isolate_answer
from problems.redaction import redact_known, redact_strings
from problems.sandbox.contract import CaseOutcome, EvaluatorSpec, HostCall, Limits, SandboxFault

if TYPE_CHECKING:
    from problems.sandbox.evaluator import Evaluator
    from problems.sandbox.pool import Sandbox


class ScorerProcess:
    """Calls functions of the shim in front of a user's file. Thread-safe."""

    def __init__(self, file: Path | str, spec: EvaluatorSpec, limits: Limits, sandbox: Callable[[], Sandbox]) -> None:
        """file: the user's, or what else faults name"""
        self.file, self._spec, self._limits, self._sandbox = file, spec, limits, sandbox
        self._lock = threading.Lock()
        self._opened: tuple[Sandbox, Evaluator] | None = None

    def call(
        self,
        function: str,
        *arguments: Any,
        timeout: float,
        files: Mapping[str, str] | None = None,
        host_call: HostCall | None = None,
    ) -> CaseOutcome:
        """Like Evaluator.call. Raises ScorerFault if the file cannot be loaded."""
        outcome = self._evaluator().call(function, *arguments, timeout=timeout, files=files, host_call=host_call)
        if self._spec.isolated and self._sandbox().mode != "none":
            return outcome
        # it has the environment of this process, and its texts are stored and shown to models
        return replace(
            outcome,
            value=redact_strings(outcome.value),
            message=redact_known(outcome.message),
            stdout=redact_known(outcome.stdout),
        )

    def isolate_answer(
        self, answer: str, seconds: float, preload: tuple[str, ...], trying: bool = False
    ) -> AbstractContextManager[IsolatedAnswer]:
        """An answer in a separate process, as the host_call of a call (problems.isolated_answer). trying: for one
        answer, to test whether isolation works: the worker does not load numpy for it"""
        sandbox = self._sandbox().preloading(preload, COMPILED, usual=not trying)
        return isolate_answer(sandbox, answer, self._limits, seconds)

    def _evaluator(self) -> Evaluator:
        with self._lock:
            sandbox = self._sandbox()
            if self._opened is None or self._opened[0] is not sandbox:
                try:
                    self._opened = (sandbox, sandbox.evaluator(self._spec, self._limits))
                except SandboxFault as error:
                    raise ScorerFault(f"{self.file} cannot be loaded: {error}") from error
            return self._opened[1]
