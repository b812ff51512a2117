"""One problem under search: the problem, its population, and its progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field

from evo.prompts.contract import PromptFormat
from evo.prompts.tuned import TunedFormat
from evo.search.score import AnswerScores
from evo.search.stop import SOLVED, Stop, StopReason
from islands.population.population import Population
from islands.store import Store, Transaction
from islands.types import ProblemRecord
from problems.contract import Problem
from problems.scoring import Scorer
from problems.types import ScoredAnswer


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
        return None if stored is None else ScoredAnswer(text, key, self.population.score_of(stored), 0.0, stored)
