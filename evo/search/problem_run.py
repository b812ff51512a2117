"""The problems under search and their iterations: the state of each, and how many iterations are in flight.

A proposal (evo.search.core) and the population's `add` run in the search's order; everything between them overlaps
freely. With an asynchronous window (`--lag`, evo/search/loop.py, and in ask and tell) a group gets its sequence when it
is committed. The sequence is the order of commits in either case, and the iteration is the order of proposals.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evo.config.run import RunConfig
from evo.prompts.contract import PromptFormat
from evo.prompts.registry import TunedFormat
from evo.search.resources import Operator, planned_iterations
from evo.search.sampler import Sampled
from evo.search.score import AnswerScores, score_rollouts
from evo.search.stop import SOLVED, Stop, StopReason
from islands.population.config import ISLANDS
from islands.population.population import Population
from islands.store import Store, Transaction
from islands.types import Candidate, ProblemRecord, Selection
from problems.contract import Problem
from problems.types import Prompt, ScoredGroup, ScoredRollout
from vpo.policies.contract import Policy


@dataclass(eq=False)
class ProblemRun:
    """The state of a problem in a run.

    prompt_formats: how each operator's prompts are built and read
    built: the first iteration that was never proposed
    missing: earlier ones that are to be proposed again: with an asynchronous window, a run that was cut off has gaps
    committed: iterations stored
    uncommitted: iterations in flight; spread: how far `upcoming` may be ahead of the oldest of these; None if only the
        search's order limits it (evo/search/loop.py)
    stop: why it takes no more iterations; None while it does
    solved_sequence, solved_at: the group that reached the target, in the run's order; iterations spent until then
    scores: of its answers, until their group is committed
    tuned: the prompt format, if it learns from committed groups
    """

    problem: Problem
    record: ProblemRecord
    population: Population
    prompt_formats: Sequence[PromptFormat]
    iterations: int
    scores: AnswerScores
    tuned: TunedFormat | None = None
    built: int = 0
    committed: int = 0
    missing: deque[int] = field(default_factory=deque)
    uncommitted: set[int] = field(default_factory=set)
    spread: int | None = None
    stop: Stop | None = None
    solved_sequence: int | None = None
    solved_at: int | None = None

    @property
    def best(self) -> float | None:
        """The best fitness so far; None without a valid answer."""
        best = self.population.best
        return None if best is None else best[1]

    @property
    def solved(self) -> bool:
        return self.solved_sequence is not None

    @property
    def failed(self) -> bool:
        """Whether its scorer failed, or its prompts do not fit the model."""
        return self.stop is not None and self.stop.reason in (StopReason.FAILED, StopReason.TOO_LONG)

    @property
    def open(self) -> bool:
        return self.stop is None and self.upcoming < self.iterations

    @property
    def upcoming(self) -> int:
        """The iteration that is proposed next."""
        return self.missing[0] if self.missing else self.built

    @property
    def has_turn(self) -> bool:
        """Whether it may propose now."""
        if not self.open:
            return False
        if self.tuned is not None and self.uncommitted:
            size = self.tuned.generation
            if min(self.uncommitted) // size < self.upcoming // size:
                return False
        return self.spread is None or not self.uncommitted or self.upcoming - min(self.uncommitted) < self.spread

    def take(self) -> int:
        """The iteration that is proposed now."""
        if self.missing:
            return self.missing.popleft()
        self.built += 1
        return self.built - 1

    def solve(self, sequence: int, iterations: int, until_solved: bool, store: Store, transaction: Transaction) -> None:
        """The group `sequence` (-1: the seed) reached its target, after this many iterations."""
        self.solved_sequence, self.solved_at = sequence, iterations
        if until_solved:
            self.stop = SOLVED
        store.set_problem_status(self.record.id, "solved", solved_sequence=sequence, tx=transaction)

    def fail(
        self, message: str, store: Store, transaction: Transaction, reason: StopReason = StopReason.FAILED
    ) -> None:
        """Take no more iterations, because its scorer failed or for another reason; the first message stays."""
        if not self.failed:
            self.stop = Stop(reason, message)
            store.set_problem_status(self.record.id, "failed", message=message, tx=transaction)


@dataclass(eq=False)
class Iteration:
    """One iteration of one problem in flight: a parent is chosen, shown in a prompt, answered by a group of rollouts,
    and scored. `write_prompt` sets its operator and its prompt, and the window the last two fields as it is sampled.

    sequence: its place in the run's order; number: its place among the iterations of its problem
    island: where its answers will live; selection: what its prompt may show
    parent: the population's choice, also where the prompt shows only the task; None if it has none to choose
    stream: of the policy's random numbers; rng: the remaining random numbers, for the prompt
    operator: which policy answers
    sampled: gives the rollouts; group: gives the scored group
    """

    problem_run: ProblemRun
    sequence: int
    number: int
    island: int
    selection: Selection
    parent: Candidate | None
    stream: int
    rng: np.random.Generator
    operator: int = field(init=False)
    prompt: Prompt = field(init=False)
    sampled: asyncio.Future[Sampled] = field(init=False)
    group: asyncio.Task[ScoredGroup] = field(init=False)

    @property
    def prompt_format(self) -> PromptFormat:
        return self.problem_run.prompt_formats[self.operator]

    @property
    def shown(self) -> Selection:
        return self.prompt_format.select_shown(self.selection)

    def write_prompt(self, operator: int) -> None:
        """Have this operator answer it."""
        self.operator = operator
        self.prompt = self.prompt_format.build(self.selection, self.stream, self.rng)

    def shorten(self) -> bool:
        """Show less: fewer inspirations, then no feedback; False if nothing can be left out."""
        selection, shown = self.selection, self.shown
        if shown.best or shown.inspirations:
            best, inspirations = len(selection.best) // 2, len(selection.inspirations) // 2
            fewer = replace(selection, best=selection.best[:best], inspirations=selection.inspirations[:inspirations])
        elif shown.parent is not None and shown.parent.feedback:
            fewer = replace(selection, parent=replace(shown.parent, feedback=""))
        else:
            return False
        self.selection = fewer
        self.write_prompt(self.operator)
        return True

    def to_group(
        self, rollouts: Sequence[ScoredRollout], version: str, *, answers: int, seed: int, temperature: float,
        top_p: float, sampling_seconds: float, scoring_seconds: float,
    ) -> ScoredGroup:  # fmt: skip
        """Its scored rollouts with everything that is stored. version: of the policy"""
        shown = self.shown
        return ScoredGroup(
            problem=self.problem_run.record.id,
            sequence=self.sequence,
            iteration=self.number,
            island=self.island,
            parent=shown.parent.id if shown.parent is not None else None,
            inspirations=tuple(dict.fromkeys(c.id for c in (*shown.best, *shown.inspirations))),
            prompt=self.prompt,
            policy_version=version,
            answers=answers,
            seed=seed,
            temperature=temperature,
            rollouts=tuple(rollouts),
            sampling_seconds=sampling_seconds,
            scoring_seconds=scoring_seconds,
            operator=self.operator,
            top_p=top_p,
        )


async def score_group(iteration: Iteration, operator: Operator, seed: int) -> ScoredGroup:
    """Wait for the rollouts of an iteration, parse and score them. Raises ScorerFault, and the policy's error."""
    rollouts, version, sampling_seconds = await iteration.sampled
    started = time.perf_counter()
    scores = iteration.problem_run.scores
    scored = await score_rollouts(iteration.prompt_format, rollouts, scores, iteration.selection)
    return iteration.to_group(
        scored, version, answers=operator.answers, seed=seed, temperature=operator.policy.temperature,
        top_p=operator.policy.top_p, sampling_seconds=sampling_seconds, scoring_seconds=time.perf_counter() - started,
    )  # fmt: skip


