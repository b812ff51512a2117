"""The trainer during a search: groups that were committed come in, and now and then the policy has a new version.

    committed groups -> enough? -> learner.step -> record in the database -> sync -> proof -> the policy's new version

The learner has separate weights; the policy's are replaced, between two of its calls, by the learner's. Steps take
their place in the order of the batches, so one seed gives one run. A step's groups are a range of sequences that its
record names: what a kill took of the learner is made again from its last checkpoint and the stored groups.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evo.config.run import RunConfig, SearchTraining
from evo.errors import BadInput, check_whole_sampling, not_trainable
from evo.search.core import SearchCore
from evo.search.loop import Learner, SyncFailed
from evo.search.sampler import Sampler
from evo.search.status import SearchStatus
from islands.engine import database_file
from islands.errors import DatabaseUnavailable, RunBusy
from islands.groups import read_groups
from islands.store import Store
from islands.training import TrainingStepRecord, training_steps
from islands.types import RunRecord
from problems import temp_dirs
from problems.scoring import Scorer
from problems.types import Rollout, ScoredGroup
from vpo.advantage import METHODS
from vpo.policies.contract import Policy, TrainablePolicy
from vpo.training.config import IMPROVE, TrainConfig, default_rate

if TYPE_CHECKING:
    from vpo.training.trainer import PolicyTrainer

_PROBE_ROLLOUTS = 4
_PROBE_TOKENS = 1024
"""The most rollouts, and tokens with their prompts, of the probe. Policy and trainer both read it at each sync; at
least one rollout is read."""


@dataclass(kw_only=True, eq=False)
class CoLocated(Learner):
    """Trains the policy that searches, on its own groups.

    policy: the one whose weights are replaced
    trainer: holds the learner's weights, which are another model than the policy's
    folder: of checkpoints; card: their description; answers: m of the search
    """

    store: Store
    run_id: int
    policy: TrainablePolicy
    trainer: PolicyTrainer
    settings: SearchTraining
    status: SearchStatus
    folder: Path
    card: str
    answers: int
    learns = True

    def __post_init__(self) -> None:
        self._sampler: Sampler | None = None
        self._waiting: list[ScoredGroup] = []
        self._planned = self._recorded = self._saved = 0  # steps that have their groups; recorded steps; the last saved
        self._probe: tuple[list[Rollout], float] | None = None

    def attach(self, sampler: Sampler) -> None:
        self._sampler, sampler.whole_calls = sampler, True
        self.learn(())  # a kill may have happened after the groups of a step and before the step

    def learn(self, groups: Sequence[ScoredGroup]) -> None:
        self._waiting += groups
        every, most = self.settings.every, self.settings.steps
        while len(self._waiting) >= every and (most is None or self._planned < most):
            batch, self._waiting = self._waiting[:every], self._waiting[every:]
            self._planned += 1
            assert self._sampler is not None
            self._sampler.between(partial(self._train, batch))
        if most is not None and self._planned >= most:
            self._waiting.clear()

    async def close(self) -> None:
        """A last checkpoint of the learner. Raises TrainingStopped if it holds another policy."""
        if self._recorded > self._saved:
            place = await self.policy.between(partial(self._save, check=True))
            with suppress(DatabaseUnavailable, RunBusy):  # the checkpoint is written even if its record is not
                self.store.set_checkpoint(self.run_id, self._recorded, place)

    async def _train(self, groups: Sequence[ScoredGroup]) -> None:
        """One step: learn, let the new version search, record the step."""
        started = time.perf_counter()
        stats = await self.policy.between(partial(self.trainer.step, groups))
        trained = time.perf_counter()
        self._probe = self._probe or _probe_of(groups)
        metrics = dict(stats.metrics)
        if stats.policy_version and self.trainer.version != self.policy.version:
            metrics["probe"] = await self.sync(self.trainer.version)
        synced = time.perf_counter()
        self.status.training_seconds += trained - started
        self.status.syncing_seconds += synced - trained
        metrics |= {"upto": groups[-1].sequence, "train_seconds": trained - started, "sync_seconds": synced - trained}
        self._recorded += 1
        due = self._recorded % self.settings.save_every == 0
        checkpoint = await self.policy.between(self._save) if due else None
        with self.store.begin() as transaction:
            self.store.add_training_step(
                self.run_id,
                self._recorded,
                {name: float(value) for name, value in metrics.items()},
                transaction,
                policy_version=stats.policy_version or None,
                checkpoint=checkpoint,
            )
        self.status.training = {"step": float(self._recorded), **metrics}
        if checkpoint is not None:
            await asyncio.to_thread(self._prune)

    async def sync(self, version: str) -> float:
        """Replace the policy's weights and check them. Returns the probe's mean difference in nats. Raises
        SyncFailed."""
        await self._update_to(version)
        if self._probe is None:
            return 0.0
        rollouts, temperature = self._probe
        theirs = np.concatenate(await self.policy.logprobs(rollouts))
        ours = np.concatenate(await self.policy.between(partial(self.trainer.logprobs, rollouts, temperature)))
        gap = float(np.mean(np.abs(ours - theirs)))
        if not gap <= self.settings.tolerance:
            raise SyncFailed(
                f"after the sync to {version} the policy that samples differs from the trainer by {gap:.3g} nats a "
                f"token (tolerance {self.settings.tolerance:g}); nothing was sampled from it"
            )
        return gap

    async def _update_to(self, version: str) -> None:
        """Give the policy the learner's current weights: all of them, or only the adapter if it takes adapters."""
        if self.policy.traits.weights != "adapter":
            await self.policy.update(await self.policy.between(self.trainer.weights), version)
            return
        from vpo.training.model import save_adapter

        folder = Path(temp_dirs.make("adapter"))
        try:
            await self.policy.between(partial(save_adapter, self.trainer.model, folder))
            await self.policy.update(folder, version)
        finally:
            temp_dirs.release(str(folder))

    def _prune(self) -> None:
        """Delete checkpoints that are no longer needed; the remaining ones are enough for any resume."""
        saved = [record for record in training_steps(self.store, self.run_id) if record.checkpoint is not None]
        for record in saved[: -self.settings.keep]:
            shutil.rmtree(str(record.checkpoint), ignore_errors=True)

    def _save(self, check: bool = False) -> str:
        from vpo.training.checkpoint import save_checkpoint

        place = self.folder / f"step-{self._recorded}"
        save_checkpoint(
            self.trainer.model,
            self.trainer.tokenizer,
            place,
            self.card,
            {"trainer": self.trainer.state()},
            trained={"method": self.settings.method, "answers": self.answers, "start": self.trainer.versions[0]},
            check=check,
        )
        self._saved = self._recorded
        return str(place)

    async def restore(self) -> None:
        """Bring the learner to the last recorded step and the policy to the version that searched then, from the last
        checkpoint that is there and the groups of the steps after it; without one all steps are made again."""
        records = list(training_steps(self.store, self.run_id))
        start = await self.policy.between(partial(_load_newest, records, self.trainer))
        upto = -1
        for number, record in enumerate(records, start=1):
            groups = self._groups(upto, int(record.stats["upto"]))
            upto = int(record.stats["upto"])
            self._probe = self._probe or _probe_of(groups)
            if number > start:
                stats = await self.policy.between(partial(self.trainer.step, groups))
                if (stats.policy_version or None) != record.policy_version:
                    made = stats.policy_version or "nothing"
                    raise SyncFailed(f"training step {number}, made again, gives {made}, not {record.policy_version}")
        if self.trainer.version != self.policy.version:
            await self.sync(self.trainer.version)
        self._planned = self._recorded = self._saved = len(records)
        self._waiting = self._groups(upto, None)

    def _groups(self, after: int, upto: int | None) -> list[ScoredGroup]:
        return [group for _, group in read_groups(self.store, self.run_id, after=after, upto=upto)]


