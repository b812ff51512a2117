"""Several policies as the mutation operators of one search, and the bandit that chooses between them.

Every operator gives the same number of answers per group, in chains of the operator's length. It may have another
temperature and another share of prompts that begin the answer with a part of the parent. A group earns its operator a
credit of 1 if it moved its problem: a new best fitness, or a reward vector that no earlier answer dominates or equals.
Credits fade (an operator that was good early may have nothing left to give), and the choice is a draw from the
posterior of each (Thompson 1933; discounted as in Raj and Kalyani, arXiv 1707.09727). `mixing: phase` keeps a posterior
for each phase of a problem, and only a new best fitness earns a credit: late in a search new trade-offs are common and
say little. A proposal sees the credits up to the group that the search's order lets it see, so one seed gives one run,
resumed or not.
"""

from __future__ import annotations

import time
from bisect import bisect
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from evo.config.run import PromptConfig, RunConfig
from islands.types import ParentKind
from problems.types import ScoredGroup
from vpo.policies.contract import Policy

DISCOUNT = 0.99
"""The factor by which a credit fades per group."""
STREAM = 7
"""Sets the draws of the bandit apart from those of the population."""


@dataclass(frozen=True)
class Operator:
    """A policy with its sampling settings: G rollouts of m answers, and how its prompts are built.

    weight: its part of the iterations, relative to the other operators' (1 each); if no operator has one, the search
        chooses between them
    """

    address: str
    policy: Policy
    rollouts: int
    answers: int
    prompt: PromptConfig
    weight: float | None = None


class GroupOutcome(NamedTuple):
    """What a committed group brought.

    moved: 1 if the best fitness or the front moved, else 0
    problem: its database id
    best: the problem's best fitness after the group
    """

    sequence: int
    operator: int
    moved: float
    problem: int = 0
    best: float = -np.inf


class OperatorSelection(Protocol):
    """The operator of the next proposal."""

    def advance(self, upto: int | None) -> None:
        """Count the outcomes of groups up to this sequence; all of them with None."""
        ...

    def choose(self, seed: int, problem: int, iteration: int, problem_id: int = 0) -> int:
        """problem: its index in the run; problem_id: its database id"""
        ...

    def credit(self, outcome: GroupOutcome) -> None: ...

    def metrics(self) -> dict[str, list[float]]:
        """The summary's numbers: groups of each operator, and credits earned."""
        ...


class EvenMix:
    """Operators in turn: no choice at all with one, an even mixture with several."""

    def __init__(self, count: int) -> None:
        self.asked, self.earned = [0.0] * count, [0.0] * count

    def advance(self, upto: int | None) -> None: ...

    def choose(self, seed: int, problem: int, iteration: int, problem_id: int = 0) -> int:
        return (iteration + problem) % len(self.asked)

    def credit(self, outcome: GroupOutcome) -> None:
        self.asked[outcome.operator] += 1
        self.earned[outcome.operator] += outcome.moved

    def metrics(self) -> dict[str, list[float]]:
        return {"asked": self.asked, "earned": self.earned}


class WeightedMix(EvenMix):
    """Each operator with a fixed chance, as OpenEvolve's ensembles have it."""

    def __init__(self, weights: Sequence[float]) -> None:
        super().__init__(len(weights))
        self._chances = np.array(weights) / sum(weights)

    def choose(self, seed: int, problem: int, iteration: int, problem_id: int = 0) -> int:
        rng = np.random.default_rng([seed, problem, iteration, STREAM])
        return int(rng.choice(len(self._chances), p=self._chances))


