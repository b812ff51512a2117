"""The results of one arm's searches as arrays, finished or running, and the problems that each arm solved and won.

A search is one problem under one seed. Arms of a comparison have the same P problems in the same order. While searches
run, some have done more iterations than others. A solved search is known for all iterations, an unsolved one only for
those it has done, so statistics over all of them would favour early solutions. Metrics of single searches are therefore
given only up to the *horizon*, the iteration that all searches have reached. Curves that also use the later iterations
are in evo.comparison.summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from problems.objectives import Objective, own_fitness

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Results:
    """One arm's searches of P problems under S seeds, planned for T iterations each.

    solved_at: (P, S) iterations to the solution; 0 if the seed answer is one, inf if there is none (yet); NaN under
        every seed for a problem without a target, which counts only for fitness
    done: (P, S) iterations committed so far
    iterations: T; later solutions do not count
    answers: of an iteration: G rollouts of m answers count G * m
    best: (P, S, K) best fitness after each of `times`; NaN before the first answer and after `done`; None: not loaded
    until_solved: whether a search stops once it is solved, so that its best fitness no longer changes
    times: (K,) rising iterations at which curves and horizons are read; empty, the default, means all of 1..T. A screen
        of a long run keeps only as many as it can draw
    metrics: of the one problem whose fitness is shown as its scorer measures it, lower being better; () otherwise
    sets: (P, S) the value of the best set of answers in the end; None: not asked for, or not all searches have ended
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
    metrics: tuple[Objective, ...] = ()
    sets: Floats | None = None

    def __post_init__(self) -> None:
        done = np.minimum(np.asarray(self.done), self.iterations).astype(np.int64)
        times = self.times if len(self.times) else np.arange(1, self.iterations + 1, dtype=np.int64)
        # the accumulation fills gaps
        best = None if self.best is None else np.fmax.accumulate(np.asarray(self.best, dtype=np.float64), axis=-1)
        solved_at = np.asarray(self.solved_at, dtype=np.float64)
        for name, value in (("solved_at", solved_at), ("done", done), ("times", times), ("best", best)):
            object.__setattr__(self, name, value)

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
        if self.best is None:
            return 0
        ended = (self.solved_at <= self.iterations) & self.until_solved
        return self._last_time(np.where(ended, self.iterations, self.done))

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
        """(P, S) best fitness after t iterations, by `metrics` as its scorer measures it. A search without a valid
        answer counts 0, as a missing answer does in an evaluation. Raises ValueError beyond the best_horizon."""
        if self.best is None:
            raise ValueError("these results hold no best fitness")
        _within(t, 1, self.best_horizon)
        at = int(np.searchsorted(self.times, t))
        if self.times[at] != t:
            raise ValueError(f"iteration {t} is not one of those that the best fitness is given for")
        if self.metrics:
            return np.array([[own_fitness(self.metrics, value) for value in seeds] for seeds in self.best[:, :, at]])
        return np.nan_to_num(self.best[:, :, at], nan=0.0)

    def set_values(self, t: int) -> Floats:
        """(P, S) the value of the best set of answers, whatever t is. Raises ValueError if `sets` was not loaded."""
        if self.sets is None:
            raise ValueError("these results hold no sets of answers")
        return self.sets

    def only(self, problems: npt.ArrayLike | None = None, seeds: npt.ArrayLike | None = None) -> Results:
        """The results of only these problems and seeds, by index or mask; by default of all. It removes a problem whose
        search failed in one arm from all arms, and seeds that some arm has not begun."""
        rows = slice(None) if problems is None else np.asarray(problems)
        columns = slice(None) if seeds is None else np.asarray(seeds)
        held = [name for name in ("solved_at", "done", "best", "sets") if getattr(self, name) is not None]
        return replace(self, **{name: getattr(self, name)[rows][:, columns] for name in held})

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


TIE_TOLERANCE = 1e-9
"""Best fitnesses that differ by less than this share of the larger one are level: rounding of a mean over seeds."""


@dataclass(frozen=True, eq=False)
class Standings:
    """A arms, P problems, with the results so far: a running search can still be overtaken.

    solved: (A, P) share of the seeds that have solved it, NaN for a problem without a target
    took: (A, P) iterations to the solution, the median over the seeds that have one; inf if none has
    best: (A, P) best fitness so far, the mean over seeds; NaN before any
    sign: (A, P) 1 won, -1 lost, 0 level against the reference; NaN if either is unknown, or without a reference
    gap: (A, P) by how much: iterations saved if `timed`, else best fitness gained
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
        fitnesses differ."""
        shares = np.where(np.isnan(self.solved), self.best, self.solved)
        known = ~np.isnan(shares)
        most = np.where(known, shares, -np.inf).max(axis=0)
        least = np.where(known, shares, np.inf).min(axis=0)
        return np.asarray((known.sum(axis=0) > 1) & (most - least > TIE_TOLERANCE * np.fmax(abs(most), abs(least))))

    @property
    def unsolved(self) -> Bools:
        """(P,) problems with a target that no arm has solved under every seed."""
        with_target = ~np.isnan(self.solved).all(axis=0)
        solved = (np.nan_to_num(self.solved, nan=0.0) >= 1.0).any(axis=0)
        return np.asarray(with_target & ~solved)

    def counts(self, arm: int) -> tuple[int, int, int]:
        """Problems that the arm has won, lost and is level on."""
        sign = self.sign[arm]
        return int((sign > 0).sum()), int((sign < 0).sum()), int((sign == 0).sum())


def standings(results: Sequence[Results | None], reference: int | None, problems: int) -> Standings:
    """Standings of the arms' results, None for an arm without results. reference: the arm that others are measured
    against.

    An arm wins a problem if it solved it under more seeds than the reference. If both solved it under all seeds, the
    faster arm wins; otherwise the one with the higher best fitness.
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
    sign = np.where(more != 0, np.sign(more), np.where(level, 0.0, np.sign(gap)))
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
        best = mean_known(results.best[:, :, -1], axis=1)
    return share, took, best


def mean_known(values: Floats, axis: int) -> Floats:
    """The mean along an axis of the values that are not NaN; NaN where all are."""
    count = (~np.isnan(values)).sum(axis=axis)
    return np.where(count > 0, np.nansum(values, axis=axis) / np.maximum(count, 1), np.nan)
