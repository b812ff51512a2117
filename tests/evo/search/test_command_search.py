"""Searches whose operator is a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evo.cli import invoke

GROW = """
import json, pathlib, sys
request = json.load(sys.stdin)
assert "FEEDBACK.md" not in request["files"]
answer = pathlib.Path("answer.txt")
answer.write_text(answer.read_text() + "a")
"""


@pytest.fixture(autouse=True)
def scorer(here: Path) -> None:
    Path("scorer.py").write_text(
        "isolated = False\nseed_answer = 'b'\ntarget = 5\ndef score(answer):\n    return answer.count('a')\n"
    )


def summary(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> dict:
    assert invoke([*arguments, "--plain", "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_script_mutates_and_the_run_resumes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("grow.py").write_text(GROW)
    arguments = ["run", "scorer.py", "--policy", "command:python grow.py", "--name", "grown", "--parallel", "1"]
    first = summary([*arguments, "--iterations", "4"], capsys)
    assert first["answers"] == 4 and first["problems"][0]["best"] >= 1
    more = summary(["resume", "grown", "--iterations", "9"], capsys)
    assert more["answers"] == 9 and more["problems"][0]["best"] > first["problems"][0]["best"]
    assert invoke(["best", "grown"]) == 0 and "aa" in capsys.readouterr().out


def test_it_takes_one_answer_per_reply(capsys: pytest.CaptureFixture[str]) -> None:
    Path("grow.py").write_text(GROW)
    arguments = ["run", "scorer.py", "--policy", "command:python grow.py", "--answers", "3", "--plain"]
    assert invoke(arguments) == 2 and "--answers 1" in capsys.readouterr().err
