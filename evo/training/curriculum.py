"""The prompts of a training step: problems in a shuffled order, some of them with a parent.

A policy that is trained as a mutation operator must learn from prompts with parents too. Parents come from the last
step (`Curriculum`), or from archives that grow while their problems are repeated (`ArchiveCurriculum`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.errors import BadInput
from islands.comparisons import runs_named
from islands.groups import children
from islands.history import CandidateReader
from islands.store import Store
from islands.types import NOTHING_SHOWN, Candidate, CandidateSummary, Selection
from problems.contract import Problem
from problems.objectives import Reward
from problems.types import ScoredGroup
from vpo.metrics import pareto_mask

PER_VECTOR = 3
FRONT = 8
"""The members of a front from which parents are drawn, as a search's pareto_pool."""


@dataclass(frozen=True)
class TrainingPrompt:
    """One prompt of a step: which problem, and what the prompt shows.

    hidden_parent: of a prompt that shows nothing, the parent that it could have shown: what its answers have in common
        with that one is chance
    """

    problem: int
    selection: Selection
    hidden_parent: Candidate | None = None


@dataclass
class Curriculum:
    """Draws the prompts of a step from (seed, step) and the answers of the last step: a prompt with a parent repeats
    a problem of the last step and shows one of its valid answers.

    problems: how many there are; parents: share of prompts with a parent
    asked: prompts without a parent so far, the position in the endless shuffled order
    pool: of the last step, problem -> its valid answers
    """

    problems: int
    parents: float
    seed: int
    asked: int = 0
    pool: dict[int, list[Candidate]] = field(default_factory=dict)

    def draw(self, step: int, count: int) -> list[TrainingPrompt]:
        rng = np.random.default_rng([self.seed, 1, step, 0])
        waiting = [problem for problem, found in self.pool.items() if found]
        made = []
        for _ in range(count):
            if waiting and rng.random() < self.parents:
                problem = waiting.pop(int(rng.integers(len(waiting))))
                parents = self.pool[problem]
                parent = parents[int(rng.integers(len(parents)))]
                made.append(TrainingPrompt(problem, Selection(parent, (), ())))
            else:
                made.append(TrainingPrompt(self._next(), NOTHING_SHOWN))
        return made

    def _next(self) -> int:
        """The next problem of a shuffled round; each round has another order."""
        epoch, place = divmod(self.asked, self.problems)
        self.asked += 1
        return int(np.random.default_rng([self.seed, 2, epoch]).permutation(self.problems)[place])

    def vectors(self, problem: int) -> list[tuple[float, ...]]:
        """The distinct reward vectors of a problem's archive."""
        return sorted({candidate.rewards for candidate in self.pool.get(problem, [])})

    def learn(self, prompts: Sequence[TrainingPrompt], groups: Sequence[ScoredGroup]) -> None:
        """Keep the answers of a step as parents for the next."""
        self.pool = {}
        for prompt, group in zip(prompts, groups, strict=True):
            self.pool.setdefault(prompt.problem, []).extend(_valid(group))

    def state(self) -> dict[str, Any]:
        """Plain values that `restore` takes back."""
        return {
            "asked": self.asked,
            "pool": {
                str(p): [[c.text, list(c.rewards), c.fitness, dict(c.features), c.feedback] for c in found]
                for p, found in self.pool.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.asked = state["asked"]
        self.pool = {
            int(p): [_candidate(text, tuple(rewards), *others) for text, rewards, *others in found]
            for p, found in state["pool"].items()
        }


@dataclass
class ArchiveCurriculum(Curriculum):
    """Asks some problems again and again, as a search does: a prompt with a parent shows an answer that was found for
    its problem in any step before, and what is answered can be a parent in turn.

    Half of the parents are of the front, as a search draws them; the others are drawn over all reward vectors alike, so
    that parents of every level are seen. A problem that is solved or has had its visits makes place for the
    next of the shuffled order.

    targets: per problem the fitness that solves it, None for none
    level: share of its target that a parent has at least, where the archive holds such a one; 0 = any parent
    under_way: problems that are asked at a time; most_visits: prompts of each
    visits: current problem -> the prompts it has had
    pool: problem -> its archive, at most PER_VECTOR newest answers of a reward vector
    stored: what a problem's archive begins with; None = nothing
    """

    targets: Sequence[float | None] = ()
    level: float = 0.0
    under_way: int = 32
    most_visits: int = 16
    visits: dict[int, int] = field(default_factory=dict)
    stored: Callable[[int, np.random.Generator], list[Candidate]] | None = None

    def draw(self, step: int, count: int) -> list[TrainingPrompt]:
        rng = np.random.default_rng([self.seed, 1, step, 0])
        while len(self.visits) < min(max(self.under_way, count), self.problems):
            problem = self._next()
            self.visits.setdefault(problem, 0)
            if self.stored is not None and problem not in self.pool:
                moment = np.random.default_rng([self.seed, 5, self.asked, 0])
                self.pool[problem] = self.stored(problem, moment)
        waiting = list(self.visits)
        turns = [waiting[i] for _ in range(-(-count // len(waiting))) for i in rng.permutation(len(waiting))]
        return [self._draw_prompt(problem, rng) for problem in turns[:count]]

    def _draw_prompt(self, problem: int, rng: np.random.Generator) -> TrainingPrompt:
        found = self.pool.get(problem, [])
        if not found:
            return TrainingPrompt(problem, NOTHING_SHOWN)
        shown = rng.random() < self.parents
        parent = self._draw_parent(at_level(found, self.targets[problem], self.level), rng)
        if shown:
            return TrainingPrompt(problem, Selection(parent, (), ()))
        return TrainingPrompt(problem, NOTHING_SHOWN, parent)

    def _draw_parent(self, found: Sequence[Candidate], rng: np.random.Generator) -> Candidate:
        vectors = sorted({c.rewards for c in found if any(c.rewards)} or {c.rewards for c in found})
        place = int(rng.integers(len(vectors)))
        if rng.random() < 0.5:
            best = front(np.array(vectors), [sum(vector) for vector in vectors])
            place = best[int(rng.integers(len(best)))]
        alike = [c for c in found if c.rewards == vectors[place]]
        return alike[int(rng.integers(len(alike)))]

    def learn(self, prompts: Sequence[TrainingPrompt], groups: Sequence[ScoredGroup]) -> None:
        """Add the answers of a step to the archives."""
        for prompt, group in zip(prompts, groups, strict=True):
            problem = prompt.problem
            if problem not in self.visits:
                continue
            self.visits[problem] += 1
            found = {c.text: c for c in self.pool.get(problem, [])}
            for candidate in _valid(group):
                found.pop(candidate.text, None)  # the newest come last
                found[candidate.text] = candidate
            self.pool[problem] = _newest(list(found.values()))
            target = self.targets[problem]
            solved = target is not None and any(c.fitness >= target for c in found.values())
            if solved or self.visits[problem] >= self.most_visits:
                del self.visits[problem], self.pool[problem]

    def state(self) -> dict[str, Any]:
        return {**super().state(), "asks": {str(problem): count for problem, count in self.visits.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.visits = {int(problem): count for problem, count in state["asks"].items()}


def at_level(found: Sequence[Candidate], target: float | None, level: float) -> Sequence[Candidate]:
    """Those of `found` that have this share of a positive target; all of them if none has, or without a level."""
    if level == 0.0 or target is None or target <= 0.0:
        return found
    return [candidate for candidate in found if candidate.fitness >= level * target] or found


def front(vectors: npt.NDArray[np.float64], fitness: Sequence[float], most: int = FRONT) -> list[int]:
    """Places of the rows (N, d) that no other row dominates, the `most` fittest of them. The rows are distinct."""
    mask = pareto_mask(vectors)
    return [int(i) for i in np.argsort(-np.asarray(fitness), kind="stable") if mask[i]][:most]


def _newest(found: Sequence[Candidate]) -> list[Candidate]:
    """The last PER_VECTOR of every reward vector, in order."""
    counts = Counter[tuple[float, ...]]()
    kept = []
    for candidate in reversed(found):
        counts[candidate.rewards] += 1
        if counts[candidate.rewards] <= PER_VECTOR:
            kept.append(candidate)
    return kept[::-1]


def _valid(group: ScoredGroup) -> list[Candidate]:
    """The distinct answers of a group that could be scored."""
    distinct = {a.identity: a for a in group.all_answers() if a.score.error is None}
    scored = [(answer.text, answer.score) for answer in distinct.values()]
    return [_candidate(text, s.rewards, s.fitness, s.features, s.feedback) for text, s in scored]


def _candidate(text: str, rewards: tuple[float, ...], fitness: float, features: Any, feedback: str) -> Candidate:
    return Candidate(0, text, rewards, Reward(fitness), features, feedback, None, 0, 0, None)


MOST = 48
"""Candidates of an archive: the front's fittest, then others of as many reward vectors."""
CACHE_BYTES = 8 << 20


class StoredArchives:
    """The archives of a run's problems, each as it was after a random share of the run's stored answers.

    problems: that are learned from; the run has to hold all of them. Raises BadInput if not
    level: share of its target that a problem's archive has reached at that moment, if the run ever has; 0 = any moment
    """

    def __init__(self, store: Store, run: str, problems: Sequence[Problem], *, level: float = 0.0) -> None:
        self._store, self._problems, self._level = store, problems, level
        self._reader = CandidateReader(store, CACHE_BYTES)
        self._ended: dict[int, list[tuple[tuple[float, ...], float]]] = {}
        self._ids = {record.address: record.id for one in runs_named(store, run) for record in store.problems(one.id)}
        lost = [problem.name for problem in problems if problem.name not in self._ids]
        if lost:
            raise BadInput(f"run {run} has not searched {lost[0]}; train on problems of the run")

    def __call__(self, problem: int, rng: np.random.Generator) -> list[Candidate]:
        """The archive of the problem with this index at a random moment, without solutions."""
        target = self._problems[problem].target
        rows = [row for row in self._valid(problem) if target is None or row.fitness < target]
        if not rows:
            return []
        first = 1  # rows that the archive has at least; all if none is at the level
        if self._level and target is not None and target > 0:
            reached = (i for i, row in enumerate(rows, 1) if row.fitness >= self._level * target)
            first = next(reached, len(rows))
        rows = rows[: int(rng.integers(first, len(rows) + 1))]
        newest = list({row.rewards: row for row in rows}.values())
        best = front(np.array([row.rewards for row in newest]), [row.fitness for row in newest])
        others = [i for i in range(len(newest)) if i not in best]
        rest = rng.permutation(len(others))[: MOST - len(best)]
        return self._reader.fetch(sorted(newest[i].id for i in (*best, *(others[int(j)] for j in rest))))

    def ended(self, problem: int) -> list[tuple[tuple[float, ...], float]]:
        """The distinct (rewards, fitness) at the end of the run, for the problem with this index."""
        if problem not in self._ended:
            last = {row.rewards: (row.rewards, row.fitness) for row in self._valid(problem)}
            self._ended[problem] = list(last.values())
        return self._ended[problem]

    def _valid(self, problem: int) -> list[CandidateSummary]:
        rows = children(self._store, self._ids[self._problems[problem].name])
        return [row for row in rows if not row.failed]
