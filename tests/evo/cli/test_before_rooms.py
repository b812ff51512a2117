"""Databases and checkpoints made before the packages were rearranged (tests/fixtures/before_rooms) open and go on."""

import json
import lzma
import shutil
import sqlite3
from pathlib import Path

import pytest

from evo.cli import invoke
from islands.store import Store

pytestmark = pytest.mark.long

MADE = Path(__file__).parents[2] / "fixtures" / "before_rooms"
GROUPS = {"islands": 29, "scorer": 5, "arms": 34}
"""Committed when they were stopped."""
PLANNED = {"islands": 80, "scorer": 20, "arms": 112}


@pytest.fixture
def old(tmp_path, monkeypatch):
    """The database and the training run in a working directory of the test's own."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(MADE, tmp_path, dirs_exist_ok=True)
    with sqlite3.connect(tmp_path / "evo.db") as database:
        dump = lzma.decompress((MADE / "runs.sql.xz").read_bytes()).decode()
        database.executescript(dump.replace("/before_rooms", str(tmp_path)))
    database.close()
    return tmp_path


def committed(name):
    """Prompt groups of a run or of all runs of a comparison."""
    with sqlite3.connect("evo.db") as database:
        query = "SELECT count(*) FROM prompt_groups g JOIN runs r ON r.id = g.run_id WHERE ? IN (r.name, r.comparison)"
        return database.execute(query, (name,)).fetchone()[0]


def printed(capsys, *arguments):
    assert invoke(list(arguments)) == 0
    return capsys.readouterr().out


def test_it_is_what_it_was(old):
    assert {name: committed(name) for name in GROUPS} == GROUPS


@pytest.fixture
def upgraded(old, capsys):
    """The same after `evo runs upgrade`: commands that only read leave an older schema as it is."""
    assert invoke(["runs"]) == 2
    assert "evo runs upgrade" in capsys.readouterr().err
    assert "has the schema of this evo" in printed(capsys, "runs", "upgrade")
    return old


def test_runs_are_listed_and_shown(upgraded, capsys):
    runs = {run["name"]: run for run in json.loads(printed(capsys, "runs", "--json"))}
    assert set(runs) == {"islands", "scorer", "arms/one/s0", "arms/one/s1", "arms/two/s0", "arms/two/s1"}
    assert (runs["islands"]["status"], runs["arms/one/s1"]["status"]) == ("interrupted", "waiting")
    assert "maze:test/1" in printed(capsys, "show", "islands")
    (best,) = json.loads(printed(capsys, "best", "scorer", "--json"))
    assert best["fitness"] == 0.5
    assert "feedback" in json.loads(printed(capsys, "show", "scorer", str(best["candidate"]), "--json"))


@pytest.mark.parametrize("name", GROUPS)
def test_runs_are_watched_and_reported(upgraded, capsys, name):
    picture = printed(capsys, "watch", name, "--once")
    assert name in picture and f"{GROUPS[name]}/{PLANNED[name]} iterations" in picture.replace(",", "")
    printed(capsys, "report", name, "-o", "page.html")
    assert (upgraded / "page.html").stat().st_size > 10_000


def test_runs_are_exported(upgraded, capsys):
    printed(capsys, "export", "islands", "-o", "traces.jsonl")
    rows = [json.loads(line) for line in (upgraded / "traces.jsonl").read_text().splitlines()]
    assert len(rows) == GROUPS["islands"] and all(row["rollouts"] for row in rows)
    assert any(row["parent"] is not None for row in rows)


@pytest.mark.parametrize("name", GROUPS)
def test_runs_go_on_to_their_end(old, capsys, name):
    printed(capsys, "resume", name, "--plain")
    assert committed(name) == PLANNED[name]
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        assert {run.status for run in store.runs() if name in (run.name, run.comparison)} == {"done"}


def test_rises_of_the_best_fitness_are_those_of_the_candidates(old):
    """What an upgrade of the schema fills in is what a search notes."""
    from islands.runs import course_of

    with Store.open("sqlite:///evo.db") as store:
        found = {
            problem: [(step.sequence, step.fitness) for step in steps]
            for run in store.runs()
            for problem, steps in course_of(store, run.id).improvements.items()
        }
    expected = {}
    with sqlite3.connect("evo.db") as database:
        for problem, sequence, fitness in database.execute(
            "SELECT problem_id, sequence, max(fitness) FROM candidates WHERE error IS NULL GROUP BY 1, 2 ORDER BY 1, 2"
        ):
            steps = expected.setdefault(problem, [])
            if not steps or fitness > steps[-1][1]:
                steps.append((sequence, fitness))
    assert found == expected and any(len(steps) > 1 for steps in found.values())


def test_a_training_run_goes_on_to_its_end(old, capsys):
    printed(capsys, "train", "--resume", "training", "--plain")
    lines = [json.loads(line) for line in (old / "training" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == [1, 2, 3, 4]
    assert (old / "training" / "model.safetensors").exists()
