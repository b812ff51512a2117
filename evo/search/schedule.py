"""Which problem proposes next, the place of its group in the run's order (its sequence), and how many are in flight.

Problems take turns: the one with the fewest proposals is next. A whole search counts its proposals as it makes them. A
shard computes the sequences of its problems without knowing how far the others are. That works if only the number
of iterations decides when a problem ends (`couples_its_problems` names what else may). Both give one run: the same
groups, each made from the same earlier groups of its problem.

With an asynchronous window (`--lag`, evo/search/in_flight.py, and in ask and tell) a group gets its sequence when it is
committed. The sequence is the order of commits in either case, and the iteration is the order of proposals.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from evo.config.run import RunConfig
from evo.search.defaults import DEFAULT_ITERATIONS
from evo.search.problem_run import ProblemRun
from islands.population.config import ISLANDS
from problems.types import ScoredGroup
from vpo.policies.address import parse_addresses
from vpo.policies.contract import Policy

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
        """The sequence of a problem's iteration if problems take turns in the whole run: before it come all problems'
        earlier iterations, and this iteration of the problems before it."""
        planned = np.asarray(self.iterations)
        return int(np.minimum(planned, iteration).sum() + (planned[:index] > iteration).sum())


class Scheduler(Protocol):
    """The order of a search's proposals.

    upcoming: the sequence of the next proposal; None if no problem takes one
    proposed: how many proposals come before it in the run's order, which a budget of answers counts
    """

    @property
    def upcoming(self) -> int | None: ...
    @property
    def proposed(self) -> int: ...
    def next(self) -> ProblemRun | None:
        """The problem whose turn it is; None if every problem is finished or has to wait."""
        ...

    def take(self) -> int:
        """The sequence of the proposal that is made now, by the problem that `next` gave; UNPLACED with an
        asynchronous window."""
        ...

    def commit(self, problem_run: ProblemRun, group: ScoredGroup) -> ScoredGroup:
        """The group, which is committed now, with its sequence."""
        ...

    def commit_late(self, group: ScoredGroup) -> ScoredGroup:
        """A group that is committed after later ones, as the newest of the run."""
        ...


class CountedSchedule:
    """The schedule of a search that has all problems of its run. following: the sequence of the next proposal, or with
    an asynchronous window of the next commit"""

    def __init__(self, problem_runs: Sequence[ProblemRun], following: int = 0, async_window: int = 0) -> None:
        self._following, self.async_window = following, async_window
        self.proposed = sum(problem_run.built - len(problem_run.missing) for problem_run in problem_runs)
        self._round = RoundRobin(problem_runs)

    @property
    def upcoming(self) -> int | None:
        return self._following

    def next(self) -> ProblemRun | None:
        return self._round.next()

    def take(self) -> int:
        self.proposed += 1
        return UNPLACED if self.async_window else self._count()

    def commit(self, problem_run: ProblemRun, group: ScoredGroup) -> ScoredGroup:
        return replace(group, sequence=self._count()) if self.async_window else group

    def commit_late(self, group: ScoredGroup) -> ScoredGroup:
        return replace(group, sequence=self._count())

    def _count(self) -> int:
        self._following += 1
        return self._following - 1


class ShardSchedule:
    """Of a shard: its own problems, each iteration in its place among those of all."""

    def __init__(self, problem_runs: Sequence[ProblemRun], shard: Shard, async_window: int = 0) -> None:
        self.shard, self.async_window = shard, async_window
        self._round = RoundRobin(problem_runs)

    @property
    def upcoming(self) -> int | None:
        problem_run = self.next()
        return None if problem_run is None else self.shard.place(problem_run.record.index, problem_run.upcoming)

    @property
    def proposed(self) -> int:
        return self.upcoming or 0

    def next(self) -> ProblemRun | None:
        return self._round.next()

    def take(self) -> int:
        if self.async_window:
            return UNPLACED
        place = self.upcoming
        assert place is not None
        return place

    def commit(self, problem_run: ProblemRun, group: ScoredGroup) -> ScoredGroup:
        """With an asynchronous window a problem's groups take its places in the order of their commits."""
        if not self.async_window:
            return group
        return replace(group, sequence=self.shard.place(problem_run.record.index, problem_run.committed))

    def commit_late(self, group: ScoredGroup) -> ScoredGroup:
        """In its place, which no other shard may take."""
        return group


