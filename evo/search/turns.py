"""Whose turn it is: problems take turns, the one with the fewest proposals first, and every proposal has its place in
the run's order, the sequence.

A whole search counts its proposals as it makes them. A shard of a search knows the places of its own problems without
asking what the others do, where nothing but the number of iterations decides when a problem ends
(`couples_its_problems` says where something else does). Both then give one run: the same groups, each made from the
same earlier groups of its problem.

With a lag (evo/search/order.py) a group has its place when it is committed: the sequence is the order of commits in
either case, and the iteration that of proposals.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from evo.config.run import RunConfig
from evo.search.problem_run import ProblemRun
from problems.types import ScoredGroup
from vpo.policies.address import parse_addresses

UNPLACED = -1
"""The sequence of a group that gets its place when it is committed."""


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
        """The sequence of the proposal that is made now, of the problem whose turn it is; UNPLACED with a lag."""
        ...

    def land(self, problem_run: ProblemRun, group: ScoredGroup) -> ScoredGroup:
        """A group that is committed now, with its sequence."""
        ...


class CountedTurns:
    """Of a search that has all problems of its run. next, following: sequence of the next proposal, or with a lag of
    the next commit"""

    def __init__(self, problem_runs: Sequence[ProblemRun], following: int = 0, lag: int = 0) -> None:
        self.next, self.lag = following, lag
        self.proposed = sum(one.built - len(one.missing) for one in problem_runs)
        self._round = RoundRobin(problem_runs)

    @property
    def upcoming(self) -> int | None:
        return self.next

    def whose(self) -> ProblemRun | None:
        return self._round.next()

    def take(self) -> int:
        self.proposed += 1
        return UNPLACED if self.lag else self._count()

    def land(self, problem_run: ProblemRun, group: ScoredGroup) -> ScoredGroup:
        return replace(group, sequence=self._count()) if self.lag else group

    def _count(self) -> int:
        self.next += 1
        return self.next - 1


class PlacedTurns:
    """Of a shard: its own problems, each iteration in its place among those of all."""

    def __init__(self, problem_runs: Sequence[ProblemRun], shard: Shard, lag: int = 0) -> None:
        self.shard, self.lag = shard, lag
        self._round = RoundRobin(problem_runs)

    @property
    def upcoming(self) -> int | None:
        one = self.whose()
        return None if one is None else self.shard.place(one.record.index, one.upcoming)

    @property
    def proposed(self) -> int:
        return self.upcoming or 0

    def whose(self) -> ProblemRun | None:
        return self._round.next()

    def take(self) -> int:
        if self.lag:
            return UNPLACED
        place = self.upcoming
        assert place is not None
        return place

    def land(self, problem_run: ProblemRun, group: ScoredGroup) -> ScoredGroup:
        """With a lag a problem's groups take its places in the order of their commits."""
        if not self.lag:
            return group
        return replace(group, sequence=self.shard.place(problem_run.record.index, problem_run.committed))


class RoundRobin:
    """The open problem with the fewest proposals, the first of those, after a resume too; with a lag those that are far
    enough ahead are passed over."""

    def __init__(self, problem_runs: Sequence[ProblemRun]) -> None:
        self._problem_runs = problem_runs
        self._heap = [(one.upcoming, place) for place, one in enumerate(problem_runs)]
        heapq.heapify(self._heap)

    def next(self) -> ProblemRun | None:
        """Whose turn it is. Asking changes nothing: entries are brought up to date as they come to the top."""
        passed: list[tuple[int, int]] = []
        found = None
        while self._heap and found is None:
            key, place = self._heap[0]
            one = self._problem_runs[place]
            if not one.open:
                heapq.heappop(self._heap)  # for good
            elif one.upcoming != key:
                heapq.heapreplace(self._heap, (one.upcoming, place))
            elif one.has_turn:
                found = one
            else:
                passed.append(heapq.heappop(self._heap))
        for entry in passed:
            heapq.heappush(self._heap, entry)
        return found


def couples_its_problems(config: RunConfig) -> str | None:
    """What of a configuration makes one problem's groups depend on another's, so that no machine can search a part of
    them alone; None where nothing does."""
    if config.train is not None:
        return "--train learns from all problems together"
    if len(parse_addresses(config.policy)) > 1 and config.mixing == "bandit":
        return "several policies are mixed by what they were worth on all problems (mixing: turns is not)"
    if config.lag and config.max_answers is not None:
        return "--max-answers is spent in the order in which groups come back, where there is a --lag"
    if config.until_solved:
        return "--until-solved gives the turns of a solved problem to the others"
    for budget in ("max_tokens", "max_cost", "max_seconds"):
        if getattr(config, budget) is not None:
            return f"--{budget.replace('_', '-')} is one budget of all problems (--max-answers can be dealt out)"
    return None
