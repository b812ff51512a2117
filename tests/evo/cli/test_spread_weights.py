"""`--weights spread`: searches and comparisons judged under many weightings, in every view."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.command_line import output, refused
from support.stored_searches import store_comparison

import evo
from evo.evaluation.preferences import judging_weights
from evo.progress.model import Progress
from islands.store import Store
from problems.registry import resolve

Capture = pytest.CaptureFixture[str]
MAZES = ("maze:test/0-6", "--arm", "classic=scripted:classic", "--arm", "one=scripted:classic,answers=1")
MAZES = (*MAZES, "--baseline", "none", "--answers-per-iteration", "3", "--iterations", "6", "--seeds", "2", "--plain")


def test_a_stored_comparison_is_judged_by_brute_force(here: Path, capsys: Capture) -> None:
    output(capsys, "compare", *MAZES, "--name", "mazes", "--processes", "1")
    plain = output(capsys, "show", "mazes")
    assert "weightings solved" not in plain and "Solve rate after" in plain
    shown = json.loads(output(capsys, "show", "mazes", "--weights", "spread", "--json"))
    found = evo.load_comparison("mazes", weights="spread")
    table = found.frame()
    problems = {problem.name: problem for problem in resolve("maze:test/0-6")}
    weights = judging_weights(4)
    for (arm, seed, name), of in found.frame(candidates=True).groupby(["arm", "seed", "problem"]):
        rewards = of[of.error.isna()][[f"reward.{each}" for each in problems[name].objectives]].to_numpy()
        best = (rewards @ weights.T).max(axis=0, initial=0.0)
        optimum = np.array([problems[name].target_under(each) for each in weights])
        row = table[(table.arm == arm) & (table.seed == seed) & (table.problem == name)].iloc[0]
        assert row.weightings_solved == (best >= optimum).mean()
        assert row.worth == pytest.approx((best / optimum).mean())
    for arm in ("classic", "one"):
        mine = table[table.arm == arm]
        assert shown["arms"][arm]["worth"]["mean"] == pytest.approx(mine.worth.mean())
        assert shown["arms"][arm]["weightings_solved"]["mean"] == pytest.approx(mine.weightings_solved.mean())
        of = [one for one in shown["preferences"]["curves"] if one["arm"] == arm and one["metric"] == "worth"]
        assert [one["at"] for one in of] == [1, 2, 3, 4, 5, 6] and of[-1]["mean"] == pytest.approx(mine.worth.mean())
        assert np.all(np.diff([one["mean"] for one in of]) >= 0)
    assert shown["preferences"]["unit"] == "shares of the optimum"
    gap = next(one for one in shown["differences"] if one["metric"] == "weightings")
    by_arm = table.groupby("arm").weightings_solved.mean()
    assert gap["mean"] == pytest.approx(by_arm["one"] - by_arm["classic"]) and gap["pairs"] == 7
    out = output(capsys, "show", "mazes", "--weights", "spread")
    assert "Share of weightings solved after 6 of 6 iterations" in out and found.verdict in out
    assert found.verdicts == shown["verdicts"] and "one - classic = " in found.verdict
    page = found.report("mazes.html").read_text()
    assert "E_w[best]" in page and "weightings solved" in page
    output(capsys, "report", "mazes", "--weights", "spread", "-o", "again.html")
    assert Path("again.html").read_text().count("weightings solved") == page.count("weightings solved")
    assert "E_w[best]" not in evo.load_comparison("mazes").report("plain.html").read_text()


def test_a_run_shows_its_worth_and_its_set(here: Path, capsys: Capture) -> None:
    run = ("run", "maze:test/0-1", "--policy", "scripted:classic", "--iterations", "5", "--plain", "--name")
    closing = output(capsys, *run, "spread", "--weights", "spread")
    output(capsys, *run, "plain")
    best = [[each.text for each in evo.load_run(name).best] for name in ("spread", "plain")]
    assert best[0] == best[1]  # what is shown differs, not the search
    shown = json.loads(output(capsys, "show", "spread", "--json"))
    assert [one["problem"] for one in shown["preferences"]["problems"]] == ["maze:test/0", "maze:test/1"]
    assert [one["problem"] for one in shown["sets"]] == ["maze:test/0", "maze:test/1"]
    assert all(0 <= one["weightings_solved"] <= 1 and 0 < one["worth"] <= 1 for one in shown["preferences"]["problems"])
    for out in (closing, output(capsys, "show", "spread"), output(capsys, "show", "plain", "--weights", "spread")):
        assert f"{shown['preferences']['problems'][1]['worth']:.3f}" in out and "a set of" in out
        assert "in shares of the optimum" in out and "Under weights named afterwards" in out
    assert json.loads(output(capsys, "show", "plain", "--json"))["preferences"] is None
    ended = json.loads(output(capsys, *run, "json", "--weights", "spread", "--json"))
    ended["preferences"]["curves"] = shown["preferences"]["curves"]  # an arm is called as its run
    assert ended["preferences"] == shown["preferences"]


def stored(
    here: Path, failed: tuple[str, int, str] | None = None, **searches: list[dict[str, list[float | None]]]
) -> Progress:
    """E_w[best] of these stored searches of problems of one objective, (P, S, K + 1) an arm."""
    store_comparison(f"sqlite:///{here}/evo.db", "c", searches, objective="score", failed=failed)
    return Progress.open(Store.open(f"sqlite:///{here}/evo.db", read_only=True), "c", spread=True)


def test_of_one_objective_it_is_the_best_and_failed_problems_count_nowhere(here: Path) -> None:
    first = {"p": [0.2, 0.5, 0.4, 0.8], "broken": [0.1, 0.1, 0.1, 0.1], "q": [None, None, 0.3, 0.1]}
    second = {"p": [0.2, 0.1, 0.3, 0.4], "broken": [0.1, 0.1, 0.1, 0.1], "q": [None, 0.6, 0.1, 0.1]}
    progress = stored(here, ("b", 1, "broken"), a=[first, second], b=[second, second])
    a, b = progress.preferences["a"], progress.preferences["b"]
    np.testing.assert_allclose(a.worth[0], [[0.25, 0.625, 0.625, 1.0], [0.25, 0.25, 0.375, 0.5]])
    np.testing.assert_allclose(a.worth[1], [[0.0, 0.0, 0.5, 0.5], [0.0, 1.0, 1.0, 1.0]])
    np.testing.assert_allclose(b.worth[1], [[0.0, 1.0, 1.0, 1.0]] * 2)
    assert np.isnan(a.weightings).all() and a.worth_unit == "shares of the best that any search found"
    summary = progress.summary
    assert summary.arms["a"].worth.mean == pytest.approx(0.75) and summary.arms["a"].weightings is None
    assert summary.against["b"]["worth"].interval.mean == pytest.approx(0.0)
    assert "weightings" not in summary.against["b"] and "E_w[best]" in summary.title("worth")


def test_negative_rewards_have_no_shares(here: Path) -> None:
    progress = stored(here, a=[{"p": [-1.0, -0.5, None, 0.3]}], b=[{"p": [-1.0, -2.0, -0.7, -0.7]}])
    np.testing.assert_allclose(progress.preferences["a"].worth[0], [[-1.0, -0.5, -0.5, 0.3]])
    np.testing.assert_allclose(progress.preferences["b"].worth[0], [[-1.0, -1.0, -0.7, -0.7]])
    assert progress.summary.worth_unit == "rewards, as there are no shares of p: a reward is negative"


def test_a_search_for_many_weights_does_not_stop_at_one(here: Path, capsys: Capture) -> None:
    few = ("--iterations", "1", "--seeds", "1", "--processes", "1")
    output(capsys, "compare", *MAZES, *few, "--until-solved", "--name", "short")
    assert "--until-solved" in refused(capsys, "show", "short", "--weights", "spread")
    assert "--until-solved" in refused(capsys, "report", "short", "--weights", "spread")


def test_a_planned_comparison_is_judged_unasked_and_under_a_budget_over_what_was_spent(
    here: Path, capsys: Capture
) -> None:
    options = ("--seeds", "1", "--iterations", "50", "--max-answers", "42", "--weights", "spread", "--processes", "1")
    out = output(capsys, "compare", *MAZES[:-5], "--plain", *options, "--name", "spent")
    assert "Share of weightings solved at the end of each run's budget" in out and "one - classic = " in out
    shown = json.loads(output(capsys, "show", "spent", "--json"))
    found = evo.load_comparison("spent")
    table = found.frame()
    assert found.weights == "spread" and "worth" in table
    of = [one for one in shown["preferences"]["curves"] if one["arm"] == "one" and one["metric"] == "worth"]
    assert shown["unit"] == "answers" and of[-1]["at"] == 42
    assert of[-1]["mean"] == pytest.approx(table[table.arm == "one"].worth.mean())
    assert of[0]["mean"] == 0 < of[-1]["mean"]  # no answer was given before the first of 1,000 steps
