"""A training run: steps up to a number or a budget, with held-out metrics and checkpoints in between.

    batch -> trainer -> policy.version -> metrics

The kinds differ in where a step's batch comes from: evo.training.on_policy samples it from the policy,
evo.training.stored reads groups that searches have stored, evo.training.improve writes lessons from them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.evaluation.evaluate import evaluate
from evo.search.stop import FINISHED, Stop, StopReason
from evo.training.run_directory import TrainingRecord
from problems.contract import Problem
from problems.scoring import Scorer
from vpo.policies.contract import LocalPolicy
from vpo.training import TrainStats
from vpo.training.checkpoint import save_checkpoint
from vpo.training.trainer import PolicyTrainer

if TYPE_CHECKING:
    from accelerate import Accelerator

Batch = TypeVar("Batch")
EVALUATION_STREAM_SEED = 1_000_003
"""Held-out answers are drawn with a separate seed, the same in every evaluation of every run."""
SHOWN = ("best@", "solve@", "diversity", "written", "valid", "distinct_vectors")


@dataclass
class TrainingStatus:
    """The counts of a training run, for display, log and card. Seconds leave out evaluation and saving.

    left_out: groups without a lesson, by the reason; counted by runs that know more than the step's metrics
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


@dataclass(kw_only=True, eq=False)
class Training(ABC, Generic[Batch]):
    """A training run with its open resources, which `close` releases.

    run: its settings; steps: the number of steps at most
    record: its directory; about: what the directory tells of how it began
    held_out: problems to evaluate on
    accelerator: if several processes train together
    on_log: called with one plain record for each step, and one for each evaluation
    opened: databases that are read meanwhile
    """

    run: TrainRun
    steps: int
    policy: LocalPolicy
    trainer: PolicyTrainer
    scorer: Scorer
    record: TrainingRecord
    about: Mapping[str, Any]
    held_out: Sequence[Problem] = ()
    accelerator: Accelerator | None = None
    on_log: Callable[[dict[str, Any]], None] | None = None
    opened: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        self.status = TrainingStatus(self.steps)

    @property
    def rank(self) -> int:
        """The index of this process among those that train together."""
        return 0 if self.accelerator is None else self.accelerator.process_index

    @property
    def processes(self) -> int:
        return 1 if self.accelerator is None else self.accelerator.num_processes

    @property
    def main(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    @property
    @abstractmethod
    def source(self) -> str:
        """The source of the batches, in a few words."""

    @property
    @abstractmethod
    def example(self) -> str:
        """The address of one of the problems."""

    def notes(self) -> list[str]:
        """Paragraphs for the card, in addition to the metrics."""
        return []

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
            if ended or status.step % run.save_every == 0:
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
        """One step of the trainer; updates the status and writes the metrics."""
        status, started = self.status, time.perf_counter()
        batch = await self._gather()
        gathered = time.perf_counter()
        stats = await self._learn(batch)
        if stats.policy_version:
            self.policy.version = stats.policy_version
        ended = time.perf_counter()
        status.seconds += ended - started
        status.training_seconds += ended - gathered
        status.answers += self._next_answers()
        status.tokens += int(stats.metrics["tokens"])
        status.step += 1
        status.metrics = {**stats.metrics, **self._account(batch, stats)}
        self._log("step", status.metrics)

    @abstractmethod
    async def _gather(self) -> Batch:
        """The batch of the next step; adds its seconds to the status."""

    @abstractmethod
    async def _learn(self, batch: Batch) -> TrainStats:
        """The trainer's step."""

    @abstractmethod
    def _account(self, batch: Batch, stats: TrainStats) -> dict[str, float]:
        """Count a learned batch. Returns its metrics, which are added to the trainer's."""

    @abstractmethod
    def _next_answers(self) -> int:
        """How many answers the next step takes from the budget."""

    def _spent(self) -> Stop | None:
        """The reason to stop now, None to continue. Processes stop together, as soon as one must."""
        stop = self._own_limit()
        if self.processes > 1 and self.trainer.all_reduce_sum(float(stop is not None)):
            return stop or Stop(StopReason.BUDGET, "another process stopped")
        return stop

    def _own_limit(self) -> Stop | None:
        run, status = self.run, self.status
        if status.stopping:
            return status.stopping
        if run.max_seconds is not None and status.seconds >= run.max_seconds:
            return Stop(StopReason.BUDGET, f"budget of {run.max_seconds:g} seconds")
        if run.max_answers is not None and status.answers + self._next_answers() > run.max_answers:
            return Stop(StopReason.BUDGET, f"budget of {run.max_answers:,} answers")
        return None

    async def _evaluate(self) -> None:
        """Metrics on the held-out problems. Raises BadInput if one cannot be judged."""
        if not self.held_out:
            return
        if self.main:
            evaluation = await evaluate(
                self.policy,
                self.held_out,
                answers=self.run.chain,
                total=self.run.evaluate_answers,
                seeds=[EVALUATION_STREAM_SEED],
                scorer=self.scorer,
            )
            for name, fault in evaluation.faults.items():
                raise BadInput(f"held-out {name} cannot be judged: {fault}")
            means = {name: evaluation.mean(name) for name in evaluation.metrics if name.startswith(SHOWN)}
            self.status.evaluation = {name: value for name, value in means.items() if value is not None}
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()
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
        if self.main:
            self.record.log(line)
            if self.on_log is not None:
                self.on_log(line)

    def save(self) -> None:
        """Save a checkpoint; of the older ones, only the newest are kept (`keep`)."""
        state = self.state()
        curricula = [state.pop("curriculum")]
        if self.accelerator is not None:
            from accelerate.utils import gather_object

            curricula = gather_object(curricula)
        if self.main:
            kept = {"loop": state, "curricula": curricula, "trainer": self.trainer.state()}
            self._write(self.record.place(self.status.step), kept)
            self.record.prune(self.run.keep)

    def finish(self) -> None:
        """Write the final policy with its card to the top of the directory."""
        if self.main:
            self._write(self.record.folder)
        if self.accelerator is not None:
            self.accelerator.end_training()

    def _write(self, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        card = self.record.card(self.run, self.about, self.source, self.notes())
        trained = {"method": self.run.method, "answers": self.run.chain, "start": self.about["start"]}
        save_checkpoint(self.trainer.model, self.policy.tokenizer, folder, card, state, trained=trained)

    def state(self) -> dict[str, Any]:
        """Its state as plain values, without trainer and weights. `curriculum` differs between processes."""
        kept = {name: value for name, value in vars(self.status).items() if name not in ("stopping", "steps")}
        return {"status": kept, "curriculum": None}

    def restore(self, state: dict[str, Any]) -> None:
        for name, value in state["status"].items():
            setattr(self.status, "metrics" if name == "figures" else name, value)  # its name in older checkpoints
