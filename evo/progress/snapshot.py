"""The progress of a run or a comparison at one moment, as plain values: no database, no terminal, no clock.

A snapshot never changes: Progress (evo.progress.model) makes a new one when the database has new data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from evo.comparison.arms import Arm, Comparison
from evo.comparison.results import Results, Standings, standings
from evo.comparison.summary import Curve, Summary
from evo.progress.answer import NO_ORIGIN, Statement, StoredAnswer
from evo.search.status import active_periods, clock, seconds_until, union
from evo.stats.differences import Verdict
from islands.browse import CandidateDetail, Origin
from islands.lock import LOST
from islands.types import FORMAT, Totals
from problems.objectives import FITNESS, Measure, Value


def error_name(kind: str) -> str:
    """A kind of error as people read it."""
    return "unreadable reply" if kind == FORMAT else kind


def _have_ended(statuses: Collection[str]) -> bool:
    """Whether no run is running or waits for its turn. Runs after an interrupted one do not wait; a failed one does not
    stop the next batch of seeds."""
    if not statuses or "running" in statuses:
        return False
    return "waiting" not in statuses or "interrupted" in statuses


@dataclass(frozen=True)
class ArmSnapshot(Arm):
    """One arm, as far as it is.

    groups, planned: iterations committed, and in total (fewer if a search ended when it was solved)
    totals: of its runs
    results: (P, S) searches of the problems that count; None before these are known
    curve: the solve rate, or the mean best value if no problem has a target, over iterations
    """

    groups: int = 0
    planned: int = 0
    totals: Totals = field(default_factory=Totals)
    results: Results | None = None
    curve: Curve | None = None

    @property
    def answers_left(self) -> int:
        """The answers that the arm may still sample."""
        budgets = [run.config.get("max_answers") for run in self.runs]
        whole = self.planned * self.answers
        whole = min(whole, sum(map(int, filter(None, budgets)))) if all(budgets) else whole
        return max(0, whole - self.groups * self.answers)

    @property
    def seconds(self) -> float:
        """Of its runs' processes, which shared the machine with those of other arms."""
        return sum(float(run.summary.get("seconds", 0.0)) for run in self.runs)

    def reported(self, key: str, *, ended: bool = False) -> list[float]:
        """The values that the running runs report. ended: those of ended runs if none is running. Runs of other
        versions may lack a key, or have other values."""
        running = [run for run in self.runs if run.status == "running"]
        values = [run.summary.get(key) for run in running or self.runs * ended]
        return [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]

    def waiting(self, key: str) -> int | None:
        """The sum that the running runs report; None if none does. key: scoring_queue, answers that wait to be scored;
        in_flight, iterations in flight of searches that have not committed for a while; sampled_ahead, those of them
        that are sampled and wait for the oldest"""
        values = self.reported(key)
        return int(sum(values)) if values else None

    def rate(self, what: str) -> float | None:
        """Answers or tokens a second, summed over the running runs; of several ended runs, all divided by all
        seconds."""
        total = self.totals.answers if what == "answers" else self.totals.tokens
        rates = self.reported(f"{what}_per_second", ended=True)
        if self.seeds > 1 and "running" not in self.statuses and self.seconds and total:
            return float(total / self.seconds)
        return sum(rates) if rates else None

    @property
    def policy_busy(self) -> float | None:
        """The share of the time that the policy was sampling."""
        shares = self.reported("policy_busy", ended=True)
        return sum(shares) / len(shares) if shares else None

    @property
    def solved(self) -> tuple[int, int] | None:
        """Solved searches, and those with a target; None before the problems are known."""
        if self.results is None:
            return None
        known = self.results.solved_at[self.results.judged]
        return int(np.isfinite(known).sum()), known.size

    @property
    def mean_best(self) -> Value:
        """The mean best value over all searches, which never gets worse (Results.mean_best)."""
        return Value(None) if self.results is None else Value(self.results.mean_best, self.results.measure)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        solved, with_target = self.solved or (None, None)
        return {
            "name": self.name,
            "policy": self.policy,
            "statuses": dict(self.statuses),
            "iterations": self.groups,
            "planned": self.planned,
            "solved": solved,
            "with_target": with_target,
            "mean_best": self.mean_best.number,
            "answers": self.totals.answers,
            "tokens": self.totals.tokens,
            "cost": self.totals.cost,
            "errors": dict(self.totals.errors),
            "answers_per_second": self.rate("answers"),
            "tokens_per_second": self.rate("tokens"),
            "policy_busy": self.policy_busy,
            "in_flight": self.waiting("in_flight"),
        }


@dataclass(frozen=True)
class FailedProblem:
    """A problem that a fault of its scorer stopped in a run of `arm`; it counts in no arm."""

    name: str
    arm: str
    message: str


@dataclass(frozen=True)
class ImprovementLine:
    """A new best answer of one search. before: the best value before it, None for the first valid answer."""

    arm: str
    seed: int
    problem: int
    iteration: int
    candidate: int
    value: Value
    before: Value | None
    created: float


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
class Snapshot(Comparison):
    """All data of a screen: the comparison with its arms as far as they are. Times are seconds since 1970.

    problems: none before a search has begun
    summary: all arms at the horizon; verdict: a line for each pair of arms
    detail: the selected answer, if an arm is selected
    remaining: estimated seconds to the planned end; None if there is too little data
    fault: why the database cannot be read now
    """

    arms: tuple[ArmSnapshot, ...]
    summary: Summary | None = None
    verdict: tuple[Verdict, ...] = ()
    improvements: tuple[ImprovementLine, ...] = ()
    detail: Detail | None = None
    remaining: float | None = None
    fault: str = ""

    @property
    def reasons(self) -> list[str]:
        """Why runs ended, each once."""
        return list(dict.fromkeys(run.reason for run in self.runs if run.reason))

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
        return sum((arm.totals.errors for arm in self.arms), Counter[str]())

    @property
    def ended(self) -> bool:
        return _have_ended(self.statuses)

    @property
    def measure(self) -> Measure:
        """What the means of best values are of."""
        return next((arm.results.measure for arm in self.arms if arm.results is not None), FITNESS)

    @property
    def has_targets(self) -> bool:
        return any(problem.target is not None for problem in self.problems)

    @cached_property
    def standing(self) -> Standings:
        """Which arm solved and won which problem, against the reference."""
        reference = next((place for place, arm in enumerate(self.arms) if arm.name == self.reference), None)
        return standings([arm.results for arm in self.arms], reference, len(self.problems))

    def elapsed(self, now: float) -> float:
        """Seconds in which any of the runs was searched."""
        return seconds_until(union([period for run in self.runs for period in active_periods(run)]), now)

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
        if self.ended:
            whose = "all runs have ended" if len(self.runs) > 1 else "the run has ended"
            if failed := statuses.get("failed", 0):
                return f"{whose}, {failed} failed, {elapsed}", "bad"
            if statuses.get("interrupted"):
                lost = LOST in self.reasons
                return f"stopped after {elapsed}: its process died" if lost else f"interrupted after {elapsed}", "warn"
            return f"{whose}, {elapsed}", "good"
        left = self.eta()
        return f"{elapsed}, {'…' if left is None else clock(left)} left", ""

    def as_dict(self, now: float) -> dict[str, Any]:
        """For JSON: progress, the arms' standing, verdicts (docs/guides/runs.md)."""
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
            "failed": [problem.name for problem in self.failed],
            "measure": self.measure.name,
            "direction": "min" if self.measure.lower else "max",
            "arms": [arm.as_dict() for arm in self.arms],
            "verdicts": [verdict.text for verdict in self.verdict],
        }