def _load_newest(records: Sequence[TrainingStepRecord], trainer: PolicyTrainer) -> int:
    """Take the newest checkpoint that is there; the steps that are behind it."""
    from vpo.training.checkpoint import load_state

    for number, record in reversed(list(enumerate(records, start=1))):
        if record.checkpoint is not None and (Path(record.checkpoint) / "model.safetensors").is_file():
            trainer.load(record.checkpoint)
            trainer.restore(load_state(record.checkpoint)["trainer"])
            return number
    return 0


def _probe_of(groups: Sequence[ScoredGroup]) -> tuple[list[Rollout], float] | None:
    rollouts = [one.rollout for group in groups for one in group.rollouts if len(one.rollout.token_ids)]
    read = np.cumsum([len(one.prompt_ids) + len(one.token_ids) for one in rollouts])
    count = min(_PROBE_ROLLOUTS, max(1, int(np.searchsorted(read, _PROBE_TOKENS, side="right"))))
    return (rollouts[:count], groups[0].temperature) if rollouts else None


def check_trainable(config: RunConfig, settings: SearchTraining, policies: Sequence[Policy]) -> None:
    """Raise BadInput if this search cannot train its policy by the method of `settings`."""
    if len(policies) > 1:
        raise BadInput("--train takes one policy; a search with several operators keeps them as they are")
    policy, name = policies[0], settings.method
    if name == IMPROVE:
        raise BadInput(f"{name} learns from stored searches: evo train {name} --from-traces RUN -o DIR")
    if policy.traits.remote:
        _check_server(config, settings, policy)
    if not isinstance(policy, TrainablePolicy) or not policy.traits.logprobs:
        raise not_trainable(config.policy)
    if config.answers > 1 and not METHODS[name].chain:
        raise BadInput(f"{name} learns from single answers: --answers must be 1, not {config.answers}")
    if config.rollouts < 2:
        raise BadInput(f"{name} compares the rollouts of an iteration: --rollouts must be 2 or more")
    if policy.temperature == 0:
        raise BadInput("at temperature 0 all rollouts of an iteration are alike, and nothing can be learned from them")
    check_whole_sampling(policy.top_p)


