"""The results of one arm's searches as arrays, finished or running, and the problems that each arm solved and won.

A search is one problem under one seed. Arms of a comparison have the same P problems in the same order. While searches
run, some have done more iterations than others. A solved search is known for all iterations, an unsolved one only for
those it has done, so statistics over all of them would favour early solutions. Metrics of single searches are therefore
given only up to the *horizon*, the iteration that all searches have reached. Curves that also use the later iterations
are in evo.comparison.summary.

Best answers are values, each as its scorer measures it, and every mean of them is made here: of problems that measure
the same, of the values; of others, whose units differ, of the rewards that count for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.evaluation.preferences import Ints
from problems.objectives import FITNESS, REWARD, Measure, Objective
from vpo.scalarize import Bools, Floats


@dataclass(frozen=True, eq=False)
class Results:
    """One arm's searches of P problems under S seeds, planned for T iterations each.

    solved_at: (P, S) iterations to the solution; 0 if the seed answer is one, inf if there is none (yet); NaN under
        every seed for a problem without a target, which counts only for fitness
    done: (P, S) iterations committed so far
    iterations: T; later solutions do not count
    answers: of an iteration: G rollouts of m answers count G * m
    best: (P, S, K) the best value after each of `times`; NaN before the first answer and after `done`; None: not loaded
    until_solved: whether a search stops once it is solved, so that its best fitness no longer changes
    times: (K,) rising iterations at which curves and horizons are read; empty, the default, means all of 1..T. A screen
        of a long run keeps only as many as it can draw
    objectives: (P,) what the fitness of each problem is of; empty, the default, if it is a fitness for all
    missing: (P,) what a search without a valid answer counts in means (worst_values); 0 by default
    starts: (P, S) the value of the seed answer, NaN for none; None: not loaded
    sets: (P, S) the value of the best set of answers in the end; None: not asked for, or not all searches have ended
    worth, weightings: (P, S, K + 1) E_w[best] and the share of weightings that are solved (evo.evaluation.preferences),
        of the seed answer and after each of `times`; the latter NaN for a problem whose optimum is not known. None: not
        asked for
    worth_unit: what `worth` is in (evo.evaluation.preferences.join_units)
    unit, size: of what an iteration is a step, and how large the step is: tokens, if a budget of them is the axis
    """

    solved_at: Floats
    done: Ints
    iterations: int
    answers: int = 1
    best: Floats | None = None
    until_solved: bool = False
    times: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    unit: str = "iterations"
    size: float = 1
    objectives: tuple[Objective, ...] = ()
    missing: Floats | None = None
    starts: Floats | None = None
    sets: Floats | None = None
    worth: Floats | None = None
    weightings: Floats | None = None
    worth_unit: str = ""

    def __post_init__(self) -> None:
        done = np.minimum(np.asarray(self.done), self.iterations).astype(np.int64)
        times = self.times if len(self.times) else np.arange(1, self.iterations + 1, dtype=np.int64)
        # the accumulation fills gaps
        best = None if self.best is None else np.asarray(self.best, dtype=np.float64)
        if best is not None:
            rising = self.direction[:, None, None] * best
            best = self.direction[:, None, None] * np.fmax.accumulate(rising, axis=-1) + 0.0  # -0.0 is 0
        solved_at = np.asarray(self.solved_at, dtype=np.float64)
        for name, value in (("solved_at", solved_at), ("done", done), ("times", times), ("best", best)):
            object.__setattr__(self, name, value)

    @cached_property
    def direction(self) -> Floats:
        """(P,) 1; -1 if a lower value is better."""
        lower = [one.lower for one in self.objectives] or [False] * len(self.solved_at)
        return np.where(lower, -1.0, 1.0)

    @property
    def lower(self) -> Bools:
        """(P,) whether a lower value is better."""
        return self.direction < 0

    @cached_property
    def measure(self) -> Measure:
        """What means are of: what all problems measure; rewards if they measure different things."""
        measures = {one.measure for one in self.objectives} or {FITNESS}
        return measures.pop() if len(measures) == 1 else REWARD

    def filled(self, values: Floats) -> Floats:
        """(P, ...) values -> the same with what counts for searches without one."""
        missing = np.zeros(len(values)) if self.missing is None else self.missing
        return np.where(np.isnan(values), missing.reshape(-1, *(1,) * (values.ndim - 1)), values)

    def comparable(self, values: Floats) -> Floats:
        """(P, ...) values -> numbers of `measure`, of which means are made; NaN for a problem without any value."""
        found = self.filled(values)
        if self.measure == REWARD:
            for row, objective in enumerate(self.objectives):
                if objective.lower:
                    found[row] = np.vectorize(objective.reward, otypes=[float])(found[row])
        return found

    @property
    def mean_best(self) -> float | None:
        """The mean over all searches of their best values so far: one that has not begun counts as its seed answer.
        None before the first answer."""
        if self.best is None or np.isnan(self.best[:, :, -1]).all():
            return None
        found = self.comparable(self.best[:, :, -1])
        return float(found[np.isfinite(found).all(axis=1)].mean(axis=1).mean())

    @property
    def at(self) -> Floats:
        """(K,) the `times` in their unit."""
        return np.asarray(self.times * self.size, dtype=np.float64)

    @property
    def judged(self) -> Bools:
        """(P,) whether a problem has a target; J problems have one."""
        return ~np.isnan(self.solved_at[:, 0])

    @property
    def horizon(self) -> int:
        """The iterations for which it is known whether each search was solved; 0 if there is no target."""
        solved_at, done = self.solved_at[self.judged], self.done[self.judged]
        if not len(done):
            return 0
        return self._last_time(np.where(solved_at <= self.iterations, self.iterations, done))

    @property
    def best_horizon(self) -> int:
        """The iterations for which every search's best fitness is known; 0 if it was not loaded."""
        return 0 if self.best is None else self.reached

    @property
    def stopped(self) -> Bools:
        """(P, S) whether a search ended because it was solved."""
        return (self.solved_at <= self.iterations) & self.until_solved

    @property
    def reached(self) -> int:
        """The iterations that every search has done, all of them if it stopped."""
        return self._last_time(np.where(self.stopped, self.iterations, self.done))

    def solved_by(self, t: int) -> Floats:
        """(J, S) 1 if the search was solved within t iterations, else 0. Raises ValueError beyond the horizon."""
        self._known(t, 0)
        return (self.solved_at[self.judged] <= t).astype(np.float64)

    def solve_areas(self, t: int) -> Floats:
        """(J, S) share of the iterations 1..t after which the search was solved. The mean is the area under the solve
        curve, from 0 to 1. Raises ValueError beyond the horizon."""
        self._known(t, 1)
        return np.asarray(np.maximum(0.0, t + 1 - np.maximum(self.solved_at[self.judged], 1)) / t)

    def best_at(self, t: int) -> Floats:
        """(P, S) the best after t iterations, as numbers of `measure`. Raises ValueError beyond the best_horizon."""
        if self.best is None:
            raise ValueError("these results hold no best fitness")
        _within(t, 1, self.best_horizon)
        at = int(np.searchsorted(self.times, t))
        if self.times[at] != t:
            raise ValueError(f"iteration {t} is not one of those that the best fitness is given for")
        return self.comparable(self.best[:, :, at])

    def set_values(self, t: int) -> Floats:
        """(P, S) the value of the best set of answers, whatever t is. Raises ValueError if `sets` was not loaded."""
        if self.sets is None:
            raise ValueError("these results hold no sets of answers")
        return self.sets

    def preferred_at(self, t: int, values: Floats | None) -> Floats:
        """(P, S) `worth` or `weightings` after t iterations. Raises ValueError if it was not loaded, and beyond the
        best_horizon."""
        if values is None:
            raise ValueError("these results were not judged under other weightings")
        _within(t, 1, self.best_horizon)
        return values[:, :, int(np.searchsorted(self.times, t, side="right"))]

    def only(self, problems: npt.ArrayLike | None = None, seeds: npt.ArrayLike | None = None) -> Results:
        """The results of only these problems and seeds, by index or mask; by default of all. It removes a problem whose
        search failed in one arm from all arms, and seeds that some arm has not begun."""
        rows = slice(None) if problems is None else np.asarray(problems)
        columns = slice(None) if seeds is None else np.asarray(seeds)
        held = [
            name
            for name in ("solved_at", "done", "best", "sets", "starts", "worth", "weightings")
            if getattr(self, name) is not None
        ]
        kept: dict[str, Any] = {name: getattr(self, name)[rows][:, columns] for name in held}
        if self.objectives:
            kept["objectives"] = tuple(np.array(self.objectives, dtype=object)[rows])
        if self.missing is not None:
            kept["missing"] = self.missing[rows]
        return replace(self, **kept)

    def _last_time(self, reached: Ints) -> int:
        """The last of `times` that every search has reached, 0 before the first."""
        at = int(np.searchsorted(self.times, reached.min(), side="right"))
        return int(self.times[at - 1]) if at else 0

    def _known(self, t: int, least: int) -> None:
        if not self.judged.any():
            raise ValueError("none of the problems has a target")
        _within(t, least, self.horizon)