class Bandit(EvenMix):
    """Discounted Thompson sampling over operators, all problems together."""

    discount = DISCOUNT

    def __init__(self, count: int, phases: int = 1) -> None:
        super().__init__(count)
        self._won, self._lost = np.zeros((phases, count)), np.zeros((phases, count))
        self._waiting: deque[GroupOutcome] = deque()

    def credit(self, outcome: GroupOutcome) -> None:
        super().credit(outcome)
        self._waiting.append(outcome)

    def advance(self, upto: int | None) -> None:
        while self._waiting and (upto is None or self._waiting[0].sequence <= upto):
            outcome = self._waiting.popleft()
            phase, credit = self._phase(outcome.problem), self._take(outcome)
            self._won[phase] *= self.discount
            self._lost[phase] *= self.discount
            self._won[phase, outcome.operator] += credit
            self._lost[phase, outcome.operator] += 1 - credit

    def choose(self, seed: int, problem: int, iteration: int, problem_id: int = 0) -> int:
        rng = np.random.default_rng([seed, problem, iteration, STREAM])
        phase = self._phase(problem_id)
        return int(np.argmax(rng.beta(1 + self._won[phase], 1 + self._lost[phase])))

    def _phase(self, problem: int) -> int:
        return 0

    def _take(self, outcome: GroupOutcome) -> float:
        """The credit of an outcome, which is the problem's newest from now on."""
        return outcome.moved


LEVELS = (0.5, 0.9)
"""Shares of the target at which the next level begins; without a target there is one level."""
STAGNATION = (5, 15, 40)
"""Groups in a row without a new best fitness at which the next step of stagnation begins."""


class PhaseBandit(Bandit):
    """A bandit for each phase of a problem: the best answer's share of the target, and for how long none was better.

    So a strong opener and a strong finisher can share one search. Late phases earn a credit in about a hundred groups,
    so credits fade more slowly than the plain bandit's.
    """

    discount = 0.999

    def __init__(self, count: int, targets: Mapping[int, float | None]) -> None:
        """targets: by the database id of the problem"""
        super().__init__(count, (len(LEVELS) + 1) * (len(STAGNATION) + 1))
        self._targets = targets
        self._best: defaultdict[int, float] = defaultdict(lambda: -np.inf)
        self._unimproved: Counter[int] = Counter()

    def _phase(self, problem: int) -> int:
        target, best = self._targets.get(problem), self._best[problem]
        share = best / target if target and np.isfinite(best) else 0.0
        return bisect(LEVELS, share) * (len(STAGNATION) + 1) + bisect(STAGNATION, self._unimproved[problem])

    def _take(self, outcome: GroupOutcome) -> float:
        improved = outcome.best > self._best[outcome.problem]
        self._best[outcome.problem] = outcome.best
        self._unimproved[outcome.problem] = 0 if improved else self._unimproved[outcome.problem] + 1
        return float(improved)


class ParetoFront:
    """The reward vectors of a problem's valid answers that none of its others dominates, and the best fitness."""

    def __init__(self) -> None:
        self.best = -np.inf
        self._vectors: npt.NDArray[np.float64] | None = None

    def moved_by(self, group: ScoredGroup) -> bool:
        """Take in a group's answers; whether they moved the best fitness or the front."""
        moved = False
        for answer in group.all_answers():
            if answer.score.error is not None:
                continue
            if answer.score.fitness > self.best:
                self.best, moved = answer.score.fitness, True
            moved |= self._add(np.asarray(answer.score.rewards, dtype=np.float64))
        return moved

    def _add(self, vector: npt.NDArray[np.float64]) -> bool:
        if self._vectors is None:
            self._vectors = vector[None]
            return True
        if (self._vectors >= vector).all(axis=1).any():
            return False
        kept = self._vectors[~(vector >= self._vectors).all(axis=1)]
        self._vectors = np.concatenate([kept, vector[None]])
        return True


class Operators:
    """The operators of a search and what selects between them."""

    def __init__(self, operators: Sequence[Operator], selection: OperatorSelection) -> None:
        self.all, self.selection = list(operators), selection
        self.rests = Rests()
        self._fronts: dict[int, ParetoFront] = {}  # by problem id

    def __getitem__(self, number: int) -> Operator:
        return self.all[number]

    def __len__(self) -> int:
        return len(self.all)

    def credit(self, group: ScoredGroup) -> None:
        """Credit a group's operator."""
        if len(self.all) > 1:
            front = self._fronts.setdefault(group.problem, ParetoFront())
            moved = float(front.moved_by(group))
            if group.operator < len(self.all):  # else of a policy that a resume dropped
                self.selection.credit(GroupOutcome(group.sequence, group.operator, moved, group.problem, front.best))

    def recall(self, groups: Iterable[ScoredGroup]) -> None:
        """Count the credits of committed groups again; with one operator none are read."""
        if len(self.all) > 1:
            for group in groups:
                self.credit(group)


