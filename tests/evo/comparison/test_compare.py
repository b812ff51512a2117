"""The plan of a comparison, and comparisons whose runs end by a budget: what each had found when it was spent."""

import numpy as np
import pytest
from sqlalchemy import select
from support.rows import yaml_rows

from evo.cli import invoke
from evo.comparison.arms import gather
from evo.comparison.plan import planned_runs, seed_batches
from evo.config.compare import arms_of, parse_arm, read_comparison
from evo.errors import BadInput
from evo.progress.model import Progress
from islands.schema import PromptGroups
from islands.store import Store

THREE = {"base": {"policy": "embedded:base"}, "grpo": {"policy": "embedded:grpo"}, "vpo": {"policy": "embedded:vpo"}}

CHOICE = {"strategy": "auto", "pareto_pool": 8, "climb": 1.0}
"""How parents are chosen, as a run stores it."""


def config(arms=THREE, path=None, overrides=None, **own):
    return read_comparison(path, {"problems": ("maze:test",), "limit": 2, "arms": arms, **own, **(overrides or {})})


def planned(*arms, **own):
    """The settings of each arm's run under one seed."""
    return {run.arm: run.config for run in planned_runs(config(*arms, seeds=1, **own))}


def test_every_arm_gives_the_same_number_of_answers_in_chains_of_its_own_length():
    runs = planned_runs(config(seeds=2))
    shapes = {run.arm: (run.config["rollouts"], run.config["answers"]) for run in runs}
    assert shapes == {"base": (1, 3), "best-of-n": (1, 3), "grpo": (3, 1), "vpo": (1, 3)}
    assert [(run.seed, run.arm) for run in runs[:5]] == [*((0, arm) for arm in shapes), (1, "base")]


def test_what_is_not_the_arms_own_is_the_same_for_all():
    runs = planned_runs(config(seeds=1, overrides={"iterations": 7, "population.islands": 2, "seed": 5}))
    own = ("policy", "rollouts", "answers", "prompt")
    common = [{key: value for key, value in run.config.items() if key not in own} for run in runs]
    assert all(one == common[0] for one in common)
    assert common[0]["iterations"] == 7 and common[0]["seed"] == 5
    assert common[0]["population"] == {"islands": 2, **CHOICE}
    assert common[0]["problems"] == ["maze:test/0", "maze:test/1"]


def test_best_of_n_is_the_same_arm_without_a_parent_shown():
    by_arm = planned(baselines=["best-of-n=vpo"])
    alone, searching = by_arm["best-of-n"], by_arm["vpo"]
    assert list(by_arm) == ["base", "grpo", "vpo", "best-of-n"]
    assert not alone["prompt"]["show_parent"] and searching["prompt"]["show_parent"]
    assert {**alone, "prompt": None} == {**searching, "prompt": None}


def test_baselines_by_name_repeat_the_first_arm_or_another_after_it():
    assert list(arms_of(config(baselines=[]))) == ["base", "grpo", "vpo"]
    named = ["scs", "hill", "hill=vpo", "classic"]
    shared = {"population.islands": 3, "prompt.show_parent": True}
    by_arm = planned(baselines=named, overrides=shared)
    assert list(by_arm) == ["base", "hill-base", "scs", "grpo", "vpo", "hill-vpo", "classic"]
    assert by_arm["base"]["population"] == by_arm["classic"]["population"] == {"islands": 3, **CHOICE}
    assert by_arm["hill-vpo"]["population"] == {"islands": 1, "strategy": "hill"}
    assert by_arm["scs"]["population"] == {"islands": 1, "strategy": "scs"}
    assert by_arm["hill-vpo"]["policy"] == "embedded:vpo" and by_arm["classic"]["policy"] == "scripted:classic"
    own = ("population", "prompt")
    alike = [{key: value for key, value in by_arm[name].items() if key not in own} for name in ("base", "scs")]
    assert alike[0] == alike[1]
    assert by_arm["base"]["prompt"] == by_arm["classic"]["prompt"] and by_arm["base"]["prompt"]["fresh"] == "auto"
    assert all(by_arm[name]["prompt"] == {**by_arm["base"]["prompt"], "fresh": 0.0} for name in ("hill-vpo", "scs"))
    assert len({run["rollouts"] * run["answers"] for run in by_arm.values()}) == 1


