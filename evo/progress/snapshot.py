"""The progress of a run or a comparison at one moment, as plain values: no database, no terminal, no clock.

A snapshot never changes: Progress (evo.progress.model) makes a new one when the database has new data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evo.comparison.operators import OperatorShares
from evo.comparison.results import Results
from evo.comparison.summary import Curve
from evo.progress.answer import NO_ORIGIN, Statement, StoredAnswer
from evo.search.status import Period, clock, seconds_until
from evo.stats import Verdict
from islands.browse import CandidateDetail, Origin
from islands.lock import LOST
from islands.types import FORMAT, Totals


def error_name(kind: str) -> str:
    """A kind of error as people read it."""
    return "unreadable reply" if kind == FORMAT else kind


@dataclass(frozen=True)
class Telemetry:
    """The totals of an arm's runs, and their last reports; None for values that no run reports.

    Rates are summed over the running runs. If all have ended, they are all answers divided by all seconds.

    policy_busy: share of the time that the policy was sampling
    scoring_queue: answers that wait to be scored or are being scored now
    in_flight, sampled_ahead: of searches that have not committed for a while: the iterations in flight, and those among
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
    """The archives of one problem. cells: filled, for each island, means over seeds; diversity: mean L1 distance of the
    elites' reward vectors, over all islands together"""

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
    groups, planned: iterations committed, and in total (fewer if a search ended when it was solved)
    answers_per_iteration: G rollouts of m answers
    max_answers: the arm's budget of answers over all runs, if it has one
    results: (P, S) searches of the problems that count; None before these are known
    curve: the solve rate, or the mean best fitness if no problem has a target, over iterations
    population: the archives of the selected problem
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
    population: PopulationView | None = None
    training: TrainingCurve | None = None
    operators: tuple[OperatorShares, ...] = ()

    @property
    def answers_left(self) -> int:
        """The answers that the arm may still sample."""
        whole = self.planned * self.answers_per_iteration
        whole = whole if self.max_answers is None else min(whole, self.max_answers)
        return max(0, whole - self.groups * self.answers_per_iteration)

    @property
    def solved(self) -> tuple[int, int] | None:
        """Solved searches, and those with a target; None before the problems are known."""
        if self.results is None:
            return None
        known = self.results.solved_at[self.results.judged]
        return int(np.isfinite(known).sum()), known.size

    @property
    def mean_best(self) -> float | None:
        """Mean best fitness over the searches that have any."""
        if self.results is None or self.results.best is None:
            return None
        last = self.results.best[:, :, -1]
        known = last[~np.isnan(last)]
        return float(known.mean()) if len(known) else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        telemetry = self.telemetry
        solved, with_target = self.solved or (None, None)
        return {
            "name": self.name,
            "policy": self.policy,
            "statuses": dict(self.statuses),
            "iterations": self.groups,
            "planned": self.planned,
            "solved": solved,
            "with_target": with_target,
            "mean_best": self.mean_best,
            "answers": telemetry.totals.answers,
            "tokens": telemetry.totals.tokens,
            "cost": telemetry.totals.cost,
            "errors": dict(telemetry.totals.errors),
            "answers_per_second": telemetry.answers_per_second,
            "tokens_per_second": telemetry.tokens_per_second,
            "policy_busy": telemetry.policy_busy,
            "in_flight": telemetry.in_flight,
        }


@dataclass(frozen=True)
class ProblemLine:
    """A problem of all arms."""

    name: str
    target: float | None
    objectives: tuple[str, ...]


@dataclass(frozen=True)
class FailedProblem:
    """A problem that a fault of its scorer stopped in a run of `arm`; it counts in no arm."""

    name: str
    arm: str
    message: str


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
    origin: its prompt and rollout; before the first answer, and for a seed, the problem's first prompt
    """

    arm: str
    problem: int
    seed: int = 0
    stored: CandidateDetail | None = None
    answer: StoredAnswer | None = None
    origin: Origin = NO_ORIGIN
    stated: Statement = Statement()


@dataclass(frozen=True)
class Snapshot:
    """All data of a screen. Times are seconds since 1970.

    problems: those that count; failed: those that a fault of their scorer stopped in some run, which count in no arm
    iterations: planned for each problem
    verdict: a line for each arm against the reference
    detail: the selected answer, if an arm is selected
    loaded, runs: how many of the runs have been read completely
    remaining: estimated seconds to the planned end; None if there is too little data
    active: the periods in which any of the runs was searched, in order
    fault: why the database cannot be read now
    """

    name: str
    arms: tuple[ArmSnapshot, ...]
    problems: tuple[ProblemLine, ...] = ()
    failed: tuple[FailedProblem, ...] = ()
    reference: str | None = None
    iterations: int = 1
    verdict: tuple[Verdict, ...] = ()
    improvements: tuple[ImprovementLine, ...] = ()
    detail: Detail | None = None
    active: tuple[Period, ...] = ()
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
        return dict(sum((Counter(arm.statuses) for arm in self.arms), Counter[str]()))

    @property
    def errors(self) -> Counter[str]:
        """Errors of all arms by kind."""
        return sum((arm.telemetry.totals.errors for arm in self.arms), Counter[str]())

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
        return seconds_until(self.active, now)

    def eta(self) -> float | None:
        """Seconds to the planned end, rounded to 5 below a minute, to 10 below ten minutes, else to minutes. None if
        they are not known."""
        if self.ended or self.groups >= self.planned:
            return 0.0
        if self.remaining is None:
            return None
        step = 5 if self.remaining < 57 else 10 if self.remaining < 595 else 60
        return float(step * math.ceil(self.remaining / step))

    def state(self, now: float) -> tuple[str, str]:
        """The state in words, and its mood: good, bad, warn, or "" for a search that runs as it should."""
        elapsed, statuses = clock(self.elapsed(now)), self.statuses
        if self.fault:
            return "the database is not responding", "bad"
        if self.loaded < self.runs:
            return f"reading run {self.loaded + 1} of {self.runs}", "warn"
        if self.ended:
            whose = "all runs have ended" if self.runs > 1 else "the run has ended"
            if failed := statuses.get("failed", 0):
                return f"{whose}, {failed} failed, {elapsed}", "bad"
            if statuses.get("interrupted"):
                lost = LOST in self.reasons
                return f"stopped after {elapsed}: its process died" if lost else f"interrupted after {elapsed}", "warn"
            return f"{whose}, {elapsed}", "good"
        left = self.eta()
        return f"{elapsed}, {'…' if left is None else clock(left)} left", ""

    def as_dict(self, now: float) -> dict[str, Any]:
        """For JSON: progress, the arms' standing, verdicts (docs/guides/json.md)."""
        return {
            "name": self.name,
            "time": now,
            "ended": self.ended,
            "statuses": self.statuses,
            "iterations": self.groups,
            "planned": self.planned,
            "seconds": self.elapsed(now),
            "seconds_left": self.eta(),
            "fault": self.fault,
            "against": self.reference,
            "problems": len(self.problems),
            "failed": list(dict.fromkeys(problem.name for problem in self.failed)),
            "arms": [arm.as_dict() for arm in self.arms],
            "verdicts": [verdict.text for verdict in self.verdict],
        }
