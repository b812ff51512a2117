"""The trainer beside a search: groups that were committed come in, and now and then the policy has a new version.

    committed groups -> enough? -> learner.step -> record in the database -> sync -> proof -> the policy's new version

The learner has weights of its own; the policy's are replaced, between two of its calls, by the learner's. Steps take
their place in the order of the batches, so one seed gives one run. A step's groups are a range of sequences that its
record names: what a kill took of the learner is made again from its last checkpoint and the stored groups.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from evo.batching import Batcher
from evo.promotion import Promotion
from evo.search_training import SearchTraining
from evo.status import SearchStatus
from islands.queries import TrainingStepRecord, training_steps
from islands.store import Store
from islands.traces import read_groups
from problems.records import Rollout, ScoredGroup
from vpo.policies.contract import Updatable
from vpo.training.trainer import PolicyTrainer

PROBE_ROLLOUTS = 4


class SyncFailed(Exception):
    """The policy that samples does not have the weights that were given to it. The message has both figures."""


class Learner(Protocol):
    """What learns from a search's groups as they are committed. A frozen search has one that does nothing."""

    def attach(self, batcher: Batcher) -> None:
        """The queue in which training takes its turns with sampling."""
        ...

    def learn(self, groups: Sequence[ScoredGroup]) -> None:
        """Committed groups, in order."""
        ...

    async def close(self) -> None: ...


class Frozen:
    """The policy stays as it is."""

    def attach(self, batcher: Batcher) -> None: ...

    def learn(self, groups: Sequence[ScoredGroup]) -> None: ...

    async def close(self) -> None: ...