_REFILLS = 4
"""How often over the groups in flight fill the engine. The oldest holds the others back while its longest rollout goes
on; lengths spread as a model's are cost 38% with the engine filled once, 19% twice, 10% three times, 5% four times
(bench/results/removed.md)."""
_OUTDATED = 5
"""Groups in flight for each island or problem, at most: each is proposed knowing of none of the others."""
_GENERATIONS = 4
"""Parts that a run has at least, each knowing of those before it."""


@dataclass(frozen=True)
class WindowSize:
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


def window_of(config: RunConfig, policy: Policy, islands: Sequence[int]) -> WindowSize:
    """How many prompts go into a policy call, and how many groups are in flight. islands: of each problem

    Two calls' worth keep the policy busy while the other call's answers are scored. A smaller search takes smaller
    calls: with more groups in flight than islands and problems (or than five, for a single problem of one island),
    prompts would show parents that are long outdated.
    """
    breadth = max(len(islands), *islands, ISLANDS)
    if policy.batch == 0:
        batch = 0
        groups = config.parallel or max(8, 2 * breadth, _filling(config, policy, breadth, len(islands)))
    else:
        batch = min(policy.batch, (config.parallel + 1) // 2 if config.parallel else breadth)
        groups = config.parallel or 2 * batch
    return WindowSize(groups, batch, config.lag, -(-groups // len(islands)) + config.lag if config.lag else 0)


def _filling(config: RunConfig, policy: Policy, breadth: int, problems: int) -> int:
    """Groups that keep an engine of known size busy, as long as the search stays a search: few in flight for each
    island or problem, and the run some generations deep. 0 if the engine's size is unknown."""
    fills = _REFILLS * -(-policy.traits.slots // (config.rollouts or 1))
    return min(fills, _OUTDATED * breadth, sum(planned_iterations(vars(config), problems)) // _GENERATIONS)
