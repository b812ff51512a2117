"""The summary of a comparison: metrics with intervals, differences against the reference, and the verdict.

Metrics are taken at the horizon, the iteration that every search of every arm has reached, so a running comparison has
a summary too. It uses the seeds that have done nearly as many iterations as any, because seeds may be searched in turn.
The verdict is on the first metric, the solve rate at the horizon; the other metrics explain it. p-values and intervals
of several arms against one reference are corrected for all of them (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from evo.comparison.results import Results, align_budgets, common_best_horizon, common_horizon, solvers
from evo.comparison.survival import METRICS, Crossing, metric_difference, solve_curve
from evo.stats import Difference, Verdict, mean_interval, verdict
from vpo.metrics import Interval

NEARLY = 0.9


@dataclass(frozen=True)
class ArmSummary:
    """One arm at the horizon; a metric is None if no problem has a target, or if it is not known yet.

    solved: share of searches that were solved, with the band of its curve
    area: mean solve rate over the iterations up to the horizon
    median: iteration at which half of the searches were solved, None if they are not
    best: mean best fitness; a search without a valid answer counts 0
    only: problems, by index, that only this arm solved (under any seed)
    """

    solved: Interval | None = None
    area: Interval | None = None
    median: Crossing | None = None
    best: Interval | None = None
    only: tuple[int, ...] = ()


@dataclass(frozen=True)
class Summary:
    """All arms, in their order.

    iterations: planned, each of `answers` answers; if arms differ, those of the costliest arm
    seeds: how many the metrics use
    horizon, best_horizon: the iterations at which solve rates and best fitnesses are taken
    against: arm -> metric -> arm - reference, for the metrics that are known
    by_all, by_none: problems, by index, that every arm solved, and that none did
    """

    iterations: int
    answers: int
    seeds: int
    horizon: int
    best_horizon: int
    reference: str | None
    arms: Mapping[str, ArmSummary]
    against: Mapping[str, Mapping[str, Difference]] = field(default_factory=dict)
    by_all: tuple[int, ...] = ()
    by_none: tuple[int, ...] = ()


def summarise(results: Mapping[str, Results], reference: str | None, *, crossed_seeds: bool = False) -> Summary:
    """Summarise the searches of all arms. Raises ValueError if there are none or they are not comparable.

    crossed_seeds: a seed acts on all problems at once (evo.stats), as if the policy learns while it searches
    """
    if not results:
        raise ValueError("there is nothing to compare")
    arms = farthest(dict(zip(results, align_budgets(*results.values()), strict=True)))
    first = next(iter(arms.values()))
    horizon, best_horizon = common_horizon(*arms.values()), common_best_horizon(*arms.values())
    if (
        first.best is not None
    ):  # take all metrics at one iteration: a solved search is known for later ones, its best fitness is not
        horizon = min(horizon, best_horizon)
    solved = solvers(arms, horizon) if horizon else None
    standing = {}
    for name, arm in arms.items():
        shown = ArmSummary()
        if horizon:
            curve = solve_curve(arm, crossed_seeds=crossed_seeds)
            at = int(np.searchsorted(arm.times, horizon))
            shown = ArmSummary(
                solved=Interval(float(curve.mean[at]), float(curve.low[at]), float(curve.high[at])),
                area=mean_interval(arm.solve_areas(horizon), rate=True, crossed_seeds=crossed_seeds),
                median=curve.reaches(),
                only=solved.alone[name] if solved else (),
            )
        if best_horizon:
            best = mean_interval(arm.best_at(best_horizon), crossed_seeds=crossed_seeds)
            shown = ArmSummary(shown.solved, shown.area, shown.median, best, shown.only)
        standing[name] = shown
    against: dict[str, dict[str, Difference]] = {name: {} for name in arms if name != reference}
    if reference is not None:
        for metric in METRICS:
            if known := best_horizon if metric == "best" else horizon:
                for name in against:
                    against[name][metric] = metric_difference(
                        metric,
                        arms[name],
                        arms[reference],
                        known,
                        crossed_seeds=crossed_seeds,
                        comparisons=max(1, len(against)),
                    )
    return Summary(
        first.iterations,
        first.answers,
        first.solved_at.shape[1],
        horizon,
        best_horizon,
        reference,
        standing,
        against if reference is not None else {},
        solved.by_all if solved else (),
        solved.by_none if solved else (),
    )


def interval_unit(found: Summary) -> str:
    """The unit of the verdict's intervals: problems, or the seeds of a single problem."""
    sizes = {one.pairs for metrics in found.against.values() for one in metrics.values()}
    return "the seeds of one problem" if sizes == {1} else "problems"


def verdicts_of(found: Summary) -> list[Verdict]:
    """Every arm against the reference, by solve rate, or by mean best fitness if no problem has a target. The text
    names the iteration unless it is the last one."""
    known = found.horizon or found.best_horizon
    under_way = f" at iteration {known} of {found.iterations}" if known < found.iterations else ""
    lines = []
    for name, metrics in found.against.items():
        metric = next((metric for metric in ("solved", "best") if metric in metrics), None)
        if metric is not None:
            judged = verdict(name, str(found.reference), metrics[metric])
            lines.append(Verdict(judged.text + under_way, judged.shown))
    return lines


def farthest(arms: Mapping[str, Results]) -> dict[str, Results]:
    """The arms with only the seeds that have done, in every arm, nearly as many iterations as any seed. Raises
    ValueError if arms have different numbers of seeds."""
    if len({arm.solved_at.shape[1] for arm in arms.values()}) > 1:
        raise ValueError("every arm needs the same seeds")
    seeds = range(next(iter(arms.values())).solved_at.shape[1])
    reached = [min(_reached(arm.only(seeds=[seed])) for arm in arms.values()) for seed in seeds]
    kept = [seed for seed in seeds if reached[seed] >= NEARLY * max(reached)]
    return {name: arm.only(seeds=kept) for name, arm in arms.items()}


def _reached(arm: Results) -> int:
    return arm.horizon if arm.judged.any() else arm.best_horizon