class CoLocated:
    """Trains the policy that searches, on what it searched.

    policy: whose weights are replaced
    trainer: holds the learner's weights; the policy's model is not it
    solved_at: problem id -> the sequence that solved it, None while unsolved
    folder: of checkpoints
    """

    def __init__(
        self,
        *,
        store: Store,
        run_id: int,
        policy: Any,
        trainer: PolicyTrainer,
        settings: SearchTraining,
        solved_at: Callable[[int], int | None],
        status: SearchStatus,
        folder: Path,
        card: str,
        answers: int,
        promotion: Promotion | None = None,
    ) -> None:
        if not isinstance(policy, Updatable):
            raise TypeError("a policy that is trained must be able to take new weights")
        self.store, self.run_id, self.policy, self.trainer = store, run_id, policy, trainer
        self.settings, self.status, self.folder = settings, status, folder
        self.promotion = promotion
        self._solved_at, self._card, self._answers = solved_at, card, answers
        self._batcher: Batcher | None = None
        self._waiting: list[ScoredGroup] = []
        self._planned = 0
        self._probe: tuple[list[Rollout], float] | None = None

    # -- the search's side

    def attach(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self.learn(())

    def learn(self, groups: Sequence[ScoredGroup]) -> None:
        self._waiting += [group for group in groups if self._counts(group)]
        while len(self._waiting) >= self.settings.every and self._more():
            batch, self._waiting = self._waiting[: self.settings.every], self._waiting[self.settings.every :]
            self._planned += 1
            assert self._batcher is not None
            self._batcher.between(lambda batch=batch: self._train(batch))

    def _counts(self, group: ScoredGroup) -> bool:
        if not self.settings.unsolved:
            return True
        solved = self._solved_at(group.problem)
        return solved is None or solved >= group.sequence

    def _more(self) -> bool:
        return self.settings.steps is None or self._planned < self.settings.steps

    async def close(self) -> None:
        """A last checkpoint of where the learner has come to."""
        if self.trainer.steps:
            await self.policy.between(self._save)

    # -- one step

    async def _train(self, groups: Sequence[ScoredGroup]) -> None:
        started = time.perf_counter()
        stats = await self.policy.between(lambda: self.trainer.step(groups))
        trained = time.perf_counter()
        figures = {**stats.figures, "upto": groups[-1].sequence, "train_seconds": trained - started}
        self._probe = self._probe or _probe_of(groups)
        if stats.policy_version:
            figures |= await self._synced(stats.policy_version)
        self.status.training_seconds += trained - started
        self.status.syncing_seconds += time.perf_counter() - trained
        self.status.training = {**figures, "step": float(self.step_number + 1)}
        checkpoint = None
        if (self.step_number + 1) % self.settings.save_every == 0:
            checkpoint = await self.policy.between(self._save)
        self._record(figures, stats.policy_version or None, checkpoint)

    @property
    def step_number(self) -> int:
        """Steps on record."""
        return self._recorded

    _recorded = 0

    async def _synced(self, version: str) -> dict[str, float]:
        """Give the policy the learner's weights, or what the promotion says instead."""
        if self.promotion is not None:
            decided = await self.promotion.decide(self.trainer, self.policy, self._recorded + 1)
            if not decided.sync:
                return decided.figures
            await self.sync(version)
            return decided.figures
        return {"probe": await self.sync(version)}

    async def sync(self, version: str) -> float:
        """Replace the policy's weights and prove it; the probe's mean difference in nats. Raises SyncFailed."""
        weights = await self.policy.between(self.trainer.weights)
        await self.policy.update(weights, version)
        if self._probe is None:
            return 0.0
        rollouts, temperature = self._probe
        theirs = await self.policy.logprobs(rollouts)
        ours = await self.policy.between(lambda: self.trainer.logprobs(rollouts, temperature))
        gap = float(np.mean(np.abs(np.concatenate(ours) - np.concatenate(theirs))))
        if not gap <= self.settings.tolerance:
            raise SyncFailed(
                f"after the sync to {version} the policy that samples differs from the trainer by {gap:.3g} nats a token "
                f"(tolerance {self.settings.tolerance:g}); nothing was sampled from it. evo resume goes on from the last "
                "checkpoint"
            )
        return gap

    def _record(self, figures: dict[str, float], version: str | None, checkpoint: str | None) -> None:
        with self.store.begin() as transaction:
            self.store.add_training_step(
                self.run_id,
                self._recorded,
                {name: float(value) for name, value in figures.items()},
                transaction,
                policy_version=version,
                checkpoint=checkpoint,
            )
        self._recorded += 1

    def _save(self) -> str:
        from vpo.training.checkpoint import save_checkpoint

        place = self.folder / f"step-{self._recorded + 1 if self._planned > self._recorded else self._recorded}"
        save_checkpoint(
            self.trainer.model,
            self.trainer.tokenizer,
            place,
            self._card,
            {"trainer": self.trainer.state()},
            trained={"method": self.settings.method, "answers": self._answers, "start": self.trainer.versions[0]},
        )
        return str(place)

    # -- resume

    async def restore(self) -> None:
        """Bring the learner to the last recorded step, and the policy to the version that it made."""
        records = list(training_steps(self.store, self.run_id))
        first = _newest_checkpoint(records, self.trainer)
        upto = -1
        for number, record in enumerate(records):
            groups = self._groups(upto, int(record.stats["upto"]))
            upto = int(record.stats["upto"])
            self._probe = self._probe or _probe_of(groups)
            if number >= first:
                stats = await self.policy.between(lambda groups=groups: self.trainer.step(groups))
                if (stats.policy_version or None) != record.policy_version:
                    raise SyncFailed(f"step {number} made {stats.policy_version}, its record says {record.policy_version}")
        self._recorded = self._planned = len(records)
        self._waiting = [*self._groups(upto, None)]
        if self.trainer.steps:
            await self.sync(self.trainer.version)

    def _groups(self, after: int, upto: int | None) -> list[ScoredGroup]:
        found = (group for _, group in read_groups(self.store, self.run_id, after=after, upto=upto))
        return [group for group in found if self._counts(group)]


def _newest_checkpoint(records: Iterable[TrainingStepRecord], trainer: PolicyTrainer) -> int:
    """Load the newest checkpoint that is there; how many steps it has behind it."""
    from vpo.training.checkpoint import load_state

    for number, record in reversed(list(enumerate(records, start=1))):
        if record.checkpoint is not None and (Path(record.checkpoint) / "model.safetensors").is_file():
            trainer.load(record.checkpoint)
            trainer.restore(load_state(record.checkpoint)["trainer"])
            return number
    return 0


def _probe_of(groups: Sequence[ScoredGroup]) -> tuple[list[Rollout], float] | None:
    rollouts = [one.rollout for group in groups for one in group.rollouts if len(one.rollout.token_ids)]
    return (rollouts[:PROBE_ROLLOUTS], groups[0].temperature) if rollouts else None


def learner_of(policy: Any, settings: SearchTraining, *, seed: int, device: str | None, folder: Path) -> PolicyTrainer:
    """A trainer over a copy of the policy's weights."""
    model = copy.deepcopy(policy.model)
    config = settings.trainer_config(seed=seed, device=device, most_behind=settings.most_behind)
    return PolicyTrainer(model, policy.tokenizer, config, version=policy.version, folder=folder)
