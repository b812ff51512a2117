"""The data of a live screen of a run or a comparison, as plain values: no database, no terminal, no clock.

A snapshot never changes: the poller (evo.monitor.poller) makes a new one when the database has new data. The text of a
screen is a pure function of a snapshot (evo.tui.arrange), so tests can compare it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from evo.comparison.operators import OperatorShares
from evo.comparison.results import Results
from evo.comparison.survival import Curve
from evo.monitor.answer import NO_ORIGIN, StoredAnswer, WalkView
from evo.search.status import Period, seconds_until
from evo.stats import Verdict
from islands.browse import Ancestor, CandidateDetail, Origin
from islands.types import Totals

STALE_SECONDS = 60.0
"""Seconds without a heartbeat after which a running search is shown as silent; a writer sends one every 15 seconds."""


@dataclass(frozen=True)
class Telemetry:
    """The totals of an arm's runs, and their last reports; None for values that no run reports.

    Rates are summed over the running runs. If all have ended, they are all answers divided by all seconds.

    policy_busy: share of the time that the policy was sampling
    scoring_queue: answers that wait to be scored or are being scored now
    in_flight, sampled_ahead: of searches that have not committed for a while: the groups in flight, and those among
        them that are sampled and wait for the oldest
    """

    totals: Totals = field(default_factory=Totals)
    answers_per_second: float | None = None
    tokens_per_second: float | None = None
    policy_busy: float | None = None
    scoring_queue: int | None = None
    in_flight: int | None = None
    sampled_ahead: int | None = None


@dataclass(frozen=True)
class PopulationView:
    """Archives at their last reading: of one problem, or the mean over the problems that were read.

    cells: filled, for each island, means over problems and seeds
    diversity: mean L1 distance of the elites' reward vectors, over all islands together
    """

    cells: tuple[float, ...]
    diversity: float


@dataclass(frozen=True)
class TrainingCurve:
    """A trainer's steps so far. metrics: name -> values over `steps`, which rise; version: the newest policy."""

    run: str
    steps: tuple[int, ...]
    metrics: Mapping[str, tuple[float, ...]]
    version: str


@dataclass(frozen=True)
class ArmSnapshot:
    """One arm.

    statuses: status of a run -> how many runs, those that have any
    versions: of the policies that answered
    groups, planned: iterations committed, and in total (fewer if a search ended when it was solved)
    answers_per_iteration: G rollouts of m answers
    max_answers: the arm's budget of answers over all runs, if it has one
    results: (P, S) searches; None before the problems are known
    curve: the solve rate, or the mean best fitness if no problem has a target, over `Snapshot.axis`
    failed: problem index -> the fault of its scorer
    read: searches whose archives have been read, of P x S
    populations: problem index -> its archives, for the problems that were read
    operators: how its operators use the parents in their prompts, over all problems and seeds
    """

    name: str
    policy: str
    seeds: int
    statuses: Mapping[str, int]
    groups: int
    planned: int
    answers_per_iteration: int
    max_answers: int | None = None
    results: Results | None = None
    curve: Curve | None = None
    telemetry: Telemetry = field(default_factory=Telemetry)
    failed: Mapping[int, str] = field(default_factory=dict)
    population: PopulationView | None = None
    populations: Mapping[int, PopulationView] = field(default_factory=dict)
    read: int = 0
    training: TrainingCurve | None = None
    operators: tuple[OperatorShares, ...] = ()

    @property
    def answers_planned(self) -> int:
        """The answers that the arm may sample in total."""
        asked = self.planned * self.answers_per_iteration
        return asked if self.max_answers is None else min(asked, self.max_answers)


@dataclass(frozen=True)
class ProblemLine:
    """A problem of all arms."""

    name: str
    target: float | None
    objectives: tuple[str, ...]


@dataclass(frozen=True)
class ImprovementLine:
    """A new best answer of one search. change: of its reward vector against its parent's, None without a parent;
    before: the best fitness before it, None for the first valid answer."""

    arm: str
    seed: int
    problem: int
    iteration: int
    candidate: int
    fitness: float
    before: float | None
    created: float
    rewards: tuple[float, ...] = ()
    change: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Detail:
    """An arm's best answer to a problem.

    seed: of its search
    stored, answer: the answer with its provenance, None before there is a valid one
    lineage: the answer and its nearest ancestors
    origin: its prompt and rollout; before the first answer, and for a seed, the problem's first prompt
    statement: of the problem; "" if only the prompt has it; walk: the answer's way through its maze
    best_known: the best fitness known to the problem, None if there is none
    """

    arm: str
    problem: int
    seed: int = 0
    stored: CandidateDetail | None = None
    answer: StoredAnswer | None = None
    lineage: tuple[Ancestor, ...] = ()
    origin: Origin = NO_ORIGIN
    statement: str = ""
    walk: WalkView | None = None
    best_known: float | None = None


@dataclass(frozen=True)
class Snapshot:
    """All data of a screen. Times are seconds since 1970.

    axis: (T,) iterations, or answers if the arms' iterations differ in cost; `axis_unit` names the unit
    verdict: a line for each arm against the reference
    loaded, runs: how many of the runs have been read completely
    remaining: estimated seconds to the planned end (evo.monitor.poller.Remaining); None if there is too little data
    active: the periods in which any of the runs was searched, in order
    heard: the time of the last heartbeat of any run
    fault: why the database cannot be read now
    """

    name: str
    arms: tuple[ArmSnapshot, ...]
    problems: tuple[ProblemLine, ...] = ()
    reference: str | None = None
    iterations: int = 1
    axis: tuple[int, ...] = ()
    axis_unit: str = "iterations"
    verdict: tuple[Verdict, ...] = ()
    improvements: tuple[ImprovementLine, ...] = ()
    details: Mapping[tuple[int, str], Detail] = field(default_factory=dict)
    active: tuple[Period, ...] = ()
    heard: float = 0.0
    remaining: float | None = None
    loaded: int = 0
    runs: int = 0
    fault: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def groups(self) -> int:
        return sum(arm.groups for arm in self.arms)

    @property
    def planned(self) -> int:
        return sum(arm.planned for arm in self.arms)

    @property
    def statuses(self) -> dict[str, int]:
        """Status -> how many runs of all arms."""
        counts: dict[str, int] = {}
        for arm in self.arms:
            for status, n in arm.statuses.items():
                counts[status] = counts.get(status, 0) + n
        return counts

    @property
    def ended(self) -> bool:
        """Whether no run is running or waits for its turn. Runs after an interrupted one do not wait; a failed one does
        not stop the next batch of seeds."""
        statuses = self.statuses
        if not statuses or statuses.get("running"):
            return False
        return not statuses.get("waiting") or bool(statuses.get("interrupted"))

    @property
    def has_targets(self) -> bool:
        return any(problem.target is not None for problem in self.problems)

    def elapsed(self, now: float) -> float:
        """Seconds in which any of the runs was searched."""
        return seconds_until(self.active, now if self.silent(now) is None else self.heard)

    def silent(self, now: float) -> float | None:
        """Seconds since the last heartbeat of a running search; None if they are fewer than STALE_SECONDS."""
        quiet = now - self.heard
        return quiet if self.statuses.get("running") and quiet > STALE_SECONDS else None

    def eta(self) -> float | None:
        """Seconds to the planned end, rounded to 5 below a minute, to 10 below ten minutes, else to minutes. None if
        they are not known."""
        if self.ended or self.groups >= self.planned:
            return 0.0
        if self.remaining is None:
            return None
        step = 5 if self.remaining < 57 else 10 if self.remaining < 595 else 60
        return float(step * math.ceil(self.remaining / step))
