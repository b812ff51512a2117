"""Several policies as the mutation operators of one search, in turn or by weights, and their shares of fresh prompts.

Every operator gives the same number of answers per group, in chains of the operator's length. It may have another
temperature and another share of fresh prompts.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evo.config.run import PromptConfig
from islands.types import ParentKind
from vpo.policies.contract import Policy

_STREAM = 7
"""Sets the draws of an operator apart from those of the population."""
_BACKOFF = (15.0, 600.0)
"""Seconds for which an operator that does not respond is left alone: doubling from the first to the second."""
COUNTED_GROUPS = 16
"""Groups of a problem and operator that count for its share of fresh prompts, of each kind of parent: its last ones."""


@dataclass(frozen=True)
class Operator:
    """A policy with its sampling settings: G rollouts of m answers, and how its prompts are built.

    weight: its part of the iterations, relative to the other operators' (1 each); if no operator has one, they take
        turns
    """

    address: str
    policy: Policy
    rollouts: int
    answers: int
    prompt: PromptConfig
    weight: float | None = None


class Operators:
    """The operators of a search and the choice between them: fixed chances if one has a weight, as in OpenEvolve's
    ensembles, else in turn. One that does not respond is left alone for a while.

    chances: (count,) of operators with weights, else None
    resting: until when each that does not respond is left alone, and its next pause, in seconds
    """

    def __init__(self, operators: Sequence[Operator]) -> None:
        self.all, count = list(operators), len(operators)
        self.resting: dict[int, tuple[float, float]] = {}
        weights = [operator.weight for operator in self.all]
        self.chances: npt.NDArray[np.float64] | None = None
        if count > 1 and any(weight is not None for weight in weights):
            chances = np.array([1.0 if weight is None else weight for weight in weights])
            self.chances = chances / chances.sum()

    def choose(self, seed: int, problem: int, iteration: int) -> int:
        """The operator of an iteration, or the next one that responds; itself if none does. problem: its index in the
        run"""
        chosen = (iteration + problem) % len(self.all)
        if self.chances is not None:
            rng = np.random.default_rng([seed, problem, iteration, _STREAM])
            chosen = int(rng.choice(len(self.all), p=self.chances))
        others = ((chosen + step) % len(self.all) for step in range(len(self.all)))
        return next((operator for operator in others if not self.resting or not self.is_resting(operator)), chosen)

    def is_resting(self, operator: int) -> bool:
        return operator in self.resting and time.monotonic() < self.resting[operator][0]

    def rest(self, operator: int) -> float | None:
        """Leave an operator alone; for how many seconds. None if it is resting already."""
        if self.is_resting(operator):
            return None
        _, pause = self.resting.get(operator, (0.0, _BACKOFF[0]))
        self.resting[operator] = time.monotonic() + pause, min(2 * pause, _BACKOFF[1])
        return pause


Repeats = tuple[int, int, int, ParentKind, int, int]
"""Of one committed group: its sequence, problem id, operator, parent shown, answers that the run had stored before, and
answers."""


class FreshShare:
    """The share of fresh prompts, by problem and operator. A proposal sees it up to the group that the search's
    order allows, so one seed gives one run, resumed or not.

    A policy that copies its own answers seldom copies a seed, so parents of each kind are counted apart: else the first
    iterations, which show the seed, would hide the copying of the next ones.

    committed: groups that proposals do not see yet, in the run's order
    """

    def __init__(self) -> None:
        self.committed: deque[Repeats] = deque()
        self._counted: defaultdict[tuple[int, int, ParentKind], deque[tuple[int, int]]] = defaultdict(
            lambda: deque(maxlen=COUNTED_GROUPS)
        )

    def advance(self, upto: int | None) -> None:
        """See the groups up to this sequence; all of them with None."""
        while self.committed and (upto is None or self.committed[0][0] <= upto):
            _, problem, operator, shown, repeated, answers = self.committed.popleft()
            self._counted[problem, operator, shown].append((repeated, answers))

    def of(self, problem: int, operator: int, shown: ParentKind) -> float:
        """The chance that a prompt with such a parent shows none instead. One answer that is no repeat is believed of
        each kind, so that the first copy does not decide."""
        with_parent, without = (
            sum(repeated for repeated, _ in counted) / (1 + sum(answers for _, answers in counted))
            for counted in (self._counted[problem, operator, kind] for kind in (shown, ParentKind.NOTHING))
        )
        return max(0.0, with_parent - without)
