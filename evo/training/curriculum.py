"""Which prompts a training step asks: problems in a shuffled order, and some of the step before with a parent shown.

A policy that is trained as a mutation operator has to learn from parents too. A prompt with a parent repeats a problem
of the step before and shows one of the valid answers that were found for it then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evo.search.score import NOTHING_SHOWN
from islands.types import Candidate, Selection
from problems.types import ScoredGroup


@dataclass(frozen=True)
class Question:
    """One prompt of a step: which problem, and what is shown beside it."""

    problem: int
    selection: Selection


@dataclass
class Curriculum:
    """Draws every step's questions from (seed, step) and from what the step before found.

    problems: how many there are; parents: share of questions with a parent
    rank, processes: which of the processes that train together this one is; they deal the problems out between them
    asked: fresh questions so far, the position in the endless shuffled order
    pool: of the step before, problem -> its valid answers
    """

    problems: int
    parents: float
    seed: int
    rank: int = 0
    processes: int = 1
    asked: int = 0
    pool: dict[int, list[Candidate]] = field(default_factory=dict)

    def questions(self, step: int, count: int) -> list[Question]:
        """The questions of a step."""
        rng = np.random.default_rng([self.seed, 1, step, self.rank])
        waiting = [problem for problem, found in self.pool.items() if found]
        made = []
        for _ in range(count):
            if waiting and rng.random() < self.parents:
                problem = waiting.pop(int(rng.integers(len(waiting))))
                parents = self.pool[problem]
                parent = parents[int(rng.integers(len(parents)))]
                made.append(Question(problem, Selection(parent, (), ())))
            else:
                made.append(Question(self._next(), NOTHING_SHOWN))
        return made

    def _next(self) -> int:
        """The next problem of a shuffled round; every round has its own order."""
        epoch, place = divmod(self.asked * self.processes + self.rank, self.problems)
        self.asked += 1
        return int(np.random.default_rng([self.seed, 2, epoch]).permutation(self.problems)[place])

    def learn(self, questions: Sequence[Question], groups: Sequence[ScoredGroup]) -> None:
        """Remember what a step found, as parents for the next."""
        self.pool = {}
        for question, group in zip(questions, groups, strict=True):
            found = self.pool.setdefault(question.problem, [])
            distinct = {a.identity: a for a in group.all_answers() if a.score.error is None}
            for answer in distinct.values():
                s = answer.score
                found.append(
                    Candidate(0, answer.text, s.rewards, s.fitness, s.features, s.feedback, s.error, 0, 0, None)
                )

    def state(self) -> dict[str, Any]:
        """Plain values that `restore` takes back."""
        kept = {
            str(p): [[c.text, list(c.rewards), c.fitness, dict(c.features), c.feedback] for c in found]
            for p, found in self.pool.items()
        }
        return {"asked": self.asked, "pool": kept}

    def restore(self, state: dict[str, Any]) -> None:
        self.asked = state["asked"]
        self.pool = {
            int(p): [Candidate(0, t, tuple(r), f, x, b, None, 0, 0, None) for t, r, f, x, b in found]
            for p, found in state["pool"].items()
        }
