"""Whose turn it is: problems take turns, the one with the fewest proposals first, and every proposal has its place in
the run's order, the sequence.

A whole search counts its proposals as it makes them. A shard of a search knows the places of its own problems without
asking what the others do, where nothing but the number of iterations decides when a problem ends
(`couples_its_problems` says where something else does). Both then give one run: the same groups, each made from the
same earlier groups of its problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evo.config.run import RunConfig
from evo.search.problem_run import ProblemRun
from vpo.policies.address import parse_addresses


@dataclass(frozen=True)
class Shard:
    """The problems of a run whose index leaves `number` when divided by `count`.

    iterations: of every problem of the run, by index
    """

    number: int
    count: int
    iterations: tuple[int, ...]

    def owns(self, index: int) -> bool:
        return index % self.count == self.number

    def place(self, index: int, iteration: int) -> int:
        """The sequence of a problem's iteration where the whole run goes by turns: before it come all problems'
        earlier iterations, and this iteration of the problems before it."""
        planned = np.asarray(self.iterations)
        return int(np.minimum(planned, iteration).sum() + (planned[:index] > iteration).sum())


class Turns(Protocol):
    """The order of a search's proposals.

    upcoming: the sequence of the next; None where no problem takes one
    proposed: in the run's order, before the next one: what a budget of answers counts
    """

    @property
    def upcoming(self) -> int | None: ...
    @property
    def proposed(self) -> int: ...
    def whose(self) -> ProblemRun | None: ...
    def take(self) -> int:
        """The sequence of the proposal that is made now, of the problem whose turn it is."""
        ...


class CountedTurns:
    """Of a search that has all problems of its run. next, following: sequence of the next proposal"""

    def __init__(self, problem_runs: Sequence[ProblemRun], following: int = 0) -> None:
        self.problem_runs, self.next = problem_runs, following

    @property
    def upcoming(self) -> int | None:
        return self.next

    @property
    def proposed(self) -> int:
        return sum(one.built for one in self.problem_runs)

    def whose(self) -> ProblemRun | None:
        return next_problem(self.problem_runs)

    def take(self) -> int:
        self.next += 1
        return self.next - 1


class PlacedTurns:
    """Of a shard: its own problems, each iteration in its place among those of all."""

    def __init__(self, problem_runs: Sequence[ProblemRun], shard: Shard) -> None:
        self.problem_runs, self.shard = problem_runs, shard

    @property
    def upcoming(self) -> int | None:
        one = self.whose()
        return None if one is None else self.shard.place(one.record.index, one.built)

    @property
    def proposed(self) -> int:
        return self.upcoming or 0

    def whose(self) -> ProblemRun | None:
        return next_problem(self.problem_runs)

    def take(self) -> int:
        place = self.upcoming
        assert place is not None
        return place


def next_problem(problem_runs: Sequence[ProblemRun]) -> ProblemRun | None:
    """The open one with the fewest proposals, the first of those: round robin, after a resume too."""
    return min((one for one in problem_runs if one.open), key=lambda one: one.built, default=None)


def couples_its_problems(config: RunConfig) -> str | None:
    """What of a configuration makes one problem's groups depend on another's, so that no machine can search a part of
    them alone; None where nothing does."""
    if config.train is not None:
        return "--train learns from all problems together"
    if len(parse_addresses(config.policy)) > 1 and config.mixing == "bandit":
        return "several policies are mixed by what they were worth on all problems (mixing: turns is not)"
    if config.until_solved:
        return "--until-solved gives the turns of a solved problem to the others"
    for budget in ("max_tokens", "max_cost", "max_seconds"):
        if getattr(config, budget) is not None:
            return f"--{budget.replace('_', '-')} is one budget of all problems (--max-answers can be dealt out)"
    return None
