"""From the database to the snapshot of a live screen, reading only new data each time.

A poll of a search that commits some hundred answers a second takes a few milliseconds, however large the run is.
Statistics over all searches cost more, so they are computed only so often that they take less than a hundredth of one
core. A large comparison is read run by run, a part in each poll, so that a screen shows something at once.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from evo.comparison.load import Comparison, budget_ended, gather, planned
from evo.comparison.operators import pooled_counts
from evo.comparison.results import Results
from evo.comparison.survival import Curve, answer_axis, best_curve, solve_curve
from evo.comparison.verdict import farthest, summarise, verdicts_of
from evo.monitor.answer import NO_ORIGIN, best_known_of, read_answers, statement_of, walk_of
from evo.monitor.live_cache import LiveCache, RunCache
from evo.monitor.snapshot import ArmSnapshot, Detail, Snapshot, Telemetry, TrainingCurve
from evo.search.status import active_periods, union
from evo.stats import Verdict
from islands import browse as lineage
from islands import runs as live
from islands.browse import candidate
from islands.lock import LOST
from islands.store import Store
from islands.types import RunRecord, Totals, sum_totals

PACE_SECONDS = 120.0
EASE_UP, EASE_DOWN = 30.0, 15.0


class Remaining:
    """The time left, at the pace of the last PACE_SECONDS. It follows a new pace over EASE_UP or EASE_DOWN seconds:
    groups are stored in batches, and a solved problem ends its search at once, so an estimate of each moment would
    jump."""

    def __init__(self) -> None:
        self._pace: deque[tuple[float, int]] = deque()
        self._end: float | None = None

    def clear(self) -> None:
        self._pace.clear()
        self._end = None

    def update(self, now: float, done: int, planned: int) -> float | None:
        """Seconds to the end after `done` of `planned` iterations; None without progress in PACE_SECONDS."""
        last = self._pace[-1][0] if self._pace else now
        self._pace.append((now, done))
        while len(self._pace) > 2 and self._pace[1][0] < now - PACE_SECONDS:
            self._pace.popleft()
        then, had = self._pace[0]
        if now - then < 1.0 or done <= had:
            self._end = None
            return None
        end = now + max(0, planned - done) * (now - then) / (done - had)
        if self._end is None:
            self._end = end
        ease = EASE_UP if end > self._end else EASE_DOWN
        self._end += (1.0 - math.exp(-(now - last) / ease)) * (end - self._end)
        return max(0.0, self._end - now)


class Poller:
    """Reads a comparison, or a run, for a screen. Not thread-safe; it never writes.

    statistics: if False, curves and verdict are left out and their libraries are not imported
    Raises UnknownRun or BadInput if there is no such run or arm, as evo.comparison.load.gather does.
    """

    def __init__(self, store: Store, name: str, against: str | None = None, *, statistics: bool = True) -> None:
        self.store, self.name, self.against, self.statistics = store, name, against, statistics
        self._chosen: tuple[int, str | None] = (0, None)
        self._begin()

    def _begin(self) -> None:
        """Begin again: read which runs there are."""
        self.comparison: Comparison = gather(self.store, self.name, self.against)
        self._cache = LiveCache(self.store, self.comparison)
        self._metrics = LiveMetrics(self.statistics)
        self._remaining = Remaining()
        self._details: dict[tuple[int, str], Detail] = {}
        self._detail_version: tuple[tuple[int, str] | None, bytes] = (None, b"")

    def look(self, problem: int, arm: str | None = None) -> None:
        """Set the viewer's choice. Its archives are read first, and if an arm is chosen, its best answer in full."""
        self._chosen = (problem, arm)

    def poll(self, now: float | None = None) -> Snapshot:
        """A snapshot of the database now. Raises DatabaseUnavailable if it cannot be read."""
        now = time.time() if now is None else now
        with self.store.read() as connection:
            pulses = live.run_states(self.store, self.name)
            if not pulses or {pulse.id for pulse in pulses} != set(self._cache.runs):
                self._begin()  # raises UnknownRun if the runs were deleted
                pulses = live.run_states(self.store, self.name)
            runs = self._cache.runs
            moved = [p.id for p in pulses if p.status == "running" or p.updated != runs[p.id].record.updated]
            records = live.run_details(connection, moved)
        for pulse in pulses:
            cached = runs[pulse.id]
            changed = {**records.get(pulse.id, {}), "status": pulse.status}
            changed |= {"reason": LOST} if pulse.lost else {}
            cached.record = replace(cached.record, **changed)
            if cached.complete and pulse.status == "running":  # resumed, perhaps with reopened problems
                return self._afresh(now)
        if max(planned(cached.record) for cached in runs.values()) != self._cache.iterations:
            return self._afresh(now)
        self._cache.read(self._chosen[0])
        self._read_detail()
        return self._snapshot(now)

    def poll_whole(self, seconds: float) -> Snapshot:
        """A snapshot of all data in the database, with the archives that can be read in `seconds`."""
        while (snapshot := self.poll()).loaded < snapshot.runs:
            pass
        self._cache.read_archives(self._chosen[0], seconds)
        return self.poll()

    def _afresh(self, now: float) -> Snapshot:
        self._begin()
        return self.poll(now)

    def _read_detail(self) -> None:
        """Read the chosen answer again if the arm's best fitness on that problem has risen."""
        problem, name = self._chosen
        cache = self._cache
        at = next((i for i, arm in enumerate(self.comparison.arms) if arm.name == name), None)
        if name is None or at is None or problem >= len(cache.problems):
            return
        version = ((problem, name), cache.arms[at].now[problem].tobytes())
        if self._detail_version == version:
            return
        searches = {cached.ids[problem]: cached.record for cached in cache.of_arm(at) if cached.ids}
        self._details = {(problem, name): best_answer(self.store, name, problem, searches)}
        self._detail_version = version

    def _snapshot(self, now: float) -> Snapshot:
        cache = self._cache
        loaded = cache.loaded
        records = [cached.record for cached in cache.runs.values()]
        arms = [self._arm(number) for number in range(len(self.comparison.arms))]
        snapshot = Snapshot(
            self.name,
            tuple(arms),
            cache.problems,
            self.comparison.reference,
            cache.iterations,
            active=union([period for record in records for period in active_periods(record)]),
            heard=max(_heard(record) for record in records),
            loaded=loaded,
            runs=len(records),
            reasons=tuple(dict.fromkeys(r.reason for r in records if r.reason)),
        )
        snapshot = replace(snapshot, remaining=self._seconds_left(now, snapshot, records))
        if not cache.problems:
            return snapshot
        self._metrics.update(cache, snapshot.ended and loaded == len(records), loaded == len(records))
        found = self._metrics.results
        unequal = len({arm.answers for arm in found.values()}) > 1
        axis = answer_axis(*found.values()) if unequal else next(iter(found.values())).times
        return replace(
            snapshot,
            arms=tuple(replace(arm, results=found[arm.name], curve=self._metrics.curves.get(arm.name)) for arm in arms),
            axis=tuple(axis.tolist()),
            axis_unit="answers" if unequal else "iterations",
            verdict=self._metrics.verdict,
            improvements=cache.improvements(),
            details=dict(self._details),
        )

    def _arm(self, number: int) -> ArmSnapshot:
        of = self.comparison.arms[number]
        cache = self._cache
        own = cache.of_arm(number)
        records = [cached.record for cached in own]
        statuses: dict[str, int] = {}
        for record in records:
            statuses[record.status] = statuses.get(record.status, 0) + 1
        failed = {row: message for cached in own for row, message in cached.failed.items()}
        budgets = [record.config.get("max_answers") for record in records]
        snapshot = ArmSnapshot(
            of.name,
            of.policy,
            len(of.runs),
            statuses,
            groups=0,
            planned=sum(
                planned(record) * len(cache.problems or record.config.get("problems", ())) for record in records
            ),
            answers_per_iteration=of.answers,
            max_answers=sum(int(b) for b in budgets if b) if all(budgets) else None,
            telemetry=read_telemetry(records, sum_totals(cached.totals for cached in own)),
            failed=failed,
        )
        if not cache.arms:
            return snapshot
        arm = cache.arms[number]
        assert cache.survey is not None
        over = np.isfinite(arm.solved_at) & bool(records[0].config.get("until_solved"))
        for cached in own:
            over[list(cached.failed), cached.seed] = True
        return replace(
            snapshot,
            groups=int(arm.done.sum()),
            planned=int(np.where(over, arm.done, cache.iterations).sum()),
            population=cache.survey.mean(number),
            populations=cache.survey.by_problem(number, self._chosen[0]),
            read=cache.survey.read_of(number),
            training=_training(own),
            operators=pooled_counts(of.name, of.policy, [count for cached in own for count in cached.counts]),
        )

    def _seconds_left(self, now: float, snapshot: Snapshot, records: Sequence[RunRecord]) -> float | None:
        """The time left, after all earlier data has been read; at most that of a budget of seconds."""
        if snapshot.loaded < snapshot.runs:
            self._remaining.clear()
            return None
        left, budget = self._remaining.update(now, snapshot.groups, snapshot.planned), _seconds(records)
        return left if left is None or budget is None else min(left, max(0.0, budget))


