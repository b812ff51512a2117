"""Training from traces: each step learns from prompt groups that searches have stored; nothing is sampled.

    places in the traces -> groups, whole -> trainer.step -> policy.version

What wrote a group is not what learns from it. Three things hold the difference in check: PPO's clip around the policy
that wrote it, whose log-probabilities are stored, so that all steps together go no further than one would; importance
weights against the same, truncated at a cap; and the choice of traces (evo.training.traces), which may leave
old versions out. The order is drawn from (seed, pass), so a run that is stopped and resumed from a checkpoint continues
as if it had not stopped.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from evo.config.traces import TRUNCATE
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.training.loop import Evaluate, StoredTraining
from evo.training.traces import Traces, lineage
from problems.address import name_few
from problems.types import ScoredGroup
from vpo.advantage import METHODS
from vpo.policies.contract import LocalPolicy
from vpo.training import TrainStats
from vpo.training.examples import group_advantages
from vpo.training.trainer import PolicyTrainer

SILENT = "without log-probabilities"
FOREIGN = "of another tokenizer"
TOO_LONG = "longer than the policy's context"
SPREADLESS = "without spread"


class OfflineTraining(StoredTraining[tuple[list[ScoredGroup], Counter[str]]]):
    """Runs a TrainRun to its end, to a budget, or until every chosen group was read in every pass. A batch holds the
    usable groups of a step, and the reasons why the others are unusable."""

    def __init__(
        self,
        run: TrainRun,
        traces: Traces,
        policy: LocalPolicy,
        trainer: PolicyTrainer,
        *,
        log: Callable[[dict[str, Any]], None],
        evaluate: Evaluate | None = None,
    ):
        super().__init__(run, traces, plan_steps(run, traces), policy, trainer, log=log, evaluate=evaluate)
        self.traces = traces
        self.status.left_out = dict(traces.left_out)
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None

    @property
    def source(self) -> str:
        return f"{len(self.traces):,} prompt groups of {self.traces.run_names}"

    def notes(self) -> list[str]:
        """Paragraphs on the groups that were used and on those that were not."""
        status, traces, cap = self.status, self.traces, self.run_config.truncate
        corrected = f"PPO's clip around it, importance weights of at most {cap:g}"
        lines = [
            f"- {source.name}: {source.stored:,} groups stored, {source.chosen:,} chosen" for source in traces.runs
        ]
        versions = name_few(traces.versions, 3, kind=" versions")
        return [
            "## Traces",
            "Nothing was sampled: the groups are those that searches stored, each as it was, corrected for the policy "
            f"that wrote them ({corrected}).",
            "\n".join(lines),
            f"Written by {versions}. Learned from {status.groups:,} groups ({self.run_config.passes} "
            f"passes at most); left out: {self.reasons}.",
        ]

    def places(self, step: int) -> npt.NDArray[np.int64]:
        """Indices of the chosen groups of a step, at most `prompts`. A step belongs to one pass only."""
        run = self.run_config
        number, within = divmod(step, steps_a_pass(run, self.traces))
        if self._order is None or self._order[0] != number:
            self._order = number, np.random.default_rng([run.seed, number]).permutation(len(self.traces))
        return self._order[1][within * run.prompts : (within + 1) * run.prompts]

    def _next_answers(self) -> int:
        return int(self.traces.chosen.asked[self.places(self.status.step)].sum())

    def _read(self) -> tuple[list[ScoredGroup], Counter[str]]:
        return self.read(self.places(self.status.step))

    def read(self, places: npt.NDArray[np.int64]) -> tuple[list[ScoredGroup], Counter[str]]:
        """The usable groups with these indices, and the reasons why the others are unusable."""
        usable, lacking = [], Counter[str]()
        for group in self.traces.read(places):
            if reason := unusable(group, self.policy):
                lacking[reason] += 1
            else:
                usable.append(group)
        return usable, lacking

    async def _learn(self, batch: tuple[list[ScoredGroup], Counter[str]]) -> TrainStats:
        return self.trainer.step(batch[0])

    def _account(self, batch: tuple[list[ScoredGroup], Counter[str]], stats: TrainStats) -> dict[str, float]:
        groups, lacking = batch
        lacking[SPREADLESS] += int(stats.metrics["spreadless"])
        self._leave_out(lacking)
        self.status.groups += len(groups) - int(stats.metrics["spreadless"])
        return {"left_out": float(lacking.total())}

    def check_teaches(self) -> None:
        """Raise BadInput if the method can learn from no chosen group. Groups are read until one is usable."""
        lacking: Counter[str] = Counter()
        for step in range(steps_a_pass(self.run_config, self.traces)):
            groups, unfit = self.read(self.places(step))
            lacking += unfit
            for group in groups:
                if np.any(group_advantages(group, self.trainer.config)):
                    return
                lacking[SPREADLESS] += 1
        method = self.run_config.method
        if lacking.keys() == {SPREADLESS}:
            raise BadInput(
                f"none of the {len(self.traces):,} chosen groups teaches {method} anything: in each of them all "
                "rollouts are worth the same; choose other traces, or search with more rollouts or a higher temperature"
            )
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in lacking.most_common())
        raise BadInput(f"none of the {len(self.traces):,} chosen groups teaches {method} anything: {reasons}")


def steps_a_pass(run: TrainRun, traces: Traces) -> int:
    return -(-len(traces) // run.prompts)


def plan_steps(run: TrainRun, traces: Traces) -> int:
    """The number of steps: `steps`, or as many as the traces give in all passes."""
    return min(run.steps, run.passes * steps_a_pass(run, traces))


def resolve_settings(run: TrainRun, traces: Traces) -> TrainRun:
    """The run with the settings that the traces decide: m, and the default cap of the importance weights."""
    if traces.answers == 1 and METHODS[run.method].chain:
        warnings.warn(
            f"{run.method} judges a rollout's answers as a set, and these rollouts have one answer each: what it can "
            "teach is little more than a single-answer method does",
            stacklevel=2,
        )
    return run.model_copy(update={"answers": traces.answers, "truncate": run.truncate or TRUNCATE})


def keep_fitting(traces: Traces, policy: LocalPolicy) -> None:
    """Leave out the groups that policies of another tokenizer wrote, and those that came without log-probabilities, as
    far as a look at one group of each lineage of each run tells. BadInput if none is left."""
    chosen = traces.chosen
    roots = {version: lineage(version)[0] for version in traces.versions}
    kinds = sorted(set(roots.values()))
    kind = np.array([kinds.index(roots[version]) for version in traces.versions])[chosen.version]
    verdicts: dict[str, npt.NDArray[np.bool_]] = {}
    details: dict[str, str] = {}
    for pair in sorted(set(zip(chosen.run.tolist(), kind.tolist(), strict=True))):
        members = (chosen.run == pair[0]) & (kind == pair[1])
        (group,) = traces.read(np.flatnonzero(members)[:1])
        reason, detail = (SILENT, "") if _silent(group) else misfit(group, policy)
        if reason:
            verdicts[reason] = verdicts.get(reason, np.zeros(len(chosen), bool)) | members
            details.setdefault(reason, f"{kinds[pair[1]]} wrote them{detail}")
    out = np.zeros(len(chosen), bool)
    for members in verdicts.values():
        out |= members
    if out.all():
        reason = next(iter(verdicts))
        if len(verdicts) > 1:
            told = ", ".join(f"{int(members.sum()):,} {why}" for why, members in verdicts.items())
            raise BadInput(f"{policy.version} can learn from none of the {len(chosen):,} chosen groups: {told}")
        if reason == SILENT:
            raise BadInput(
                f"the stored rollouts carry no log-probabilities ({details[reason]}), so how far the policy is from "
                "what wrote them cannot be told, and nothing can be learned from them"
            )
        raise BadInput(
            f"{policy.version} cannot learn from traces of another tokenizer: {details[reason]}; train the policy that "
            "searched, or one of its family"
        )
    remaining = np.ones(len(chosen), bool)
    for reason, members in verdicts.items():
        gone = members[remaining]
        traces.keep(~gone, reason)
        remaining &= ~members


def misfit(group: ScoredGroup, policy: LocalPolicy) -> tuple[str, str]:
    """(FOREIGN, the evidence) if the group was written with another tokenizer than the policy's, else ("", "").

    A chat template may put the date into a prompt, so a prompt with other tokens still fits if it can be decoded.
    """
    prompt = group.rollouts[0].rollout.prompt_ids
    highest, size = _highest(group), _vocabulary(policy)
    if highest >= size:
        return FOREIGN, f" with token ids up to {highest:,}, and the policy knows {size:,}"
    if np.array_equal(policy.encode(group.prompt), prompt):
        return "", ""
    if policy.prompt_format == "chat" and group.prompt.user.strip() in policy.tokenizer.decode(prompt.tolist()):
        return "", ""
    return FOREIGN, ", and the policy encodes the stored prompt otherwise"


def unusable(group: ScoredGroup, policy: LocalPolicy) -> str:
    """Why the policy cannot learn from this one group, "" if it can. A group is taken whole or not at all: without
    some of its rollouts the others would be compared with too few."""
    if _silent(group):
        return SILENT
    if _highest(group) >= _vocabulary(policy):
        return FOREIGN
    longest = max(len(one.rollout.token_ids) for one in group.rollouts)
    return TOO_LONG if len(group.rollouts[0].rollout.prompt_ids) + longest > policy.context else ""


def _silent(group: ScoredGroup) -> bool:
    return any(
        not len(one.rollout.token_ids)
        or len(one.rollout.logprobs) != len(one.rollout.token_ids)
        or not np.isfinite(one.rollout.logprobs).all()
        for one in group.rollouts
    )


def _highest(group: ScoredGroup) -> int:
    arrays = [group.rollouts[0].rollout.prompt_ids, *(one.rollout.token_ids for one in group.rollouts)]
    return max((int(ids.max()) for ids in arrays if len(ids)), default=-1)


def _vocabulary(policy: LocalPolicy) -> int:
    embeddings = policy.model.get_input_embeddings()
    assert isinstance(embeddings.weight, torch.Tensor)
    return int(embeddings.weight.shape[0])
