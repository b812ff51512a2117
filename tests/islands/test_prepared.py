"""Statements on the driver's own cursor keep what SQLAlchemy promises: values, order, exceptions, connections."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from island_samples import answer, group, new_problem
from sqlalchemy import insert, select, text
from sqlalchemy.exc import IntegrityError

from islands.db.prepared import Prepared
from islands.db.schema import Candidate, PolicyVersion, Problem
from islands.db.store import Store
from islands.db.writer import GroupWriter
from islands.errors import DatabaseUnavailable

_VERSIONS = insert(PolicyVersion).returning(PolicyVersion.c.id)


def test_rows_are_stored_as_sqlalchemy_stores_them(store: Store) -> None:
    """JSON, doubles, text that a database refuses, and nothing at all, read back by SQLAlchemy."""
    run = store.create_run(None, {}, command="", seed=0, commit="")
    row = dict(
        run_id=run.id, index=0, address="nul \x00 and \udcff", name="p", objectives=["a", "b\u2028"], target=0.1 + 0.2,
        answer_format="text", status="active", message="", solved_sequence=None, dimensions=None, best=2**40,
        best_fitness=float("1e-308"), fingerprint=None,
    )  # fmt: skip
    statement = insert(Problem).returning(Problem.c.id)
    with store.begin() as tx:
        ids = store.statements.prepare(statement).ids(tx.connection, [row])
        ids += tx.connection.execute(statement, [row | {"index": 1}]).scalars().all()
    ours, theirs = store.rows(select(Problem).where(Problem.c.id.in_(ids)).order_by(Problem.c.id))
    assert ours._asdict() | {"id": 0} == row | {"id": 0}
    assert ours._asdict() | {"id": 0, "index": 1} == theirs._asdict() | {"id": 0}


def test_ids_come_in_the_order_of_the_rows(store: Store) -> None:
    problem = new_problem(store)
    answers = [answer(f"number {i}") for i in range(40)]
    with store.begin() as tx:
        writer = GroupWriter(store, problem)
        ids = writer.write_group(tx, group(problem, 0, answers), answers, [(0.0,)] * 40, 0, lambda key: 0)
    found = dict(store.rows(select(Candidate.c.id, Candidate.c.text)))
    assert [found[id] for id in ids] == [one.text for one in answers]
    assert ids == sorted(ids)


def test_a_rule_of_the_database_that_is_broken_raises_what_sqlalchemy_raises(store: Store) -> None:
    run = store.create_run(None, {}, command="", seed=0, commit="")
    version = dict(run_id=run.id, version="v", address="", parent_id=None, created=0.0)
    prepared = store.statements.prepare(_VERSIONS)
    for rows in ([version, version], [version | {"run_id": 10**6}]):
        with pytest.raises(IntegrityError), store.begin() as tx:
            prepared.ids(tx.connection, rows)
    with store.begin() as tx:  # nothing is left of either, and the connection is good
        assert len(prepared.ids(tx.connection, [version])) == 1
    assert store.scalar(select(PolicyVersion.c.version)) == "v"


def test_a_statement_is_compiled_once_a_store(store: Store) -> None:
    assert isinstance(store.statements.prepare(_VERSIONS), Prepared)
    assert store.statements.prepare(_VERSIONS) is store.statements.prepare(_VERSIONS)


def test_a_connection_that_the_server_cut_is_one_line_and_not_used_again(
    postgres_address: str, opened: Callable[..., Store]
) -> None:
    store = opened(postgres_address)
    run = store.create_run(None, {}, command="", seed=0, commit="")
    version = dict(run_id=run.id, version="v", address="", parent_id=None, created=0.0)
    prepared = store.statements.prepare(_VERSIONS)
    with pytest.raises(DatabaseUnavailable, match="terminating connection"), store.begin() as tx:
        backend = tx.connection.execute(text("SELECT pg_backend_pid()")).scalar()
        store.scalar(text(f"SELECT pg_terminate_backend({backend}, 10000)"))  # type: ignore[arg-type]
        prepared.ids(tx.connection, [version])
    with store.begin() as tx:
        assert len(prepared.ids(tx.connection, [version])) == 1
