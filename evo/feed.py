"""From the database to the board of a live screen, asking each time only for what is new.

A poll of a search that commits some hundred answers a second takes a few milliseconds, however large the run has
become. Statistics over all searches cost more, so they are made again only so often that they take less than a
hundredth of one core. A large comparison is read run by run, a part of it per poll, so that a screen opened on it
shows something at once.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeVar

import numpy as np

from evo import readings
from evo.archive_survey import Survey
from evo.board import ArmBoard, Board, Detail, ImprovementLine, ProblemLine, Telemetry, TrainingCurve
from evo.candidate_detail import best_answer
from evo.comparison import Comparison, gather, planned
from evo.outcomes import Outcomes
from evo.solve_curves import Curve, answer_axis, best_curve, solve_curve
from evo.standings import farthest, standings, verdict_lines
from evo.telemetry import told
from islands.queries import training_steps
from islands.records import RunRecord
from islands.store import Store

LOAD_SECONDS = 0.25
"""How long one poll may read runs that were not read before; a run once begun is read to its end."""
CURVES_SHARE, VERDICT_SHARE = 0.005, 0.003
LIVE_RESAMPLES, FINAL_RESAMPLES = 1_000, 10_000
LIVE_CURVE_RESAMPLES = 200
IMPROVEMENTS_KEPT = 30
RATE_SECONDS = 30.0
TRAINING_FIGURES = ("loss", "kl", "fitness", "best_of_rollout", "reward", "nll", "clipped", "grad_norm")

Made = TypeVar("Made")


@dataclass(eq=False)
class _RunReading:
    """One run as far as it has been read."""

    record: RunRecord
    arm: int
    seed: int  # the column of its arm's arrays
    rows: dict[int, int] = field(default_factory=dict)  # problem id -> index
    ids: list[int] = field(default_factory=list)
    last: int = readings.BEFORE_SEEDS
    complete: bool = False  # it had ended when it was last read
    begun: bool = False
    failed: dict[int, str] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    figures: dict[str, list[float]] = field(default_factory=dict)
    version: str = ""


@dataclass(eq=False)
class _ArmReading:
    """One arm's searches as arrays, (P, S) and (P, S, T), written in place."""

    done: np.ndarray
    solved_at: np.ndarray
    best: np.ndarray
    now: np.ndarray  # (P, S) best fitness so far, NaN before any

    @classmethod
    def of(cls, targets: Sequence[bool], seeds: int, iterations: int) -> _ArmReading:
        shape = (len(targets), seeds)
        solved_at = np.where(np.array(targets)[:, None], np.inf, np.nan) * np.ones(shape)
        empty = np.full((*shape, iterations), np.nan)
        return cls(np.zeros(shape, dtype=np.int64), solved_at, empty, np.full(shape, np.nan))


class _Throttled:
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