def test_a_baseline_shows_what_its_name_says_whatever_the_arm_does():
    population = {"strategy": "weighted", "islands": 4, "num_diverse_programs": 0}
    own = {"policy": "embedded:vpo", "show_parent": False, "population": population}
    by_arm = planned({"own": own}, baselines=["hill", "best-of-n"])
    assert list(by_arm) == ["own", "best-of-n", "hill"]
    assert by_arm["hill"]["prompt"]["show_parent"] and not by_arm["best-of-n"]["prompt"]["show_parent"]
    assert by_arm["hill"]["population"] == {"strategy": "hill", "islands": 1, "num_diverse_programs": 0}
    assert by_arm["best-of-n"]["population"] == by_arm["own"]["population"]


def test_a_wrong_baseline_is_one_line():
    mutate, hill = {"a": {"policy": "scripted:mutate"}}, {"hill": {"policy": "embedded:base"}}
    programs = {"problems": ("programs:easy",), "limit": 1}
    for arms, baselines, overrides, said in (
        (THREE, ["climb"], {}, "no baseline climb; there are best-of-n, hill, scs, classic"),
        (THREE, ["hill=max"], {}, "hill of max: there is no such arm; there are base, grpo, vpo"),
        (THREE, ["scs="], {}, "expected scs=ARM"),
        (THREE, ["classic=vpo"], {}, "repeats no arm"),
        (mutate, ["classic"], programs, "classic re-routes mazes, and programs:easy/0 is not one"),
        (hill, ["hill"], {}, "an arm is called hill already"),
    ):
        with pytest.raises(BadInput) as caught:
            planned_runs(config(arms, overrides=overrides, baselines=baselines))
        assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "name", "values"), yaml_rows(__file__, "an_arm_as_it_is_typed"))
def test_an_arm_as_it_is_typed(text, name, values):
    assert parse_arm(text) == (name, values)


@pytest.mark.parametrize("text", yaml_rows(__file__, "an_arm_mistyped_is_one_line"))
def test_an_arm_mistyped_is_one_line(text):
    with pytest.raises(BadInput) as caught:
        parse_arm(text)
    assert "\n" not in str(caught.value)


def test_an_arms_own_settings_reach_its_run_alone():
    arms = {
        **THREE,
        "warm": {"policy": "embedded:vpo", "temperature": 1.3, "answers": 1},
        "weighted": {"policy": "embedded:vpo", "population": {"strategy": "weighted"}},
    }
    by_arm = planned(arms, overrides={"population.islands": 2})
    assert (by_arm["warm"]["temperature"], by_arm["warm"]["rollouts"], by_arm["warm"]["answers"]) == (1.3, 3, 1)
    assert by_arm["vpo"]["temperature"] is None
    assert by_arm["weighted"]["population"] == {"islands": 2, "strategy": "weighted"}
    assert by_arm["vpo"]["population"] == {"islands": 2, **CHOICE}
    with pytest.raises(BadInput, match="unknown key arms.weighted.population.strategie; did you mean strategy"):
        config({"weighted": {"policy": "embedded:vpo", "population": {"strategie": "weighted"}}})


def test_an_iteration_is_the_least_that_suits_all_or_what_is_asked_for():
    arms = {"two": {"policy": "embedded:base", "answers": 2}, "three": {"policy": "embedded:base", "answers": 3}}
    for asked, shapes in ((None, [(3, 2), (2, 3)]), (12, [(6, 2), (4, 3)])):
        runs = planned(arms, baselines=[], answers_per_iteration=asked).values()
        assert [(run["rollouts"], run["answers"]) for run in runs] == shapes
    with pytest.raises(BadInput, match="iteration of 4 answers cannot be made of arm three's chains of 3"):
        planned_runs(config(arms, answers_per_iteration=4))


def test_a_file_says_it_all_and_flags_override(tmp_path):
    file = tmp_path / "compare.yaml"
    file.write_text(
        "problems: [maze:test]\nlimit: 2\niterations: 9\npopulation: {islands: 3}\nseeds: 4\nbaselines: []\n"
        "arms:\n  vpo: embedded:vpo\n  warm: {policy: embedded:vpo, temperature: 1.2}\n"
    )
    read = read_comparison(str(file), {"iterations": 11})
    assert list(read.arms) == ["vpo", "warm"] and read.seeds == 4
    assert read.search.iterations == 11 and read.search.population.islands == 3
    assert len(planned_runs(read)) == 8
    assert read_comparison(str(file), {"seeds": 1}).seeds == 1


@pytest.mark.parametrize(("text", "said"), yaml_rows(__file__, "a_wrong_file_is_one_line"))
def test_a_wrong_file_is_one_line(tmp_path, text, said):
    file = tmp_path / "compare.yaml"
    file.write_text(text + "\n")
    with pytest.raises(BadInput) as caught:
        read_comparison(str(file), {})
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_comparison_needs_arms_and_problems():
    with pytest.raises(BadInput, match="needs arms"):
        planned_runs(config({}))
    with pytest.raises(BadInput, match="no problem named"):
        planned_runs(read_comparison(None, {"arms": THREE}))


