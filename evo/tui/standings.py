"""Who won which problem: every arm's outcome beside the reference's, for the table of problems and its totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evo.comparison.results import Results
from evo.monitor.snapshot import ArmSnapshot, Snapshot
from evo.tui.numbers import fitness, signed

Floats = npt.NDArray[np.float64]
LEVEL = 5e-4
"""Best fitnesses that differ by less are level: the figures beside them would read the same."""


@dataclass(frozen=True, eq=False)
class Standings:
    """A arms, P problems. As far as the searches have come: one that is under way can still be overtaken.

    solved: (A, P) share of the seeds that have solved it, NaN for a problem without a target
    took: (A, P) iterations to the solution, the median over the seeds that have one; inf where none has
    best: (A, P) best fitness so far, the mean over seeds; NaN before any
    sign: (A, P) 1 won, -1 lost, 0 level against the reference; NaN where either is not known, and everywhere without
        a reference
    gap: (A, P) how far: iterations sooner where `timed`, else best fitness gained
    timed: (A, P) whether both have solved it under every seed
    """

    solved: Floats
    took: Floats
    best: Floats
    sign: Floats
    gap: Floats
    timed: npt.NDArray[np.bool_]

    @property
    def differing(self) -> npt.NDArray[np.bool_]:
        """(P,) problems that some arms have solved under more seeds than others; without a target, those whose best
        fitnesses differ."""
        shares = np.where(np.isnan(self.solved), self.best, self.solved)
        known = ~np.isnan(shares)
        most = np.where(known, shares, -np.inf).max(axis=0)
        least = np.where(known, shares, np.inf).min(axis=0)
        found: npt.NDArray[np.bool_] = (known.sum(axis=0) > 1) & (most - least > LEVEL)
        return found

    @property
    def unsolved(self) -> npt.NDArray[np.bool_]:
        """(P,) problems with a target that no arm has solved under every seed."""
        with_target = ~np.isnan(self.solved).all(axis=0)
        solved = (np.nan_to_num(self.solved, nan=0.0) >= 1.0).any(axis=0)
        found: npt.NDArray[np.bool_] = np.asarray(with_target & ~solved)
        return found

    def counts(self, arm: int) -> tuple[int, int, int]:
        """Problems that the arm has won, lost and is level on."""
        sign = self.sign[arm]
        return int((sign > 0).sum()), int((sign < 0).sum()), int((sign == 0).sum())


class StandingsCache:
    """Standings made anew only where some arm's results are others; and the curves drawn of them (ProblemTable)."""

    def __init__(self) -> None:
        self.curves: dict[object, str] = {}
        self._of: tuple[Results | None, ...] = ()
        self._made: Standings | None = None

    def of(self, snapshot: Snapshot) -> Standings:
        results = tuple(arm.results for arm in snapshot.arms)
        same = len(results) == len(self._of) and all(a is b for a, b in zip(results, self._of, strict=True))
        if self._made is None or not same:
            self._made, self._of = standings(snapshot.arms, snapshot.reference, len(snapshot.problems)), results
        return self._made


def standings(arms: Sequence[ArmSnapshot], reference: str | None, problems: int) -> Standings:
    """Of arms as they are now; `reference` names the one that others are measured against, None for none."""
    shape = (len(arms), problems)
    solved, took, best = np.full(shape, np.nan), np.full(shape, np.inf), np.full(shape, np.nan)
    for row, arm in enumerate(arms):
        if arm.results is not None:
            solved[row], took[row], best[row] = _outcomes(arm.results)
    at = next((row for row, arm in enumerate(arms) if arm.name == reference), None)
    if at is None:
        unknown = np.full(shape, np.nan)
        return Standings(solved, took, best, unknown, unknown, np.zeros(shape, dtype=bool))
    timed = (solved == 1.0) & (solved[at] == 1.0)
    with np.errstate(invalid="ignore"):  # inf less inf, where neither has solved it
        sooner = np.round(took[at] - took)
    gap = np.where(timed, sooner, best - best[at])
    more = np.nan_to_num(solved - solved[at], nan=0.0)
    sign = np.where(more != 0, np.sign(more), np.where(np.abs(gap) < LEVEL, 0.0, np.sign(gap)))
    begun = ~np.isnan(best)
    sign = np.where(begun & begun[at], sign, np.nan)
    return Standings(solved, took, best, sign, gap, timed)


def _outcomes(results: Results) -> tuple[Floats, Floats, Floats]:
    at = results.solved_at
    judged, found = ~np.isnan(at).any(axis=1), np.isfinite(at)
    share = np.where(judged, found.mean(axis=1), np.nan)
    took = np.full(len(at), np.inf)
    some = found.any(axis=1)
    took[some] = np.nanmedian(np.where(found[some], at[some], np.nan), axis=1)
    best = np.full(len(at), np.nan)
    if results.best is not None:
        last = results.best[:, :, -1]
        known = ~np.isnan(last)
        count = known.sum(axis=1)
        best[count > 0] = (np.where(known, last, 0.0).sum(axis=1) / np.maximum(count, 1))[count > 0]
    return share, took, best


def outcome_text(found: Standings, arm: int, problem: int, seeds: int) -> str:
    """@12: solved after 12 iterations; 1/3@12: by one seed of three; else the best fitness; "-" before any."""
    share = found.solved[arm, problem]
    if not share > 0:  # NaN too
        return fitness(float(found.best[arm, problem]))
    at = f"@{found.took[arm, problem]:.0f}"
    return at if share == 1.0 else f"{round(share * seeds)}/{seeds}{at}"


def gap_text(found: Standings, arm: int, problem: int) -> str:
    """+12it: twelve iterations sooner than the reference; -.250: a best fitness that much lower; = for level."""
    sign, gap = found.sign[arm, problem], found.gap[arm, problem]
    if sign != sign:
        return ""
    if sign == 0:
        return "="
    mark, size = "+" if sign > 0 else "-", abs(float(gap))
    if found.timed[arm, problem]:
        return f"{mark}{size:.0f}it"
    # more seeds have solved it, and the mean of the best fitnesses does not say so
    return mark + signed(size).lstrip("+") if sign * gap >= LEVEL else mark
