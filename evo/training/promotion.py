"""Whether a newly trained version may search: a paired check on held-out problems, and the way back where it does harm.

Between checks the search goes on with the version that was promoted last, while the learner goes on learning. At a
check both answer the same held-out problems in equal numbers. Harm is shown where the interval of the paired
difference in best fitness, over problems, lies below 0; the learner then goes back to the promoted weights and the
optimiser's state of that moment. Anything else promotes: a check this small cannot show that a version is better.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evo.evaluation.evaluate import evaluate
from evo.stats import difference
from problems.contract import Problem
from problems.scoring import Scorer
from vpo.policies.contract import Policy, TrainablePolicy

if TYPE_CHECKING:
    from vpo.training.trainer import PolicyTrainer

CHECK_SEED = 1_000_003
"""Of the checks' samples: not a seed that a search of this size uses."""


@dataclass(frozen=True)
class Decision:
    """sync: the policy is to sample from the learner's weights now. metrics: what goes on record with the step."""

    sync: bool
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class WeightSnapshot:
    """A learner as it was: to come back to it."""

    weights: dict[str, Any]
    state: dict[str, Any]

    @classmethod
    def of(cls, trainer: PolicyTrainer) -> WeightSnapshot:
        weights = {name: tensor.detach().clone() for name, tensor in trainer.model.state_dict().items()}
        return cls(weights, copy.deepcopy(trainer.state()))

    def restore(self, trainer: PolicyTrainer) -> None:
        """Weights, optimiser and schedule come back. Steps count on, since no name is given twice, and the version that
        came back is the newest again, so that what it wrote is not behind."""
        trainer.model.load_state_dict(self.weights)
        versions = [*trainer.versions, self.state["versions"][-1]]
        trainer.restore({**self.state, "steps": trainer.steps, "versions": versions})


class Promotion:
    """Checks every `every` steps.

    candidate: a policy that samples from the learner's own weights
    problems: held out; answers, total: m, and answers asked of each problem
    """

    def __init__(
        self,
        candidate: Policy,
        problems: Sequence[Problem],
        scorer: Scorer,
        *,
        every: int,
        answers: int,
        total: int,
    ) -> None:
        self.candidate, self.problems, self.scorer = candidate, list(problems), scorer
        self.every, self.answers, self.total = every, answers, total
        self._good: WeightSnapshot | None = None

    def start(self, trainer: PolicyTrainer) -> None:
        """The learner as it is has been promoted."""
        self._good = WeightSnapshot.of(trainer)

    async def decide(self, trainer: PolicyTrainer, policy: TrainablePolicy, step: int) -> Decision:
        """After the step-th step, from 1: promote, go back, or go on learning."""
        if step % self.every:
            return Decision(False)
        theirs, ours = await self._bests(policy), await self._bests(self.candidate)
        gap = difference(ours, theirs)
        harmful = gap.interval.high < 0
        metrics = {
            "check": gap.interval.mean,
            # one problem has no interval, and never calls a version harmful
            **({"check_low": gap.interval.low, "check_high": gap.interval.high} if gap.interval.known else {}),
            "check_p": gap.p,
            "promoted": float(not harmful),
        }
        self.conclude(trainer, harmful)
        return Decision(not harmful, metrics)

    def conclude(self, trainer: PolicyTrainer, harmful: bool) -> None:
        """Remember the learner, or bring back the one that was promoted last."""
        if not harmful:
            self.start(trainer)
        elif self._good is not None:
            self._good.restore(trainer)

    async def _bests(self, policy: Policy) -> np.ndarray:
        """(P,) best fitness among `total` answers."""
        found = await evaluate(
            policy, self.problems, answers=self.answers, total=self.total, seeds=[CHECK_SEED], scorer=self.scorer
        )
        return np.array([problem.fitness.max() for problem in found.problems])
