"""bench/soak.py: what it holds a database against finds what is wrong, and ten kills of it leave nothing behind."""

import contextlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bench import soak

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE candidates SET fitness = fitness + 1 WHERE sequence = 2", "lost"),
        ("DELETE FROM answers WHERE rollout_id = (SELECT max(id) FROM rollouts)", "lost"),
        ("UPDATE prompt_groups SET sequence = 99 WHERE sequence = 3", "half"),
        ("UPDATE candidates SET group_id = -1 WHERE sequence = 2", "half"),
        (None, None),
    ],
)
def test_a_group_that_changed_or_is_gone_is_found(statement, kind, tmp_path, search_with, digits, digits_policy):
    db = f"sqlite:///{tmp_path / 'evo.db'}"
    search_with([digits()], digits_policy(), db, iterations=6)
    before = soak.Snapshot(db)
    assert len(before.groups) == 6 and before.known and soak.whole(db) == ""
    if statement:
        with contextlib.closing(sqlite3.connect(tmp_path / "evo.db")) as connection:
            connection.execute(statement)
            connection.commit()
    found = {what for what, words in soak.Snapshot(db).faults_after(before).items() if words}
    assert kind in found if kind else not found


@pytest.mark.long
def test_ten_kills_lose_nothing_and_leave_nothing(tmp_path):
    command = [sys.executable, str(ROOT / "bench" / "soak.py"), "--kills", "10", "--kinds", "train,scorer"]
    ended = subprocess.run(
        [*command, "--databases", "sqlite", "--folder", str(tmp_path)], capture_output=True, text=True, timeout=900
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    state = json.loads((tmp_path / "state.json").read_text())
    assert sum(state["kills"].values()) >= 10 and not state["counts"] and state["scored"] > 0
