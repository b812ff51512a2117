"""The database of runs: opening it, transactions, and the rows that are not candidates."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from sqlalchemy import URL, Connection, Engine, Row, Select, insert, select, update
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError

from islands.db.engine import ensure_schema, mask_url, memory_engines, open_engines, parse_address, unavailable
from islands.db.lease import LOST, RENEWAL, Lease, is_lost
from islands.db.names import check_name, readable_name
from islands.db.prepared import Statements
from islands.db.schema import PolicyVersion, Problem, Run, TrainingStep
from islands.db.transaction import Transaction
from islands.db.upsert import insert_or
from islands.errors import DatabaseUnavailable, RunBusy, RunExists, UnknownRun
from islands.types import PROBLEM_STATUSES, RUN_STATUSES, ProblemRecord, RunRecord, check_status
from problems.address import did_you_mean
from problems.redaction import redact


class Store:
    """A database of runs. Reading is safe from any thread; transactions of one store run one at a time."""

    def __init__(self, url: URL, writer: Engine, reader: Engine, read_only: bool) -> None:
        self.url = url
        self.read_only = read_only
        self.reader = reader
        self._writer = writer
        self._writing = threading.Lock()
        self._holder: int | None = None  # the thread inside a transaction
        self._leases: dict[int, Lease] = {}
        self._policy_ids: dict[tuple[int, str], int] = {}
        self.statements = Statements(writer.dialect)

    @classmethod
    def open(cls, address: str, *, read_only: bool = False, must_exist: bool = False) -> Store:
        """Open `sqlite:///FILE` or `postgresql+psycopg://...` and upgrade its schema. Raises DatabaseUnavailable, in
        one line and without the password, if that fails; read_only writes nothing, so it upgrades nothing."""
        url = parse_address(address)
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

    @classmethod
    def in_memory(cls) -> Store:
        """A new database in memory, which no other process can open and which is gone once it is closed."""
        url = URL.create("sqlite", database=":memory:")
        writer, reader = memory_engines()
        ensure_schema(url, writer, reader, read_only=False)
        return cls(url, writer, reader, read_only=False)

    @property
    def address(self) -> str:
        """Its address without the password, for messages."""
        return mask_url(self.url)

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.reader.dialect.name

    def close(self) -> None:
        """Release the leases, by connections that no restart of the server has cut, and close every one."""
        self._writer.dispose()
        for lease in list(self._leases.values()):
            with suppress(DatabaseUnavailable, RunBusy):  # a lease that cannot be given back goes stale with its owner
                lease.release()
        self._writer.dispose()
        self.reader.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        """One transaction: committed at the end of the block, rolled back by any exception in it. Threads wait for one
        another. Raises RunBusy if a leased run was taken over, DatabaseUnavailable if the server is gone."""
        if self.read_only:
            raise DatabaseUnavailable(f"{self.address}: opened for reading")
        if self._holder == threading.get_ident():
            raise RuntimeError("a transaction of this store is open in this thread already; pass it on instead")
        with self._writing:
            tx: Transaction | None = None
            self._holder = threading.get_ident()
            try:
                with self._writer.begin() as connection:
                    tx = Transaction(connection)
                    for lease in self._leases.values():
                        lease.confirm(connection)
                    yield tx
            except BaseException as error:
                for callback in tx.rolled_back if tx else ():
                    callback()
                if isinstance(error, OperationalError | InterfaceError):  # gone, locked, full
                    raise unavailable(self.url, error) from error
                raise
            finally:
                self._holder = None
            for callback in tx.committed:
                callback()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for reading committed data, each query by itself. Raises DatabaseUnavailable if the server
        is gone."""
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
        tx: Transaction | None = None,
    ) -> RunRecord:
        """Begin a run. Without a name it gets a fresh one. Raises BadName, RunExists."""
        if name is not None:
            check_name(name)
        now = time.time()
        for attempt in range(20):
            fresh = name if name is not None else readable_name(attempt)
            row = dict(
                name=fresh, status="running", reason="", command=command, seed=seed, commit=commit,
                config=dict(config), summary={}, comparison=comparison, arm=arm, created=now, updated=now,
            )  # fmt: skip
            try:
                # a savepoint, so that a name that is taken spoils nothing else of the caller's transaction
                with self._in(tx) as inner, inner.connection.begin_nested():
                    stored = inner.connection.execute(insert(Run).values(**row).returning(Run)).one()
                return run_record(stored)
            except IntegrityError:
                if name is not None:
                    message = f"{self.address} has a run named {name} already; resume it, or choose another name"
                    raise RunExists(message) from None
        raise RunExists(f"{self.address}: no unused name was found; give one")

    def run(self, name: str) -> RunRecord:
        """Raises UnknownRun, with close names."""
        with self.read() as connection:
            row = connection.execute(select(Run).where(Run.c.name == name)).first()
            if row is not None:
                return run_record(row)
            names = list(connection.execute(select(Run.c.name).order_by(Run.c.updated.desc()).limit(1000)).scalars())
        other = "; evo runs lists what there is" if names else "; it holds no runs yet"
        raise UnknownRun(f"{self.address} has no run named {name}{did_you_mean(name, names) or other}")

    def runs(self, comparison: str | None = None) -> list[RunRecord]:
        """Every run, oldest first; or those of a comparison."""
        query = select(Run) if comparison is None else select(Run).where(Run.c.comparison == comparison)
        return [run_record(row) for row in self.rows(query.order_by(Run.c.id))]

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
            if tx.connection.execute(update(Run).where(Run.c.id == run_id).values(**values)).rowcount != 1:
                raise UnknownRun(f"{self.address} has no run with the id {run_id}")

    def set_summary(self, run_id: int, summary: Mapping[str, Any], tx: Transaction) -> None:
        """Store a run's metrics so far with the transaction."""
        tx.connection.execute(update(Run).where(Run.c.id == run_id).values(summary=dict(summary)))

    def set_config(self, run_id: int, config: Mapping[str, Any], tx: Transaction | None = None) -> None:
        """Replace a run's configuration, as a resume with other budgets does."""
        with self._in(tx) as inner:
            new = update(Run).where(Run.c.id == run_id).values(config=dict(config), updated=time.time())
            inner.connection.execute(new)

    def lease(self, run_id: int, take_over: bool = False) -> Lease:
        """Become the run's one writer, until the lease is released or the store closed. A writer that died, or was not
        heard of for two minutes on another machine, is replaced; with take_over any is. Raises RunBusy, UnknownRun."""
        renewal = self.statements.prepare(RENEWAL)
        return self.keep_lease(Lease.take(self.begin, self.forget_lease, renewal, run_id, take_over))

    def keep_lease(self, lease: Lease) -> Lease:
        """Confirm it in every transaction, and let it beat."""
        self._leases[lease.run_id] = lease
        lease.keep_alive()
        return lease

    def forget_lease(self, lease: Lease) -> None:
        """Stop confirming it in every transaction."""
        self._leases = {run: held for run, held in self._leases.items() if held is not lease}

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
            row = tx.connection.execute(insert(Problem).values(**values).returning(Problem)).one()
        return problem_record(row)

    def problems(self, run_id: int) -> list[ProblemRecord]:
        """The run's problems by index."""
        query = select(Problem).where(Problem.c.run_id == run_id).order_by(Problem.c.index)
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
            tx.connection.execute(update(Problem).where(Problem.c.id == problem_id).values(**values))

    # -- policies and training

    def policy_version(self, run_id: int, version: str, tx: Transaction) -> int:
        """The id of a run's policy version, stored on first sight."""
        key = (run_id, version)
        if key in self._policy_ids:
            return self._policy_ids[key]
        id = policy_version_id(run_id, version, tx)
        self._policy_ids[key] = id
        tx.on_end(lambda: None, lambda: self._forget_policy(key))
        return id

    def _forget_policy(self, key: tuple[int, str]) -> None:
        self._policy_ids.pop(key, None)

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
        tx.connection.execute(insert(TrainingStep).values(**values))