class RoundRobin:
    """The open problem with the fewest proposals, the first of those, after a resume too. With an asynchronous window
    problems that are too far ahead are passed over."""

    def __init__(self, problem_runs: Sequence[ProblemRun]) -> None:
        self._problem_runs = problem_runs
        self._heap = [(problem_run.upcoming, place) for place, problem_run in enumerate(problem_runs)]
        heapq.heapify(self._heap)

    def next(self) -> ProblemRun | None:
        """The problem whose turn it is. Calling it changes nothing: entries are updated when they reach the top."""
        passed: list[tuple[int, int]] = []
        chosen = None
        while self._heap and chosen is None:
            key, place = self._heap[0]
            candidate = self._problem_runs[place]
            if not candidate.open:
                heapq.heappop(self._heap)  # for good
            elif candidate.upcoming != key:
                heapq.heapreplace(self._heap, (candidate.upcoming, place))
            elif candidate.has_turn:
                chosen = candidate
            else:
                passed.append(heapq.heappop(self._heap))
        for entry in passed:
            heapq.heappush(self._heap, entry)
        return chosen


def couples_its_problems(config: RunConfig) -> str | None:
    """Why one problem's groups depend on another's under this configuration, so that no machine can search a part of
    them separately; None if they do not."""
    if config.train is not None:
        return "--train learns from all problems together"
    policies = parse_addresses(config.policy)
    weighted = any(policy.common.weight is not None for policy in policies)
    if len(policies) > 1 and config.mixing != "turns" and not weighted:
        return "several policies are mixed by their worth on all problems (unless mixing: turns)"
    if config.lag and config.max_answers is not None:
        return "with --lag, --max-answers is spent in the order in which groups come back"
    if config.until_solved:
        return "--until-solved gives the turns of a solved problem to the others"
    if config.patience is not None:
        return "--patience gives the turns of a stopped problem to the others"
    for budget in ("max_total_tokens", "max_cost", "max_seconds"):
        if getattr(config, budget) is not None:
            return f"--{budget.replace('_', '-')} is one budget of all problems (--max-answers can be divided)"
    return None


REFILLS = 4
"""How often over the groups in flight fill the engine. The oldest holds the others back while its longest rollout goes
on; lengths spread as a model's are cost 38% with the engine filled once, 19% twice, 10% three times, 5% four times
(bench/results/scale.md)."""
OUTDATED = 5
"""Groups in flight for each island or problem, at most: each is proposed knowing of none of the others."""
GENERATIONS = 4
"""Parts that a run has at least, each knowing of those before it."""


@dataclass(frozen=True)
class Window:
    """How many groups may be in flight.

    groups: at most in flight; with an asynchronous window, at most being sampled
    batch: prompts per policy call
    async_window: groups that may be in flight beyond these
    spread: how far a problem may run ahead of its oldest group in flight
    """

    groups: int
    batch: int
    async_window: int = 0
    spread: int = 0


def in_flight(
    config: RunConfig, policy: Policy, problem_runs: Sequence[ProblemRun], breadths: Sequence[int] | None = None
) -> Window:
    """How many prompts go into a policy call, and how many groups are in flight.

    breadths: the islands of every problem of the run, if `problem_runs` are those of one shard: the window is the whole
        run's, which decides the view of a prompt; calls are as large as the shard's part of it

    Two calls' worth keep the policy busy while the other call's answers are scored. A smaller search takes smaller
    calls: with more groups in flight than islands and problems (or than five, for a single problem of one island),
    prompts would show parents that are long outdated.
    """
    if breadths is None:
        breadths = [problem_run.population.config.islands for problem_run in problem_runs]
    whole = _whole(config, policy, breadths)
    batch = -(-whole.batch * len(problem_runs) // len(breadths))
    if not config.lag:
        return Window(whole.groups, batch)
    groups = -(-whole.groups * len(problem_runs) // len(breadths))
    return Window(groups, batch, config.lag, -(-whole.groups // len(breadths)) + config.lag)


def _whole(config: RunConfig, policy: Policy, islands: Sequence[int]) -> Window:
    breadth = max(len(islands), *islands, ISLANDS)
    if policy.batch == 0:
        return Window(config.parallel or max(8, 2 * breadth, _filling(config, policy, breadth, len(islands))), 0)
    if config.parallel:
        batch = max(1, min(policy.batch, (config.parallel + 1) // 2))
        return Window(config.parallel, batch)
    batch = max(1, min(policy.batch, breadth))
    return Window(2 * batch, batch)


def _filling(config: RunConfig, policy: Policy, breadth: int, problems: int) -> int:
    """Groups that keep an engine of known size busy, as long as the search stays a search: few in flight for each
    island or problem, and the run some generations deep. 0 if the engine's size is unknown."""
    fills = REFILLS * -(-policy.traits.slots // (config.rollouts or 1))
    return min(fills, OUTDATED * breadth, (config.iterations or DEFAULT_ITERATIONS) * problems // GENERATIONS)