def _within(t: int, least: int, horizon: int) -> None:
    if not least <= t <= horizon:
        raise ValueError(f"iteration {t}: every search has reached {horizon}, and {least} is the first that counts")


def drawn_times(iterations: int, most: int) -> Ints:
    """At most about `most` iterations of 1..`iterations`, evenly spaced, with the last included."""
    times = np.unique(np.linspace(1, iterations, min(iterations, most)).round().astype(np.int64))
    return np.unique(np.append(times, iterations))


def common_horizon(*arms: Results, best: bool = False) -> int:
    """The iteration that every search of every arm has reached; with `best`, the last one for which every arm's best
    fitness is known. Raises ValueError if the arms are not comparable."""
    if len({len(arm.solved_at) for arm in arms}) > 1:
        raise ValueError(f"arms must have the same problems: {', '.join(str(len(arm.solved_at)) for arm in arms)}")
    if any((arm.judged != arms[0].judged).any() for arm in arms):
        raise ValueError("arms must have the same problems: not the same ones have a target")
    if len({arm.answers for arm in arms}) > 1:
        raise ValueError("an iteration costs the arms different numbers of answers")
    return min(arm.best_horizon if best else arm.horizon for arm in arms)


def worst_values(arms: Sequence[Results]) -> Floats:
    """(P,) what a search without a valid answer counts in means: the worst best value that any search of that problem
    has had, and no more than 0 if higher is better; NaN if lower is better and there is no value yet."""
    found = np.full(len(arms[0].solved_at), np.inf)
    for arm in arms:
        assert arm.best is not None
        rising = arm.direction[:, None, None] * arm.best
        found = np.fmin(found, np.fmin.reduce(rising, axis=(1, 2), initial=np.inf))
    return np.where(arms[0].lower, np.where(np.isinf(found), np.nan, -found), np.minimum(found, 0.0))


