"""A search stops at a plateau, starts from several answers, and may have a command as its operator."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.command_line import refused
from support.stored_rows import assert_same_run, stored_answers, stored_groups

from evo.cli import invoke

SCORER = """
isolated = False
seed_answer = ["aa", "bbb"]
def score(answer):
    return float(min(len(answer), 3))
"""
SEARCH = ["run", "scorer.py", "--policy", "scripted:mutate", "--answers", "1", "--seed", "2", "--plain"]
RUN = [*SEARCH, "--iterations", "60"]


@pytest.fixture(autouse=True)
def scorer(here: Path) -> None:
    (here / "scorer.py").write_text(SCORER)


def groups(name: str) -> int:
    return len(stored_groups("sqlite:///evo.db", name))


def test_patience_stops_a_problem_that_no_longer_improves(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([*RUN, "--patience", "8", "--parallel", "4", "--name", "short", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["problems"][0]["stopped"] == "plateau: no better answer in 8 iterations"
    assert 8 <= groups("short") <= 8 + 4, "those in flight are finished"
    before = stored_answers("sqlite:///evo.db", "short")
    assert invoke(["resume", "short", "--plain"]) == 0
    assert_same_run(stored_answers("sqlite:///evo.db", "short"), before)
    assert invoke(["resume", "short", "--patience", "20", "--plain"]) == 0 and 20 <= groups("short") <= 24


def test_a_search_starts_from_all_seeds_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("more.txt").write_text("dddd")
    assert invoke([*SEARCH, "--iterations", "3", "--start", "more.txt", "--name", "many"]) == 0
    query = "SELECT text FROM candidates WHERE sequence = -1 ORDER BY id"
    with closing(sqlite3.connect("evo.db")) as connection:
        answers = [text for (text,) in connection.execute(query)]
    assert answers == ["aa", "bbb", "dddd"]
    assert invoke([*RUN, "--start", "missing.txt", "--name", "none"]) == 2
    assert "missing.txt" in capsys.readouterr().err


GROW = """
import json, pathlib, sys
request = json.load(sys.stdin)
assert "FEEDBACK.md" not in request["files"]
answer = pathlib.Path("answer.txt")
answer.write_text(answer.read_text() + "a")
"""


def test_a_script_mutates_one_answer_a_reply_and_the_run_resumes(here: Path, capsys) -> None:
    def summary(*arguments: str) -> dict:
        assert invoke([*arguments, "--plain", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    counting = "isolated = False\nseed_answer = 'b'\ntarget = 5\ndef score(answer):\n    return answer.count('a')\n"
    (here / "scorer.py").write_text(counting)
    (here / "grow.py").write_text(GROW)
    run = ("run", "scorer.py", "--policy", "command:python grow.py", "--name", "grown", "--parallel", "1")
    assert "--answers 1" in refused(capsys, *run, "--answers", "3")
    first = summary(*run, "--iterations", "4")
    assert first["answers"] == 4 and first["problems"][0]["best"] >= 1
    more = summary("resume", "grown", "--iterations", "9")
    assert more["answers"] == 9 and more["problems"][0]["best"] > first["problems"][0]["best"]
    assert invoke(["best", "grown"]) == 0 and "aa" in capsys.readouterr().out
