"""Curves and the verdict of a comparison under way, made again only so often that they cost little."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from evo.comparison.load import budget_ended
from evo.comparison.results import Results
from evo.comparison.survival import Curve, answer_axis, best_curve, solve_curve
from evo.comparison.verdict import farthest, summarise, verdicts_of
from evo.monitor.live_cache import LiveCache
from evo.stats import Verdict

CURVES_SHARE, VERDICT_SHARE = 0.005, 0.003
"""Of one core."""

Made = TypeVar("Made")


class Throttled:
    """A figure that is made again only when enough time has passed for its making to be a small share of it."""

    def __init__(self, share: float) -> None:
        self.share, self.due, self.version = share, 0.0, -1

    def wants(self, version: int, final: bool) -> bool:
        return version != self.version and (final or time.monotonic() >= self.due)

    def make(self, version: int, make: Callable[[], Made]) -> Made:
        began = time.thread_time()
        made = make()
        self.due = time.monotonic() + max(1.0, (time.thread_time() - began) / self.share)
        self.version = version
        return made


class LiveMetrics:
    """results: by arm, as of the last update; curves, verdict: of that time or a little earlier, and none without
    `statistics`."""

    def __init__(self, statistics: bool = True) -> None:
        self._statistics = statistics
        self.results: dict[str, Results] = {}
        self.curves: dict[str, Curve] = {}
        self.verdict: tuple[Verdict, ...] = ()
        self._version, self._by_budget = -1, False
        self._curve_turn, self._verdict_turn = Throttled(CURVES_SHARE), Throttled(VERDICT_SHARE)
        self._final = self._loaded = False

    def update(self, cache: LiveCache, final: bool, loaded: bool) -> None:
        """Catch up with the cache. final: everything has ended and been read; loaded: all of it has been read."""
        # what is drawn is from one version of the arrays; a snapshot keeps the results that it was made with
        by_budget = budget_ended([cached.record for cached in cache.runs.values()])
        if (self._version, self._by_budget) != (cache.version, by_budget):
            self._by_budget = by_budget
            self.results = {
                arm.name: arrays.results(arm, cache.iterations, by_budget=by_budget)
                for arm, arrays in zip(cache.comparison.arms, cache.arms, strict=True)
            }
            self._version = cache.version
        if not self._statistics:
            return
        # at the end, and once everything that was there at the start has been read, nothing waits for its turn
        at_once = (final and not self._final) or (loaded and not self._loaded)
        self._final, self._loaded = final, loaded
        if at_once:
            self._curve_turn.version = self._verdict_turn.version = -1
        judged, crossed = self._judged(cache), cache.comparison.crossed_seeds
        if self._curve_turn.wants(self._version, at_once):
            self.curves = self._curve_turn.make(self._version, lambda: _curves(judged, crossed))
        if len(self.results) > 1 and self._verdict_turn.wants(self._version, at_once):
            reference = cache.comparison.reference
            self.verdict = self._verdict_turn.make(
                self._version,
                lambda: tuple(verdicts_of(summarise(judged, reference, crossed_seeds=crossed))),
            )

    def _judged(self, cache: LiveCache) -> dict[str, Results]:
        """The results without the problems that stopped, in any arm, at a fault of their scorer: they would hold the
        iteration that all have come to where they stopped."""
        failed = cache.failed
        kept = [row for row in range(len(cache.problems)) if row not in failed]
        if not failed or not kept:
            return self.results
        return {name: of.only(kept) for name, of in self.results.items()}


def _curves(results: Mapping[str, Results], crossed_seeds: bool) -> dict[str, Curve]:
    """Of the solve rate where problems have targets, else of mean best fitness, on one axis."""
    curves: dict[str, Curve] = {}
    # seeds are searched in turn: one that has just begun would hide what those before it have come to
    results = {name: farthest({name: arm})[name] for name, arm in results.items()}
    for name, arm in results.items():
        if arm.judged.any():
            curves[name] = solve_curve(arm, crossed_seeds=crossed_seeds)
        elif arm.best_horizon:
            curves[name] = best_curve(arm, crossed_seeds=crossed_seeds)
    if len({arm.answers for arm in results.values()}) > 1:
        axis = answer_axis(*results.values())
        curves = {name: curve.over_answers(results[name].answers, axis) for name, curve in curves.items()}
    return curves
