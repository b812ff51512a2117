"""`evo verify`: seed and winner again, beside a tuned seed and plain samples."""

import json
from pathlib import Path

import numpy as np
import pytest

from evo.cli import invoke
from evo.comparison.verification import SAMPLED, SEED, TUNED, WINNER, Verification
from islands.store import Store

SCORER = """
import random
answer_format = "python"
seed_answer = "X = 1.0\\n"
def judge(answer, cases):
    names = {}
    exec(answer, names)
    return [1 / (1 + abs(names["X"] - case)) + NOISE for case in cases]
def score(answer):
    return sum(judge(answer, [3.0]))
"""
HELD_OUT = "\ndef held_out(answer):\n    return judge(answer, [2.5, 2.9, 3.1, 3.2, 3.3, 3.4, 3.5])\n"


@pytest.fixture
def searched(here):
    def search(noise="0", more=""):
        Path("x.py").write_text(SCORER.replace("NOISE", noise) + more)
        arguments = ["run", "x.py", "--policy", "scripted:mutate", "--answers", "1", "--iterations", "30", "--plain"]
        assert invoke([*arguments, "--name", "x"]) == 0

    return search


def verified(capsys, *options, code=0):
    capsys.readouterr()
    assert invoke(["verify", "x", "--json", *options]) == code
    return json.loads(capsys.readouterr().out)


def test_the_rivals_are_runs_and_nothing_runs_or_is_scored_twice(searched, capsys):
    pytest.importorskip("cma")
    searched("random.gauss(0, 0.01)", HELD_OUT)
    found = verified(capsys)
    assert found["unit"] == "7 cases" and list(found["answers"]) == [SEED, WINNER, TUNED, SAMPLED]
    assert found["answers"][TUNED]["score"]["mean"] > found["answers"][SEED]["score"]["mean"]
    assert "the mean of 10: the scorer is noisy" in found["notes"][0]
    with Store.open("sqlite:///evo.db") as store:
        runs = {run.name: run for run in store.runs()}
        kept = next(iter(runs["x"].summary["verified"].values()))["rows"]
    assert set(runs) == {"x", "x-tuned", "x-sampled"} and {len(rows) for rows in kept.values()} == {10}
    assert verified(capsys) == found


def test_what_cannot_be_verified_and_what_has_changed(searched, capsys):
    searched()
    alone = ("--no-tune", "--no-sample")
    found = verified(capsys, *alone)
    assert found["unit"] == "" and found["answers"][SEED]["shown"] and "no held-out" in found["notes"][-1]
    Path("x.py").write_text(SCORER.replace("NOISE", "0.5"))
    assert "the scorer has changed" in verified(capsys, *alone)["notes"][0]
    Path("x.py").write_text(
        SCORER.replace("NOISE", "0").replace("names = {}", "names = {}; answer == seed_answer or no()")
    )
    assert invoke(["verify", "x", *alone]) == 1 and "no" in capsys.readouterr().err
    text = "    if answer != seed_answer:\n        return {'error': 'too good'}\n    return sum(judge"
    Path("x.py").write_text(SCORER.replace("NOISE", "0").replace("    return sum(judge", text))
    assert "the winner fails now: too good" in verified(capsys, *alone, code=1)["failed"][0]
    assert invoke(["verify", "nothing"]) == 2 and invoke(["verify", "x", "--problem", "y"]) == 2


def test_an_interval_is_over_problems_and_rivals_as_good_come_first():
    values = {WINNER: [0.9, 0.8, 0.9, 0.7, 0.9, 0.8, 0.9], SEED: [0.1, 0.2, 0.1, 0.2, 0.3, 0.1, 0.2]}
    values |= {TUNED: values[WINNER], SAMPLED: [0.89, 0.9, 0.8, 0.6, 0.8, 0.8, np.nan]}
    arrays = {name: [np.array([[x]]) for x in of] for name, of in values.items()}
    found = Verification("x", ["x"] * 7, {}, arrays, "fitness", lower=False, held_out=False)
    told = found.sentences()
    assert told[0] == "The search found no more than tuning the seed's numbers does."
    assert told[1].startswith("The search found little more than sampling its policy as often does: by 0.035 [")
    assert told[2].startswith("The winner is better than the seed by 0.6714 [") and "over 7 problems" in told[2]
    values = {WINNER: [np.array([[2.0]])], SEED: [np.array([[5.0]])]}
    lower = Verification("x", ["x"], {}, values, "error", lower=True, held_out=True)
    assert lower.sentences() == [
        "The winner is better than the seed by 3 on held-out cases (error: lower is better); the winner reaches 2."
    ]