def policy_version_id(run_id: int, version: str, tx: Transaction) -> int:
    """The id of a run's policy version. Another shard of the run may store it at the same time."""
    query = select(PolicyVersion.c.id).where(PolicyVersion.c.run_id == run_id, PolicyVersion.c.version == version)
    id = tx.connection.execute(query).scalar()
    if id is None:
        row = dict(run_id=run_id, version=version, address="", created=time.time())
        new = insert_or(PolicyVersion, tx.connection.dialect.name)
        tx.connection.execute(new.values(**row).on_conflict_do_nothing())
        id = tx.connection.execute(query).scalar_one()
    return int(id)


def run_record(row: Row[Any]) -> RunRecord:
    """From a row of the table `runs`. A run that has lost its writer is interrupted."""
    values = dict(row._mapping)
    owner = values.pop("owner")
    values["tags"] = tuple(values["tags"])
    if is_lost(values["status"], owner, values["heartbeat"]):
        values |= {"status": "interrupted", "reason": LOST}
    return RunRecord(**values)


def problem_record(row: Row[Any]) -> ProblemRecord:
    """From a row of the table `problems`."""
    values = dict(row._mapping)
    values["objectives"] = tuple(values["objectives"])
    if values["dimensions"] is not None:
        values["dimensions"] = tuple(values["dimensions"])
    return ProblemRecord(**values)
