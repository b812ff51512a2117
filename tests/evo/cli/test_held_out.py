"""Held-out cases of a user's scorer: train cases steer the search, test cases are reported and can choose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evo.cli import invoke
from problems import resolve

# the search is steered to length; the held-out cases prefer answers without the letter b
SCORER = """
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


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scorer.py").write_text(SCORER)


def run(name: str = "held") -> None:
    arguments = ["run", "scorer.py", "--policy", "scripted:mutate", "--answers", "1", "--iterations", "30", "--plain"]
    assert invoke([*arguments, "--name", name]) == 0


def best(capsys: pytest.CaptureFixture[str], *options: str) -> dict:
    capsys.readouterr()
    assert invoke(["best", "held", "--json", *options]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    return row


def test_they_are_reported_and_steer_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    run()
    row = best(capsys)
    assert len(row["answer"]) > 1 and row["held_out"] == {
        "fitness": 0.0,
        "rewards": {"letters": 0.0, "long": 0.0},
        "error": None,
    }
    assert invoke(["best", "held"]) == 0
    assert "# held out: fitness 0 (letters 0, long 0)" in capsys.readouterr().out


def test_they_can_choose_among_the_answers_that_were_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    run()
    row = best(capsys, "--held-out")
    assert row["answer"] == "a" and row["held_out"]["fitness"] == 0.5


def test_without_them_or_after_an_edit_it_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    run()
    Path("scorer.py").write_text(SCORER + "# edited\nx = 1\n")
    capsys.readouterr()
    assert invoke(["best", "held"]) == 0 and "held out" not in capsys.readouterr().out
    assert invoke(["best", "held", "--held-out"]) == 2 and "has changed" in capsys.readouterr().err
    Path("scorer.py").write_text("seed_answer = 'a'\ndef score(answer):\n    return len(answer)\n")
    run("none")
    assert invoke(["best", "none"]) == 0 and "held out" not in capsys.readouterr().out
    assert invoke(["best", "none", "--held-out"]) == 2 and "held_out(answer)" in capsys.readouterr().err


def test_a_program_is_judged_as_score_judges_it(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        "answer_format = 'python'\nseed_answer = 'def f(x): return x'\n"
        "def judge(answer, cases):\n    names = {}\n    exec(answer, names)\n"
        "    return sum(names['f'](x) == 2 * x for x in cases) / len(cases)\n"
        "def score(answer):\n    return judge(answer, [0, 1])\n"
        "def held_out(answer):\n    return judge(answer, [5, 6])\n"
    )
    (problem,) = resolve(str(file))
    assert problem.holds_out
    right = "def f(x): return 2 * x"
    assert problem.score(right).fitness == problem.score_held_out(right).fitness == 1
    assert problem.score("def f(x): return 2 * min(x, 2)").fitness == 1
    assert problem.score_held_out("def f(x): return 2 * min(x, 2)").fitness == 0
    assert problem.score_held_out("def f(x): return 1 / 0").error
