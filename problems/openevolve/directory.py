"""An OpenEvolve problem directory as it is: initial program, evaluator.py, and a config.yaml if it has one.

The evaluator runs in the sandbox, in a separate process per stage, with the answer's file in its scratch folder.
Differences from OpenEvolve's Evaluator:
- An exception is the answer's fault if its traceback passes through the answer's file, or if it is about that
  file (its syntax, a name it lacks, a function of it called with wrong arguments). Any other is a ScorerFault.
- Cascade stages do not share module globals, since each runs in a fresh fork.
- Outside the EVOLVE-BLOCKs nothing changes, whatever `enforce_evolve_blocks` says.
- A seed that would be refused as an answer is no seed.
The table in docs/tutorial/openevolve.md has them all.
"""

from __future__ import annotations

import copy
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems.contract import BadAddress, Problem, Score, ScorerFault
from problems.custom.command import FilesProblem
from problems.custom.scorer_problem import (
    MISSING,
    ROOT,
    SCORER_OPTIONS,
    SHIMS,
    checked_options,
    choose_objectives,
    is_timing,
    warn_of_objectives,
)
from problems.fingerprint import files_at, files_fingerprint, files_named_by
from problems.objectives import describe_directions, measure_objectives
from problems.openevolve.config import FEATURE_DIMENSIONS, OpenEvolveConfig, read_config
from problems.openevolve.evolve_block import evaluator_of, initial_program, language_of, odd_marker
from problems.sandbox.contract import EvaluatorSpec, Limits
from problems.weights import order_weights, weigh

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox


_BUILT_IN_FEATURES = ("complexity", "diversity", "score")
_LONGEST_FEEDBACK = 20_000
_OF_SCORES = (
    *("timeout", "memory_limit_mb", "cascade_evaluation", "cascade_thresholds"),
    *("max_code_length", "file_suffix", "feature_dimensions", "target", "objectives", "directions"),
)
"""Settings that affect the score of an answer."""
_RULE = "OpenEvolve 0.4.1"
"""Whose fitness of metrics it is. A part of the fingerprint, so that no run continues under another rule in silence."""
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
    """The results of the stages for one answer, merged as in OpenEvolve: numbers, flags and texts among the metrics,
    artifacts; `failed` is why it stopped, `stages` how many gave a result."""

    metrics: dict[str, float] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    failed: str | None = None
    stages: int = 0

    def fail(self, stage: str, why: str, slow: bool = False) -> bool:
        """False. A stage failed; after others the answer keeps their metrics, and OpenEvolve's marks."""
        self.failed = f"{stage}: {why}"
        if self.stages:
            self.metrics[f"{stage.removeprefix('evaluate_')}_passed"] = 0.0
            self.flags |= {"timeout": True} if slow else {}
        return False


