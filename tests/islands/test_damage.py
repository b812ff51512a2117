"""A row that something else has damaged is named, with its table and its run, where a command fails over it."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path

import pytest
from island_samples import answer, group, new_problem, put, small_config

from evo.cli import invoke
from islands.db.damage import find_damage
from islands.db.engine import OPENED, parse_address
from islands.db.store import Store
from islands.population.population import Population


@pytest.fixture
def address(tmp_path: Path) -> str:
    """A run `calm-oak` with two groups."""
    found = f"sqlite:///{tmp_path / 'runs.db'}"
    with Store.open(found) as store:
        problem = new_problem(store, "calm-oak")
        population = Population(store, problem, small_config(), "text")
        with store.begin() as tx:
            population.seed(answer("seed", 0.1), tx)
        put(store, population, *(group(problem, i, [answer(f"one {i}", 0.2 + i / 10)]) for i in range(2)))
    return found


def damage(address: str, statement: str) -> None:
    with sqlite3.connect(address.removeprefix("sqlite:///")) as connection:
        connection.execute(statement)


def test_what_evo_writes_is_right(address: str) -> None:
    assert find_damage(parse_address(address)) is None


def test_looking_for_damage_opens_nothing_for_others(address: str, tmp_path: Path) -> None:
    copied = tmp_path / "copy.db"
    shutil.copy(address.removeprefix("sqlite:///"), copied)
    before = list(OPENED)
    assert find_damage(parse_address(f"sqlite:///{copied}")) is None
    assert before == OPENED, "the order too: the newest is looked at first"


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE candidates SET fitness = 'high' WHERE id = 2", "candidates, row 2: fitness has an impossible value"),
        ("UPDATE candidates SET rewards = '[\"a\", 1]' WHERE id = 3", "candidates, row 3: rewards"),
        ("UPDATE candidates SET features = '[]' WHERE id = 1", "candidates, row 1: features"),
        (
            "UPDATE candidates SET text = x'00ff' WHERE id = 2",
            "candidates, row 2: text has an impossible value (blob)",
        ),
        ("UPDATE candidates SET feedback = CAST(x'c328' AS TEXT) WHERE id = 2", "candidates, row 2: feedback"),
        ("UPDATE candidates SET measures = CAST(x'5b22ff5d' AS TEXT) WHERE id = 2", "candidates, row 2: measures"),
        ("UPDATE prompt_groups SET sequence = 'first' WHERE id = 1", "prompt_groups, row 1: sequence"),
        ("UPDATE rollouts SET logprobs = 7 WHERE id = 2", "rollouts, row 2: logprobs"),
        ("UPDATE answers SET repeat = 'no' WHERE rowid = 1", "answers, row 1: repeat"),
        ("UPDATE runs SET summary = '{' WHERE id = 1", "runs, row 1: summary"),
        (
            "UPDATE problems SET objectives = 3 WHERE id = 1",
            "problems, row 1: objectives has an impossible value (int",
        ),
        ("DELETE FROM rollouts WHERE id = 2", "answers, row 2: it refers to a row of rollouts that is not there"),
    ],
)
def test_the_first_damaged_row_is_named(address: str, statement: str, told: str) -> None:
    damage(address, statement)
    found = find_damage(parse_address(address)) or ""
    assert told in found and "is damaged: " in found
    assert "run calm-oak, table" in found or told.startswith("answers, row 2")  # whose run is not known any more


@pytest.mark.parametrize(
    ("statement", "command"),
    [
        ("UPDATE runs SET summary = 'x'", ["runs"]),
        ("UPDATE runs SET created = 'yesterday'", ["runs"]),
        ("UPDATE problems SET objectives = 3", ["show", "calm-oak"]),
        ("UPDATE candidates SET rewards = 'none'", ["best", "calm-oak"]),
    ],
)
def test_a_command_says_so_in_one_line(
    address: str, statement: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(address, statement)
    sys.modules.pop("islands.db.damage")  # a command has not loaded it
    assert invoke([*command, "--db", address]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("evo: ") and "is damaged: run calm-oak, table " in said


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM candidates WHERE id = (SELECT best FROM problems)", "it refers to a row of candidates"),
        ("DELETE FROM problems", "it refers to a row of problems"),
    ],
)
def test_the_best_of_a_database_that_lost_rows_is_a_fault(
    address: str, capsys: pytest.CaptureFixture[str], statement: str, told: str
) -> None:
    damage(address, statement)
    assert invoke(["best", "calm-oak", "--db", address]) in (1, 2)
    captured = capsys.readouterr()
    assert told in captured.err and captured.err.count("\n") == 1 and captured.out == ""


def test_a_fault_of_the_driver_shows_no_statement(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(address.removeprefix("sqlite:///"))
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'candidates'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    data = bytearray(file.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size  # only the query of candidates reads this page
    copy = file.with_name("page.db")
    copy.write_bytes(data)
    assert invoke(["best", "calm-oak", "--db", f"sqlite:///{copy}"]) in (1, 2)
    captured = capsys.readouterr()
    assert "malformed" in captured.err and "SELECT" not in captured.err and "sqlalche" not in captured.err
    assert captured.err.count("\n") == 1 and captured.out == ""
