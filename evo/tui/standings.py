"""The standings of a screen (evo.comparison.standings): kept between frames, and as its table of problems writes
them."""

from __future__ import annotations

from collections.abc import Sequence

from evo.comparison import standings as compared
from evo.comparison.results import Results
from evo.comparison.standings import LEVEL, Standings
from evo.monitor.snapshot import ArmSnapshot, Snapshot
from evo.tui.numbers import fitness, signed


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
    at = next((row for row, arm in enumerate(arms) if arm.name == reference), None)
    return compared.standings([arm.results for arm in arms], at, problems)


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