class Feed:
    """Reads a comparison, or a run, for a screen. Not for several threads at once; never writes.

    Raises UnknownRun and BadInput where there is no such run or arm, as evo.comparison.gather does.
    """

    def __init__(self, store: Store, name: str, against: str | None = None) -> None:
        self.store, self.name, self.against = store, name, against
        self._chosen: tuple[int, str | None] = (0, None)
        self._detail: tuple[int, str] | None = None
        self._begin()

    def _begin(self) -> None:
        """Forget everything and look at which runs there are."""
        self.comparison: Comparison = gather(self.store, self.name, self.against)
        self._runs = {
            run.id: _RunReading(run, arm, seed)
            for arm, of in enumerate(self.comparison.arms)
            for seed, run in enumerate(of.runs)
        }
        self._iterations = self.comparison.iterations
        self._problems: tuple[ProblemLine, ...] = ()
        self._arms: list[_ArmReading] = []
        self._survey: Survey | None = None
        self._version = 0  # of the arrays
        self._recent: list[tuple[float, int, ImprovementLine]] = []  # a heap, oldest first
        self._vectors: dict[int, tuple[tuple[float, ...], tuple[float, ...] | None]] = {}
        self._curves: dict[str, Curve] = {}
        self._verdict: tuple[str, ...] = ()
        self._outcomes: dict[str, Outcomes] = {}
        self._outcomes_version = -1
        self._curve_turn, self._verdict_turn = _Throttled(CURVES_SHARE), _Throttled(VERDICT_SHARE)
        self._pace: deque[tuple[float, int]] = deque()
        self._details: dict[tuple[int, str], Detail] = {}
        self._detail_version: tuple[tuple[int, str] | None, bytes] = (None, b"")
        self._final = self._loaded = False

    def look(self, problem: int, arm: str | None = None) -> None:
        """What the viewer has chosen: its archives are read first, and with an arm its best answer in full."""
        self._chosen = (problem, arm)
        self._detail = None if arm is None else (problem, arm)

    def poll(self, now: float | None = None) -> Board:
        """What the database holds now. Raises DatabaseUnavailable where it cannot be read."""
        now = time.time() if now is None else now
        with self.store.read() as connection:
            pulses = readings.pulses(connection, self.name)
            if not pulses or {pulse.id for pulse in pulses} != set(self._runs):
                self._begin()  # raises UnknownRun where the runs were removed
                pulses = readings.pulses(connection, self.name)
            records = readings.run_states(
                connection,
                [p.id for p in pulses if p.status == "running" or p.updated != self._runs[p.id].record.updated],
            )
        for pulse in pulses:
            reading = self._runs[pulse.id]
            changed = records.get(pulse.id, {})
            before = reading.record
            reading.record = replace(before, **{**changed, "status": pulse.status, "heartbeat": pulse.heartbeat})
            if reading.complete and pulse.status == "running":  # taken up again, perhaps with problems reopened
                return self._afresh(now)
        if max(planned(reading.record) for reading in self._runs.values()) != self._iterations:
            return self._afresh(now)
        self._read()
        return self._board(now)

    def _afresh(self, now: float) -> Board:
        self._begin()
        return self.poll(now)

    # -- reading

    def _read(self) -> None:
        until = time.monotonic() + LOAD_SECONDS
        read = []
        for run_id, reading in self._runs.items():
            if reading.complete or (not reading.begun and time.monotonic() > until):
                continue
            if not reading.ids and not self._enrolled(run_id, reading):
                reading.begun = reading.record.status != "running"  # what waits for its turn has nothing to be read
                reading.complete = reading.record.status not in ("running", "waiting")
                continue
            ended = reading.record.status not in ("running", "waiting")
            self._read_run(run_id, reading)
            reading.begun, reading.complete = True, ended
            read.append(reading)
        if read:
            self._read_events(read)
        if self._survey is not None:
            self._survey.read(self.store, [arm.done for arm in self._arms], self._chosen[0])
        self._read_vectors()

    def _enrolled(self, run_id: int, reading: _RunReading) -> bool:
        """Whether the run has its problems; all of them are stored at once."""
        problems = self.store.problems(run_id)
        if not problems:
            return False
        if not self._problems:
            self._problems = tuple(ProblemLine(p.name, p.target, p.objectives) for p in problems)
            targets = [problem.target is not None for problem in self._problems]
            self._arms = [_ArmReading.of(targets, len(arm.runs), self._iterations) for arm in self.comparison.arms]
            self._survey = Survey(len(targets), [len(arm.runs) for arm in self.comparison.arms])
        reading.ids = [problem.id for problem in problems[: len(self._problems)]]
        reading.rows = {id: row for row, id in enumerate(reading.ids)}
        assert self._survey is not None
        self._survey.enrol(reading.arm, reading.seed, reading.ids)
        return True

    def _read_run(self, run_id: int, reading: _RunReading) -> None:
        arm, column = self._arms[reading.arm], reading.seed
        with self.store.read() as connection:
            upto = readings.newest_sequence(connection, run_id)
            # before the first group the seeds are looked for again each time: they may come after the problems
            if upto > reading.last or upto < 0:
                for problem, count in readings.groups_between(connection, run_id, reading.last, upto):
                    arm.done[reading.rows[problem], column] += count
                for problem, took in readings.solved_between(connection, run_id, reading.last, upto):
                    arm.solved_at[reading.rows[problem], column] = took
                steps = readings.steps_between(connection, run_id, reading.last, upto)
                for _, of_group in groupby(steps, key=lambda step: (step.problem, step.sequence)):
                    *_, step = of_group  # a group's last rise is its highest
                    self._rise(reading, arm, step)
                reading.last = upto if upto >= 0 else readings.BEFORE_SEEDS
                self._version += 1

    def _read_events(self, runs: Sequence[_RunReading]) -> None:
        """What is rare: problems that stopped at a fault of their scorer, and steps of a trainer."""
        ids = [reading.record.id for reading in runs]
        with self.store.read() as connection:
            failed = list(readings.failed_problems(connection, ids))
            trained = readings.newest_training(connection, ids)
        for reading in runs:
            reading.failed = {
                reading.rows[problem]: message
                for run, problem, message in failed
                if run == reading.record.id and problem in reading.rows
            }
            if trained.get(reading.record.id, -1) > (reading.steps[-1] if reading.steps else -1):
                self._read_training(reading)

    def _read_training(self, reading: _RunReading) -> None:
        run_id = reading.record.id
        for trained in training_steps(self.store, run_id, reading.steps[-1] if reading.steps else -1):
            reading.steps.append(trained.step)
            reading.version = trained.policy_version or reading.version
            for name in TRAINING_FIGURES:
                value = trained.stats.get(name)
                known = isinstance(value, int | float) and not isinstance(value, bool)
                reading.figures.setdefault(name, []).append(float(value) if known else float("nan"))  # type: ignore[arg-type]

    def _rise(self, reading: _RunReading, arm: _ArmReading, step: readings.Step) -> None:
        row, column = reading.rows[step.problem], reading.seed
        before = arm.now[row, column]
        if not (np.isnan(before) or step.fitness > before):
            return
        arm.now[row, column] = step.fitness
        arm.best[row, column, max(step.iteration, 0) :] = step.fitness
        if step.created is None:
            return
        line = ImprovementLine(
            self.comparison.arms[reading.arm].name,
            reading.record.seed,
            row,
            step.iteration + 1,
            step.candidate,
            step.fitness,
            None if np.isnan(before) else float(before),
            step.created,
        )
        heapq.heappush(self._recent, (step.created, step.candidate, line))
        if len(self._recent) > IMPROVEMENTS_KEPT:
            heapq.heappop(self._recent)

    def _read_vectors(self) -> None:
        shown = [candidate for _, candidate, _ in self._recent]
        self._vectors = {id: found for id, found in self._vectors.items() if id in set(shown)}
        missing = [id for id in shown if id not in self._vectors]
        if missing:
            with self.store.read() as connection:
                self._vectors.update(readings.vectors(connection, missing))

    def _read_detail(self) -> None:
        """The chosen answer, again whenever the arm's best fitness on that problem has risen."""
        if self._detail is None or not self._problems or self._detail[0] >= len(self._problems):
            return
        problem, name = self._detail
        at = next((i for i, arm in enumerate(self.comparison.arms) if arm.name == name), None)
        if at is None:
            return
        best = self._arms[at].now[problem].tobytes()
        if self._detail_version == (self._detail, best):
            return
        ids = {r.ids[problem]: r.record for r in self._runs.values() if r.arm == at and r.ids}
        self._details = {self._detail: best_answer(self.store, name, problem, ids)}
        self._detail_version = (self._detail, best)

    # -- making the board

    def _board(self, now: float) -> Board:
        self._read_detail()
        records = [reading.record for reading in self._runs.values()]
        arms = [self._arm(number) for number in range(len(self.comparison.arms))]
        loaded = sum(reading.begun for reading in self._runs.values())
        board = Board(
            self.name,
            tuple(arms),
            self._problems,
            self.comparison.reference,
            self._iterations,
            created=min(record.created for record in records),
            updated=max(record.updated for record in records),
            heard=max(_heard(record) for record in records),
            loaded=loaded,
            runs=len(records),
            reasons=tuple(dict.fromkeys(r.reason for r in records if r.reason)),
        )
        board = replace(
            board, rate=self._rate(now, board.groups, loaded == len(records)), seconds_left=_seconds(records)
        )
        if not self._problems:
            return board
        self._statistics(board.ended and loaded == len(records), loaded == len(records))
        found = self._outcomes
        unequal = len({arm.answers for arm in found.values()}) > 1
        axis = answer_axis(*found.values()) if unequal else np.arange(1, self._iterations + 1)
        return replace(
            board,
            arms=tuple(replace(arm, outcomes=found[arm.name], curve=self._curves.get(arm.name)) for arm in arms),
            axis=tuple(axis.tolist()),
            axis_unit="answers" if unequal else "iterations",
            verdict=self._verdict,
            improvements=self._improvements(),
            details=dict(self._details),
        )

    def _arm(self, number: int) -> ArmBoard:
        of = self.comparison.arms[number]
        own = [reading for reading in self._runs.values() if reading.arm == number]
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
                planned(record) * len(self._problems or record.config.get("problems", ())) for record in records
            ),
            answers_per_iteration=of.answers,
            max_answers=sum(int(b) for b in budgets if b) if all(budgets) else None,
            telemetry=told(records),
            failed=failed,
        )
        if not self._arms:
            return board
        arm = self._arms[number]
        assert self._survey is not None
        over = np.isfinite(arm.solved_at) & bool(records[0].config.get("until_solved"))
        for reading in own:
            over[list(reading.failed), reading.seed] = True
        return replace(
            board,
            groups=int(arm.done.sum()),
            planned=int(np.where(over, arm.done, self._iterations).sum()),
            population=self._survey.mean(number),
            populations=self._survey.by_problem(number, self._chosen[0]),
            read=self._survey.read_of(number),
            training=_training(own),
        )

    def _statistics(self, final: bool, loaded: bool) -> None:
        # what is drawn is from one version of the arrays; a board keeps the outcomes that it was made with
        if self._outcomes_version != self._version:
            self._outcomes = {
                of.name: Outcomes(
                    arm.solved_at.copy(), arm.done, self._iterations, of.answers, arm.best,
                    bool(of.runs[0].config.get("until_solved")),
                )
                for of, arm in zip(self.comparison.arms, self._arms, strict=True)
            }  # fmt: skip
            self._outcomes_version = self._version
        # at the end, and once everything that was there at the start has been read, nothing waits for its turn
        final_now = (final and not self._final) or (loaded and not self._loaded)
        self._final, self._loaded = final, loaded
        if final_now:
            self._curve_turn.version = self._verdict_turn.version = -1
        judged = self._judged()
        if self._curve_turn.wants(self._version, final_now):
            self._curves = self._curve_turn.make(self._version, lambda: _curves(judged, final))
        if len(self._outcomes) > 1 and self._verdict_turn.wants(self._version, final_now):
            resamples = FINAL_RESAMPLES if final else LIVE_RESAMPLES
            reference = self.comparison.reference
            self._verdict = self._verdict_turn.make(
                self._version,
                lambda: tuple(verdict_lines(standings(judged, reference, resamples=resamples))),
            )

    def _judged(self) -> dict[str, Outcomes]:
        """The outcomes without the problems that stopped, in any arm, at a fault of their scorer: they would hold the
        iteration that all have come to where they stopped."""
        failed = {row for reading in self._runs.values() for row in reading.failed}
        kept = [row for row in range(len(self._problems)) if row not in failed]
        if not failed or not kept:
            return self._outcomes
        return {name: of.only(kept) for name, of in self._outcomes.items()}

    def _improvements(self) -> tuple[ImprovementLine, ...]:
        lines = []
        for _, candidate, line in sorted(self._recent, key=lambda one: one[:2], reverse=True):
            own, parent = self._vectors.get(candidate, ((), None))
            change = None if parent is None else tuple(a - b for a, b in zip(own, parent, strict=False))
            lines.append(replace(line, rewards=own, change=change))
        return tuple(lines)

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