def _heard(record: RunRecord) -> float:
    at = record.summary.get("at")
    return max(record.updated, at if isinstance(at, int | float) else 0.0)


def _seconds(records: Sequence[RunRecord]) -> float | None:
    """The seconds left of the longest budget of a running run."""
    left = []
    for record in records:
        budget, spent = record.config.get("max_seconds"), record.summary.get("seconds", 0.0)
        if record.status not in ("running", "waiting"):
            continue
        if not budget:
            return None
        left.append(float(budget) - (float(spent) if isinstance(spent, int | float) else 0.0))
    return max(left, default=None)


def _training(own: Sequence[RunCache]) -> TrainingCurve | None:
    """The curve of the arm's run that was trained last."""
    trained = [cached for cached in own if cached.steps]
    if not trained:
        return None
    newest = trained[-1]
    metrics = {n: tuple(v) for n, v in newest.metrics.items() if any(x == x for x in v)}
    return TrainingCurve(newest.record.name, tuple(newest.steps), metrics, newest.version)


ANCESTORS = 12
"""Ancestors on a screen; a long search has lineages of thousands."""


def best_answer(store: Store, arm: str, problem: int, searches: Mapping[int, RunRecord]) -> Detail:
    """The fittest of an arm's searches of one problem. searches: problem id -> its run, one per seed."""
    if not searches:
        return Detail(arm, problem)
    place = lineage.fittest(store, list(searches))
    problem_id = next(iter(searches)) if place is None else place[0]
    run = searches[problem_id]
    first = lineage.first_prompt(store, run.id, problem_id) or NO_ORIGIN
    record = next(record for record in store.problems(run.id) if record.id == problem_id)
    stated = statement_of(record)
    answer = None if place is None else read_answers(store, [place[1]])[place[1]]
    text = "" if answer is None else answer.candidate.text
    detail = Detail(
        arm,
        problem,
        run.seed,
        origin=first,
        statement=stated.text,
        walk=None if stated.board is None else walk_of(stated.board, text),
    )
    if answer is None:
        return detail
    return replace(
        detail,
        stored=candidate(store, run.id, answer.candidate.id),
        answer=answer,
        lineage=tuple(lineage.ancestors(store, answer.candidate.id, ANCESTORS)),
        origin=answer.origin or first,
        best_known=best_known_of(record),
    )


