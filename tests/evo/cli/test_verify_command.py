"""`evo verify`: seed and winner again, beside a tuned seed and plain samples."""

import json
import re
from functools import partial
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from support.command_line import output
from support.rows import yaml_rows

from evo.cli import invoke
from evo.comparison.verification import SAMPLED, SEED, TUNED, WINNER, MeasuredAnswers, Verification, measure_gain
from evo.ui.pages import RunPages
from islands.store import Store

SCORER = """
isolated = False
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
        kept = next(iter(runs["x"].summary["verified"].values()))["scores"]
    assert set(runs) == {"x", "x-tuned", "x-sampled"} and {len(rows) for rows in kept.values()} == {10}
    assert verified(capsys) == found


def test_every_view_has_held_out_scores_and_the_sentence_until_the_search_goes_on(searched, capsys):
    told = partial(output, capsys)

    def page():
        told("report", "x", "-o", "x.html")
        return unescape(Path("x.html").read_text())

    searched("0", HELD_OUT)
    line = re.search("# (held out: fitness .*)", told("best", "x"))[1]
    shown = json.loads(told("show", "x", "--json"))
    assert shown["verification"] is None is shown["problems"][0]["verified"]
    assert line in page() and "evo verify x" in page() and line not in told("show", "x")
    found = verified(capsys, "--no-tune", "--no-sample")
    best = shown["problems"][0]["candidate"]
    shown = json.loads(told("show", "x", "--json"))
    measured = {**found["measured"][str(best)], "held_out": True}
    assert measured["values"] == {"score": pytest.approx(found["answers"][WINNER]["score"]["mean"])}
    assert shown["verification"] == {key: value for key, value in found.items() if key != "schema"}
    assert (
        shown["problems"][0]["verified"] == json.loads(told("show", "x", str(best), "--json"))["verified"] == measured
    )
    pages = RunPages("sqlite:///evo.db")
    views = [told("show", "x"), page(), unescape(pages.page("x").body.decode())]
    assert all(text in view for view in views for text in (line, *found["sentences"]))
    assert line in told("show", "x", str(best)) and line in unescape(pages.candidate("x", best).body.decode())
    assert "evo verify x" not in page()
    assert invoke(["resume", "x", "--iterations", "31", "--plain"]) == 0
    assert json.loads(told("show", "x", "--json"))["verification"] is None


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
    found = Verification("x", ["x"] * 7, {}, MeasuredAnswers("fitness", arrays, False), held_out=False)
    told = found.sentences()
    assert told[0] == "The search found no more than tuning the seed's numbers does."
    assert told[1].startswith("The search found little more than sampling its policy as often does: by 0.035 [")
    assert told[2].startswith("The winner is better than the seed on 7 of 7 problems, on cases that were searched on,")
    assert "searched on, by 0.6714 [" in told[2]
    values = {WINNER: [np.array([[2.0]])], SEED: [np.array([[5.0]])]}
    lower = Verification("x", ["x"], {}, MeasuredAnswers("error", values, True), held_out=True)
    assert lower.sentences() == [
        "The winner is better than the seed by 3 on held-out cases (error: lower is better); the winner reaches 2."
    ]


GAINS = [0.0544, 0.0624, 0.0615, 0.0565, 0.0623, 0.0665]


def of_cases(winner, seed, lower=False, **more):
    values = {SEED: [np.array(seed)[:, None]], WINNER: [np.array(winner)[:, None]]}
    return Verification("x", ["x"], {}, MeasuredAnswers("fitness", values, lower), held_out=True, **more)


@pytest.mark.parametrize("lower", [False, True])
def test_a_gain_on_each_of_six_cases_is_told_as_such(lower):
    """The mean is .0606. One unseen case may lose what the seed has, .51, so that p is
    (.51 / (.51 + .0606))^n * .05 / .08: at most .05 from n = 23 on (22.5). Where lower is better the winner has .5706
    to lose, and n is 26 (25.02)."""
    seed = np.full(6, 0.51) if not lower else np.full(6, 0.6312)
    gains = np.array(GAINS)
    found = of_cases(seed + gains if not lower else seed - gains, seed, lower)
    (told,) = found.sentences()
    gain = found.fitness.gain(SEED)
    assert (gain.better, gain.worse, gain.units) == (6, 0, 6) and gain.mean == pytest.approx(0.0606)
    assert told.startswith(
        "The winner is better than the seed on 6 of 6 held-out cases, by 0.0606 on average; 6 cases "
    )
    assert "not shown" not in told and "problem" not in told and "[" not in told
    needed = gain.difference.needed
    assert needed == (26 if lower else 23) and f"{needed} such cases would" in told
    for count in (needed - 1, needed):  # such cases, as many: the one before is not enough
        cases = np.resize(gains - gains.mean(), count) / 1e6 + gains.mean()
        both = (0.51 + cases, np.full(count, 0.51)) if not lower else (0.6312 - cases, np.full(count, 0.6312))
        assert measure_gain(both[0][:, None], both[1][:, None], lower).difference.shown == (count == needed)


@pytest.mark.parametrize(("winner", "seed", "says"), yaml_rows(__file__, "each_result_has_a_sentence_that_is_true"))
def test_each_result_has_a_sentence_that_is_true(winner, seed, says):
    for lower in (False, True):
        sign = -1 if lower else 1
        (told,) = of_cases(sign * np.array(winner, float), sign * np.array(seed, float), lower).sentences()
        assert says in told.replace(" (fitness: lower is better)", ""), told


def test_repeats_of_one_case_may_be_luck():
    values = {SEED: [np.array([[0.5, 0.6, 0.4]])], WINNER: [np.array([[0.5, 0.7, 0.4]])]}
    (told,) = Verification("x", ["x"], {}, MeasuredAnswers("fitness", values, False), held_out=False).sentences()
    assert told.startswith("The winner is better than the seed by 0.03333 [")
    assert "on cases that were searched on, over 3 repeats, which may be luck;" in told


OBJECTIVES = """
isolated = False
seed_answer = "X = 1.0\\n"
answer_format = "python"
directions = {"mb": "min"}
def judge(x, goal):
    return {"hit": x, "mb": goal - x}
