"""The training loop: steps up to a number or a budget, with held-out metrics and checkpoints in between.

    batch -> trainer -> policy.version -> metrics

The loops differ in where a step's batch comes from: evo.training.on_policy samples it from the policy,
evo.training.stored reads groups that searches have stored, evo.training.improve writes lessons from them.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from evo.config.train import TrainRun
from evo.search.stop import FINISHED, Stop, StopReason
from vpo.policies.contract import LocalPolicy, Policy
from vpo.training import TrainStats
from vpo.training.trainer import PolicyTrainer

Batch = TypeVar("Batch")
Evaluate = Callable[[Policy], Awaitable[dict[str, float]]]


@dataclass
class TrainingStatus:
    """The counts of a training run, for display, log and card. Seconds leave out evaluation and saving.

    left_out: groups without a lesson, by the reason; counted by loops that know more than the step's metrics
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


class SteppedTraining(ABC, Generic[Batch]):
    """A training run.

    steps: the number of steps at most
    log: called with one plain record for each step, and one for each evaluation
    evaluate: gives held-out metrics of the current policy
    save: writes a checkpoint of the current state; none is written before it is set
    rank, processes: the index of this process, and the number of those that train together
    """

    rank = 0
    processes = 1

    def __init__(
        self,
        run: TrainRun,
        steps: int,
        policy: LocalPolicy,
        trainer: PolicyTrainer,
        *,
        log: Callable[[dict[str, Any]], None],
        evaluate: Evaluate | None = None,
    ):
        self.run_config, self.policy, self.trainer = run, policy, trainer
        self.log, self.evaluate = log, evaluate
        self.save: Callable[[], None] | None = None
        self.status = TrainingStatus(steps)

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

    def close(self) -> None:
        """Close the resources that the loop has opened."""
        return

    async def run(self) -> Stop:
        """Train to the end; returns why it ended."""
        run, status = self.run_config, self.status
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
            if self.save is not None and (ended or status.step % run.save_every == 0):
                self.save()
        return stop if stop is not None and status.step < status.steps else FINISHED

    def stop(self, stop: Stop) -> None:
        """End after the current step."""
        self.status.stopping = self.status.stopping or stop

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
        self._write("step", status.metrics)

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
        run, status = self.run_config, self.status
        if status.stopping:
            return status.stopping
        if run.max_seconds is not None and status.seconds >= run.max_seconds:
            return Stop(StopReason.BUDGET, f"budget of {run.max_seconds:g} seconds")
        if run.max_answers is not None and status.answers + self._next_answers() > run.max_answers:
            return Stop(StopReason.BUDGET, f"budget of {run.max_answers:,} answers")
        return None

    async def _evaluate(self) -> None:
        if self.evaluate is not None:
            self.status.evaluation = await self.evaluate(self.policy)
            self._write("evaluation", self.status.evaluation)

    def _write(self, kind: str, metrics: dict[str, float]) -> None:
        status = self.status
        self.log(
            {
                "kind": kind,
                "step": status.step,
                "seconds": round(status.seconds, 3),
                "answers": status.answers,
                "total_tokens": status.tokens,
                **{name: round(value, 6) for name, value in metrics.items()},
            }
        )

    def state(self) -> dict[str, Any]:
        """The state of the loop as plain values, without trainer and weights. `curriculum` differs between
        processes."""
        kept = {name: value for name, value in vars(self.status).items() if name not in ("stopping", "steps")}
        return {"status": kept, "curriculum": None}

    def restore(self, state: dict[str, Any]) -> None:
        for name, value in state["status"].items():
            setattr(self.status, "metrics" if name == "figures" else name, value)  # its name in older checkpoints