def read_telemetry(records: Sequence[RunRecord], totals: Totals) -> Telemetry:
    """The telemetry of all runs of an arm. totals: of their committed groups. Runs of other versions may lack keys of
    the summary, or have other values in them."""
    running = [record for record in records if record.status == "running"]
    busy = [value for record in running or records if (value := _number(record, "policy_busy")) is not None]
    return Telemetry(
        totals,
        answers_per_second=_rate(running, records, "answers", totals.answers),
        tokens_per_second=_rate(running, records, "tokens", totals.tokens),
        policy_busy=sum(busy) / len(busy) if busy else None,
        scoring_queue=_whole(_sum(running, "scoring_queue")),
        in_flight=_whole(_sum(running, "in_flight")),
        sampled_ahead=_whole(_sum(running, "sampled_ahead")),
    )


def _rate(running: Sequence[RunRecord], records: Sequence[RunRecord], what: str, total: int) -> float | None:
    """The sum over running runs; if none is running, the mean rate of those that have ended."""
    seconds = _sum(records, "seconds")
    if running or not seconds or not total or len(records) == 1:
        return _sum(running or records, f"{what}_per_second")
    return total / seconds


def _number(record: RunRecord, key: str) -> float | None:
    value = record.summary.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _sum(records: Sequence[RunRecord], key: str) -> float | None:
    values = [value for record in records if (value := _number(record, key)) is not None]
    return sum(values) if values else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


CURVES_SHARE, VERDICT_SHARE = 0.005, 0.003
"""Shares of one core."""

Made = TypeVar("Made")


class Throttled:
    """A value that is computed again only after so much time that the computing is a small share of it."""

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
    """results: by arm, at the last update; curves, verdict: at that time or a little earlier; none without
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
        """Update from the cache. final: all runs have ended and been read; loaded: all runs have been read."""
        # a snapshot shows one version of the arrays, and keeps its results
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
        # at the end, and once after the first complete reading, compute at once
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
        """The results without the problems that a scorer's fault stopped in any arm. They would keep the common horizon
        at the iteration where they stopped."""
        failed = cache.failed
        kept = [row for row in range(len(cache.problems)) if row not in failed]
        if not failed or not kept:
            return self.results
        return {name: of.only(kept) for name, of in self.results.items()}


def _curves(results: Mapping[str, Results], crossed_seeds: bool) -> dict[str, Curve]:
    """Curves of the solve rate if problems have targets, else of mean best fitness, on one axis."""
    curves: dict[str, Curve] = {}
    # seeds are searched in turn: a seed that has just begun would cut the curves of earlier ones short
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
