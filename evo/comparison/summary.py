"""The summary of a comparison: curves with bands, metrics with intervals, paired differences, and the verdict.

While searches run, some have done more iterations than others. A solved search is known for all iterations, an open
one only for those it has done, so the share of solved searches among the known ones would rise to 1 at the end. The
solve rate is therefore the Kaplan-Meier estimate (1958): the product over iterations of the shares of searches, still
unsolved at t, that t does not solve. Once all searches have reached an iteration, it is the plain share. Before, it is
unbiased if the progress of a search does not depend on its difficulty; taking turns over problems and arms ensures
that. A curve ends where fewer than half of the open searches have arrived.

Metrics and differences are taken at the horizon, the iteration that every search of every arm has reached, so a running
comparison has a summary too. It uses the seeds that have done nearly as many iterations as any, because seeds may be
searched in turn. The verdict is on the first metric, the solve rate at the horizon; the other metrics explain it.
Every two arms are compared, and p-values and intervals are corrected for the number of pairs (Bonferroni).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, combinations, compress
from typing import Any, NamedTuple

import numpy as np

from evo.comparison.results import Results, common_horizon
from evo.evaluation.preferences import is_share
from evo.stats.differences import (
    Difference,
    Verdict,
    detectable,
    fewest_pairs,
    fewest_seeds,
    paired_difference,
    verdict,
)
from evo.stats.intervals import Interval, by_unit, mean_band, mean_interval, wilson
from problems.objectives import FITNESS, REWARD, Measure
from vpo.scalarize import Floats

FEWEST_REACHED = 0.5
NEARLY = 0.9


@dataclass(frozen=True, eq=False)
class Curve:
    """A metric with its pointwise band; NaN if unknown.

    at: (K,) rising iterations, or amounts of `unit`, after which the metric is given
    mean, low, high: (K,)
    start: the mean before the first iteration, of the seed answers; NaN if it is unknown
    """

    at: Floats
    mean: Floats
    low: Floats
    high: Floats
    unit: str = "iterations"
    start: float = math.nan

    def half(self) -> float | None:
        """The iteration, or amount, by which half of the searches were solved; None if that is not known."""
        reached = self.mean >= 0.5 - 1e-9  # rates are products with rounding errors
        return float(self.at[np.argmax(reached)]) if reached.any() else None


def solve_curve(arm: Results, *, crossed_seeds: bool = False) -> Curve:
    """The share of searches that were solved within t iterations, by Kaplan-Meier if some are running.

    t runs over the arm's `times`. If they are fewer than its iterations, a running search counts up to the last of them
    that it has reached; finished searches give exact shares.

    The band is Wilson's with the effective sample size rate (1 - rate) / variance. The variance is that of the rate
    over problems by the infinitesimal jackknife, with all seeds of a problem as one unit (and with crossed seeds also
    all problems of a seed: Cameron, Gelbach and Miller 2011; one such seed has no band). It is at least that of
    independent searches. For one seed and finished searches the band is the usual Wilson interval. Unlike a bootstrap
    band it has a width at rates of 0 and 1, and it is fast enough for every refresh. For one problem it is over its
    seeds; one search has no band.
    Raises ValueError if no problem has a target.
    """
    solved_at, done = arm.solved_at[arm.judged], arm.done[arm.judged]  # (J, S)
    if not len(done):
        raise ValueError("none of the problems has a target")
    solved_at, done = by_unit(solved_at), by_unit(done)
    # the two may be read at different times
    followed = np.where(np.isfinite(solved_at), np.maximum(done, solved_at), done)
    times = np.concatenate([[0], arm.times])  # starts at 0: a seed answer may be a solution
    solved_by = np.searchsorted(times, solved_at)[..., None]  # places in `times`
    followed_to = np.searchsorted(times, followed, side="right")[..., None] - 1
    places = np.arange(len(times))
    event = solved_by == places  # (J, S, K + 1)
    open_ = solved_by >= places
    at_risk = open_ & (followed_to >= places)
    n, n_open = at_risk.sum(axis=(0, 1)), open_.sum(axis=(0, 1))  # (K + 1,)
    hazard = event.sum(axis=(0, 1)) / np.maximum(n, 1)
    unsolved = np.cumprod(1 - hazard)
    reached = np.where(n_open, n / np.maximum(n_open, 1), 1.0)
    known = np.logical_and.accumulate(reached >= FEWEST_REACHED)

    # d log(unsolved) / d weight of a search; after a hazard of 1 nothing varies
    slope = (event - hazard * at_risk) / (np.maximum(n, 1) * np.where(hazard < 1, 1 - hazard, np.inf))
    influence = unsolved * np.cumsum(slope, axis=-1)  # (J, S, K + 1)
    variance, df = _variance(influence, crossed_seeds)
    varies = (unsolved < 1) & (unsolved > 0)
    size = np.divide(unsolved * (1 - unsolved), variance, out=np.full(len(times), float(len(done))), where=varies)
    # if none is solved, the problems that have reached t count; if all are, no more than counted before
    size = np.where(unsolved == 1, np.maximum(at_risk.any(axis=1).sum(axis=0), 1), size)
    if (unsolved == 0).any():
        last = int(np.argmax(unsolved == 0))
        size[last:] = min(size[last - 1], len(done)) if last else len(done)
    rate = np.where(known, 1 - unsolved, np.nan)
    alone = len(done) == 1 or (crossed_seeds and arm.done.shape[1] == 1)
    low, high = (np.full_like(rate, np.nan),) * 2 if alone else wilson(rate, size, df=df)
    return Curve(arm.at, rate[1:], low[1:], high[1:], arm.unit, float((solved_at == 0).mean()))


def best_curve(arm: Results, *, crossed_seeds: bool = False) -> Curve:
    """The mean best value (Results.measure) after each of the arm's `times` with Student's band over problems; NaN
    beyond the best_horizon. Raises ValueError if `best` was not loaded."""
    if arm.best is None:
        raise ValueError("these results hold no best fitness")
    known = int(np.searchsorted(arm.times, arm.best_horizon, side="right"))
    values = _known(arm.comparable(arm.best[:, :, :known]))
    band = np.full((3, len(arm.times)), np.nan)
    if known and len(values):
        band[:, :known] = mean_band(values, crossed_seeds=crossed_seeds)
    start = math.nan
    if arm.starts is not None and np.isfinite(arm.starts).all():
        start = float(arm.comparable(arm.starts).mean())
    return Curve(arm.at, band[0], band[1], band[2], arm.unit, start)


def preference_curve(arm: Results, metric: str, *, crossed_seeds: bool = False) -> Curve | None:
    """The mean of E_w[best] (`worth`) or of the share of weightings solved (`weightings`) after each of the arm's
    `times`, with its band over the problems that have one; NaN beyond the best_horizon. None if no problem has."""
    values: Floats | None = getattr(arm, metric)
    known = int(np.searchsorted(arm.times, arm.best_horizon, side="right"))
    if values is None or not len(values := _known(values)):
        return None
    band = np.full((3, len(arm.times)), np.nan)
    if known:
        rate = METRICS[metric].rate
        band[:, :known] = mean_band(values[:, :, 1 : known + 1], rate=rate, crossed_seeds=crossed_seeds)
    return Curve(arm.at, band[0], band[1], band[2], arm.unit, float(values[:, :, 0].mean()))


def step_curve(values: Sequence[tuple[int, Any]]) -> Curve:
    """A metric over steps, NaN for what is no number; without a band."""
    known = [
        value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan for _, value in values
    ]
    band = np.full(len(known), math.nan)
    return Curve(np.array([step for step, _ in values]), np.array(known, dtype=float), band, band, "steps")


def _known(values: Floats) -> Floats:
    """(P, ...) the problems that have a value in every search."""
    return values[np.isfinite(values).reshape(len(values), -1).all(axis=1)]


class Metric(NamedTuple):
    """A metric of searches at an iteration.

    values: (P, S), of an arm; rate: values are 0 or 1
    """

    title: str
    values: Callable[[Results, int], Floats]
    rate: bool = False


METRICS: Mapping[str, Metric] = {
    "weightings": Metric("share of weightings solved", lambda arm, t: arm.preferred_at(t, arm.weightings), rate=True),
    "worth": Metric("E_w[best]", lambda arm, t: arm.preferred_at(t, arm.worth)),
    "solved": Metric("solve rate", Results.solved_by, rate=True),
    "area": Metric("area under the solve curve", Results.solve_areas, rate=True),
    "set": Metric("mean value of the best set", Results.set_values),
    "best": Metric("mean best fitness", Results.best_at),
}


PREFERENCES = ("weightings", "worth")
"""The metrics of searches that are judged under many weightings. The verdict is then on the first that is known."""


def metric_difference(
    metric: str, a: Results, b: Results, t: int | None = None, *, crossed_seeds: bool = False, comparisons: int = 1
) -> Difference:
    """a - b in a metric of METRICS after t iterations (default: the common horizon).

    Raises ValueError if the arms are not comparable, if t is beyond the common horizon, if no problem has the metric,
    and, for all metrics but `best` and PREFERENCES, if no problem has a target.
    """
    its, known = METRICS[metric], common_horizon(a, b, best=metric in ("best", *PREFERENCES))
    t = known if t is None else t
    options: dict[str, Any] = {"crossed_seeds": crossed_seeds, "comparisons": comparisons, "least": 0.0}
    return paired_difference(its.values(a, t), its.values(b, t), rate=its.rate, **options)


def _variance(influence: Floats, crossed_seeds: bool) -> tuple[Floats, Floats | None]:
    """(J, S, ...) the influence of each search on the estimate -> (...) its variance, and the degrees of freedom if the
    variance is estimated from problems or seeds (Satterthwaite 1946)."""
    problems, seeds = influence.shape[:2]
    single = (influence**2).sum(axis=(0, 1))
    if seeds == 1 or problems == 1:
        return single, None
    clustered = (influence.sum(axis=1) ** 2).sum(axis=0) * problems / (problems - 1)
    variance, by_seed = np.maximum(single, clustered), np.zeros_like(single)
    if crossed_seeds:
        by_seed = (influence.sum(axis=0) ** 2).sum(axis=0) * seeds / (seeds - 1)
        variance = np.maximum(variance, clustered + by_seed - single)
    parts = clustered**2 / (problems - 1) + by_seed**2 / (seeds - 1)
    df = np.divide(variance**2, parts, out=np.full(single.shape, problems - 1.0), where=parts > 0)
    return variance, np.minimum(df, problems - 1.0)


@dataclass(frozen=True)
class ArmSummary:
    """One arm at the horizon; a metric is None if no problem has a target, or if it is not known yet.

    solved: share of searches that were solved, with the band of its curve
    area: mean solve rate over the iterations up to the horizon
    median: iteration at which half of the searches were solved, None if they are not
    best: the mean best value, of Summary.measure
    sets: mean value of the best set of answers in the end
    worth, weightings: mean E_w[best] and share of weightings solved, if they were asked for
    only: problems, by index, that only this arm solved (under any seed)
    """

    solved: Interval | None = None
    area: Interval | None = None
    median: float | None = None
    best: Interval | None = None
    sets: Interval | None = None
    worth: Interval | None = None
    weightings: Interval | None = None
    only: tuple[int, ...] = ()


@dataclass(frozen=True)
class Summary:
    """All arms, in their order.

    iterations: planned
    seeds: how many the metrics use
    horizon, best_horizon: the iterations at which solve rates and best fitnesses are taken
    pairs: (arm, other) -> metric -> arm - other, for the metrics that are known: the pairs with the reference first
    by_all, by_none: problems, by index, that every arm solved, and that none did
    unit, size: as Results have them; an iteration is then a step of that size
    measure: what `best` is the mean of
    worth_unit: as Results have it
    """

    iterations: int
    seeds: int
    horizon: int
    best_horizon: int
    reference: str | None
    arms: Mapping[str, ArmSummary]
    pairs: Mapping[tuple[str, str], Mapping[str, Difference]] = field(default_factory=dict)
    by_all: tuple[int, ...] = ()
    by_none: tuple[int, ...] = ()
    unit: str = "iterations"
    size: float = 1
    measure: Measure = FITNESS
    worth_unit: str = ""

    @property
    def against(self) -> dict[str, Mapping[str, Difference]]:
        """Arm -> metric -> arm - reference."""
        return {arm: metrics for (arm, other), metrics in self.pairs.items() if other == self.reference}

    def title(self, metric: str) -> str:
        """Of a metric of METRICS."""
        if metric != "best":
            return METRICS[metric].title
        return "mean reward" if self.measure == REWARD else f"mean best {self.measure.title}"

    def measure_of(self, metric: str) -> Measure | None:
        """What the numbers of a metric are of; None for rates."""
        return {"best": self.measure, "set": REWARD, "worth": None if is_share(self.worth_unit) else REWARD}.get(metric)

    def form(self, metric: str) -> tuple[int, bool]:
        """How its differences are written: digits, and whether lower is better (evo.stats.write_difference)."""
        measure = self.measure_of(metric)
        return 3 if metric in ("set", *PREFERENCES) else 2, measure is not None and measure.lower

    def place(self, known: int) -> str:
        """An iteration in words, or how much was spent by then."""
        if self.unit == "iterations":
            return f"iteration {known} of {self.iterations}"
        return f"{known * self.size:,.10g} of {self.iterations * self.size:,.10g} {self.unit}"


def summarise(results: Mapping[str, Results], reference: str | None, *, crossed_seeds: bool = False) -> Summary:
    """Summarise the searches of all arms. Raises ValueError if there are none or they are not comparable.

    crossed_seeds: a seed acts on all problems at once (evo.stats), as if the policy learns while it searches
    """
    if not results:
        raise ValueError("there is nothing to compare")
    arms = farthest(results)
    first = next(iter(arms.values()))
    horizon, best_horizon = common_horizon(*arms.values()), common_horizon(*arms.values(), best=True)
    if first.best is not None:
        # all metrics at one iteration: a solved search is known for later ones, its best fitness is not
        horizon = min(horizon, best_horizon)
    judged: list[int] = np.flatnonzero(first.judged).tolist()
    solved = {name: list(compress(judged, arm.solved_by(horizon).max(axis=1))) for name, arm in arms.items() if horizon}
    times = Counter(chain.from_iterable(solved.values()))
    preferred = [
        metric for metric in PREFERENCES
        if best_horizon and (of := getattr(first, metric)) is not None and len(_known(of))
    ]  # fmt: skip
    interval, standing = partial(mean_interval, crossed_seeds=crossed_seeds), {}
    for name, arm in arms.items():
        found: dict[str, Any] = {"only": tuple(row for row in solved.get(name, ()) if times[row] == 1)}
        if horizon:
            curve, at = solve_curve(arm, crossed_seeds=crossed_seeds), int(np.searchsorted(arm.times, horizon))
            found["solved"] = Interval(float(curve.mean[at]), float(curve.low[at]), float(curve.high[at]))
            found |= {"area": interval(arm.solve_areas(horizon), rate=True), "median": curve.half()}
        if best_horizon and len(known := _known(arm.best_at(best_horizon))):
            found["best"] = interval(known)
        if arm.sets is not None:
            found["sets"] = interval(arm.sets)
        for metric in preferred:
            its = METRICS[metric]
            found[metric] = interval(_known(its.values(arm, best_horizon)), rate=its.rate)
        standing[name] = ArmSummary(**found)
    pairs = [] if reference is None else pairs_of(list(arms), reference)
    at_of = dict.fromkeys(preferred, best_horizon)
    at_of |= {"solved": horizon, "area": horizon, "set": best_horizon * (first.sets is not None)}
    at_of["best"] = best_horizon * any(one.best is not None for one in standing.values())
    options: dict[str, Any] = {"crossed_seeds": crossed_seeds, "comparisons": len(pairs)}
    gaps = {
        (name, other): {
            metric: metric_difference(metric, arms[name], arms[other], at, **options)
            for metric, at in at_of.items()
            if at
        }
        for name, other in pairs
    }
    return Summary(
        first.iterations,
        first.solved_at.shape[1],
        horizon,
        best_horizon,
        reference,
        standing,
        gaps,
        tuple(row for row in judged if times[row] == len(arms)),
        tuple(row for row in judged if solved and not times[row]),
        first.unit,
        first.size,
        first.measure,
        first.worth_unit,
    )


def pairs_of(arms: Sequence[str], reference: str) -> list[tuple[str, str]]:
    """Every two arms, each as (arm, the one it is measured against): those with the reference first, then the later arm
    against the earlier."""
    others = [name for name in arms if name != reference]
    return [(name, reference) for name in others] + [(later, earlier) for earlier, later in combinations(others, 2)]


def describe_detectable(problems: int, seeds: int, arms: int, crossed_seeds: bool) -> str:
    """What a comparison of this size can show, for a line before it starts; "" for one arm."""
    if arms < 2:
        return ""
    pairs = arms * (arms - 1) // 2
    if crossed_seeds and seeds == 1:
        return "one seed of policies that learn while they search shows no difference; use --seeds 3"
    if problems == 1:
        fewest = fewest_seeds(pairs)
        told = f"cannot show a difference; use --seeds {fewest}" if seeds < fewest else "can show one on this problem"
        return f"1 problem x {seeds} seed{'s' * (seeds > 1)} {told}"
    size, least = f"{problems} problems x {seeds} seed{'s' * (seeds > 1)}", detectable(problems, seeds, pairs)
    if least is None:
        return f"{size} cannot show a difference; {fewest_pairs(pairs)} problems are the fewest that can"
    learns = " at best, as seeds may differ" if crossed_seeds else ""
    return f"{size} can show a difference of about {least:.2f} in solve rate (in 80% of comparisons){learns}"


def describe_horizon(found: Summary, by_budget: bool) -> str:
    """When metrics are taken. by_budget: Comparison.ended_by_budget"""
    if by_budget:
        return "at the end of each run's budget"
    known = found.horizon or found.best_horizon
    return f"after {known:,} of {found.iterations:,} iterations" if found.size == 1 else f"after {found.place(known)}"


def describe_verdict(found: Summary, by_budget: bool) -> str:
    """The metric of the verdicts, when it is taken, and the unit of their intervals: problems, or the seeds of a single
    problem."""
    sizes = {one.pairs for metrics in found.pairs.values() for one in metrics.values()}
    unit, pairs = "the seeds of one problem" if sizes == {1} else "problems", len(found.pairs)
    known = {metric for metrics in found.pairs.values() for metric in metrics}
    title = found.title(next(iter(_judging(known)), "best"))
    metric = title[0].upper() + title[1:]
    several = f"; intervals and p allow for {pairs} pairs (Bonferroni)" if pairs > 1 else ""
    return f"{metric} {describe_horizon(found, by_budget)}, difference with its 95% interval over {unit}{several}"


def verdicts_of(found: Summary) -> list[Verdict]:
    """Every pair of arms, by the share of weightings solved, else E_w[best], if they were judged under many weightings;
    else by solve rate; if no problem has a target by the value of its best sets, if they are known, else by the mean
    best value. The text names the iteration unless it is the last one, and says so if only the next of
    these shows a difference."""
    known = found.horizon or found.best_horizon
    running = f" at {found.place(known)}" if known < found.iterations else ""
    lines = []
    for (name, other), metrics in found.pairs.items():
        of = _judging(metrics)
        told = [verdict(name, other, metrics[one], *found.form(one)) for one in of]
        if told:
            text = told[0].text + running
            if len(told) > 1 and told[1].shown and not told[0].shown:
                text += f"; of {found.title(of[1])} one is: {told[1].text}"
            lines.append(Verdict(text, told[0].shown))
    return lines


def _judging(known: Container[str]) -> list[str]:
    """The metrics of a verdict, the first of which decides."""
    found = [metric for metric in PREFERENCES if metric in known]
    return found or [metric for metric in ("solved", "set", "best") if metric in known]


def farthest(arms: Mapping[str, Results]) -> dict[str, Results]:
    """The arms with only the seeds that have done, in every arm, nearly as many iterations as any seed, or that are
    solved. Raises ValueError if arms have different numbers of seeds."""
    if len({arm.solved_at.shape[1] for arm in arms.values()}) > 1:
        raise ValueError("every arm needs the same seeds")
    seeds = range(next(iter(arms.values())).solved_at.shape[1])
    # not the horizon, which is later where all is solved: what counts would depend on how it ended
    parts = [[arm.only(seeds=[seed]) for arm in arms.values()] for seed in seeds]
    reached = [min(part.reached for part in of_seed) for of_seed in parts]
    stopped = [all(part.stopped.all() for part in of_seed) for of_seed in parts]
    # what a seed did before it was solved: the iterations that it was spared leave no other seed behind
    did = [max(1, *(int(part.done.max()) for part in parts[at])) if stopped[at] else reached[at] for at in seeds]
    kept = [seed for seed in seeds if stopped[seed] or reached[seed] >= NEARLY * max(did)]
    return {name: arm.only(seeds=kept) for name, arm in arms.items()}
