"""A training run: steps up to a number or a budget, with held-out metrics and checkpoints in between.

    GroupSource.next -> trainer.step -> policy.version -> metrics

A `GroupSource` gives what a step learns from: evo.training.on_policy samples it from the policy, evo.training.stored
reads groups that searches have stored, evo.training.improve writes examples from them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.evaluation.evaluate import sample_seeds
from evo.search.stop import FINISHED, Stop, StopReason
from evo.training.directory import TrainingDirectory
from problems.contract import Problem
from problems.scoring import Scorer
from problems.types import ScoredGroup
from vpo.policies.contract import LocalPolicy
from vpo.training import TrainStats
from vpo.training.checkpoint import save_checkpoint
from vpo.training.config import Estimation
from vpo.training.examples import ExampleGroup
from vpo.training.trainer import PolicyTrainer

_EVALUATION_STREAM_SEED = 1_000_003
"""Held-out answers are drawn with a separate seed, the same in every evaluation of every run."""
_SHOWN = ("best@", "solve@", "diversity", "written", "valid", "distinct_vectors")

_SAVE_SECONDS, _SAVE_SHARE = 30.0, 0.05
"""A checkpoint that no step is due is written after this many seconds, if that takes at most this share of the time."""


@dataclass
class TrainingStatus:
    """The counts of a training run, for display, log and card. Seconds leave out evaluation and saving.

    groups: that taught something; left_out: the others of the source, by the reason
    """

    steps: int
    step: int = 0
    seconds: float = 0.0
    sampling_seconds: float = 0.0
    scoring_seconds: float = 0.0
    reading_seconds: float = 0.0
    training_seconds: float = 0.0
    answers: int = 0
    tokens: int = 0
    groups: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    evaluation: dict[str, float] = field(default_factory=dict)
    stopping: Stop | None = None

    def shares(self) -> dict[str, float]:
        """The shares of the time, by activity; activities without time are left out."""
        parts = ("sampling", "scoring", "reading", "training")
        seconds = {name: getattr(self, f"{name}_seconds") for name in parts}
        return {name: spent / max(self.seconds, 1e-9) for name, spent in seconds.items() if spent}

    @property
    def reasons(self) -> str:
        """Why groups were left out, with counts."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items() if count) or "none"


@dataclass
class TrainingBatch:
    """What a step learns from: groups, or examples that no policy sampled. left_out: what cannot be learned from, by
    the reason"""

    groups: Sequence[ScoredGroup] = ()
    examples: Sequence[ExampleGroup] = ()
    left_out: Counter[str] = field(default_factory=Counter)


class GroupSource(ABC):
    """Where the lessons of a training come from. Every draw comes from (seed, step), so that a run that is resumed from
    a checkpoint continues as if it had not stopped.

    steps: that it gives at most
    words: a name for it; example: the address of one of its problems
    left_out: groups that no step gives, by the reason
    """

    steps: int
    words: str
    example: str
    left_out: Mapping[str, int] = {}

    @abstractmethod
    def answers(self, step: int) -> int:
        """How many answers a step takes from the budget."""

    @abstractmethod
    async def next(self, status: TrainingStatus) -> TrainingBatch:
        """What the next step learns from; adds the seconds to the status."""

    def learned(self, batch: TrainingBatch, stats: TrainStats, status: TrainingStatus) -> dict[str, float]:
        """Take note of a step. Returns its metrics beyond the trainer's. May end the training by the status."""
        return {}

    def check(self, estimation: Estimation) -> None:  # noqa: B027
        """Raise BadInput if nothing in it teaches."""

    def notes(self, status: TrainingStatus) -> list[str]:
        """Paragraphs for the card, in addition to the metrics."""
        return []

    def state(self) -> dict[str, Any]:
        """Plain values that `restore` takes back, of what does not follow from the step."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Continue from `state`."""


