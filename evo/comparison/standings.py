"""Which arm won which problem: each arm's outcome against the reference's, for tables of problems and their totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evo.comparison.results import Results

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
LEVEL = 5e-4
"""Best fitnesses that differ by less are level: tables print them as equal numbers."""


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
        return np.asarray((known.sum(axis=0) > 1) & (most - least > LEVEL))

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
    sign = np.where(more != 0, np.sign(more), np.where(np.abs(gap) < LEVEL, 0.0, np.sign(gap)))
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
        known = ~np.isnan(last)
        count = known.sum(axis=1)
        best[count > 0] = (np.where(known, last, 0.0).sum(axis=1) / np.maximum(count, 1))[count > 0]
    return share, took, best