TIE_TOLERANCE = 1e-9
"""Best values that differ by less than this share of the larger one are level: rounding of a mean over seeds."""


@dataclass(frozen=True, eq=False)
class Standings:
    """A arms, P problems, with the results so far: a running search can still be overtaken.

    solved: (A, P) share of the seeds that have solved it, NaN for a problem without a target
    took: (A, P) iterations to the solution, the median over the seeds that have one; inf if none has
    best: (A, P) the best value so far, the mean over seeds; NaN before any
    sign: (A, P) 1 won, -1 lost, 0 level against the reference; NaN if either is unknown, or without a reference
    gap: (A, P) by how much: iterations saved if `timed`, else the best value minus the reference's
    timed: (A, P) whether both have solved it under every seed
    """

    solved: Floats
    took: Floats
    best: Floats
    sign: Floats
    gap: Floats
    timed: Bools

    @property
    def differing(self) -> Bools:
        """(P,) problems that some arms have solved under more seeds than others; without a target, those whose best
        values differ."""
        shares = np.where(np.isnan(self.solved), self.best, self.solved)
        spread = np.fmax.reduce(shares) - np.fmin.reduce(shares)  # NaN, so False, where no arm has one
        return np.asarray(spread > TIE_TOLERANCE * np.fmax.reduce(abs(shares)))

    @property
    def unsolved(self) -> Bools:
        """(P,) problems with a target that no arm has solved under every seed."""
        return np.asarray(np.fmax.reduce(self.solved) < 1.0)

    def counts(self, arm: int) -> tuple[int, int, int]:
        """Problems that the arm has won, lost and is level on."""
        sign = self.sign[arm]
        return int((sign > 0).sum()), int((sign < 0).sum()), int((sign == 0).sum())


def standings(results: Sequence[Results | None], reference: int | None, problems: int) -> Standings:
    """Standings of the arms' results, None for an arm without results. reference: the arm that others are measured
    against.

    An arm wins a problem if it solved it under more seeds than the reference. If both solved it under all seeds, the
    faster arm wins; otherwise the one with the better best value.
    """
    shape = (len(results), problems)
    solved, took, best = np.full(shape, np.nan), np.full(shape, np.inf), np.full(shape, np.nan)
    for row, one in enumerate(results):
        if one is not None:
            solved[row], took[row], best[row] = _outcomes(one)
    if reference is None:
        unknown = np.full(shape, np.nan)
        return Standings(solved, took, best, unknown, unknown, np.zeros(shape, dtype=bool))
    timed = (solved == 1.0) & (solved[reference] == 1.0)
    with np.errstate(invalid="ignore"):  # inf - inf, if neither has solved it
        sooner = np.round(took[reference] - took)
    gap = np.where(timed, sooner, best - best[reference])
    more = np.nan_to_num(solved - solved[reference], nan=0.0)
    level = np.abs(gap) <= TIE_TOLERANCE * np.fmax(abs(best), abs(best[reference]))
    upwards = next((one.direction for one in results if one is not None), 1.0)
    better = np.where(timed, 1.0, upwards) * np.sign(gap)
    sign = np.where(more != 0, np.sign(more), np.where(level, 0.0, better))
    begun = ~np.isnan(best)
    return Standings(solved, took, best, np.where(begun & begun[reference], sign, np.nan), gap, timed)


def _outcomes(results: Results) -> tuple[Floats, Floats, Floats]:
    """(P,) each: the share of seeds that solved the problem, the iterations to the solution, the best fitness."""
    at = results.solved_at
    judged, found = ~np.isnan(at).any(axis=1), np.isfinite(at)
    share = np.where(judged, found.mean(axis=1), np.nan)
    took = np.full(len(at), np.inf)
    some = found.any(axis=1)
    if some.any():
        took[some] = np.nanmedian(np.where(found[some], at[some], np.nan), axis=1)
    best = np.full(len(at), np.nan)
    if results.best is not None:
        last = results.best[:, :, -1]
        best = np.where(np.isnan(last).all(axis=1), np.nan, results.filled(last).mean(axis=1))
    return share, took, best