@dataclass(kw_only=True, eq=False)
class Training:
    """A training run with its open resources, which `close` releases.

    run: its settings; about: what its directory tells of how it began
    held_out: problems to evaluate on
    on_log: called with one plain record for each step, and one for each evaluation
    opened: databases that are read meanwhile
    """

    run: TrainRun
    source: GroupSource
    policy: LocalPolicy
    trainer: PolicyTrainer
    scorer: Scorer
    directory: TrainingDirectory
    about: Mapping[str, Any]
    held_out: Sequence[Problem] = ()
    on_log: Callable[[dict[str, Any]], None] | None = None
    opened: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        self.status = TrainingStatus(self.source.steps, left_out=dict(self.source.left_out))
        self._save_at = 0.0  # the first step is saved: from then on the directory is a policy

    async def run_to_end(
        self, interruptible: Callable[[Callable[[Stop], None]], contextlib.AbstractContextManager[None]]
    ) -> Stop:
        """Train to the end or to an interrupt, write the final policy at the end, and close; why it ended."""
        try:
            with interruptible(self.stop):
                stop = await self.train()
            if stop.reason is not StopReason.INTERRUPTED:
                self.finish()
            return stop
        finally:
            await self.close()

    async def train(self) -> Stop:
        """Train to the end; returns why it ended."""
        run, status = self.run, self.status
        if status.step == 0:
            await self._evaluate()
        stop = self._spent()
        while status.step < status.steps and stop is None:
            await self._step()
            # a step from stored searches never waits, and signals are handled while this waits
            await asyncio.sleep(0.001)
            stop = self._spent()
            ended = status.step == status.steps or stop is not None
            if status.step % run.evaluate_every == 0 or (ended and not status.stopping):
                await self._evaluate()
            if ended or status.step % run.save_every == 0 or time.monotonic() >= self._save_at:
                self.save()
        return stop if stop is not None and status.step < status.steps else FINISHED

    def stop(self, stop: Stop) -> None:
        """End after the current step."""
        self.status.stopping = self.status.stopping or stop

    async def close(self) -> None:
        await self.policy.close()
        self.scorer.close()
        self.opened.close()

    async def _step(self) -> None:
        status, trainer, started = self.status, self.trainer, time.perf_counter()
        batch = await self.source.next(status)
        gathered = time.perf_counter()
        stats = trainer.step_on_examples(batch.examples) if batch.examples else trainer.step(batch.groups)
        if stats.policy_version:
            self.policy.version = stats.policy_version
        metrics = self.source.learned(batch, stats, status)
        ended = time.perf_counter()
        status.seconds += ended - started
        status.training_seconds += ended - gathered
        status.answers += self.source.answers(status.step)
        status.tokens += int(stats.metrics["tokens"])
        status.groups += len(batch.groups) + len(batch.examples) - int(stats.metrics.get("spreadless", 0))
        for reason, count in batch.left_out.items():
            status.left_out[reason] = status.left_out.get(reason, 0) + count
        status.step += 1
        status.metrics = {**stats.metrics, **metrics}
        self._log("step", status.metrics)

    def _spent(self) -> Stop | None:
        """The reason to stop now, None to continue."""
        run, status, stop = self.run, self.status, self.status.stopping
        if stop is None and run.max_seconds is not None and status.seconds >= run.max_seconds:
            stop = Stop(StopReason.BUDGET, f"budget of {run.max_seconds:g} seconds")
        taken = status.answers + self.source.answers(status.step) if status.step < status.steps else 0
        if stop is None and run.max_answers is not None and taken > run.max_answers:
            stop = Stop(StopReason.BUDGET, f"budget of {run.max_answers:,} answers")
        return stop

    async def _evaluate(self) -> None:
        """Metrics on the held-out problems. Raises BadInput if one cannot be judged."""
        if not self.held_out:
            return
        evaluation = await sample_seeds(
            self.policy,
            self.held_out,
            answers=self.run.chain,
            total=self.run.evaluate_answers,
            seeds=[_EVALUATION_STREAM_SEED],
            scorer=self.scorer,
        )
        for name, fault in evaluation.faults.items():
            raise BadInput(f"held-out {name} cannot be judged: {fault}")
        means = {name: evaluation.mean(name) for name in evaluation.metrics if name.startswith(_SHOWN)}
        self.status.evaluation = {name: value for name, value in means.items() if value is not None}
        self._log("evaluation", self.status.evaluation)

    def _log(self, kind: str, metrics: Mapping[str, float]) -> None:
        status = self.status
        line = {
            "kind": kind,
            "step": status.step,
            "seconds": round(status.seconds, 3),
            "answers": status.answers,
            "total_tokens": status.tokens,
            **{name: round(value, 6) for name, value in metrics.items()},
        }
        self.directory.log(line)
        if self.on_log is not None:
            self.on_log(line)

    def save(self) -> None:
        """Save a checkpoint; of the older ones, only the newest are kept (`keep`)."""
        began = time.monotonic()
        status = {name: value for name, value in vars(self.status).items() if name not in ("stopping", "steps")}
        state = {"loop": {"status": status}, "source": self.source.state(), "trainer": self.trainer.state()}
        self._write(self.directory.place(self.status.step), state)
        self.directory.prune(self.run.keep)
        ended = time.monotonic()
        self._save_at = ended + max(_SAVE_SECONDS, (ended - began) / _SAVE_SHARE)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint's state."""
        for name, value in state["loop"]["status"].items():
            setattr(self.status, name, value)
        self.source.restore(state["source"])
        self.trainer.restore(state["trainer"])
        self.policy.version = self.trainer.version

    def finish(self) -> None:
        """Write the final policy with its card to the top of the directory. Raises TrainingStopped, with nothing
        written, if it is not the one that was trained."""
        self._write(self.directory.folder, check=True)

    def _write(self, folder: Path, state: Mapping[str, Any] | None = None, *, check: bool = False) -> None:
        notes, source = self.source.notes(self.status), self.source
        card = self.directory.card(self.run, self.about, source.words, notes)
        trained = {"method": self.run.method, "answers": self.run.chain, "start": self.about["start"]}
        save_checkpoint(self.trainer.model, self.policy.tokenizer, folder, card, state, trained=trained, check=check)
