"""Databases and checkpoints made before the packages were rearranged (tests/fixtures/before_rooms) open and go on."""

import json
import lzma
import shutil
import sqlite3
from pathlib import Path

import pytest
from support.command_line import evo

pytestmark = pytest.mark.long

MADE = Path(__file__).parents[2] / "fixtures" / "before_rooms"
PLANNED = {"islands": 80, "scorer": 20, "arms": 112}


@pytest.fixture
def old(here):
    """The database and the training run in a working directory of the test's own."""
    shutil.copytree(MADE, here, dirs_exist_ok=True)
    with sqlite3.connect(here / "evo.db") as database:
        dump = lzma.decompress((MADE / "runs.sql.xz").read_bytes()).decode()
        database.executescript(dump.replace("/before_rooms", str(here)))
    database.close()
    return here


def printed(capsys, *arguments):
    code, out, err = evo(capsys, *arguments)
    assert code == 0, err
    return out


def committed(capsys):
    """Iterations by run, or by comparison; whether all runs are done."""
    runs = json.loads(printed(capsys, "runs", "--json"))
    names = [(run["comparison"] or run["name"], run["groups"], run["status"]) for run in runs]
    return {name: sum(groups for of, groups, _ in names if of == name) for name, *_ in names}, {s for *_, s in names}


def test_after_an_upgrade_runs_and_a_training_go_on_to_their_end(old, capsys):
    code, _, err = evo(capsys, "runs")
    assert code == 2 and "evo runs upgrade" in err, "commands that only read leave an older schema as it is"
    assert "has the schema of this evo" in printed(capsys, "runs", "upgrade")
    for name in PLANNED:
        printed(capsys, "resume", name, "--plain")
    assert committed(capsys) == (PLANNED, {"done"})
    printed(capsys, "train", "--resume", "training", "--plain")
    lines = [json.loads(line) for line in (old / "training" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == [1, 2, 3, 4]
    assert (old / "training" / "model.safetensors").exists()