def test_runs_of_a_seed_are_searched_together():
    runs = [(f"{arm}{seed}", seed) for seed in (3, 4) for arm in "ab"]
    assert seed_batches(runs) == [["a3", "b3"], ["a4", "b4"]]


def test_an_arm_of_several_operators_has_the_length_that_its_trained_ones_share():
    arms = {"two": {"policy": "embedded:vpo,scripted:classic"}, "differ": {"policy": "embedded:vpo,embedded:grpo"}}
    config = read_comparison(
        None, {"problems": ("maze:train/0",), "answers": 2, "arms": arms, "baselines": [], "seeds": 1}
    )
    assert {run.arm: run.config["answers"] for run in planned_runs(config)} == {"two": 3, "differ": 2}


def test_an_arm_that_learns_is_checked_beside_one_of_the_same_policy(tmp_path, capsys):
    """Its baseline has the same policy, and nothing is to learn."""
    database = tmp_path / "evo.db"
    arm = ["--arm", "a=embedded:vpo,train=vpo,answers=1", "--iterations", "2", "--seeds", "1", "--plain"]
    assert invoke(["compare", "maze:hard", "--limit", "1", *arm, "--db", f"sqlite:///{database}"]) == 2
    assert "rollouts must be 2 or more" in capsys.readouterr().err and not database.exists()


g = PromptGroups.c


def compare(db, *more):
    command = ["compare", "maze:test", "--limit", "3", "--arm", "short=scripted:random-route", "--arm",
               "long=scripted:classic", "--against", "short", "--baseline", "none", "--seeds", "2", "--answers", "1",
               "--answers-per-iteration", "2", "--parallel", "3", "--plain", "--db", db, "--name", "budgets",
               *more]  # fmt: skip
    assert invoke(command) == 0


@pytest.mark.long
def test_runs_that_a_budget_of_tokens_ended_are_compared_at_their_ends_over_tokens(tmp_path, capsys):
    """The area and the curve are over tokens: counted here from the rows, and the same whatever was planned."""
    found = []
    for planned in (400, 900):
        db = f"sqlite:///{tmp_path}/{planned}.db"
        compare(db, "--iterations", str(planned), "--max-total-tokens", "3000")
        shown = capsys.readouterr().out
        assert "Metrics at the end of each run's budget, with 95% intervals" in shown
        assert "Solve rate at the end of each run's budget, " in shown and f"of {planned} iterations, " not in shown
        assert "Metrics and curves are over tokens, up to the budget of 3,000." in shown
        with Store.open(db, read_only=True) as store:
            progress = Progress.open(store, "budgets")
            comparison, results, screen = progress.comparison, progress.results, progress.snapshot()
            assert comparison.ended_by_budget and comparison.budget == ("tokens", 3000)
            ends = {(run.reason, run.summary["ended_by"]) for run in comparison.runs}
            assert ends == {("budget of 3,000 tokens", "budget")}
            found.append({name: (arm.area, arm.median) for name, arm in progress.summary.arms.items()})
            curve = progress.curves["long"]
            assert curve.unit == "tokens" and curve.at[-1] == pytest.approx(3000)
            areas = []
            for run in comparison.arms[1].runs:
                rows = store.rows(select(g.tokens).where(g.run_id == run.id).order_by(g.sequence))
                spent = np.cumsum([tokens for (tokens,) in rows])
                for problem in store.problems(run.id):
                    solved = problem.solved_sequence
                    areas.append(0.0 if solved is None else 1.0 if solved < 0 else max(0.0, 1 - spent[solved] / 3000))
        assert all((one.done == planned).all() and one.horizon == planned for one in results.values())
        for arm in screen.arms:
            assert (arm.results.solved_at == results[arm.name].solved_at).all()
        assert [verdict.text for verdict in screen.verdict] and "at iteration" not in screen.verdict[0].text
    assert found[0] == found[1]
    assert found[0]["long"][0].mean == pytest.approx(np.mean(areas), abs=0.002) and np.mean(areas) > 0


@pytest.mark.long
def test_runs_that_come_to_their_last_iteration_are_compared_there(db, capsys):
    compare(db, "--iterations", "8")
    shown = capsys.readouterr().out
    assert "Solve rate after 8 of 8 iterations, " in shown and "each run's budget" not in shown
    with Store.open(db, read_only=True) as store:
        assert not gather(store, "budgets").ended_by_budget