class OpenEvolveProblem(FilesProblem):
    """The directory as a Problem.

    objectives: those of the config; else combined_score, unless the config has directions; else every metric of the
        initial program by name, without flags, and without timings that the config does not name. All stages of a
        cascade are run for that, whatever the thresholds, so that the names do not depend on luck.
    fitness: combined_score; else the mean of the objectives that the config decides; else OpenEvolve's mean of the
        answer's metrics, without flags, feature dimensions and timings
    directions: the config's, of metrics that are better when lower (problems.custom.scorer_problem)
    features: the feature dimensions that the config names, and the other metrics that are no objectives
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
        self._warned = self._copied = self._decided = self._whole_mean = False
        declared = {key: settings[key] for key in SCORER_OPTIONS if key in settings}
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
        self._check_seed()
        evaluation, reached = self._evaluate(self._seed_text, every_stage=True)
        self.holds_out = "held_out" in self._stages
        metrics = self._numbers(evaluation)
        unmeasured = self._unmeasured(metrics) and _error(evaluation)
        if not metrics.keys() - {"error"} or unmeasured or (evaluation.failed and evaluation.stages == 0):
            why = _error(evaluation) or "it returned no number"
            told = f"the initial program itself cannot be evaluated: {why}{self._remedy(why)}"
            raise ScorerFault(f"{self.where}: {told}")
        asked = self.settings.get("objectives") or ()
        if missing := sorted(self._asked() - {*_BUILT_IN_FEATURES, *metrics}):
            there = f"there are {', '.join(sorted(metrics))}"
            why = f" ({evaluation.failed})" if evaluation.failed else ""
            raise ScorerFault(f"{self._config}: no metric named {', '.join(missing)}; {there}{why}")
        self._seed_metrics = metrics
        decided = "combined_score" in metrics
        names = [n for n in metrics if n != "combined_score" and (n != "error" or n in self._asked())]
        if asked:
            self.objectives = tuple(asked)
        elif self.directions.keys() - {"combined_score"} or not decided:
            self.objectives = choose_objectives(names, self.directions)
        self._whole_mean = not asked and not self.directions
        timings = () if asked or decided else tuple(name for name in names if name not in self.objectives)
        warn_of_objectives(self.where, self.objectives, timings, self.directions, " in config.yaml")
        self._decided = decided and "combined_score" not in self.objectives
        self._take(measure_objectives(self.objectives, self.directions, metrics, not self._decided))
        self._combined = measure_objectives(("combined_score",), self.directions, metrics, not self._decided)
        if len(self.objectives) == 1 and not self._decided:
            self._own_weights = dict.fromkeys(self.objectives, 1.0)
        self._seed = lambda problem: problem._scored(reached)  # type: ignore[attr-defined]
        if failed := self._seed(self).error or evaluation.failed or evaluation.artifacts.get("error"):
            remedy = self._remedy(failed + evaluation.artifacts.get("stderr", ""))
            told = f"{self.where}: the initial program fails: {' '.join(failed.split())[:300]}{remedy}"
            warnings.warn(told, stacklevel=3)

    def weighted(self, weights: Mapping[str, float]) -> Problem:
        """As of any problem. Where a name is a metric of the initial program that is no objective, as those next to a
        combined_score are, the objectives are the metrics that are named."""
        if self.fault is not None or set(weights) <= set(self.objectives):
            return super().weighted(weights)
        order_weights(tuple(self._seed_metrics), weights, self.name)
        chosen = copy.copy(self)
        names = tuple(name for name in self._seed_metrics if name in weights)
        chosen.objectives, chosen._own_weights, chosen._whole_mean = names, None, False
        chosen._take(measure_objectives(names, self.directions, self._seed_metrics, True))
        return weigh(chosen, weights)

    def _check_seed(self) -> None:
        """Raise ScorerFault for an initial program that would be refused as an answer: hardly a program made from it
        would be taken, and all that were written would be paid for."""
        if odd := odd_marker(self._original):
            raise ScorerFault(
                f"{self.program}: its EVOLVE-BLOCK markers do not match: {odd}; each block begins with a line "
                "EVOLVE-BLOCK-START and ends with a line EVOLVE-BLOCK-END, and holds no other block"
            )
        length, longest = len(self._original), self.settings["max_code_length"]
        if length > longest:
            raise ScorerFault(
                f"{self.program}: the initial program has {length} characters, and answers may have {longest}: set "
                f"max_code_length: {-(-length // 5000) * 10_000} in config.yaml"
            )

    def statement(self) -> str:
        """The config's system message, and the metrics."""
        message = str(self.settings.get("system_message") or "").strip()
        higher = [one.name for one in self.metrics if not one.lower]
        told = [f"Higher is better in {', '.join(higher)}."] if higher else []
        if self._decided and self.user_weights is None:
            told.append("combined_score decides.")
        told.append(describe_directions(self.metrics))
        request = (
            f"Improve this {self.language} program. {' '.join(filter(None, told))} "
            "Only what stands between EVOLVE-BLOCK-START and EVOLVE-BLOCK-END may change."
        )
        return "\n\n".join(filter(None, (message, request)))

    def seed_answer(self) -> str:
        """The initial program as it is."""
        return self._original

    def fingerprint(self) -> str:
        """The fingerprint of the evaluator, the initial program, the files in the folder that these can use, and the
        config's keys about scores; its other keys may change between a run and its resume."""
        files = files_named_by([self.evaluator_file, self.program], self.folder) | files_at(self._readable)
        settings = {key: self.settings.get(key) for key in _OF_SCORES}
        return files_fingerprint(self.folder, files - {self._config}, settings, _RULE)

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
        metrics, notes, error = self._numbers(evaluation), [], _error(evaluation)
        unmeasured = self._unmeasured(metrics)
        if unmeasured and not error:
            told = " ".join(f"{k}: {v}" for k, v in {**evaluation.texts, **evaluation.artifacts}.items())
            why = f" ({' '.join(told.split())[:300]})" if told else ""
            gave = f"it gave {unmeasured}; every metric must be finite{why}{self._remedy(told)}"
            raise ScorerFault(f"{self.where}: {gave}")
        missing = [name for name in self.objectives if name not in metrics]
        if missing:
            notes.append(f"not measured, so its reward is 0: {', '.join(missing)}")
        self._warn_of_new(metrics)
        odd = {name: value for name, value in metrics.items() if not math.isfinite(value)}
        shown: dict[str, Any] = {**evaluation.texts, **evaluation.flags, **odd}
        if self.settings.get("include_artifacts", True) and self.settings["enable_artifacts"]:
            shown |= evaluation.artifacts
        lines = [*([evaluation.failed] if evaluation.failed else []), *notes, *(f"{k}: {v}" for k, v in shown.items())]
        feedback = "\n".join(lines)[:_LONGEST_FEEDBACK]
        fault = " ".join(error.split())[:300]
        if unmeasured:  # programs commonly mark an answer that failed by -inf
            return Score.failure(len(self.objectives), fault, feedback)
        score = self.score_of_metrics({k: v for k, v in metrics.items() if k not in odd}, feedback)
        # beside a score above that of a failed answer it is a remark: OpenEvolve goes by the numbers
        return replace(score, error=fault) if fault and score.fitness <= 0 else score

    def _numbers(self, evaluation: StageResults) -> dict[str, float]:
        """The metrics that are numbers, with the flags that the config names."""
        asked = self._asked()
        return {**evaluation.metrics, **{k: float(v) for k, v in evaluation.flags.items() if k in asked}}

    def _unmeasured(self, metrics: Mapping[str, float]) -> str:
        """The first metric that is not finite among those that decide something, "" if all are."""
        deciding = {"combined_score", *self._asked()} if "combined_score" in metrics else set(metrics)
        odd = (f"{name} = {value}" for name, value in metrics.items() if name in deciding and not math.isfinite(value))
        return next(odd, "")

    def score_of_metrics(self, metrics: Mapping[str, float], feedback: str = "", error: str | None = None) -> Score:
        """The Score of an evaluator's metrics, measured here or, in a checkpoint, elsewhere. All must be finite."""
        own = {one.name: one for one in (*self._combined, *self.metrics)}
        counted = {name: own[name].reward(value) if name in own else value for name, value in metrics.items()}
        rewards = tuple(counted.get(name, 0.0) for name in self.objectives)
        values = tuple(metrics.get(one.name, None if one.lower else 0.0) for one in self.metrics)
        # timings differ from one measurement to the next, and prompts show features
        others = [name for name in metrics if name not in (*self.objectives, "combined_score") and not is_timing(name)]
        dimensions = self.settings.get("feature_dimensions", ())
        spanned = [name for name in dimensions if name in metrics or name not in _BUILT_IN_FEATURES]
        features = {name: metrics.get(name, 0.0) for name in (*spanned, *others)}
        fitness = self._fitness(counted, rewards)
        if self._whole_mean and self.objectives == ("combined_score",):
            rewards = values = (fitness,)
        return Score(rewards, fitness, features, feedback, error, () if values == rewards else values).check(self)

    def _fitness(self, metrics: Mapping[str, float], rewards: tuple[float, ...]) -> float:
        if "combined_score" in metrics:
            return metrics["combined_score"]
        counted = metrics if self._whole_mean else dict(zip(self.objectives, rewards, strict=True))
        dimensions = self.settings.get("feature_dimensions", FEATURE_DIMENSIONS)
        names = [name for name in counted if name not in dimensions] or list(counted)
        if self._whole_mean:
            names = list(choose_objectives(names, self.objectives))
        values = [counted[name] for name in names]
        total, count = sum(values), max(1, len(values))
        return total / count if math.isfinite(total) else sum(value / count for value in values)

    def _warn_of_new(self, metrics: Mapping[str, float]) -> None:
        known = {*self.objectives, "combined_score", "error"} | {f"stage{n}_passed" for n in (1, 2, 3)}
        new = [name for name in sorted(set(metrics) - known) if not is_timing(name)]
        if new and not self._warned and self._whole_mean and "combined_score" not in self.objectives:
            self._warned = True
            warnings.warn(f"{self.where}: {', '.join(new)}: no metric of the initial program; counted", stacklevel=2)

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
            return evaluation.fail(stage, f"{outcome.message or outcome.status}{limit}", outcome.status == "timeout")
        value = outcome.value
        if "odd" in value:
            due = "it must return a dict of metrics or an EvaluationResult"
            raise ScorerFault(f"{self.where}: {stage} returned {value['odd']}; {due}")
        if "raised" in value:
            if not value["by_answer"]:
                raised = value["raised"]
                raise ScorerFault(f"{self._at(value['line'])}: {stage} raised {raised}{self._remedy(raised)}")
            evaluation.artifacts["traceback"] = value["trace"]
            return evaluation.fail(stage, value["raised"])
        evaluation.stages += 1
        evaluation.texts.pop("error", None)
        for name in (*value["metrics"], *value["flags"]):  # a number may become a flag
            evaluation.metrics.pop(name, None)
            evaluation.flags.pop(name, None)
        evaluation.metrics |= value["metrics"]
        evaluation.flags |= value["flags"]
        evaluation.texts |= value["texts"]
        if evaluation.stages > 1 and "error" not in self._asked():  # OpenEvolve merges stages without it
            evaluation.metrics.pop("error", None)
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


def _error(evaluation: StageResults) -> str:
    """Why the answer failed, as far as the evaluator or a limit says so; "" if not."""
    if evaluation.failed and not evaluation.stages:
        return evaluation.failed
    odd = not all(map(math.isfinite, evaluation.metrics.values()))
    return evaluation.texts.get("error") or (odd and evaluation.artifacts.get("error")) or ""


def _passes(metrics: Mapping[str, float], threshold: float) -> bool:
    """OpenEvolve's rule: combined_score, else the mean of all metrics but `error`, reaches the threshold."""
    if "combined_score" in metrics:
        return metrics["combined_score"] >= threshold
    counted = [value for name, value in metrics.items() if name != "error"]
    return bool(counted) and sum(counted) / len(counted) >= threshold
