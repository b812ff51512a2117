"""Held-out cases of a user's scorer: train cases steer the search, test cases are reported and can choose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evo.cli import invoke
from problems import resolve

# the search is steered to length; the held-out cases prefer answers without the letter b
SCORER = """
isolated = False
seed_answer = "a"
def cases(answer, letters):
    if answer == "bad":
        raise ValueError("bad")
    return {"long": min(len(answer), 50) / 50, "letters": sum(answer.count(one) for one in letters) / 50}
def score(answer):
    return cases(answer, "abcdefghijklmnopqrstuvwxyz ")
async def held_out(answer):
    return {"long": 1.0 if len(answer) == 1 else 0.0, "letters": 0.0}
"""


def run(name: str = "held", iterations: str = "30") -> None:
    arguments = ["run", "scorer.py", "--policy", "scripted:mutate", "--answers", "1", "--plain"]
    assert invoke([*arguments, "--iterations", iterations, "--name", name]) == 0


@pytest.fixture
def searched(here: Path) -> None:
    Path("scorer.py").write_text(SCORER)
    run()


def best(capsys: pytest.CaptureFixture[str], *options: str) -> dict:
    capsys.readouterr()
    assert invoke(["best", "held", "--json", *options]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    return row


@pytest.mark.usefixtures("searched")
def test_they_are_reported_steer_nothing_and_can_choose(capsys: pytest.CaptureFixture[str]) -> None:
    row = best(capsys)
    assert len(row["answer"]) > 1 and row["held_out"] == {
        "fitness": 0.0,
        "values": {"letters": 0.0, "long": 0.0},
        "rewards": {"letters": 0.0, "long": 0.0},
        "error": None,
    }
    assert invoke(["best", "held"]) == 0
    assert "# held out: fitness 0 (long 0, letters 0)" in capsys.readouterr().out
    row = best(capsys, "--held-out")
    assert row["answer"] == "a" and row["held_out"]["fitness"] == 0.5
    # after an edit, and without them
    Path("scorer.py").write_text(SCORER + "# edited\nx = 1\n")
    capsys.readouterr()
    assert invoke(["best", "held"]) == 0 and "held out" not in capsys.readouterr().out
    assert invoke(["best", "held", "--held-out"]) == 2 and "has changed" in capsys.readouterr().err
    Path("scorer.py").write_text("seed_answer = 'a'\ndef score(answer):\n    return len(answer)\n")
    run("none", iterations="1")
    assert invoke(["best", "none"]) == 0 and "held out" not in capsys.readouterr().out
    assert invoke(["best", "none", "--held-out"]) == 2 and "held_out(answer)" in capsys.readouterr().err


def test_a_program_is_judged_as_score_judges_it(here: Path) -> None:
    Path("program.py").write_text(
        "answer_format = 'python'\nseed_answer = 'def f(x): return x'\n"
        "def score(answer, cases=(0, 1)):\n    names = {}\n    exec(answer, names)\n"
        "    return sum(names['f'](x) == 2 * x for x in cases) / len(cases)\n"
        "def held_out(answer):\n    return score(answer, (5, 6))\n"
    )
    (problem,) = resolve("program.py")
    limited = "def f(x): return 2 * min(x, 2)"
    assert problem.holds_out and problem.score(limited).fitness == 1 and problem.score_held_out(limited).fitness == 0
    assert problem.score_held_out("def f(x): return 1 / 0").error
