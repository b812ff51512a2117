"""An OpenEvolve problem directory as it is: initial program, evaluator.py, and a config.yaml if it has one.

The evaluator runs in the sandbox, in a separate process per stage, with the answer's file in its scratch folder.
Differences from OpenEvolve's Evaluator:
- An exception is the answer's fault if its traceback passes through the answer's file, or if it is about that
  file (its syntax, a name it lacks, a function of it called with wrong arguments). Any other is a ScorerFault.
- Cascade stages do not share module globals, since each runs in a fresh fork.
- Outside the EVOLVE-BLOCKs nothing changes, whatever `enforce_evolve_blocks` says.
- A metric that is missing (a stage that was not reached) counts 0, also in the mean if there is no combined_score.
"""

from __future__ import annotations

import copy
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems.contract import BadAddress, Score, ScorerFault
from problems.custom.program_files import FilesProblem
from problems.custom.scorer_problem import (
    MISSING,
    OPTIONS,
    ROOT,
    SHIMS,
    checked_options,
    choose_objectives,
    warn_of_objectives,
)
from problems.fingerprint import files_at, files_fingerprint, files_named_by
from problems.objectives import describe_directions, measure_objectives
from problems.openevolve.config import OpenEvolveConfig, read_config
from problems.openevolve.evolve_block import evaluator_of, initial_program, language_of
from problems.sandbox.contract import EvaluatorSpec, Limits

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox


_BUILT_IN_FEATURES = ("complexity", "diversity", "score")
_LONGEST_FEEDBACK = 20_000
_OF_SCORES = (
    *("timeout", "memory_limit_mb", "cascade_evaluation", "cascade_thresholds"),
    *("max_code_length", "file_suffix", "feature_dimensions", "target", "objectives", "directions"),
)
"""Settings that affect the score of an answer."""
_CALLING = (ROOT / "evo" / "__init__.py", ROOT / "problems" / "apart.py")
"""What `evo.call` needs in the evaluator's process."""
_STAGES = ("evaluate_stage1", "evaluate_stage2", "evaluate_stage3")
_REFUSED = re.compile(
    r"permission|denied|no such (?:file|process)|process PID|not (?:be )?found|could not (?:load|find|open|resolve)"
    r"|read-only|BlockingIO|EOFError|Errno (?:-|1\])|network is",
    re.IGNORECASE,
)
"""What the sandbox may have refused, in the words of Python, of psutil and of evaluators."""
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

    @property
    def unmeasured(self) -> str:
        """The first metric that is not finite, "" if all are."""
        return next((f"{name} = {value}" for name, value in self.metrics.items() if not math.isfinite(value)), "")

    @property
    def error(self) -> str:
        """Why the answer failed, as far as the evaluator or a limit says so; "" if not."""
        reported = self.texts.get("error") or (self.unmeasured and self.artifacts.get("error"))
        return self.failed or reported or ""