def _curves(outcomes: Mapping[str, Outcomes], final: bool) -> dict[str, Curve]:
    """Of the solve rate where problems have targets, else of mean best fitness, on one axis."""
    curves: dict[str, Curve] = {}
    # seeds are searched in turn: one that has just begun would hide what those before it have come to
    outcomes = {name: farthest({name: arm})[name] for name, arm in outcomes.items()}
    for name, arm in outcomes.items():
        if arm.judged.any():
            curves[name] = solve_curve(arm)
        elif arm.best_horizon:
            curves[name] = best_curve(arm, resamples=FINAL_RESAMPLES if final else LIVE_CURVE_RESAMPLES)
    if len({arm.answers for arm in outcomes.values()}) > 1:
        axis = answer_axis(*outcomes.values())
        curves = {name: curve.over_answers(outcomes[name].answers, axis) for name, curve in curves.items()}
    return curves


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


def _training(own: Sequence[_RunReading]) -> TrainingCurve | None:
    """Of the run of an arm that was trained last."""
    trained = [reading for reading in own if reading.steps]
    if not trained:
        return None
    newest = trained[-1]
    figures = {n: tuple(v) for n, v in newest.figures.items() if any(x == x for x in v)}
    return TrainingCurve(newest.record.name, tuple(newest.steps), figures, newest.version)


__all__ = ["Feed", "Telemetry"]
