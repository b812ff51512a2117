"""Comparisons whose runs end by a budget: what is compared is what each had found when it was spent."""

import numpy as np
import pytest
from sqlalchemy import select

from evo.cli import invoke
from evo.comparison.arms import gather
from evo.progress.model import Progress
from islands.schema import PromptGroups
from islands.store import Store

g = PromptGroups.c


def compare(db, *more):
    command = ["compare", "maze:test", "--limit", "3", "--arm", "short=scripted:random-route", "--arm",
               "long=scripted:classic", "--against", "short", "--baseline", "none", "--seeds", "2", "--answers", "1",
               "--answers-per-iteration", "2", "--parallel", "3", "--plain", "--db", db, "--name", "budgets",
               *more]  # fmt: skip
    assert invoke(command) == 0


@pytest.mark.long
def test_runs_that_a_budget_of_tokens_ended_are_compared_at_their_ends(db, capsys):
    compare(db, "--iterations", "400", "--max-total-tokens", "3000")
    shown = capsys.readouterr().out
    assert "Metrics at the end of each run's budget, with 95% intervals" in shown
    assert "Solve rate at the end of each run's budget, " in shown and "of 400 iterations, " not in shown
    with Store.open(db, read_only=True) as store:
        comparison = gather(store, "budgets")
        assert comparison.ended_by_budget
        spent = {run.arm: run.reason for run in comparison.runs}
        assert set(spent.values()) == {"budget of 3,000 tokens"}
        assert {run.summary["ended_by"] for run in comparison.runs} == {"budget"}
        progress = Progress.open(store, "budgets")
        results, screen = progress.results, progress.snapshot()
    assert all((one.done == 400).all() and one.horizon == 400 for one in results.values())
    for arm in screen.arms:
        assert arm.results.horizon == 400 and (arm.results.solved_at == results[arm.name].solved_at).all()
    assert [verdict.text for verdict in screen.verdict] and "at iteration" not in screen.verdict[0].text
    assert "Metrics and curves are over tokens, up to the budget of 3,000." in shown


@pytest.mark.long
def test_a_budget_is_the_axis_whatever_number_of_iterations_was_planned(db, tmp_path):
    """The area and the curve are over tokens: counted here from the rows, and the same for other plans."""
    found = []
    for planned in (400, 900):
        address = f"{db}-{planned}" if "sqlite" in db else f"sqlite:///{tmp_path}/{planned}.db"
        compare(address, "--iterations", str(planned), "--max-total-tokens", "3000")
        with Store.open(address, read_only=True) as store:
            progress = Progress.open(store, "budgets")
            assert progress.comparison.budget == ("tokens", 3000)
            found.append({name: (arm.area, arm.median) for name, arm in progress.summary.arms.items()})
            curve = progress.curves["long"]
            assert curve.unit == "tokens" and curve.at[-1] == pytest.approx(3000)
            areas = []
            for run in progress.comparison.arms[1].runs:
                rows = store.rows(select(g.tokens).where(g.run_id == run.id).order_by(g.sequence))
                spent = np.cumsum([tokens for (tokens,) in rows])
                for problem in store.problems(run.id):
                    solved = problem.solved_sequence
                    areas.append(0.0 if solved is None else 1.0 if solved < 0 else max(0.0, 1 - spent[solved] / 3000))
    assert found[0] == found[1]
    assert found[0]["long"][0].mean == pytest.approx(np.mean(areas), abs=0.002) and np.mean(areas) > 0


@pytest.mark.long
def test_runs_that_come_to_their_last_iteration_are_compared_there(db, capsys):
    compare(db, "--iterations", "8")
    shown = capsys.readouterr().out
    assert "Solve rate after 8 of 8 iterations, " in shown and "each run's budget" not in shown
    with Store.open(db, read_only=True) as store:
        assert not gather(store, "budgets").ended_by_budget
