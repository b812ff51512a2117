"""`evo.train`: fine-tune a policy by reward."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evo.api.arguments import Problems, call_text, check_keywords, plain, split_problems
from evo.api.background import Background, ProgressLine
from evo.api.drive import Driver
from evo.api.results import data_frame
from evo.config.train import TrainRun, check_resumable, plan_training
from evo.errors import BadInput
from evo.runs.preflight import check_new_training
from evo.search.status import clock
from evo.training.directory import TrainingDirectory
from evo.training.display import format_metrics, summarize
from problems.contract import Problem
from problems.registry import given

if TYPE_CHECKING:
    from pandas import DataFrame

    from evo.training.loop import Training


@dataclass(frozen=True)
class TrainResult:
    """A training run that has ended.

    policy: the directory of the trained policy, a Hugging Face checkpoint with its card: an address for `policy=`,
        `arms=` and `evo.load_policy`, as is this object itself (it is a path)
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

    @classmethod
    def of(cls, summary: Mapping[str, Any], lines: Iterable[dict[str, Any]]) -> TrainResult:
        """From a training's summary (evo.training.display) and its log."""
        return cls(**{name: summary[name] for name in cls.__dataclass_fields__ if name in summary}, log=list(lines))

    def __fspath__(self) -> str:
        return self.policy

    def frame(self) -> DataFrame:
        """A row for every step and held-out evaluation (`kind` distinguishes them), with its metrics. Raises
        ImportError without pandas."""
        return data_frame(self.log, ("kind", "step"))

    def __str__(self) -> str:
        """The result in one line."""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.outcome}{why}: {self.policy}, {self.steps} steps of {self.method} in {clock(self.seconds)}"


def train(
    method: str | None = None,
    address: Problems | None = None,
    *,
    policy: str | os.PathLike[str] | None = None,
    steps: int | None = None,
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
        policy: where training starts: "embedded:base" (the default), a hub id or directory.
        steps: optimiser steps, 200 by default.
        output: the directory of the run and of the trained policy; a run with the same settings continues there.
        resume: a directory to continue, instead of method, address and output; only budgets may change.
        config: a YAML file with the same settings, which arguments override.
        progress: False shows nothing.
        settings: every other flag of `evo train` by its name: prompts (groups per step), rollouts, answers, lr, kl,
            seed, evaluate (held-out addresses), evaluate_every, max_seconds, max_answers, from_traces (names of runs),
            db ...

    Returns:
        Where the policy is and how the training went.

    Raises:
        ValueError: an argument cannot be used; one line, the same as the command line's.
        TypeError: an unknown argument.
        Interrupted: a KeyboardInterrupt, after the current step is done and saved; `evo.train(resume=DIR)` continues.
        TrainingDiverged: the weights are no longer finite numbers.

    Example:
        evo.train("vpo", "maze:train", policy="embedded:base", steps=300, evaluate="maze:test", output="runs/vpo")
    """
    check_keywords(train, settings, TrainRun)
    addresses, objects = split_problems(address)
    named = {name: _listed(name, plain(value)) for name, value in settings.items() if value is not None}
    named |= {name: plain(value) for name, value in {"policy": policy, "steps": steps}.items() if value is not None}
    named_arguments = {
        "policy": policy,
        "steps": steps,
        "output": output,
        "resume": resume,
        "config": config,
    }
    command = call_text("train", method, address, **named_arguments, **settings)
    if resume is not None:
        fixed = "method, address, output and config"
        check_resumable(named, fixed, any(argument is not None for argument in (method, address, output, config)))
    elif output is None:
        raise BadInput("Missing output directory: pass output=DIR")
    run = None if resume is not None else plan_training(plain(config), named, method, addresses)
    folder = os.fspath(resume if resume is not None else output)  # type: ignore[arg-type]
    with given(objects):
        if run is None:
            TrainingDirectory(folder).settings()
        else:
            check_new_training(run, folder)

    def prepare() -> Training:
        from evo.training import setup  # torch

        return setup.resume(folder, named) if run is None else setup.begin(run, folder, command)

    return _train(prepare, objects, folder, progress)


def _train(prepare: Callable[[], Training], objects: list[Problem], folder: str, progress: bool) -> TrainResult:
    async def work(_: Driver) -> TrainResult:
        training = prepare()
        driver.name, driver.progress = folder, lambda: _progress(training)
        await asyncio.sleep(0)  # a Ctrl-C while it loaded ends it here
        stop = await training.run_to_end(driver.interruptible)
        return TrainResult.of(summarize(training, stop), training.directory.lines)

    driver = Background(progress, "{0}: interrupted; evo.train(resume={0!r}) continues it")
    with given(objects):
        return driver.drive(work)


def _progress(training: Training) -> ProgressLine:
    status, run = training.status, training.run
    figures = dict(status.metrics)  # a copy: the other thread continues
    detail = format_metrics(figures, training.source.shown)
    return ProgressLine(f"{run.method} from {training.about['start']}", status.step, status.steps, "steps", detail)


def _listed(name: str, value: Any) -> Any:
    """A single value for a setting that takes several, as in evaluate="maze:test"."""
    several = "list[" in str(TrainRun.model_fields[name].annotation)
    return [value] if several and isinstance(value, str) else value