def score(answer):
    exec(answer, names := {})
    return judge(names["X"], 10.0)
def held_out(answer):
    exec(answer, names := {})
    return [judge(names["X"], goal) for goal in (20.0, 30.0, 40.0)]
"""


def test_each_objective_is_told_in_its_own_values_and_a_start_has_its_name(here, capsys):
    Path("o.py").write_text(OBJECTIVES)
    Path("two.txt").write_text("X = 3.0\n")
    run = ["run", "o.py", "--policy", "scripted:fixed=two.txt", "--answers", "1", "--iterations", "8", "--plain"]
    assert invoke([*run, "--name", "x"]) == 0
    found = verified(capsys, "--no-tune", "--no-sample")
    # X is 3 and not 1, so each case has 2 more in hit and 2 less in mb
    told = {
        name: (one["direction"], one["winner_better_by"]["mean"], one["better_on"])
        for name, one in found["objectives"].items()
    }
    assert told == {"hit": ("max", 2.0, 3), "mb": ("min", 2.0, 3)}
    assert found["objectives"]["mb"]["seed"]["mean"] == 29.0 and found["objectives"]["mb"]["winner"]["mean"] == 27.0
    assert "In mb ↓ it is better on 3 of 3 cases, by 2 on average." in found["sentences"]
    assert invoke([*run, "--name", "y", "--start", "x"]) in (0, 1)
    out = output(capsys, "verify", "y", "--no-tune", "--no-sample", "--plain")
    assert "\nbest of x " in out and "\nseed " not in out
    assert "The winner is as good as the best of x on all 3 held-out cases" in " ".join(out.split())
