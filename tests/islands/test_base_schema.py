"""A database of the first schema (tests/fixtures/base_schema) opens, shows what it showed, chooses what it chose."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import JSON, MetaData, create_engine, event, text
from sqlalchemy.types import TypeEngine

from evo.cli import invoke
from islands import migrations
from islands.errors import DatabaseUnavailable
from islands.groups import export_groups
from islands.population.config import PopulationConfig
from islands.population.population import Population
from islands.runs import best, counts_by_problem, course_of, elites, overview, run_totals
from islands.store import Store

MADE = Path(__file__).parents[1] / "fixtures" / "base_schema"
EXPECTED = json.loads(gzip.decompress((MADE / "expected.json.gz").read_bytes()))
REPLACED = {
    ("bandit", "scorer.py"): {"3-9": 126},
    ("arms/one/s0", "maze:test/1"): {"0-0-8": 176},
    ("arms/two/s0", "maze:test/1"): {"0-0-8": 206},
}
"""Cells of island 0 that held a less fit or younger member then, because only elites were placed again."""


@pytest.fixture(scope="module")
def old_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("old") / "evo.db"
    with sqlite3.connect(file) as database:
        database.executescript(gzip.decompress((MADE / "runs.sql.gz").read_bytes()).decode())
    database.close()
    return file


def generic(kind: TypeEngine[Any]) -> TypeEngine[Any]:
    """The type on every server; None in a column of JSON is NULL, as in ours."""
    return JSON(none_as_null=True) if isinstance(kind, JSON) else kind.as_generic()


def copy_to(file: Path, address: str) -> None:
    """The tables and rows of an SQLite file in another database."""
    source, target = create_engine(f"sqlite:///{file}"), create_engine(address)
    tables = MetaData()
    event.listen(tables, "column_reflect", lambda _, __, column: column.update(type=generic(column["type"])))
    tables.reflect(source)
    tables.create_all(target)
    with source.connect() as read, target.begin() as write:
        for table in tables.sorted_tables:
            rows = [dict(row._mapping) for row in read.execute(table.select())]
            if rows:
                write.execute(table.insert(), rows)
            if "id" in table.c:
                write.execute(text(f"SELECT setval('{table.name}_id_seq', (SELECT max(id) FROM {table.name}))"))
    source.dispose()
    target.dispose()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, old_file: Path) -> Iterator[str]:
    """Of the database of the first schema, on each server."""
    if request.param == "sqlite":
        yield f"sqlite:///{old_file}"
        return
    with request.getfixturevalue("postgres").database() as address:
        copy_to(old_file, address)
        yield address


@pytest.fixture(scope="module")
def base(address: str) -> Iterator[Store]:
    with Store.open(address) as store:
        yield store


def as_json(value: object) -> object:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_run_shows_what_it_showed(base: Store, name: str) -> None:
    expected = EXPECTED[name]
    (line,) = [line for line in overview(base) if line.run.name == name]
    run, problems = line.run, base.problems(line.run.id)
    *counts, mean = expected["overview"]
    assert [line.problems, line.solved, line.failed, line.groups, line.candidates] == counts
    known = [search.best.number for search in line.searches if search.best.number is not None]
    assert mean == (sum(known) / len(known) if known else None)
    totals = run_totals(base, run.id)
    shown = {**totals.as_dict(), "sampling_seconds": totals.sampling_seconds}
    was = {key: value for key, value in expected["totals"].items() if "reflection" not in key}
    assert shown.pop("errors") == was.pop("errors") and shown == pytest.approx(was)
    course = course_of(base, run.id)
    assert as_json(course.groups) == expected["groups"] and as_json(course.solved) == expected["solved"]
    rises = {
        problem: [[rise.iteration, rise.sequence, rise.fitness, rise.candidate] for rise in improvements]
        for problem, improvements in course.improvements.items()
    }
    assert as_json(rises) == expected["rises"]
    counts = [[index, vars(count)] for index, count in counts_by_problem(base, run.id)]
    assert len(counts) == len(expected["counts"])
    for (index, count), (of, was) in zip(counts, expected["counts"], strict=True):
        assert index == of and count == pytest.approx(was)
    assert [[p.name, c and c.id] for p, c in best(base, run.id)] == expected["best"]
    held = [[e.problem, e.island, e.cell, e.candidate, e.fitness] for e in elites(base, [p.id for p in problems])]
    assert sorted(held) == sorted(expected["elites"])
    groups = list(export_groups(base, run.id))
    for rollout in (rollout for group in groups for rollout in group["rollouts"]):
        values, failed = rollout.pop("values"), rollout["errors"]
        assert values == [None if why else own for why, own in zip(failed, rollout["rewards"], strict=True)]
    assert {group.pop("top_p") for group in groups} == {1.0}  # the run's setting; a column came later
    assert as_json([groups[:1], groups[-1:]]) == [expected["first"], expected["last"]]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_search_continues_as_it_would_have(base: Store, name: str) -> None:
    for problem, expected in zip(base.problems(base.run(name).id), EXPECTED[name]["states"], strict=True):
        population = Population(base, problem, PopulationConfig(**expected["config"]))
        population.advance(None)
        islands = range(population.config.islands)
        assert [population.members(island) for island in islands] == expected["members"]
        cells = [population.cells(island) for island in islands]
        right = REPLACED.get((name, problem.name), {})
        assert cells == [{**of, **(right if number == 0 else {})} for number, of in enumerate(expected["cells"])]
        assert as_json(population.best) == expected["best"] and population.plateau == expected["plateau"]
        generations = [island.generation for island in population._archipelago.islands]
        assert generations == expected["stats"]["generations"]
        chosen = []
        for island in islands:
            for seed in range(4):
                at = population.select(island, np.random.default_rng([seed, island]))
                company = [c.id for c in at.inspirations], [c.id for c in at.best]
                chosen.append([at.parent and at.parent.id, *company])
        was = expected["chosen"]
        if len(problem.objectives) > 1:  # of several objectives the pool of parents was another one
            chosen, was = ([best for *_, best in drawn] for drawn in (chosen, was))
        assert as_json(chosen) == was


def tables_of(store: Store) -> dict[str, list[tuple[str, bool]]]:
    tables = MetaData()
    tables.reflect(store.reader)
    return {name: sorted((c.name, c.nullable) for c in table.columns) for name, table in tables.tables.items()}


def test_the_tables_are_those_of_a_new_database(base: Store, tmp_path: Path) -> None:
    """Of the first schema and all later revisions."""
    with Store.open(f"sqlite:///{tmp_path}/new.db") as new:
        assert tables_of(new) == tables_of(base)


@pytest.mark.parametrize("server", ["sqlite", "postgresql"])
def test_a_later_revision_upgrades_for_a_writer_only(
    server: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        request.getfixturevalue("postgres").database()
        if server == "postgresql"
        else nullcontext(f"sqlite:///{tmp_path}/evo.db") as address
    ):
        with Store.open(address) as store:
            store.create_run("kept", {}, command="", seed=0, commit="")
        scripts = tmp_path / "alembic"
        shutil.copytree(migrations.SCRIPTS, scripts)
        (scripts / "versions" / "0014_later.py").write_text(LATER)
        monkeypatch.setattr(migrations, "SCRIPTS", scripts)
        monkeypatch.setattr(migrations, "REVISION", "0014")
        with pytest.raises(DatabaseUnavailable, match="the older schema 0013, .*`evo runs upgrade`"):
            Store.open(address, read_only=True)
        with Store.open(address) as store:
            assert ("later", True) in tables_of(store)["runs"] and [run.name for run in store.runs()] == ["kept"]
            assert store.scalar(text("SELECT version_num FROM alembic_version")) == "0014"


LATER = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0014", "0013", None, None


def upgrade():
    op.add_column("runs", sa.Column("later", sa.Text, nullable=True))
"""


@pytest.mark.parametrize("server", ["sqlite", "postgresql"])
@pytest.mark.parametrize(
    ("revision", "remedy"),
    [
        ("0012", "the evo of commit 883a8fdc upgrades it .*`evo export`"),
        ("9999", "newer than this version of evo.*; upgrade evo"),
    ],
)
def test_another_schema_is_refused_in_one_line_and_nothing_is_written(
    server: str, revision: str, remedy: str, request: pytest.FixtureRequest, tmp_path: Path, capsys
) -> None:
    file = tmp_path / "evo.db"
    with (
        request.getfixturevalue("postgres").database()
        if server == "postgresql"
        else nullcontext(f"sqlite:///{file}") as address
    ):
        with Store.open(address) as store, store.begin() as tx:
            tx.connection.execute(text("UPDATE alembic_version SET version_num = :old"), {"old": revision})
        before = file.read_bytes() if server == "sqlite" else None
        for command in ("runs", "runs upgrade", "resume x", "run maze:test/0 --policy scripted:mutate --iterations 1"):
            assert invoke([*command.split(), "--db", address]) == 2
            (line,) = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
            assert re.search(f"its schema {revision} is .*{remedy}", line)
        assert server == "postgresql" or file.read_bytes() == before
