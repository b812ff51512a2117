"""Databases of commit c96219c2 (tests/fixtures/before_sums) open, show what they showed, and choose what they chose."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import MetaData, create_engine, event, text
from support.island_samples import search, small_config

from islands.errors import DatabaseUnavailable
from islands.groups import export_groups, read_groups
from islands.population.config import PopulationConfig
from islands.population.population import Population
from islands.runs import best, counts_by_problem, course_of, elites, overview, run_totals
from islands.store import Store

MADE = Path(__file__).parents[1] / "fixtures" / "before_sums"
EXPECTED = json.loads(gzip.decompress((MADE / "expected.json.gz").read_bytes()))
OLD = "the older schema 0010"
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


def copy_to(file: Path, address: str) -> None:
    """The tables and rows of an SQLite file in another database."""
    source, target = create_engine(f"sqlite:///{file}"), create_engine(address)
    tables = MetaData()
    event.listen(tables, "column_reflect", lambda _, __, column: column.update(type=column["type"].as_generic()))
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
def upgraded(request: pytest.FixtureRequest, old_file: Path):
    """The store after the upgrade, on each database."""
    if request.param == "sqlite":
        address = f"sqlite:///{old_file}"
        with pytest.raises(DatabaseUnavailable, match=OLD):
            Store.open(address, read_only=True)
        with Store.open(address) as store:
            yield store
        return
    fresh = old_file.with_name("fresh.db")
    with sqlite3.connect(fresh) as database:
        database.executescript(gzip.decompress((MADE / "runs.sql.gz").read_bytes()).decode())
    database.close()
    with request.getfixturevalue("postgres").database() as address:
        copy_to(fresh, address)
        with Store.open(address) as store:
            yield store


def as_json(value: object) -> object:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_run_shows_what_it_showed(upgraded: Store, name: str) -> None:
    expected = EXPECTED[name]
    (line,) = [line for line in overview(upgraded) if line.run.name == name]
    run, problems = line.run, upgraded.problems(line.run.id)
    *counts, mean = expected["overview"]
    assert [line.problems, line.solved, line.failed, line.groups, line.candidates] == counts
    known = [search.best.number for search in line.searches if search.best.number is not None]
    assert mean == (sum(known) / len(known) if known else None)
    totals = run_totals(upgraded, run.id)
    shown = {**totals.as_dict(), "sampling_seconds": totals.sampling_seconds}
    was = {key: value for key, value in expected["totals"].items() if "reflection" not in key}
    assert shown.pop("errors") == was.pop("errors") and shown == pytest.approx(was)
    course = course_of(upgraded, run.id)
    assert as_json(course.groups) == expected["groups"] and as_json(course.solved) == expected["solved"]
    rises = {
        problem: [[rise.iteration, rise.sequence, rise.fitness, rise.candidate] for rise in improvements]
        for problem, improvements in course.improvements.items()
    }
    assert as_json(rises) == expected["rises"]
    counts = [[index, vars(count)] for index, count in counts_by_problem(upgraded, run.id)]
    assert len(counts) == len(expected["counts"])
    for (index, count), (of, was) in zip(counts, expected["counts"], strict=True):
        assert index == of and count == pytest.approx(was)
    assert [[p.name, c and c.id] for p, c in best(upgraded, run.id)] == expected["best"]
    held = [[e.problem, e.island, e.cell, e.candidate, e.fitness] for e in elites(upgraded, [p.id for p in problems])]
    assert sorted(held) == sorted(expected["elites"])
    groups = list(export_groups(upgraded, run.id))
    for rollout in (rollout for group in groups for rollout in group["rollouts"]):
        values, failed = rollout.pop("values"), rollout["errors"]
        assert values == [None if why else own for why, own in zip(failed, rollout["rewards"], strict=True)]
    assert {group.pop("top_p") for group in groups} == {1.0}  # the run's setting; a column came later
    assert as_json([groups[:1], groups[-1:]]) == [expected["first"], expected["last"]]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_search_continues_as_it_would_have(upgraded: Store, name: str) -> None:
    for problem, expected in zip(upgraded.problems(upgraded.run(name).id), EXPECTED[name]["states"], strict=True):
        population = Population(upgraded, problem, PopulationConfig(**expected["config"], pareto_by="fitness"))
        population.advance(None)
        islands = range(population.config.islands)
        assert [population.members(island) for island in islands] == expected["members"]
        cells = [population.cells(island) for island in islands]
        right = REPLACED.get((name, problem.name), {})
        assert cells == [{**of, **(right if number == 0 else {})} for number, of in enumerate(expected["cells"])]
        assert as_json(population.best) == expected["best"] and population.plateau == expected["plateau"]
        generations = [island.generation for island in population._memory.archipelago.islands]
        assert generations == expected["stats"]["generations"]
        chosen = []
        for island in islands:
            for seed in range(4):
                at = population.select(island, np.random.default_rng([seed, island]))
                company = [c.id for c in at.inspirations], [c.id for c in at.best]
                chosen.append([at.parent and at.parent.id, *company])
        assert as_json(chosen) == expected["chosen"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"policy": "a"}, 1.0),
        ({"policy": "a", "top_p": 1.0}, 1.0),
        ({"policy": "a", "top_p": 0.9}, 0.9),
        ({"policy": "a?temperature=0.5&top_p=0.8", "top_p": 1.0}, 0.8),
        ({"policy": "a", "top_p": 1.0, "policy_changes": [{"before": "a?top_p=0.7", "after": "a"}]}, 0.7),
    ],
)
def test_a_group_of_an_older_run_has_the_top_p_of_its_run(tmp_path: Path, config: dict, expected: float) -> None:
    address = f"sqlite:///{tmp_path}/evo.db"
    with Store.open(address) as store:
        for name, settings in (("asked", config), ("other", {"policy": "a", "top_p": 1.0})):
            run = store.create_run(name, settings, command="", seed=0, commit="")
            problem = store.add_problem(run.id, 0, "maze:test/0", "maze 0", ("left", "right"), 1.0, "text")
            search(store, Population(store, problem, small_config()), 2)
    with sqlite3.connect(tmp_path / "evo.db") as database:  # as revision 0012 had it
        database.execute("ALTER TABLE prompt_groups DROP COLUMN top_p")
        database.execute("UPDATE alembic_version SET version_num = '0012'")
    database.close()
    with Store.open(address) as store:
        found = {name: {g.top_p for _, g in read_groups(store, store.run(name).id)} for name in ("asked", "other")}
    assert found == {"asked": {expected}, "other": {1.0}}


def test_a_resume_stores_the_cells_that_were_placed_otherwise(upgraded: Store) -> None:
    (problem,) = upgraded.problems(upgraded.run("bandit").id)
    population = Population(
        upgraded, problem, PopulationConfig(**EXPECTED["bandit"]["states"][0]["config"], pareto_by="fitness")
    )
    population.advance(5)
    assert population._changed_cells() == []
    population.advance(None)
    assert population._changed_cells() == [(0, "3-9", 126)]


def test_the_upgraded_tables_are_those_of_a_new_database(upgraded: Store, tmp_path: Path) -> None:
    def columns(store: Store) -> dict[str, list[tuple[str, bool]]]:
        tables = MetaData()
        tables.reflect(store.reader)
        return {name: sorted((c.name, c.nullable) for c in table.columns) for name, table in tables.tables.items()}

    with Store.open(f"sqlite:///{tmp_path}/new.db") as new:
        ours, theirs = columns(new), columns(upgraded)
    ours.pop("alembic_version"), theirs.pop("alembic_version")
    assert ours == theirs
