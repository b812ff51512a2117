"""Running an OpenEvolve evaluator on one answer, stage by stage, in the sandbox.

The thresholds and what is merged are OpenEvolve's (openevolve.evaluator): a stage is run where the one before reached
its threshold, and a stage in which the answer fails leaves what the earlier ones measured.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems.contract import ScorerFault
from problems.sandbox.contract import EvaluatorSpec, Limits, SandboxFault, ScratchFile

if TYPE_CHECKING:
    from problems.sandbox import Sandbox
    from problems.sandbox.evaluator import Evaluator

_SHIM = Path(__file__).parents[1] / "shims" / "openevolve_evaluator.py"
_STAGES = ("evaluate_stage1", "evaluate_stage2", "evaluate_stage3")
_MEMORY = 4096  # MiB; numerical evaluators map far more than they use


@dataclass
class Evaluation:
    """What the stages gave for one answer: numbers, texts among the metrics, artifacts; `failed` is why it stopped."""

    metrics: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    failed: str | None = None
    stages: int = 0


class Cascade:
    """One evaluator.py with its settings. Thread-safe: each call runs in a fork of its own.

    settings: timeout, cascade_evaluation, cascade_thresholds, file_suffix, memory_limit_mb
        (problems.openevolve.config)
    """

    def __init__(self, file: Path, settings: Mapping[str, Any], sandbox: Callable[[], Sandbox]) -> None:
        self.file, self.settings, self._sandbox = file, settings, sandbox
        self._lock = threading.Lock()
        self._evaluator: tuple[Sandbox, Evaluator] | None = None
        self._stages: tuple[str, ...] = ()

    def run(self, text: str, every_stage: bool = False) -> tuple[Evaluation, Evaluation]:
        """(all that was run, what the cascade's thresholds let it reach): one and the same unless `every_stage`."""
        evaluator = self._opened()
        evaluation = Evaluation()
        reached: Evaluation | None = None
        if not (self.settings["cascade_evaluation"] and _STAGES[0] in self._stages):
            self._stage(evaluator, "evaluate", text, evaluation)
            return evaluation, evaluation
        thresholds = self.settings["cascade_thresholds"]
        for index, stage in enumerate(_STAGES):
            if stage not in self._stages or not self._stage(evaluator, stage, text, evaluation):
                break
            if not (index < len(thresholds) and _passes(evaluation.metrics, thresholds[index])):
                if not every_stage:
                    break
                reached = reached or copy.deepcopy(evaluation)
        return evaluation, reached or evaluation

    def _stage(self, evaluator: Evaluator, stage: str, text: str, evaluation: Evaluation) -> bool:
        """Run one stage and merge what it gives; False where the answer failed in it."""
        timeout = float(self.settings["timeout"])
        name = f"program{self.settings['file_suffix']}"
        outcome = evaluator.call("run", stage, ScratchFile(name), files={name: text}, timeout=timeout)
        if outcome.status != "ok":
            if outcome.status == "error":
                raise ScorerFault(f"{self.file}: {stage}: {outcome.message}")
            limit = f" (evaluator.timeout is {timeout:g} s)" if outcome.status == "timeout" else ""
            evaluation.failed = f"{stage}: {outcome.message or outcome.status}{limit}"
            return False
        value = outcome.value
        if "odd" in value:
            raise ScorerFault(
                f"{self.file}: {stage} returned {value['odd']}; it must return a dict of metrics or an EvaluationResult"
            )
        if "raised" in value:
            if not value["by_answer"]:
                line = f", line {value['line']}" if value["line"] else ""
                raise ScorerFault(f"{self.file}{line}: {stage} raised {value['raised']}")
            evaluation.failed = f"{stage}: {value['raised']}"
            evaluation.artifacts["traceback"] = value["trace"]
            return False
        evaluation.stages += 1
        # OpenEvolve's mark of a failure, unless the config names it as a metric
        named = (*(self.settings.get("objectives") or ()), *(self.settings.get("directions") or ()))
        evaluation.metrics.update({k: v for k, v in value["metrics"].items() if k != "error" or k in named})
        evaluation.texts.update(value["texts"])
        evaluation.artifacts.update(value["artifacts"])
        return True

    def _opened(self) -> Evaluator:
        with self._lock:
            sandbox = self._sandbox()
            if self._evaluator is not None and self._evaluator[0] is sandbox:
                return self._evaluator[1]
            spec = EvaluatorSpec(
                str(_SHIM),
                readable=(str(self.file.parent), str(_SHIM.parent)),
                environment={"EVO_EVALUATOR_FILE": str(self.file)},
            )
            limits = Limits(
                memory=int(self.settings.get("memory_limit_mb", _MEMORY)) << 20,
                output=16 << 20,
                file=256 << 20,
                scratch=512 << 20,
                processes=64,
            )
            try:
                evaluator = sandbox.evaluator(spec, limits)
            except SandboxFault as error:
                raise ScorerFault(f"{self.file} cannot be loaded: {error}") from error
            told = evaluator.call("describe", timeout=60.0)
            if told.status != "ok" or "fault" in told.value:
                why = told.value if told.status == "ok" else {"fault": told.message, "line": None}
                line = f", line {why['line']}" if why["line"] else ""
                raise ScorerFault(f"{self.file}{line}: it does not load: {why['fault']}")
            self._stages = tuple(told.value["stages"])
            if "evaluate" not in self._stages:
                raise ScorerFault(f"{self.file} defines no function evaluate(program_path)")
            self._evaluator = (sandbox, evaluator)
            return evaluator


def _passes(metrics: Mapping[str, float], threshold: float) -> bool:
    """OpenEvolve's rule: combined_score, else the mean of all metrics, reaches the threshold."""
    if not metrics:
        return False
    if "combined_score" in metrics:
        return metrics["combined_score"] >= threshold
    return sum(metrics.values()) / len(metrics) >= threshold
