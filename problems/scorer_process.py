"""A user's scorer file in its process: opened when it is first called, and again if the sandbox has changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems.apart import AnswerCalls
from problems.contract import ScorerFault
from problems.redaction import redact_known, redact_strings
from problems.sandbox.contract import CaseOutcome, EvaluatorSpec, Limits, SandboxFault

if TYPE_CHECKING:
    from problems.sandbox.evaluator import Evaluator
    from problems.sandbox.pool import Sandbox


SHIMS = Path(__file__).parent / "shims"
"""Files that a sandbox worker loads in front of a user's."""


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
    ) -> CaseOutcome:
        """Like Evaluator.call, with a sandbox for the file's `evo.call`. Raises ScorerFault if it cannot be loaded."""
        evaluator = self._evaluator()
        with AnswerCalls(self._sandbox(), timeout) as calls:
            outcome = evaluator.call(function, *arguments, timeout=timeout, files=files, host_call=calls)
        if self._spec.isolated and self._sandbox().mode != "none":
            return outcome
        # it has the environment of this process, and its texts are stored and shown to models
        return replace(
            outcome,
            value=redact_strings(outcome.value),
            message=redact_known(outcome.message),
            stdout=redact_known(outcome.stdout),
        )

    def _evaluator(self) -> Evaluator:
        with self._lock:
            sandbox = self._sandbox()
            if self._opened is None or self._opened[0] is not sandbox:
                try:
                    self._opened = (sandbox, sandbox.evaluator(self._spec, self._limits))
                except SandboxFault as error:
                    raise ScorerFault(f"{self.file} cannot be loaded: {error}") from error
            return self._opened[1]
