"""The problems under search: the state of each, whose turn it is, and how many iterations are in flight.

Problems take turns, after a resume those with the fewest proposals first.

With an asynchronous window (`--lag`, evo/search/window.py, and in ask and tell) a group gets its sequence when it is
committed. The sequence is the order of commits in either case, and the iteration is the order of proposals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace

from evo.config.run import RunConfig
from evo.prompts.contract import PromptFormat
from evo.prompts.registry import TunedFormat
from evo.search.resources import planned_iterations
from evo.search.score import AnswerScores
from evo.search.stop import SOLVED, Stop, StopReason
from islands.population.config import ISLANDS
from islands.population.population import Population
from islands.store import Store, Transaction
from islands.types import ProblemRecord
from problems.contract import Problem
from problems.scoring import Scorer
from problems.types import ScoredAnswer, ScoredGroup
from vpo.policies.contract import Policy


@dataclass(eq=False)
class ProblemRun:
    """The state of a problem in a run. Displays read its name, target, iterations, committed, best, solved_at and stop.

    prompt_formats: how each operator's prompts are built and read
    built: the first iteration that was never proposed
    missing: earlier ones that are to be proposed again: with an asynchronous window, a run that was cut off has gaps
    committed: iterations stored
    uncommitted: iterations in flight; spread: how far `upcoming` may be ahead of the oldest of these; None if only the
        search's order limits it (evo/search/window.py)
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
    scorer: InitVar[Scorer]
    built: int = 0
    committed: int = 0
    missing: deque[int] = field(default_factory=deque)
    uncommitted: set[int] = field(default_factory=set)
    spread: int | None = None
    stop: Stop | None = None
    solved_sequence: int | None = None
    solved_at: int | None = None

    def __post_init__(self, scorer: Scorer) -> None:
        self.name, self.target = self.record.name, self.problem.target
        self.scores = AnswerScores(self.problem, scorer, self._stored)
        first = self.prompt_formats[0]
        self.tuned = first if isinstance(first, TunedFormat) else None

    @property
    def best(self) -> float | None:
        """The best fitness so far; None without an answer."""
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
        """Whether it may propose now, being open."""
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

    def solve(self, sequence: int, iterations: int, until_solved: bool) -> None:
        """The group `sequence` (-1: the seed) reached its target, after this many iterations."""
        self.solved_sequence, self.solved_at = sequence, iterations
        if until_solved:
            self.stop = SOLVED

    def fail(
        self, message: str, store: Store, transaction: Transaction, reason: StopReason = StopReason.FAILED
    ) -> None:
        """Take no more iterations, because its scorer failed or for another reason; the first message stays."""
        if not self.failed:
            self.stop = Stop(reason, message)
            store.set_problem_status(self.record.id, "failed", message=message, tx=transaction)

    def _stored(self, text: str, key: bytes) -> ScoredAnswer | None:
        stored = self.population.known(key)
        return None if stored is None else ScoredAnswer(text, key, self.population.candidate(stored).score, 0.0, stored)


_UNPLACED = -1
"""The sequence of a group that gets its place when it is committed."""


class Schedule:
    """The order of a search's proposals.

    upcoming: the sequence of the next proposal, or with an asynchronous window of the next commit
    proposed: how many proposals there were, which a budget of answers counts
    """

    def __init__(self, problem_runs: Sequence[ProblemRun], upcoming: int = 0, async_window: int = 0) -> None:
        self.upcoming, self.async_window = upcoming, async_window
        self.proposed = sum(problem_run.built - len(problem_run.missing) for problem_run in problem_runs)
        self._turns = sorted(problem_runs, key=lambda problem_run: problem_run.upcoming)

    def take(self, problem_run: ProblemRun) -> int:
        """The sequence of the proposal that this problem makes now; _UNPLACED with an asynchronous window."""
        self.proposed += 1
        self._turns.remove(problem_run)
        self._turns.append(problem_run)
        return _UNPLACED if self.async_window else self._count()

    def commit(self, group: ScoredGroup) -> ScoredGroup:
        """The group, which is committed now, with its sequence."""
        return replace(group, sequence=self._count()) if self.async_window else group

    def _count(self) -> int:
        self.upcoming += 1
        return self.upcoming - 1

    def next(self) -> ProblemRun | None:
        """The problem whose turn it is."""
        while self._turns and not self._turns[0].open:
            del self._turns[0]
        return next((each for each in self._turns if each.open and each.has_turn), None)


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
