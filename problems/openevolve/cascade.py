"""Running an OpenEvolve evaluator on one answer, stage by stage, in the sandbox.

Thresholds and merging follow OpenEvolve (openevolve.evaluator): a stage runs if the one before reached its threshold,
and a stage in which the answer fails keeps the measurements of earlier ones.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems.contract import ScorerFault
from problems.sandbox.contract import EvaluatorSpec, Limits, ScratchFile
from problems.scorer_process import SHIMS, ScorerProcess

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

ROOT = Path(__file__).parents[2]
CALLING = (ROOT / "evo" / "__init__.py", ROOT / "problems" / "apart.py")
"""What `evo.call` needs in the evaluator's process."""
_STAGES = ("evaluate_stage1", "evaluate_stage2", "evaluate_stage3")
_MEMORY = 4096  # MiB; numerical evaluators map far more than they use


@dataclass
class StageResults:
    """The results of the stages for one answer: numbers, texts among the metrics, artifacts; `failed` is why it
    stopped."""

    metrics: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    failed: str | None = None
    stages: int = 0


class Cascade:
    """One evaluator.py with its settings. Thread-safe: each call runs in a separate fork.

    settings: timeout, cascade_evaluation, cascade_thresholds, file_suffix, memory_limit_mb
        (problems.openevolve.config)
    """

    def __init__(self, file: Path, folder: Path, settings: Mapping[str, Any], sandbox: Callable[[], Sandbox]) -> None:
        """folder: the problem's, which may be read too"""
        self.file, self.settings = file, settings
        spec = EvaluatorSpec(
            str(SHIMS / "openevolve_evaluator.py"),
            readable=(str(folder), str(SHIMS), *map(str, CALLING)),
            environment={"EVO_EVALUATOR_FILE": str(file), "PYTHONPATH": str(ROOT)},
        )
        memory = int(settings.get("memory_limit_mb", _MEMORY)) << 20
        limits = Limits(memory=memory, output=16 << 20, file=256 << 20, scratch=512 << 20, processes=64)
        self._process = ScorerProcess(file, spec, limits, sandbox)
        self._stages: tuple[str, ...] = ()

    def run(self, text: str, every_stage: bool = False) -> tuple[StageResults, StageResults]:
        """(all stages that ran, those that the cascade's thresholds let it reach): the same unless `every_stage`."""
        self._stages = self._stages or self._defined()
        evaluation = StageResults()
        reached: StageResults | None = None
        if not (self.settings["cascade_evaluation"] and _STAGES[0] in self._stages):
            self._stage("evaluate", text, evaluation)
            return evaluation, evaluation
        thresholds = self.settings["cascade_thresholds"]
        for index, stage in enumerate(_STAGES):
            if stage not in self._stages or not self._stage(stage, text, evaluation):
                break
            if not (index < len(thresholds) and _passes(evaluation.metrics, thresholds[index])):
                if not every_stage:
                    break
                reached = reached or copy.deepcopy(evaluation)
        return evaluation, reached or evaluation

    def _stage(self, stage: str, text: str, evaluation: StageResults) -> bool:
        """Run one stage and merge its result; False if the answer failed in it."""
        timeout = float(self.settings["timeout"])
        name = f"program{self.settings['file_suffix']}"
        outcome = self._process.call("run", stage, ScratchFile(name), files={name: text}, timeout=timeout)
        if outcome.status != "ok":
            # An exception of the evaluator comes as a value. With an answer in its process, any other failure is as
            # likely that one's doing (a signal that rings late, a text that raises), which must not stop the problem
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
                raise ScorerFault(f"{self.file}{line}: {stage} raised {value['raised']}{_remedy(value['raised'])}")
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

    def _defined(self) -> tuple[str, ...]:
        """The evaluation functions of the file."""
        described = self._process.call("describe", timeout=60.0)
        if described.status != "ok" or "fault" in described.value:
            why = described.value if described.status == "ok" else {"fault": described.message, "line": None}
            line = f", line {why['line']}" if why["line"] else ""
            raise ScorerFault(f"{self.file}{line}: it does not load: {why['fault']}")
        if "evaluate" not in described.value["stages"]:
            raise ScorerFault(f"{self.file} defines no function evaluate(program_path)")
        return tuple(described.value["stages"])


def _remedy(raised: str) -> str:
    """What to do about what the sandbox refused."""
    if not raised.startswith(
        ("PermissionError", "OSError: [Errno 30]", "FileNotFoundError: [Errno 2]", "BlockingIOErr")
    ):
        return ""
    return (
        "; in the sandbox an evaluator writes in its working directory alone (use relative paths) and in /dev/shm, "
        "which landlock mode lacks; if you trust the answers too, --sandbox none lets it do all"
    )


def _passes(metrics: Mapping[str, float], threshold: float) -> bool:
    """OpenEvolve's rule: combined_score, else the mean of all metrics, reaches the threshold."""
    if not metrics:
        return False
    if "combined_score" in metrics:
        return metrics["combined_score"] >= threshold
    return sum(metrics.values()) / len(metrics) >= threshold
