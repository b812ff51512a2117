"""From the database to the board of a live screen, asking each time only for what is new.

A poll of a search that commits some hundred answers a second takes a few milliseconds, however large the run has
become. Statistics over all searches cost more, so they are made again only so often that they take less than a
hundredth of one core. A large comparison is read run by run, a part of it per poll, so that a screen opened on it
shows something at once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evo.comparison.load import Comparison, gather, planned
from evo.comparison.survival import answer_axis
from evo.monitor.candidate_detail import best_answer
from evo.monitor.live_cache import Mirror, RunReading
from evo.monitor.live_metrics import LiveFigures
from evo.monitor.snapshot import ArmBoard, Board, Detail, TrainingCurve
from evo.monitor.telemetry import told
from evo.search.active_time import active_periods, union
from islands.db.store import Store
from islands.queries import live as readings
from islands.types import RunRecord

RATE_SECONDS = 30.0


class Feed:
    """Reads a comparison, or a run, for a screen. Not for several threads at once; never writes.

    Raises UnknownRun and BadInput where there is no such run or arm, as evo.comparison.load.gather does.
    """

    def __init__(self, store: Store, name: str, against: str | None = None) -> None:
        self.store, self.name, self.against = store, name, against
        self._chosen: tuple[int, str | None] = (0, None)
        self._begin()

    def _begin(self) -> None:
        """Forget everything and look at which runs there are."""
        self.comparison: Comparison = gather(self.store, self.name, self.against)
        self._mirror = Mirror(self.store, self.comparison)
        self._figures = LiveFigures()
        self._pace: deque[tuple[float, int]] = deque()
        self._details: dict[tuple[int, str], Detail] = {}
        self._detail_version: tuple[tuple[int, str] | None, bytes] = (None, b"")

    def look(self, problem: int, arm: str | None = None) -> None:
        """What the viewer has chosen: its archives are read first, and with an arm its best answer in full."""
        self._chosen = (problem, arm)

    def poll(self, now: float | None = None) -> Board:
        """What the database holds now. Raises DatabaseUnavailable where it cannot be read."""
        now = time.time() if now is None else now
        with self.store.read() as connection:
            pulses = readings.pulses(connection, self.name)
            if not pulses or {pulse.id for pulse in pulses} != set(self._mirror.runs):
                self._begin()  # raises UnknownRun where the runs were removed
                pulses = readings.pulses(connection, self.name)
            runs = self._mirror.runs
            moved = [p.id for p in pulses if p.status == "running" or p.updated != runs[p.id].record.updated]
            records = readings.run_states(connection, moved)
        for pulse in pulses:
            reading = runs[pulse.id]
            changed = {**records.get(pulse.id, {}), "status": pulse.status, "heartbeat": pulse.heartbeat}
            reading.record = replace(reading.record, **changed)
            if reading.complete and pulse.status == "running":  # taken up again, perhaps with problems reopened
                return self._afresh(now)
        if max(planned(reading.record) for reading in runs.values()) != self._mirror.iterations:
            return self._afresh(now)
        self._mirror.read(self._chosen[0])
        self._read_detail()
        return self._board(now)

    def _afresh(self, now: float) -> Board:
        self._begin()
        return self.poll(now)

    def _read_detail(self) -> None:
        """The chosen answer, again whenever the arm's best fitness on that problem has risen."""
        problem, name = self._chosen
        mirror = self._mirror
        at = next((i for i, arm in enumerate(self.comparison.arms) if arm.name == name), None)
        if name is None or at is None or problem >= len(mirror.problems):
            return
        version = ((problem, name), mirror.arms[at].now[problem].tobytes())
        if self._detail_version == version:
            return
        searches = {reading.ids[problem]: reading.record for reading in mirror.of_arm(at) if reading.ids}
        self._details = {(problem, name): best_answer(self.store, name, problem, searches)}
        self._detail_version = version

    def _board(self, now: float) -> Board:
        mirror = self._mirror
        loaded = mirror.loaded
        records = [reading.record for reading in mirror.runs.values()]
        arms = [self._arm(number) for number in range(len(self.comparison.arms))]
        board = Board(
            self.name,
            tuple(arms),
            mirror.problems,
            self.comparison.reference,
            mirror.iterations,
            active=union([period for record in records for period in active_periods(record)]),
            heard=max(_heard(record) for record in records),
            loaded=loaded,
            runs=len(records),
            reasons=tuple(dict.fromkeys(r.reason for r in records if r.reason)),
        )
        board = replace(
            board, rate=self._rate(now, board.groups, loaded == len(records)), seconds_left=_seconds(records)
        )
        if not mirror.problems:
            return board
        self._figures.update(mirror, board.ended and loaded == len(records), loaded == len(records))
        found = self._figures.results
        unequal = len({arm.answers for arm in found.values()}) > 1
        axis = answer_axis(*found.values()) if unequal else next(iter(found.values())).times
        return replace(
            board,
            arms=tuple(replace(arm, results=found[arm.name], curve=self._figures.curves.get(arm.name)) for arm in arms),
            axis=tuple(axis.tolist()),
            axis_unit="answers" if unequal else "iterations",
            verdict=self._figures.verdict,
            improvements=mirror.improvements(),
            details=dict(self._details),
        )

    def _arm(self, number: int) -> ArmBoard:
        of = self.comparison.arms[number]
        mirror = self._mirror
        own = mirror.of_arm(number)
        records = [reading.record for reading in own]
        statuses: dict[str, int] = {}
        for record in records:
            statuses[record.status] = statuses.get(record.status, 0) + 1
        failed = {row: message for reading in own for row, message in reading.failed.items()}
        budgets = [record.config.get("max_answers") for record in records]
        board = ArmBoard(
            of.name,
            of.policy,
            len(of.runs),
            statuses,
            groups=0,
            planned=sum(
                planned(record) * len(mirror.problems or record.config.get("problems", ())) for record in records
            ),
            answers_per_iteration=of.answers,
            max_answers=sum(int(b) for b in budgets if b) if all(budgets) else None,
            telemetry=told(records),
            failed=failed,
        )
        if not mirror.arms:
            return board
        arm = mirror.arms[number]
        assert mirror.survey is not None
        over = np.isfinite(arm.solved_at) & bool(records[0].config.get("until_solved"))
        for reading in own:
            over[list(reading.failed), reading.seed] = True
        return replace(
            board,
            groups=int(arm.done.sum()),
            planned=int(np.where(over, arm.done, mirror.iterations).sum()),
            population=mirror.survey.mean(number),
            populations=mirror.survey.by_problem(number, self._chosen[0]),
            read=mirror.survey.read_of(number),
            training=_training(own),
        )

    def _rate(self, now: float, groups: int, loaded: bool) -> float | None:
        """Iterations per second over the last half minute, once everything that was there has been read."""
        if not loaded:
            self._pace.clear()
            return None
        self._pace.append((now, groups))
        while len(self._pace) > 2 and self._pace[1][0] < now - RATE_SECONDS:
            self._pace.popleft()
        (then, had), seconds = self._pace[0], now - self._pace[0][0]
        return (groups - had) / seconds if seconds >= 1.0 and then < now else None


def _heard(record: RunRecord) -> float:
    at = record.summary.get("at")
    return max(record.updated, record.heartbeat or 0.0, at if isinstance(at, int | float) else 0.0)


def _seconds(records: Sequence[RunRecord]) -> float | None:
    """What the longest budget of seconds of a run under way leaves."""
    left = []
    for record in records:
        budget, spent = record.config.get("max_seconds"), record.summary.get("seconds", 0.0)
        if record.status not in ("running", "waiting"):
            continue
        if not budget:
            return None
        left.append(float(budget) - (float(spent) if isinstance(spent, int | float) else 0.0))
    return max(left, default=None)


def _training(own: Sequence[RunReading]) -> TrainingCurve | None:
    """Of the run of an arm that was trained last."""
    trained = [reading for reading in own if reading.steps]
    if not trained:
        return None
    newest = trained[-1]
    figures = {n: tuple(v) for n, v in newest.figures.items() if any(x == x for x in v)}
    return TrainingCurve(newest.record.name, tuple(newest.steps), figures, newest.version)
