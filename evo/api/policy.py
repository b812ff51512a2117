"""`evo.evaluate` and `evo.train`: a policy is measured without search, or fine-tuned by reward."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evo.api.arguments import ProblemSources, call_text, plain_settings, plain_value, split_problems
from evo.api.display import Steps
from evo.api.drive import Driver, python_driver
from evo.api.results import ScorerWarning, data_frame
from evo.config.parse import OPTIONS, parse
from evo.config.run import EvaluateConfig, check_trackers, tracker_name
from evo.config.train import TrainRun, check_resumable, plan_training
from evo.evaluation.evaluate import run_evaluation
from evo.progress.training import format_metrics, is_training, summarize_training
from evo.runs.preflight import check_new_training
from evo.search.status import clock
from evo.search.stop import Stop
from evo.training.directory import TrainingDirectory
from problems.registry import given

if TYPE_CHECKING:
    from pandas import DataFrame

    from evo.training.loop import Training


@dataclass(frozen=True)
class EvaluateResult(Mapping[str, float | None]):
    """An evaluation: a mapping from metrics to their means over problems (None if no problem has it).

    best@k, solve@k: expected best fitness, and chance of a solution, among k answers; diversity: mean L1 distance of
    two answers' vectors; written, valid: shares of the answers; and more (evo.evaluation.metrics.metrics_of)

    intervals: metric -> (low, high), 95% over problems; missing for a single problem
    per_problem: each problem's metrics, averaged over seeds
    record: everything as `evo evaluate --json` prints it
    against: lines of the comparison with `against=`, [] without

    Example:
        result = evo.evaluate("maze:test", policy="embedded:vpo", limit=50)
        result["best@30"], result.intervals["best@30"]
    """

    policy: str
    metrics: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float]] = field(repr=False)
    per_problem: list[dict[str, Any]] = field(repr=False)
    record: Mapping[str, Any] = field(repr=False)
    against: list[str] = field(repr=False)

    def __getitem__(self, metric: str) -> float | None:
        return self.metrics[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def frame(self) -> DataFrame:
        """A row for every problem: problem, objectives, target, and its metrics. Raises ImportError without pandas."""
        return data_frame(self.per_problem, ("problem",))


def evaluate(
    address: ProblemSources,
    *,
    output: str | None = None,
    progress: bool = True,
    **settings: Any,
) -> EvaluateResult:
    """Sample a policy's answers to each problem, without search and without parents, as `evo evaluate` does.

    Args:
        address: the problems, as for `evo.run`.
        output: FILE.json to write everything to.
        progress: False shows nothing.
        settings: policy ("embedded:base" by default; the result of `evo.train` is one too), answers_total (per problem,
            30, in chains of `answers`), seeds (how many, from `seed` on; 1), against (a file that `output` wrote, for a
            comparison problem by problem), answers (m of a chain, 3), seed, limit, weights, temperature, top_p,
            max_new_tokens, sandbox, device, dtype.

    Returns:
        Metrics with their intervals, over all problems and of each.

    Raises:
        ValueError: an argument is unknown or cannot be used; one line, the same as the command line's.
        ScorerFault: no problem could be scored. If only some could not, they are left out with a ScorerWarning.
        Interrupted: a KeyboardInterrupt; nothing is written.

    Example:
        evo.evaluate("maze:test", policy="embedded:vpo", limit=50, seeds=3, output="vpo.json")["solve@30"]
    """
    addresses, objects = split_problems(address)
    values = plain_settings(settings)
    command = call_text("evaluate", address, output=output, **settings)
    driver = python_driver(progress, before="interrupted; nothing was written")
    with given(objects):
        config = parse(EvaluateConfig, {**values, "problems": addresses}, OPTIONS)
        record = drive_evaluation(driver, config, plain_value(output), command)
    for name, reason in record["faults"].items():
        warnings.warn(f"{name} is left out: {' '.join(reason.split())}", ScorerWarning, stacklevel=2)
    metrics = {name: record[name] for name in record["per_seed"][0] if name != "seed"}
    intervals = {name: (low, high) for name, (low, high) in record["intervals"].items()}
    per_problem = record.pop("per_problem")
    lines: list[str] = record["against"]["verdicts"] if "against" in record else []
    return EvaluateResult(record["policy"], metrics, intervals, per_problem, record, lines)


def drive_evaluation(driver: Driver, settings: EvaluateConfig, output: str | None, command: str) -> dict[str, Any]:
    """The record of an evaluation, as run_evaluation gives it. Raises Interrupted."""

    async def work(driver: Driver) -> dict[str, Any]:
        return await run_evaluation(
            settings, output, command, lambda title, done, of: driver.display.update(Steps(title, done, of, "problems"))
        )

    return driver.drive(work)


@dataclass(frozen=True)
class TrainResult:
    """A training run that has ended.

    policy: the directory of the trained policy, a Hugging Face checkpoint with its card: an address for `policy=`,
        `arms=`, as is this object itself (it is a path)
    outcome, reason: "done", and why it ended early if it did
    steps, answers, tokens: how many; seconds: of training, without held-out evaluations
    figures: metrics of the last step; held_out: of the last held-out evaluation, {} without one
    log: a record per step or evaluation, as in metrics.jsonl

    Example:
        trained = evo.train("vpo", "maze:train", steps=20, output="runs/vpo")
        trained.frame().plot("step", "fitness")
        evo.evaluate("maze:test", policy=trained)
    """

    policy: str
    method: str
    outcome: str
    reason: str
    steps: int
    answers: int
    tokens: int
    seconds: float
    figures: Mapping[str, float] = field(repr=False)
    held_out: Mapping[str, float] = field(repr=False)
    log: list[dict[str, Any]] = field(repr=False)

    def __fspath__(self) -> str:
        return self.policy

    def frame(self) -> DataFrame:
        """A row for every step and held-out evaluation (`kind` distinguishes them), with its metrics. Raises
        ImportError without pandas."""
        return data_frame(self.log, ("kind", "step"))

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.outcome}{why}: {self.policy}, {self.steps} steps of {self.method} in {clock(self.seconds)}"


def train(
    method: str | None = None,
    address: ProblemSources | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    config: str | None = None,
    progress: bool = True,
    **settings: Any,
) -> TrainResult:
    """Fine-tune a policy by reward, as `evo train` does, and write it to `output` as a Hugging Face checkpoint.

    Args:
        method: vpo, grpo, max_at_k, pass_at_k, vpo_pass_at_k, maxrl, gdpo, random_weighting, multi_rlvr; and
            improve, from stored searches.
        address: the problems to learn from, as for `evo.run`; none with `from_traces`.
        output: the directory of the run and of the trained policy; a run with the same settings continues there.
        resume: a directory to continue, instead of method, address and output; only budgets may change.
        config: a YAML file with the same settings, which arguments override.
        progress: False shows nothing.
        settings: every other flag of `evo train` by its name: policy (where training starts: "embedded:base", the
            default, a hub id or directory), steps (of the optimiser, 200), prompts (groups per step), rollouts,
            answers, weights, lr, kl, seed, evaluate (held-out addresses), evaluate_every, max_seconds, max_answers,
            from_traces (names of runs), db ...

    Returns:
        Where the policy is and how the training went.

    Raises:
        ValueError: an argument is unknown or cannot be used; one line, the same as the command line's.
        Interrupted: a KeyboardInterrupt, after the current step is done and saved; `evo.train(resume=DIR)` continues.
        TrainingStopped: training had to end; the message says why (TrainingDiverged: the weights are no longer finite
            numbers).

    Example:
        evo.train("vpo", "maze:train", policy="embedded:base", steps=300, evaluate="maze:test", output="runs/vpo")
    """
    addresses, objects = split_problems(address)
    named = plain_settings(settings)
    command = call_text("train", method, address, output=output, resume=resume, config=config, **settings)
    driver = python_driver(progress, after="{0}: interrupted; evo.train(resume={0!r}) continues it")
    with given(objects):
        training, stop = run_training(
            driver, command, named, method, addresses, plain_value(output), plain_value(resume), plain_value(config)
        )  # fmt: skip
    summary = summarize_training(training, stop)
    figures = {name: summary[name] for name in TrainResult.__dataclass_fields__ if name in summary}
    return TrainResult(**figures, log=list(training.directory.lines))


def run_training(
    driver: Driver, command: str, named: dict[str, Any], method: str | None, problems: Sequence[str],
    output: str | None, resume: str | None, config: str | None,
) -> tuple[Training, Stop]:  # fmt: skip
    """Train to the end or to an interrupt, from the start or from where the directory is. Returns the training, and why
    it ended. Raises BadInput before torch is loaded."""
    if resume is not None:
        check_resumable(named, "METHOD, PROBLEMSET, -o and --config", any((method, problems, output, config)))
    run = None if resume is not None else plan_training(config, named, method, problems)
    if run is not None:
        check_new_training(run, output)
        named = run.model_dump(exclude_unset=True)
    folder = str(resume if run is None else output)
    begun = TrainingDirectory(folder).settings()["config"] if run is None or is_training(folder) else {}
    reports = parse(TrainRun, {**begun, **named}, folder).report_to
    check_trackers(reports)
    key = begun.get("tracked_as") or (tracker_name(os.path.normpath(folder)) if reports else "")
    if reports:
        named = {**named, "tracked_as": key}
        run = run and run.model_copy(update={"tracked_as": key})
    driver.track(reports, key)

    async def work(driver: Driver) -> tuple[Training, Stop]:
        from evo.training.setup import begin_training, resume_training  # torch

        training = resume_training(folder, named) if run is None else begin_training(run, folder, command)
        await asyncio.sleep(0)  # a Ctrl-C while it loaded ends it here
        driver.name = folder
        title = f"{training.run.method} from {training.about['start']} on {training.source.words}"
        before = training.on_log

        def log(line: dict[str, Any]) -> None:
            if line["kind"] == "evaluation":
                driver.display.note(f"step {line['step']}  held out: {format_metrics(line)}")
            else:
                detail = format_metrics(line)
                driver.display.update(Steps(title, line["step"], training.status.steps, "steps", detail))
            if before is not None:
                before(line)
            if driver.tracking is not None:
                driver.tracking.log(line)

        training.on_log = log
        driver.display.update(Steps(title, training.status.step, training.status.steps, "steps"))
        return training, await training.run_to_end(driver.interruptible)

    return driver.drive(work)