RESTS = (15.0, 600.0)
"""Seconds for which an operator that does not answer is left alone: doubling from the first to the second."""


class Rests:
    """Which of several operators do not answer, and until when each is left alone."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        self._pauses: dict[int, float] = {}

    def is_resting(self, operator: int) -> bool:
        return time.monotonic() < self._until.get(operator, 0.0)

    def instead_of(self, operator: int, count: int) -> int:
        """This operator of `count`, or the next that is not resting; itself if all are."""
        others = ((operator + step) % count for step in range(count))
        return next((one for one in others if not self.is_resting(one)), operator)

    def rest(self, operator: int) -> float | None:
        """Leave an operator alone; for how many seconds. None if it is resting already."""
        if self.is_resting(operator):
            return None
        pause = self._pauses.get(operator, RESTS[0])
        self._until[operator] = time.monotonic() + pause
        self._pauses[operator] = min(2 * pause, RESTS[1])
        return pause

    def answered(self, operator: int) -> None:
        self._until.pop(operator, None)
        self._pauses.pop(operator, None)


def operator_selection(
    config: RunConfig, operators: Sequence[Operator], targets: Mapping[int, float | None] | None = None
) -> OperatorSelection:
    """Fixed shares if an operator has a weight, else as the configuration says. targets: by problem id"""
    count = len(operators)
    if count > 1 and any(operator.weight is not None for operator in operators):
        return WeightedMix([1.0 if operator.weight is None else operator.weight for operator in operators])
    if count > 1 and config.mixing == "phase":
        return PhaseBandit(count, targets or {})
    return Bandit(count) if count > 1 and config.mixing == "bandit" else EvenMix(count)


KEPT = 16
"""Groups of a problem and operator that count, of each kind of parent: its last ones."""


class Repeats(NamedTuple):
    """The repeats of one committed group. repeated: of its answers, those that the run had stored before"""

    sequence: int
    problem: int
    operator: int
    shown: ParentKind
    repeated: int
    answers: int


class FreshShare:
    """The share of fresh prompts, by problem and operator. A proposal sees it up to the group that the search's
    order allows, so one seed gives one run, resumed or not.

    A policy that copies its own answers seldom copies a seed, so parents of each kind are counted apart: else the first
    iterations, which show the seed, would hide the copying of the next ones.
    """

    def __init__(self) -> None:
        self._waiting: deque[Repeats] = deque()
        self._kept: defaultdict[tuple[int, int, ParentKind], deque[Repeats]] = defaultdict(lambda: deque(maxlen=KEPT))

    def count(self, group: ScoredGroup, shown: ParentKind, repeated: Sequence[bool]) -> None:
        """Take in a group that is being committed. repeated: for each of its answers, whether an earlier one is it"""
        self._waiting.append(
            Repeats(group.sequence, group.problem, group.operator, shown, sum(repeated), len(repeated))
        )

    def recall(self, groups: Iterable[tuple[int, int, int, ParentKind, int, int]]) -> None:
        """Add the repeats of stored groups, in the run's order: see islands.queries.progress."""
        for sequence, problem, operator, shown, repeated, answers in groups:
            self._waiting.append(Repeats(sequence, problem, operator, shown, repeated, answers))

    def advance(self, upto: int | None) -> None:
        """See the groups up to this sequence; all of them with None."""
        while self._waiting and (upto is None or self._waiting[0].sequence <= upto):
            group = self._waiting.popleft()
            self._kept[group.problem, group.operator, group.shown].append(group)

    def of(self, problem: int, operator: int, shown: ParentKind) -> float:
        """The chance that a prompt with such a parent shows none instead. One answer that is no repeat is believed of
        each kind, so that the first copy does not decide."""
        with_parent, without = (
            sum(group.repeated for group in kept) / (1 + sum(group.answers for group in kept))
            for kept in (self._kept[problem, operator, kind] for kind in (shown, ParentKind.NOTHING))
        )
        return max(0.0, with_parent - without)
