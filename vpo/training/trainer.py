"""The trainer: groups in, one optimiser step out.

Comments number the phases of a step:
1. Stale groups are left out.
2. Groups become examples with advantages (examples).
3. Micro-batches go through the model (forward) and the loss (loss); their gradients add up and are clipped.
4. A loss that is not finite stops everything, with the batch saved, before the weights are touched.
5. AdamW moves the weights.
6. The new version gets its name.

The model is the caller's: a policy that samples from the same object samples with the new weights after `step`.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import torch

from problems.types import Rollout, ScoredGroup
from vpo.policies.checkpoint import Adapted, without_bars
from vpo.training import TrainingDiverged, TrainStats
from vpo.training.checkpoint import save_diverged
from vpo.training.config import TrainConfig
from vpo.training.examples import (
    Example,
    ExampleGroup,
    FindGoal,
    counted_fitness,
    example_groups,
)
from vpo.training.forward import Packed, can_share, completion_logprobs, pack_groups
from vpo.training.loss import LOSS_METRICS, policy_loss
from vpo.training.model import (
    adapter_weights,
    has_adapter,
    make_optimizer,
    make_trainable,
    merge_adapter,
    release_free_memory,
    set_adapter_weights,
    use_attention,
    uses_bf16_autocast,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

GRAD_CLIP = 1.0
"""The largest norm of the gradient, as in VPO (arXiv 2605.22817)."""
LEAST_BUDGET = 256
"""Tokens of a micro-batch to which one that does not fit into memory is halved at most."""


class PolicyTrainer:
    """Trains a causal language model on prompt groups as they are scored.

    model: as it is to be trained; moved nowhere, cast to float32 unless it gets an adapter
    tokenizer: for saving
    version: name of the untrained weights; step n makes `version+method.n`
    reference: frozen model for the KL term; None copies the model now where the term is on (or leaves the adapter out)
    find_goal: the goal of a group's answers, if solving is rewarded
    folder: where a diverged batch is saved
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        config: TrainConfig,
        *,
        version: str = "policy",
        reference: PreTrainedModel | None = None,
        find_goal: FindGoal = lambda group: None,
        folder: str | Path = ".",
    ) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.find_goal = find_goal
        self.folder = Path(folder)
        self.steps, self._budget = 0, config.token_budget
        self.versions = [version]
        self.model = model = make_trainable(model, config)
        # on a CPU a shared prompt takes a half to a quarter of the time, on a GPU about half (bench/results/gpu.md)
        self.shares = can_share(model)
        self._reference = reference
        if config.has_reference and reference is None and not has_adapter(model):
            self._reference = copy.deepcopy(model)  # no gradient: autocast keeps no cast of a weight that needs none
        self._device = model.device
        self._mixed = uses_bf16_autocast(config.precision, self._device.type)
        self._trained = [p for p in model.parameters() if p.requires_grad]
        self.optimizer, self.schedule = make_optimizer(self._trained, config, self._device.type)

    @property
    def version(self) -> str:
        return self.versions[-1]

    def step(self, groups: Sequence[ScoredGroup]) -> TrainStats:
        """Learn from these groups. Without one that teaches anything the weights and the version stay as they are.

        Raises TrainingDiverged where loss or gradient is not finite; the weights are then those before the update.
        ValueError if a group was sampled at a top-p below 1: the log-probabilities that it records are of its nucleus.
        """
        if cut := [group.top_p for group in groups if group.top_p < 1]:
            raise ValueError(
                f"a group was sampled at top-p {min(cut):g}; training needs samples of the whole distribution"
            )
        # 1. leave out groups that too old a version wrote
        fresh = [group for group in groups if not self._stale(group)]
        # 2. groups become examples with advantages; groups without spread teach nothing
        examples = example_groups(fresh, self.config, self.find_goal)
        return self._learn(examples, group_metrics(groups, fresh, examples))

    def step_on_examples(self, examples: Sequence[ExampleGroup]) -> TrainStats:
        """One step of maximum likelihood on examples that no policy sampled, their advantages being their weights.
        Raises as `step`."""
        return self._learn(list(examples), {"tokens": float(sum(group.tokens for group in examples))})

    def _learn(self, examples: list[ExampleGroup], metrics: dict[str, float]) -> TrainStats:
        if not any(group.tokens for group in examples):
            return TrainStats(metrics=metrics)
        values = self._update(examples)
        if self._device.type == "cpu":
            release_free_memory()
        # 6. name the new version
        self.steps += 1
        self.versions.append(f"{self.versions[0]}+{self.config.method}.{self.steps}")
        return TrainStats(self.version, {**metrics, **values, "learning_rate": float(self.schedule.get_last_lr()[0])})

    def _stale(self, group: ScoredGroup) -> bool:
        if self.config.max_staleness is None:
            return False
        if group.policy_version not in self.versions:
            return True
        # a version that the learner went back to stands in the list twice
        return self.versions[::-1].index(group.policy_version) > self.config.max_staleness

    def _update(self, groups: list[ExampleGroup]) -> dict[str, float]:
        # 3. forward, loss and backward of each micro-batch
        while (sums := self._accumulate(groups)) is None:
            self._budget //= 2
            warnings.warn(f"out of memory: micro-batches of {self._budget:,} tokens from here on", stacklevel=2)
        norm = float(torch.nn.utils.clip_grad_norm_(self._trained, GRAD_CLIP))
        values = {name: float(value) for name, value in sums.items()} | {"grad_norm": norm}
        # 4. stop before a step that is not finite
        if not all(np.isfinite(value) for value in values.values()):
            raise TrainingDiverged(save_diverged(self.folder, self.steps + 1, groups, values, self.config))
        # 5. move the weights
        self.optimizer.step()
        self.schedule.step()
        return values

    def _accumulate(self, groups: list[ExampleGroup]) -> dict[str, Any] | None:
        """The gradients of these groups, and the sums of their loss and metrics; None where smaller micro-batches may
        fit into memory."""
        self.optimizer.zero_grad(set_to_none=True)
        weight = 1.0 / sum(group.tokens for group in groups)  # every token weighs alike (DAPO, and VPO's own setting)
        sums: dict[str, Any] = dict.fromkeys(("loss", *LOSS_METRICS, *(["kl"] if self.config.kl > 0 else [])), 0.0)
        try:
            # autocast forgets its casts where its outermost region ends: so each weight is cast once an update
            with torch.autocast(self._device.type, torch.bfloat16, enabled=False):
                for batch in micro_batches(groups, self._budget, shared=self.shares):
                    total_loss, metrics = self._loss(batch, weight)
                    total_loss.backward()
                    for name, value in {"loss": total_loss.detach(), **metrics}.items():
                        sums[name] = sums[name] + value
        except torch.OutOfMemoryError:
            if self._budget < 2 * LEAST_BUDGET:
                raise
            return None
        return sums

    def _reference_logprobs(self, packed: Packed) -> torch.Tensor:
        """(N,) of the policy where training started, without gradient."""
        with torch.no_grad(), contextlib.ExitStack() as stack:
            if self._reference is None:  # the model without its adapter
                stack.enter_context(cast(Adapted, self.model).disable_adapter())
            return self._forward(self._reference or self.model, packed)

    def _loss(self, groups: list[ExampleGroup], weight: float) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        examples = [example for group in groups for example in group.examples]
        device = self._device
        packed = pack_groups(groups, device)
        # examples that nothing sampled are never mixed with rollouts
        behaviour = [example.behaviour for example in examples if example.behaviour is not None]
        reference = self._reference_logprobs(packed) if self.config.has_reference else None
        return policy_loss(
            self._forward(self.model, packed),
            torch.from_numpy(np.concatenate(behaviour)).to(device) if behaviour else None,
            torch.from_numpy(np.concatenate([example.advantages for example in examples])).to(device),
            weight,
            self.config,
            reference=reference,
        )

    def _forward(self, model: PreTrainedModel, packed: Packed) -> torch.Tensor:
        """(N,) log-probabilities of the micro-batch's completion tokens, row by row."""
        autocast = torch.autocast(self._device.type, torch.bfloat16, enabled=self._mixed)
        with use_attention(model, packed), autocast:
            return completion_logprobs(model, packed)[packed.mask]

    def weights(self) -> dict[str, torch.Tensor]:
        """The model's weights now, an adapter merged into them: what a policy that samples is given."""
        model = merge_adapter(self.model) if has_adapter(self.model) else self.model
        return {name: tensor.detach() for name, tensor in model.state_dict().items()}

    def load(self, folder: str | Path) -> None:
        """Take the weights of a checkpoint; an adapter's come with the state that `restore` takes."""
        if has_adapter(self.model):
            return
        with without_bars():
            saved = type(self.model).from_pretrained(folder, dtype=torch.float32).state_dict()
        self.model.load_state_dict(saved)

    def logprobs(self, rollouts: Sequence[Rollout], temperature: float) -> list[npt.NDArray[np.float32]]:
        """(T,) nats for each rollout's tokens under the weights as they are now, by the forward pass that trains."""
        found = []
        for rollout in rollouts:
            silent = np.zeros(len(rollout.token_ids), dtype=np.float32)
            group = ExampleGroup(rollout.prompt_ids, (Example(rollout.token_ids, silent, silent),), temperature)
            with torch.no_grad():
                found.append(self._forward(self.model, pack_groups([group], self._device)).float().cpu().numpy())
        return found

    def state(self) -> dict[str, Any]:
        """Everything but a fully trained model's weights that an exact resume needs; `restore` takes it back."""
        return {
            "steps": self.steps,
            "versions": list(self.versions),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "adapter": adapter_weights(self.model) if has_adapter(self.model) else {},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`. A fully trained model must hold the weights saved with it; an adapter's are in it."""
        set_adapter_weights(self.model, state["adapter"])
        self.steps, self.versions = state["steps"], list(state["versions"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])


# Cutting a batch into micro-batches by a budget of tokens. Their gradients add up, so that cut changes nothing but
# memory.


def micro_batches(groups: Sequence[ExampleGroup], budget: int, *, shared: bool = True) -> list[list[ExampleGroup]]:
    """Groups in batches of at most `budget` padded tokens. A group that is larger alone is split over its rollouts,
    each part with the prompt; a single rollout that is larger is a batch by itself.

    shared: the prompt is run once a group; else once a rollout, and counts as often
    Groups of like length go together, so that little of a batch is padding.
    """
    parts = [part for group in groups for part in _split(group, budget, shared)]
    parts.sort(key=lambda part: (_longest(part), len(part.prompt_ids)))
    batches: list[list[ExampleGroup]] = []
    for part in parts:
        if batches and _cost([*batches[-1], part], shared) <= budget:
            batches[-1].append(part)
        else:
            batches.append([part])
    return batches


def _split(group: ExampleGroup, budget: int, shared: bool) -> list[ExampleGroup]:
    prompt, longest = len(group.prompt_ids), _longest(group)
    rows = max(1, (budget - prompt) // longest if shared else budget // (prompt + longest))
    return [replace(group, examples=group.examples[i : i + rows]) for i in range(0, len(group.examples), rows)]


def _longest(group: ExampleGroup) -> int:
    return max(len(example.token_ids) for example in group.examples)


def _cost(groups: Sequence[ExampleGroup], shared: bool) -> int:
    """Padded tokens that the model computes."""
    rows = sum(len(group.examples) for group in groups)
    prompts = len(groups) if shared else rows
    return prompts * max(len(group.prompt_ids) for group in groups) + rows * max(map(_longest, groups))


def group_metrics(
    groups: Sequence[ScoredGroup],
    fresh: Sequence[ScoredGroup],
    examples: Sequence[ExampleGroup],
) -> dict[str, float]:
    """Mean fitness of an answer and of a rollout's best (counted_fitness), the sampled tokens and their mean negative
    log-likelihood (nats), the tokens of a rollout and the share that the limit cut, and how many groups were left out.

    groups: all of the step; fresh: those that are not stale; examples: those that teach something
    """
    rollouts = [rollout for group in fresh for rollout in group.rollouts]
    fitness = [row for group in fresh for row in counted_fitness(group).tolist()]
    asked = sum(max(group.answers, 1) * len(group.rollouts) for group in fresh)
    tokens = sum(len(rollout.rollout.token_ids) for rollout in rollouts)
    count = max(len(rollouts), 1)
    return {
        "fitness": sum(map(sum, fitness)) / max(asked, 1),
        "best_of_rollout": sum(max(row, default=0.0) for row in fitness) / count,
        "behaviour_nll": -sum(float(rollout.rollout.logprobs.sum()) for rollout in rollouts) / max(tokens, 1),
        "tokens": float(tokens),
        "length": tokens / count,
        "cut": sum(rollout.rollout.finish == "length" for rollout in rollouts) / count,
        "groups": float(len(groups)),
        "stale": float(len(groups) - len(fresh)),
        "spreadless": float(len(fresh) - len(examples)),
    }