def _check_server(config: RunConfig, settings: SearchTraining, policy: Policy) -> None:
    """Raise BadInput if a policy on a server cannot be given new weights, or not be proved to have taken them."""
    if policy.traits.weights == "none":
        later = "evo train METHOD --from-traces RUN can train a copy of it here later"
        if not policy.traits.logprobs:
            later = "its traces cannot train a copy, because its server gives no token ids and log-probabilities"
        raise BadInput(
            f"policy {config.policy} has its weights on a server: it can search and compare, not train, unless they "
            f"are named and adapters can be left there (vllm:ID?lora_rank=16, vllm:ID@URL?adapters=DIR); {later}"
        )
    if policy.traits.weights == "adapter" and not settings.lora_rank:
        raise BadInput(
            f"policy {config.policy} takes only LoRA adapters: set lora_rank under train in --config, such as 16, and "
            "its server's --max-lora-rank to no less"
        )
    if policy.temperature != 1.0:
        raise BadInput(
            f"policy {config.policy} can be trained only at temperature 1, at which a server reports the "
            "log-probabilities that prove new weights"
        )
    if not policy.traits.logprobs:
        raise BadInput(f"policy {config.policy} gives no token ids and log-probabilities, which training learns from")


def open_colocated(core: SearchCore, run: RunRecord, scorer: Scorer) -> CoLocated:
    """A trainer of a copy of the weights of the search's policy, for a search that check_trainable has accepted. Its
    default learning rate is the paper's, or that of the embedded policies."""
    from vpo.training.trainer import PolicyTrainer  # imported here: torch takes seconds, and only training needs it

    store, config, policy, settings = core.store, core.config, core.operators.all[0].policy, core.config.train
    assert isinstance(policy, TrainablePolicy) and settings is not None  # check_trainable
    if settings.lr is None:
        settings = settings.model_copy(update={"lr": default_rate(policy.prompt_format)})
    folder, name = Path("evo-policies").absolute(), run.name.replace("/", "-")
    if (file := database_file(store.url)) is not None:
        folder = file.with_name(f"{file.stem}-policies")
    folder /= name
    trainer = PolicyTrainer(
        policy.learner(),
        policy.tokenizer,
        TrainConfig.of(settings, seed=config.seed, max_staleness=settings.max_staleness),
        version=policy.version,
        folder=folder,
    )
    card = (
        f"# {settings.method} from {policy.version}\n\nTrained during the search {run.name}, on its own iterations, "
        f"by evo, commit {run.commit}, seed {run.seed}:\n\n    {run.command}\n"
    )
    return CoLocated(
        store=store, run_id=run.id, policy=policy, trainer=trainer, settings=settings, status=core.status,
        folder=folder, card=card, answers=config.answers,
    )  # fmt: skip