class OpenEvolveProblem(FilesProblem):
    """The directory as a Problem.

    objectives: every metric of the initial program by name, combined_score only if it is the only one, timings only if
        the config names them. All stages of a cascade are run for that, whatever the thresholds, so that the names do
        not depend on luck.
    fitness: combined_score, else the mean of the objectives that are not feature dimensions
    directions: the config's, of metrics that are better when lower (problems.custom.scorer_problem)
    features: the metrics that the config names as feature dimensions
    timeout: seconds of one stage
    settings: the config in the engine's terms (problems.openevolve.config); ignored: its keys without effect
    """

    def __init__(
        self,
        folder: Path,
        sandbox: Callable[[], Sandbox],
        *,
        config: Path | None = None,
        program: Path | None = None,
    ) -> None:
        self.folder = folder.resolve()
        evaluator = evaluator_of(self.folder)
        if evaluator is None:
            raise BadAddress(f"{folder} has no evaluator.py; an OpenEvolve directory has one next to its program")
        self.evaluator_file = evaluator
        config = config or next(
            (f for f in (self.folder / "config.yaml", self.folder / "config.yml") if f.is_file()), None
        )
        self._config = config
        read = read_config(config) if config else OpenEvolveConfig()
        if config and read.warning(config):
            warnings.warn(read.warning(config), stacklevel=3)
        self.program = program.resolve() if program else initial_program(self.folder, read.settings["file_suffix"])
        self.name = str(program or (self.folder if config is None or config.stem == "config" else config.resolve()))
        settings = {"language": language_of(self.program), **read.settings}
        if settings["file_suffix"] == ".py":  # as in OpenEvolve's controller
            settings["file_suffix"] = self.program.suffix or ".py"
        self.settings, self.ignored = settings, read.ignored
        self.language = settings["language"]
        self.answer_format = "python" if self.program.suffix == ".py" else "text"
        self.directions = settings.get("directions") or {}
        try:
            self._original = self.program.read_text(encoding="utf-8").replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BadAddress(f"cannot read {self.program}: {error}") from None
        self.originals = {self.program.name: self._original}
        self._stages: tuple[str, ...] = ()
        self._warned = self._copied = False
        declared = {key: settings[key] for key in OPTIONS if key in settings}
        options = checked_options(str(config or folder), self.folder, declared)
        spec = EvaluatorSpec(
            str(SHIMS / "openevolve_evaluator.py"),
            readable=(str(self.folder), str(SHIMS), *map(str, _CALLING), *options.readable),
            folder=str(self.folder),
            environment={"EVO_EVALUATOR_FILE": str(evaluator), "PYTHONPATH": str(ROOT)},
        )
        memory = int(settings.get("memory_limit_mb", _MEMORY)) << 20
        limits = Limits(memory=memory, output=16 << 20, file=256 << 20, scratch=512 << 20, processes=64)
        super().__init__(str(evaluator), spec, sandbox, options, limits=limits)

    def _learn(self) -> None:
        self._target = self.settings.get("target")
        self.objectives = ("combined_score",)
        self._seed_text = self.canonical(self._original)
        evaluation, reached = self._evaluate(self._seed_text, every_stage=True)
        self.holds_out = "held_out" in self._stages
        unmeasured = evaluation.unmeasured and evaluation.error
        if not evaluation.metrics or unmeasured or (evaluation.failed and evaluation.stages == 0):
            why = evaluation.error or "it returned no number"
            told = f"the initial program itself cannot be evaluated: {why}{self._remedy(why)}"
            raise ScorerFault(f"{self.where}: {told}")
        asked = self.settings.get("objectives") or ()
        if missing := sorted(self._asked() - {*_BUILT_IN_FEATURES, *evaluation.metrics}):
            there = f"there are {', '.join(sorted(evaluation.metrics))}"
            why = f" ({evaluation.failed})" if evaluation.failed else ""
            raise ScorerFault(f"{self._config}: no metric named {', '.join(missing)}; {there}{why}")
        names = [name for name in evaluation.metrics if name != "combined_score"]
        self.objectives = tuple(asked) or choose_objectives(names, self.directions) or ("combined_score",)
        self._left_out = tuple(name for name in names if name not in self.objectives)
        warn_of_objectives(
            self.where, self.objectives, () if asked else self._left_out, self.directions, " in config.yaml"
        )
        whole = "combined_score" in self.objectives or "combined_score" not in evaluation.metrics
        self._take(measure_objectives(self.objectives, self.directions, evaluation.metrics, whole))
        self._combined = measure_objectives(("combined_score",), self.directions, evaluation.metrics, whole)
        self._seed = partial(self._scored, reached)
        if failed := self._seed().error or evaluation.artifacts.get("error"):
            remedy = self._remedy(failed + evaluation.artifacts.get("stderr", ""))
            told = f"{self.where}: the initial program fails: {' '.join(failed.split())[:300]}{remedy}"
            warnings.warn(told, stacklevel=3)

    def statement(self) -> str:
        """The config's system message, and the metrics."""
        message = str(self.settings.get("system_message") or "").strip()
        goal = "combined_score" if "combined_score" not in self.objectives else "the score"
        request = (
            f"Improve this {self.language} program. It is measured by {', '.join(self.objectives)}; higher is better, "
            f"and {goal} decides. Only what stands between EVOLVE-BLOCK-START and EVOLVE-BLOCK-END may change."
        )
        lower = describe_directions(self.metrics)
        return "\n\n".join(filter(None, (message, request, lower)))

    def seed_answer(self) -> str:
        """The initial program as it is."""
        return self._original

    def fingerprint(self) -> str:
        """The fingerprint of the evaluator, the initial program, the files in the folder that these can use, and the
        config's keys about scores; its other keys may change between a run and its resume."""
        files = files_named_by([self.evaluator_file, self.program], self.folder) | files_at(self._readable)
        return files_fingerprint(self.folder, files - {self._config}, {k: self.settings.get(k) for k in _OF_SCORES})

    def _refusal(self, answer: str) -> str:
        longest = self.settings["max_code_length"]
        long = f"the program has {len(answer)} characters; at most {longest} are allowed (max_code_length)"
        return super()._refusal(answer) or (long if len(answer) > longest else "")

    def _measured(self, function: str, answer: str) -> Score:
        return self._scored(self._evaluate(self.canonical(answer))[1])

    def score_held_out_cases(self, answer: str) -> list[Score]:
        """By `held_out(program_path)` of the evaluator, which returns what `evaluate` returns."""
        self._raise_own_fault()
        self._stage("held_out", self.canonical(answer), evaluation := StageResults())
        return [self._scored(evaluation)]

    # -- from metrics to a Score ---------------------------------------------------------------------------------

    def _scored(self, evaluation: StageResults) -> Score:
        if evaluation.failed and evaluation.stages == 0:
            return self._failure(evaluation.failed)
        metrics, notes, error = evaluation.metrics, [], evaluation.error
        if evaluation.unmeasured and not error:
            told = " ".join(f"{k}: {v}" for k, v in {**evaluation.texts, **evaluation.artifacts}.items())
            why = f" ({' '.join(told.split())[:300]})" if told else ""
            gave = f"it gave {evaluation.unmeasured}; every metric must be finite{why}{self._remedy(told)}"
            raise ScorerFault(f"{self.where}: {gave}")
        missing = [name for name in self.objectives if name not in metrics]
        if missing:
            notes.append(f"not measured, so counted 0: {', '.join(missing)}")
        self._warn_of_new(metrics)
        shown = dict(evaluation.texts)
        if self.settings.get("include_artifacts", True) and self.settings["enable_artifacts"]:
            shown |= evaluation.artifacts
        lines = [*([evaluation.failed] if evaluation.failed else []), *notes, *(f"{k}: {v}" for k, v in shown.items())]
        feedback = "\n".join(lines)[:_LONGEST_FEEDBACK]
        fault = " ".join(error.split())[:300]
        if evaluation.unmeasured:  # programs commonly mark an answer that failed by -inf
            return Score.failure(len(self.objectives), fault, feedback)
        return self.score_of_metrics(metrics, feedback, fault or None)

    def score_of_metrics(self, metrics: Mapping[str, float], feedback: str = "", error: str | None = None) -> Score:
        """The Score of an evaluator's metrics, measured here or, in a checkpoint, elsewhere. All must be finite."""
        own = {one.name: one for one in (*self._combined, *self.metrics)}
        counted = {name: own[name].reward(value) if name in own else value for name, value in metrics.items()}
        rewards = tuple(counted.get(name, 0.0) for name in self.objectives)
        values = tuple(metrics.get(one.name, None if one.lower else 0.0) for one in self.metrics)
        features = {
            name: metrics.get(name, 0.0)
            for name in self.settings.get("feature_dimensions", ())
            if name not in _BUILT_IN_FEATURES
        }
        fitness = self._fitness(counted, rewards)
        return Score(rewards, fitness, features, feedback, error, () if values == rewards else values).check(self)

    def _fitness(self, metrics: Mapping[str, float], rewards: tuple[float, ...]) -> float:
        if "combined_score" in metrics:
            return metrics["combined_score"]
        dimensions = self.settings.get("feature_dimensions", ())
        named = dict(zip(self.objectives, rewards, strict=True))
        counted = [value for name, value in named.items() if name not in dimensions] or list(rewards)
        return sum(counted) / len(counted)

    def _warn_of_new(self, metrics: Mapping[str, float]) -> None:
        known = {*self.objectives, *self._left_out, "combined_score", "timeout"}
        new = sorted(set(metrics) - known - {f"stage{n}_passed" for n in (1, 2, 3)})
        if new and not self._warned:
            self._warned = True
            warnings.warn(f"{self.where}: {', '.join(new)}: no metric of the initial program, ignored", stacklevel=2)

    # -- the evaluator's process -----------------------------------------------------------------------------------

    def _evaluate(self, text: str, every_stage: bool = False) -> tuple[StageResults, StageResults]:
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
        name = f"program{self.settings['file_suffix']}"
        outcome = self._run("run", stage, name, text)
        if outcome.status != "ok":
            # An exception of the evaluator comes as a value. With an answer in its process, any other failure is as
            # likely that one's doing (a signal that rings late, a text that raises), which must not stop the problem
            limit = f" (evaluator.timeout is {self.timeout:g} s)" if outcome.status == "timeout" else ""
            evaluation.failed = f"{stage}: {outcome.message or outcome.status}{limit}"
            return False
        value = outcome.value
        if "odd" in value:
            due = "it must return a dict of metrics or an EvaluationResult"
            raise ScorerFault(f"{self.where}: {stage} returned {value['odd']}; {due}")
        if "raised" in value:
            if not value["by_answer"]:
                raised = value["raised"]
                raise ScorerFault(f"{self._at(value['line'])}: {stage} raised {raised}{self._remedy(raised)}")
            evaluation.failed = f"{stage}: {value['raised']}"
            evaluation.artifacts["traceback"] = value["trace"]
            return False
        evaluation.stages += 1
        # OpenEvolve's mark of a failure, unless the config names it as a metric
        metrics = value["metrics"].items()
        evaluation.metrics.update({k: v for k, v in metrics if k != "error" or k in self._asked()})
        evaluation.texts.update(value["texts"])
        evaluation.artifacts.update(value["artifacts"])
        return True

    def _remedy(self, raised: str) -> str:
        """What to do about a missing package, or what the sandbox refused; "" if neither is why it was raised."""
        mode = self._sandbox().mode
        if MISSING.search(raised):
            return super()._remedy(raised)
        if not _REFUSED.search(raised) or mode == "none" or (self._copied and str(self.folder) in raised):
            return ""
        may = "reads and writes a copy of its folder, and reads what `readable` in config.yaml names"
        if not self._copied:
            may = "has no /dev/shm (for queues, pools, locks) and writes in its working directory alone on this machine"
        less = "no network or sockets" if mode == "landlock" else "no network"
        return f"; in the sandbox an evaluator {may}; it has {less}; if you trust the answers too, use --sandbox none"

    def _asked(self) -> set[str]:
        """The metrics that the config names."""
        keys = ("objectives", "directions", "feature_dimensions")
        return {name for key in keys for name in self.settings.get(key) or ()}

    def _defined(self) -> tuple[str, ...]:
        """The evaluation functions of the file."""
        described = self._run("describe", timeout=60.0)
        self._copied = described.status == "ok" and described.value["copied"]
        if described.status != "ok" or "fault" in described.value:
            why: dict[str, Any] = described.value if described.status == "ok" else {"fault": described.message}
            fault = f"{why['fault']}{self._remedy(why['fault'])}"
            raise ScorerFault(f"{self._at(why.get('line'))}: it does not load: {fault}")
        if "evaluate" not in described.value["stages"]:
            raise ScorerFault(f"{self.where} defines no function evaluate(program_path)")
        return tuple(described.value["stages"])


def _passes(metrics: Mapping[str, float], threshold: float) -> bool:
    """OpenEvolve's rule: combined_score, else the mean of all metrics, reaches the threshold."""
    if not metrics:
        return False
    if "combined_score" in metrics:
        return metrics["combined_score"] >= threshold
    return sum(metrics.values()) / len(metrics) >= threshold
