"""The database of runs: opening it, transactions, and the rows that are not candidates."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, Row, Select, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError

from islands.engine import (
    PreparedStatement,
    database_file,
    ensure_schema,
    mask_url,
    open_engines,
    parse_url,
    unavailable,
)
from islands.errors import DatabaseMoved, DatabaseUnavailable, RunBusy, RunExists, UnknownRun
from islands.lock import LOST, AdvisoryLocks, FileLocks, busy, new_owner, taken
from islands.names import check_name, readable_name
from islands.schema import PolicyVersions, Problems, Runs, ScorerChanges, TrainingSteps
from islands.types import PROBLEM_STATUSES, RUN_STATUSES, ProblemRecord, Reweighed, RunRecord, check_status
from problems.address import did_you_mean
from problems.contract import Problem, Score
from problems.objectives import Objective, seeded_objectives
from problems.redaction import redact

_CONFIRM = PreparedStatement(
    update(Runs).where(Runs.c.id == bindparam("of_run"), Runs.c.owner == bindparam("of_owner")).returning(Runs.c.id)
)


@dataclass(eq=False)
class Transaction:
    """One transaction. on_end: called once it has ended, with whether it was committed; they must not raise"""

    connection: Connection
    on_end: list[Callable[[bool], None]] = field(default_factory=list)


@dataclass(eq=False)
class Lease:
    """The right to write to a run until it is released; a context manager."""

    store: Store
    run_id: int
    owner: str

    def release(self) -> None:
        """Give the run free. Safe to call twice."""
        self.store.release(self)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class _Thread(threading.local):
    """What each thread has. reading: the connection of its outermost `Store.read`"""

    reading: Connection | None = None


class Store:
    """A database of runs. Reading is safe from any thread; transactions of one store run one at a time.

    reweighed: None, unless its runs are read under other weights (islands.reweigh)
    """

    def __init__(self, url: URL, writer: Engine, reader: Engine, read_only: bool) -> None:
        self.url = url
        self.read_only = read_only
        self.reader = reader
        self._writer = writer
        self._writing = threading.Lock()
        self._holder: int | None = None  # the thread inside a transaction
        self._leases: dict[int, Lease] = {}
        self._policy_ids: dict[tuple[int, str], int] = {}
        self._file = database_file(url)
        self._place = _place(self._file)
        self._locks = AdvisoryLocks(reader) if self._file is None else FileLocks(self._file)
        self._thread = _Thread()
        self.reweighed: Reweighed | None = None

    @classmethod
    def open(cls, address: str, *, read_only: bool = False, must_exist: bool = False) -> Store:
        """Open `sqlite:///FILE` or `postgresql+psycopg://...` and upgrade its schema. Raises DatabaseUnavailable, in
        one line and without the password, if that fails; read_only writes nothing, so it upgrades nothing."""
        url = parse_url(address)
        try:
            writer, reader = open_engines(url, read_only, must_exist)
        except ValueError as error:
            raise unavailable(url, error) from None
        try:
            ensure_schema(url, writer, reader, read_only)
        except BaseException:
            writer.dispose()
            reader.dispose()
            raise
        return cls(url, writer, reader, read_only)

    @property
    def address(self) -> str:
        """Its address without the password, for messages."""
        return mask_url(self.url)

    def close(self) -> None:
        """Release the leases and close every connection."""
        for lease in list(self._leases.values()):
            with suppress(DatabaseUnavailable, RunBusy):
                self.release(lease)
        with suppress(OperationalError, InterfaceError):
            self._locks.close()
        self._writer.dispose()
        self.reader.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        """One transaction: committed at the end of the block, rolled back by any exception in it. Threads wait for one
        another. Raises RunBusy if a leased run was taken over, DatabaseUnavailable if the server is gone, DatabaseMoved
        if the file is not the one that was opened."""
        if self.read_only:
            raise DatabaseUnavailable(f"{self.address}: opened for reading")
        if self._holder == threading.get_ident():
            raise RuntimeError("a transaction of this store is open in this thread already; pass it on instead")
        with self._writing:
            self.check_place()
            tx: Transaction | None = None
            self._holder = threading.get_ident()
            try:
                with self._writer.begin() as connection:
                    tx = Transaction(connection)
                    for lease in self._leases.values():
                        self._confirm(lease, connection)
                    yield tx
                    self.check_place()
            except BaseException as error:
                for callback in tx.on_end if tx else ():
                    callback(False)
                if isinstance(error, OperationalError | InterfaceError):  # gone, locked, full
                    raise unavailable(self.url, error) from error
                raise
            finally:
                self._holder = None
            for callback in tx.on_end:
                callback(True)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for reading what is committed. All queries of the block see one moment, also those of a `read`
        within it. Keep it short, and yield nothing from it: meanwhile SQLite's log cannot be emptied, and what this
        thread reads is as old as the block. Raises DatabaseUnavailable if the server is gone."""
        if self._thread.reading is not None:
            yield self._thread.reading
            return
        with self._connect() as connection:
            self._thread.reading = connection
            try:
                yield connection
            finally:
                self._thread.reading = None

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        try:
            with self.reader.connect() as connection:
                yield connection
        except (OperationalError, InterfaceError) as error:
            raise unavailable(self.url, error) from error

    def rows(self, query: Select[*tuple[Any, ...]]) -> Sequence[Row[*tuple[Any, ...]]]:
        """The rows of one query on committed data. Raises as `read` does."""
        with self.read() as connection:
            return connection.execute(query).all()

    def scalar(self, query: Select[*tuple[Any, ...]]) -> Any:
        """The first value of the first row, None if there is none. Raises as `read` does."""
        with self.read() as connection:
            return connection.execute(query).scalar()

    def _in(self, tx: Transaction | None) -> AbstractContextManager[Transaction]:
        return self.begin() if tx is None else nullcontext(tx)

    # -- runs

    def create_run(
        self,
        name: str | None,
        config: Mapping[str, Any],
        *,
        command: str,
        seed: int,
        commit: str,
        comparison: str | None = None,
        arm: str | None = None,
    ) -> RunRecord:
        """Begin a run. Without a name it gets a fresh one. Raises BadName, RunExists."""
        if name is not None:
            check_name(name)
        for attempt in range(20):
            fresh = name if name is not None else readable_name(attempt)
            row = new_run(fresh, "running", config, command, seed, commit, comparison, arm)
            try:
                with self.begin() as tx:
                    id = tx.connection.execute(insert(Runs).values(**row).returning(Runs.c.id)).scalar_one()
                return RunRecord(id=id, **row)
            except IntegrityError:
                if name is not None:
                    message = f"{self.address} has a run named {name} already; resume it, or choose another name"
                    raise RunExists(message) from None
        raise RunExists(f"{self.address}: no unused name was found; give one")

    def run(self, name: str) -> RunRecord:
        """Raises UnknownRun, with close names."""
        with self.read() as connection:
            row = connection.execute(select(Runs).where(Runs.c.name == name)).first()
            if row is not None:
                return self._records([row])[0]
            names = list(connection.execute(select(Runs.c.name).order_by(Runs.c.updated.desc()).limit(1000)).scalars())
        other = "; evo runs lists what there is" if names else "; it holds no runs yet"
        raise UnknownRun(f"{self.address} has no run named {name}{did_you_mean(name, names) or other}")

    def runs(self, comparison: str | None = None) -> list[RunRecord]:
        """Every run, oldest first; or those of a comparison."""
        query = select(Runs) if comparison is None else select(Runs).where(Runs.c.comparison == comparison)
        return self._records(self.rows(query.order_by(Runs.c.id)))

    def _records(self, rows: Sequence[Row[Any]]) -> list[RunRecord]:
        """From rows of the table `runs`. A run that has lost its writer is interrupted."""
        lost = self.lost_runs({row.id: row.owner for row in rows if row.status == "running"})
        records = []
        for row in rows:
            values = {name: value for name, value in row._mapping.items() if name != "owner"}
            if row.id in lost:
                values |= {"status": "interrupted", "reason": LOST}
            records.append(RunRecord(**values))
        return records

    def finish_run(
        self, run_id: int, status: str, reason: str = "", *, summary: Mapping[str, Any] | None = None,
        tx: Transaction | None = None,
    ) -> None:  # fmt: skip
        """Set a run's status (`running` when it is resumed), and its summary if one is given."""
        check_status("run", status, RUN_STATUSES)
        values: dict[str, Any] = {"status": status, "reason": redact(reason), "updated": time.time()}
        if summary is not None:
            values["summary"] = dict(summary)
        with self._in(tx) as tx:
            if tx.connection.execute(update(Runs).where(Runs.c.id == run_id).values(**values)).rowcount != 1:
                raise UnknownRun(f"{self.address} has no run with the id {run_id}")

    def set_summary(self, run_id: int, summary: Mapping[str, Any], tx: Transaction) -> None:
        """Store a run's metrics so far with the transaction."""
        tx.connection.execute(update(Runs).where(Runs.c.id == run_id).values(summary=dict(summary)))

    def set_config(self, run_id: int, config: Mapping[str, Any]) -> None:
        """Replace a run's configuration, as a resume with other budgets does."""
        with self.begin() as tx:
            new = update(Runs).where(Runs.c.id == run_id).values(config=dict(config), updated=time.time())
            tx.connection.execute(new)

    def lease(self, run_id: int, take_over: bool = False) -> Lease:
        """Become the run's one writer, until the lease is released or the store closed. take_over: also of a run whose
        writer seems to live but is known to be lost. Raises RunBusy, UnknownRun."""
        owner = new_owner()
        try:
            free = run_id not in self._leases and self._locks.acquire(run_id)
            if not free and take_over:
                self._locks.take_over(run_id)
                self._locks.acquire(run_id)
        except (OSError, OperationalError, InterfaceError) as error:
            raise unavailable(self.url, error) from error
        query = select(Runs.c.name, Runs.c.owner).where(Runs.c.id == run_id)
        try:
            with self.begin() as tx:
                row = tx.connection.execute(query).first()
                if row is None:
                    raise UnknownRun(f"there is no run with the id {run_id}")
                if not free and not take_over:
                    raise busy(row.name, row.owner)
                new = update(Runs).where(Runs.c.id == run_id).values(owner=owner, updated=time.time())
                tx.connection.execute(new)
        except BaseException:
            if free:
                self._locks.release(run_id)
            raise
        lease = Lease(self, run_id, owner)
        self._leases[run_id] = lease
        return lease

    def _confirm(self, lease: Lease, connection: Connection) -> None:
        """Raise RunBusy if another writer has taken over."""
        mine = {"of_run": lease.run_id, "of_owner": lease.owner, "updated": time.time()}
        if not _CONFIRM.run(connection, [mine]):
            row = connection.execute(select(Runs.c.name, Runs.c.owner).where(Runs.c.id == lease.run_id)).first()
            raise taken(None if row is None else row.name, lease.run_id, None if row is None else row.owner)

    def release(self, lease: Lease) -> None:
        """Give a run free. Does nothing for a lease that was released."""
        if self._leases.get(lease.run_id) is not lease:
            return
        del self._leases[lease.run_id]
        try:
            with self.begin() as tx:
                mine = update(Runs).where(Runs.c.id == lease.run_id, Runs.c.owner == lease.owner)
                tx.connection.execute(mine.values(owner=None))
        finally:
            self._unlock(lease)

    def forget(self, lease: Lease) -> None:
        """Release the lease of a run that was deleted."""
        if self._leases.pop(lease.run_id, None) is lease:
            self._unlock(lease)

    def _unlock(self, lease: Lease) -> None:
        with suppress(OperationalError, InterfaceError):  # a lock ends with its connection
            self._locks.release(lease.run_id)

    def lost_runs(self, running: Mapping[int, str | None]) -> set[int]:
        """Those of the runs, stored as running, whose writer has died. running: run id -> its row's owner"""
        owned = [run for run, owner in running.items() if owner is not None]
        free = set(owned) - self._locks.held(owned) if owned else set()
        if not free:
            return free
        # locks are of now, rows of the moment that this thread reads: a run that ended in between is not lost
        query = select(Runs.c.id, Runs.c.owner).where(Runs.c.id.in_(free), Runs.c.status == "running")
        with self._connect() as connection:
            return {id for id, owner in connection.execute(query) if owner == running[id]}

    def check_place(self) -> None:
        """Raise DatabaseMoved if the file is not the one that was opened."""
        if self._place is not None and _place(self._file) != self._place:
            raise DatabaseMoved(
                f"{self.address}: the file was moved, replaced or deleted while this process wrote to it; nothing more "
                "is stored. Put it back and resume the run"
            )

    # -- problems

    def add_problem(
        self,
        run_id: int,
        index: int,
        address: str,
        name: str,
        objectives: Sequence[str],
        target: float | None,
        answer_format: str,
        tx: Transaction | None = None,
        fingerprint: str | None = None,
    ) -> ProblemRecord:
        """Add the run's problem number `index`; several of them in one transaction are much faster."""
        values = dict(
            run_id=run_id, index=index, address=address, name=name, objectives=list(objectives), target=target,
            answer_format=answer_format, status="active", message="", fingerprint=fingerprint,
        )  # fmt: skip
        with self._in(tx) as tx:
            row = tx.connection.execute(insert(Problems).values(**values).returning(Problems)).one()
        return problem_record(row)

    def set_metrics(self, problem_id: int, problem: Problem, seed: Score | None, tx: Transaction) -> None:
        """Keep the objectives of a problem as its search begins. seed: the Score of the seed answer"""
        metrics = [asdict(one) for one in seeded_objectives(problem.objectives, problem.metrics, seed)]
        tx.connection.execute(update(Problems).where(Problems.c.id == problem_id).values(metrics=metrics))

    def record_scorer_change(self, problem_id: int, before: str | None, after: str, tx: Transaction) -> None:
        """Put a change that a resume accepted on record; the problem has the new fingerprint."""
        tx.connection.execute(update(Problems).where(Problems.c.id == problem_id).values(fingerprint=after))
        values = dict(problem_id=problem_id, before=before, after=after, created=time.time())
        tx.connection.execute(insert(ScorerChanges).values(**values))

    def problems(self, run_id: int) -> list[ProblemRecord]:
        """The run's problems by index."""
        query = select(Problems).where(Problems.c.run_id == run_id).order_by(Problems.c.index)
        return [problem_record(row) for row in self.rows(query)]

    def set_problem_status(
        self,
        problem_id: int,
        status: str,
        message: str = "",
        solved_sequence: int | None = None,
        tx: Transaction | None = None,
    ) -> None:
        """Set a problem's status; solved_sequence is kept if it is not given."""
        check_status("problem", status, PROBLEM_STATUSES)
        values: dict[str, Any] = {"status": status, "message": message}
        if solved_sequence is not None:
            values["solved_sequence"] = solved_sequence
        with self._in(tx) as tx:
            tx.connection.execute(update(Problems).where(Problems.c.id == problem_id).values(**values))

    # -- policies and training

    def policy_version(self, run_id: int, version: str, tx: Transaction) -> int:
        """The id of a run's policy version, stored on first sight."""
        key = (run_id, version)
        if key in self._policy_ids:
            return self._policy_ids[key]
        v = PolicyVersions.c
        query = select(v.id).where(v.run_id == run_id, v.version == version)
        id: int | None = tx.connection.execute(query).scalar()
        if id is None:
            row = dict(run_id=run_id, version=version, created=time.time())
            id = tx.connection.execute(insert(PolicyVersions).values(**row).returning(v.id)).scalar_one()
        self._policy_ids[key] = id

        def forget(committed: bool) -> None:
            if not committed:
                self._policy_ids.pop(key, None)

        tx.on_end.append(forget)
        return id

    def add_training_step(
        self,
        run_id: int,
        step: int,
        stats: Mapping[str, Any],
        tx: Transaction,
        *,
        policy_version: str | None = None,
        checkpoint: str | None = None,
    ) -> None:
        """Record a trainer's step, and the policy version that came out of it if one did."""
        version_id = None if policy_version is None else self.policy_version(run_id, policy_version, tx)
        values = dict(
            run_id=run_id, step=step, stats=dict(stats), policy_version_id=version_id, checkpoint=checkpoint,
            created=time.time(),
        )  # fmt: skip
        tx.connection.execute(insert(TrainingSteps).values(**values))

    def set_checkpoint(self, run_id: int, step: int, checkpoint: str) -> None:
        """Record where the learner was saved after a step; called later than the step itself."""
        query = update(TrainingSteps).where(TrainingSteps.c.run_id == run_id, TrainingSteps.c.step == step)
        with self.begin() as tx:
            tx.connection.execute(query.values(checkpoint=checkpoint))


def new_run(
    name: str, status: str, config: Mapping[str, Any], command: str, seed: int, commit: str,
    comparison: str | None, arm: str | None,
) -> dict[str, Any]:  # fmt: skip
    """A row of the table `runs`, of now."""
    now = time.time()
    return dict(
        name=name, status=status, reason="", command=command, seed=seed, commit=commit, config=dict(config), summary={},
        comparison=comparison, arm=arm, created=now, updated=now,
    )  # fmt: skip


def _place(file: Path | None) -> tuple[int, int] | None:
    """What tells a file from another of its name."""
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return (-1, -1)
    return None if found is None else (found.st_dev, found.st_ino)


def problem_record(row: Row[Any]) -> ProblemRecord:
    """From a row of the table `problems`."""
    values = dict(row._mapping)
    values["objectives"] = tuple(values["objectives"])
    values["metrics"] = tuple(Objective(**one) for one in values["metrics"] or ())
    if values["dimensions"] is not None:
        values["dimensions"] = tuple(values["dimensions"])
    return ProblemRecord(**values)
