"""Weights of objectives: named before a search, afterwards, or spread; every view judges all answers again."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.command_line import evo as command
from support.command_line import output, refused
from support.rows import yaml_rows
from support.stored_searches import store_comparison, store_vectors

import evo
from evo.cli import invoke
from evo.config.run import EvaluateConfig, RunConfig
from evo.config.train import TrainRun, plan_training
from evo.errors import BadInput
from evo.evaluation.evaluate import read_evaluation
from evo.evaluation.preferences import judging_weights
from evo.progress.model import Progress
from evo.search.resources import Resources, problems_at
from evo.training.directory import TrainingDirectory
from islands.store import Store
from problems.contract import BadAddress
from problems.fingerprint import fingerprint_of
from problems.maze.board import rewards_of
from problems.maze.optimum import fewest_steps
from problems.objectives import Objective
from problems.registry import resolve

NAMES = ("completion", "gold", "diamond", "safety")
ASKED = ("gold=3,diamond=1", "diamond=1", "completion=1,gold=0.5,safety=2.5")
SCORER = """
isolated = False
seed_answer = "0.5, 0.5"
directions = {"calm": "min", "rush": "min"}
weights = {"calm": 3, "rush": 1}
target = 0.9
def score(answer, calm=(0, 1), rush=(1, 0)):
    given = [float(number) for number in answer.split(",")]
    away = {"calm": calm, "rush": rush}
    return {name: 1 + sum((a - b) ** 2 for a, b in zip(given, goal)) for name, goal in away.items()}
def held_out(answer):
    return score(answer, (0, 0.9), (0.9, 0))
"""


def store_two_sides(address):
    """Of eight problems, arm `left` has the answer (1, 0) and arm `right` (0, 1); their mean is the same."""
    objectives = (Objective("left"), Objective("right"))
    arms = {"left": [None, (1.0, 0.0)], "right": [None, (0.0, 1.0)]}
    store_vectors(address, "both", objectives, arms, problems=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A database with a run of mazes, one of a scorer of two costs, and a comparison."""
    folder = tmp_path_factory.mktemp("weights")
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patched:
        patched.delenv("EVO_DB", raising=False)
        Path("costs.py").write_text(SCORER)
        store_two_sides("sqlite:///evo.db")
        mazes = ["maze:test/0-4", "--policy", "scripted:random-route", "--answers", "3", "--iterations", "12"]
        costs = ["costs.py", "--policy", "scripted:mutate", "--answers", "1", "--iterations", "25", "--seed", "3"]
        for name, search in (("mazes", mazes), ("costs", costs)):
            assert invoke(["run", *search, "--name", name, "--plain"]) == 0
        assert invoke(["export", "mazes", "-o", "mazes.jsonl", "--no-tokens"]) == 0
        yield folder


@pytest.fixture
def within(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("EVO_DB", raising=False)


def numbers(weights: str) -> list[float]:
    """(4,) in the order of a maze's objectives."""
    named = dict(part.split("=") for part in weights.split(","))
    return [float(named.get(name, 0)) for name in NAMES]


def exported() -> dict[str, list[list[float]]]:
    """Problem -> iteration -> the rewards of its answers, from the file that was written without weights."""
    rows: dict[str, list[list[float]]] = {}
    for line in Path("mazes.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows.setdefault(row["problem"], []).append(row["rollouts"][0]["rewards"])
    return rows


@pytest.mark.parametrize("weights", ASKED)
def test_best_and_show_agree_with_the_rewards_and_the_exact_optimum(within, capsys, weights):
    best = json.loads(output(capsys, "best", "mazes", "--weights", weights, "--json"))
    shown = json.loads(output(capsys, "show", "mazes", "--weights", weights, "--json"))
    solved = []
    for (name, rewards), row, line in zip(exported().items(), best, shown["problems"], strict=True):
        maze = resolve(name)[0].maze
        ends = fewest_steps(maze).items()
        walks = [rewards_of(maze, counts[:-1], counts[-1], steps) for counts, steps in ends]
        optimum = max(float(np.average(walk, weights=numbers(weights))) for walk in walks)
        fitness = np.average(np.array(rewards), axis=-1, weights=numbers(weights)).max(axis=1)  # (iterations,)
        reached = np.flatnonzero(fitness > optimum - 1e-6)
        solved.append(len(reached) > 0)
        assert row["fitness"] == line["fitness"] == pytest.approx(fitness.max(), abs=1e-12)
        assert row["target"] == line["target"] == pytest.approx(optimum, abs=2e-9) and row["target"] < optimum
        assert line["solved_at"] == (int(reached[0]) + 1 if len(reached) else None)
        assert line["status"] == ("solved" if len(reached) else "done")
        assert np.average(list(row["rewards"].values()), weights=numbers(weights)) == pytest.approx(row["fitness"])
    assert f"{sum(solved)} of 5 solved" in output(capsys, "show", "mazes", "--weights", weights)


def test_the_exported_fitness_is_the_weighted_one(within, capsys):
    said = output(capsys, "export", "mazes", "-o", "gold.jsonl", "--no-tokens", "--weights", ASKED[0])
    assert "Judged under the weights gold 3, diamond 1; searched under" in said
    files = [Path(file).read_text().splitlines() for file in ("mazes.jsonl", "gold.jsonl")]
    for before, after in zip(*(map(json.loads, lines) for lines in files), strict=True):
        (old,), (new,) = before["rollouts"], after["rollouts"]
        expected = np.average(np.array(old["rewards"]), axis=-1, weights=numbers(ASKED[0]))
        assert new.pop("fitness") == pytest.approx(expected.tolist())
        assert {**old, "fitness": None} == {**new, "fitness": None}


LINE = "Judged under the weights gold 3, diamond 1; searched under completion 1, gold 1, diamond 1, safety 1."


def test_every_view_says_under_which_weights_it_is(within, capsys):
    given = ["mazes", "--weights", ASKED[0]]
    (first, *_) = json.loads(output(capsys, "best", *given, "--json"))
    assert first["weights"] == {"gold": 3.0, "diamond": 1.0}
    assert output(capsys, "best", *given).startswith(f"# {LINE}\n")
    assert LINE in output(capsys, "show", *given).splitlines()
    assert LINE in output(capsys, "show", "mazes", str(first["candidate"]), *given[1:]).splitlines()
    assert json.loads(output(capsys, "show", *given, "--json"))["weights"] == {"gold": 3.0, "diamond": 1.0}
    output(capsys, "report", *given, "-o", "page.html")
    page = Path("page.html").read_text()
    assert "<title>mazes under gold 3, diamond 1" in page and "<h1>mazes under gold 3, diamond 1</h1>" in page
    assert LINE in page and "evo best mazes --weights gold=3,diamond=1 -o best_answers" in page
    assert "/evo-held-" not in page, "no place of the copy"


def test_its_own_weights_show_what_is_shown_without_them(within, capsys):
    own = {"mazes": "completion=2,gold=2,diamond=2,safety=2", "costs": "calm=0.3,rush=0.1", "both": "left=1,right=1"}
    for name, weights in own.items():
        plain, weighed = (
            json.loads(output(capsys, "show", name, "--json", *more)) for more in ([], ["--weights", weights])
        )
        assert weighed.pop("weights") and weighed.get("config", {}).pop("weights", True)
        plain.get("config", {}).pop("weights", None)
        assert weighed == plain
        lines = [output(capsys, "best", name, *more).splitlines() for more in ([], ["--weights", weights])]
        assert lines[1][1:] == lines[0]
        pages = []
        for more in ([], ["--weights", weights]):
            output(capsys, "report", name, "-o", "page.html", *more)
            said = r" under [a-z0-9., ]+(?=<| ·)| --weights [^\s<]+|; fitness: [^<]+"
            lines = re.sub(said, "", Path("page.html").read_text()).splitlines()
            pages.append([line for line in lines if "eights" not in line])
        assert pages[1] == pages[0]


def test_costs_stay_in_the_users_unit(within, capsys):
    """One cost that has all the weight is the fitness, and lower is better."""
    answers = evo.load_run("costs").frame()
    (best,) = json.loads(output(capsys, "best", "costs", "--weights", "rush=2", "--json"))
    assert best["fitness"] == best["values"]["rush"] == answers["value.rush"].min()
    assert best["target"] is None, "the scorer's target is of its own weights"
    assert "Whether costs.py is solved is not known under these weights." in output(
        capsys, "show", "costs", "--weights", "rush=2"
    )
    (both,) = json.loads(output(capsys, "best", "costs", "--weights", "rush=3,calm=1", "--json", "--set", "2"))
    rewards = answers[["reward.calm", "reward.rush"]].to_numpy()
    assert both["fitness"] == pytest.approx((rewards @ [0.25, 0.75]).max())
    assert both["set"]["value"] == pytest.approx(rewards.max(axis=0) @ [0.25, 0.75])
    tested = both["held_out"]["rewards"]
    assert both["held_out"]["fitness"] == pytest.approx(0.25 * tested["calm"] + 0.75 * tested["rush"])


@pytest.mark.parametrize(("weights", "sign"), [("left=1", 1), ("right=1", -1), ("left=1,right=1", 0)])
def test_a_comparison_has_its_verdict_under_the_weights(within, capsys, weights, sign):
    shown = json.loads(output(capsys, "show", "both", "--weights", weights, "--json"))
    (gap,) = [one for one in shown["differences"] if one["metric"] == "best"]
    assert (gap["arm"], gap["against"], gap["mean"], gap["shown"]) == ("right", "left", -sign, sign != 0)
    assert shown["weights"] == evo.load_comparison("both", weights=weights).summary["weights"]
    assert evo.load_comparison("both", weights=weights).verdicts == shown["verdicts"]


def test_python_reads_runs_so_too(within, capsys):
    run = evo.load_run("mazes", weights={"gold": 3, "diamond": 1})
    shown = json.loads(output(capsys, "best", "mazes", "--weights", ASKED[0], "--json"))
    assert [one.fitness for one in run.best] == [row["fitness"] for row in shown]
    assert [one.solved for one in run.best] == [status == "solved" for status in run.problems.values()]
    frame = run.frame()
    assert np.allclose(frame.fitness, 0.75 * frame["reward.gold"] + 0.25 * frame["reward.diamond"])
    assert [one.fitness for one in evo.load_run("mazes", weights=ASKED[0]).best] == [one.fitness for one in run.best]
    with pytest.raises(ValueError, match="has no objective 'golden'; .* did you mean gold?"):
        evo.load_run("mazes", weights={"golden": 1})
    for wrong, says in (([3, 1], r"weights \[3, 1\]: expected numbers by objective"), ({}, "sum to 0")):
        with pytest.raises(ValueError, match=says):
            evo.load_run("mazes", weights=wrong)


@pytest.mark.filterwarnings("error:Pydantic")
def test_a_verification_in_python_takes_whole_numbers_and_no_spread(within, capsys):
    found = evo.verify("costs", weights={"rush": 1}, tune=False, sample=True, max_answers=3, progress=False)
    assert found.fitness.name == "rush"
    assert list(found.runs.values()) == [f"costs-sampled-{fingerprint_of('rush=1')[:6]}"]
    with pytest.raises(BadInput, match="weights spread names no best answer"):
        evo.verify("costs", weights="spread", progress=False)


@pytest.mark.parametrize(
    "arguments", [["best"], ["show"], ["report", "-o", "x.html"], ["export", "-o", "x.jsonl"], ["verify", "--no-tune"]]
)
def test_a_name_that_is_no_objective_is_refused(within, capsys, arguments):
    name, *more = arguments
    said = refused(capsys, name, "mazes", *more, "--weights", "gold=1,dimond=1")
    assert "has no objective 'dimond'" in said and said.endswith("did you mean diamond?\n")
    assert "as in gold=3,diamond=1" in refused(capsys, name, "mazes", *more, "--weights", "gold")
    assert not Path("x.html").exists() and not Path("x.jsonl").exists()


def test_the_winner_under_the_weights_is_verified(within, capsys):
    (best,) = json.loads(output(capsys, "best", "costs", "--weights", "rush=1", "--json"))
    options = ["--no-tune", "--sample", "--max-answers", "3", "--plain", "--json"]
    found = json.loads(output(capsys, "verify", "costs", "--weights", "rush=1", *options))
    assert (found["metric"], found["direction"]) == ("rush", "min")
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        (rival,) = found["runs"].values()
        assert re.fullmatch(r"costs-sampled-[0-9a-f]{6}", rival) and store.run(rival).config["weights"] == {"rush": 1.0}
        kept = store.run("costs").summary["verified"]
        (key,) = kept
        assert key.endswith("costs.py under rush=1")
        assert [best["fitness"]] == [min(rows[0][2][1] for key, rows in kept[key]["scores"].items() if " " not in key)]
    assert found["notes"][0].startswith("Judged under the weights rush 1; searched under calm 3, rush 1.")
    output(capsys, "verify", "costs", *options)
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        assert list(store.run("costs").summary["verified"]) == [key, key.removesuffix(" under rush=1")]


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


def test_of_one_objective_it_is_the_best_and_failed_problems_count_nowhere(db: str) -> None:
    first = {"p": [0.2, 0.5, 0.4, 0.8], "broken": [0.1, 0.1, 0.1, 0.1], "q": [None, None, 0.3, 0.1]}
    second = {"p": [0.2, 0.1, 0.3, 0.4], "broken": [0.1, 0.1, 0.1, 0.1], "q": [None, 0.6, 0.1, 0.1]}
    searches = {"a": [first, second], "b": [second, second]}
    store_comparison(db, "c", searches, objective="score", failed=("b", 1, "broken"))
    with Store.open(db, read_only=True) as store:
        progress = Progress.open(store, "c", spread=True)
        a, b, summary = progress.preferences["a"], progress.preferences["b"], progress.summary
    # (P, S, K + 1), in shares of what any search found
    np.testing.assert_allclose(a.worth[0], [[0.25, 0.625, 0.625, 1.0], [0.25, 0.25, 0.375, 0.5]])
    np.testing.assert_allclose(a.worth[1], [[0.0, 0.0, 0.5, 0.5], [0.0, 1.0, 1.0, 1.0]])
    np.testing.assert_allclose(b.worth[1], [[0.0, 1.0, 1.0, 1.0]] * 2)
    assert np.isnan(a.weightings).all() and a.worth_unit == "shares of the best that any search found"
    assert summary.arms["a"].worth.mean == pytest.approx(0.75) and summary.arms["a"].weightings is None
    assert summary.against["b"]["worth"].interval.mean == pytest.approx(0.0)
    assert "weightings" not in summary.against["b"] and "E_w[best]" in summary.title("worth")


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


OWN = """
isolated = False
statement = "Write a number."
seed_answer = "3"
directions = {"cost": "min"}
weights = {"cost": 1, "gain": 3}
target = 0.9
def score(answer):
    x = float(answer)
    return {"cost": abs(x) + 1, "gain": 1 / (1 + abs(x - 5))}
"""
SHORT = ("--policy", "scripted:mutate", "--iterations", "8")


@pytest.fixture
def own(here):
    (here / "own.py").write_text(OWN)


def test_a_search_under_weights_its_views_and_its_resume(own, capsys):
    assert command(capsys, "run", "own.py", *SHORT, "--weights", "cost=1", "--name", "low")[0] == 0
    assert "\nfitness: cost 1\n" in output(capsys, "show", "low")
    (row,) = json.loads(output(capsys, "best", "low", "--json"))
    assert row["fitness"] == row["values"]["cost"] == abs(float(row["answer"])) + 1 and row["target"] is None
    assert output(capsys, "best", "low").startswith(f"# own.py: cost {row['fitness']:.4g} ↓")
    assert "fitness: cost 1\n" in output(capsys, "resume", "low", "--iterations", "10")
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        run = store.run("low")
        (record,) = store.problems(run.id)
        assert run.config["weights"] == {"cost": 1.0}
        assert [(one.weight, one.whole, one.counts) for one in record.metrics] == [(1, True, True), (0, False, False)]
    assert command(capsys, "resume", "low", "--weights", "gain=1")[0] == 2


def test_two_objectives_are_a_weighted_mean_in_python_and_over_two_searches(own):
    run = evo.run("own.py", policy="scripted:mutate", iterations=8, weights={"gain": 3, "cost": 1}, progress=False)
    best = run.best_answer
    assert best.fitness == pytest.approx((3 * best.rewards["gain"] + best.rewards["cost"]) / 4) and best.target == 0.9
    frame = run.frame()
    mean = (3 * frame["reward.gain"] + frame["reward.cost"]) / 4
    assert frame.fitness.tolist() == pytest.approx(mean.tolist())
    search = evo.Search("own.py", weights="gain=1", iterations=8)
    with search:
        (told,) = search.tell(search.ask(), ["5"])
        assert told.fitness == 1.0


def test_a_function_in_python_keeps_its_declared_weights_and_their_target(own):
    def score(answer):
        return {"a": float(answer), "b": 1.0}

    about = {"seed_answer": "1", "policy": "scripted:mutate", "iterations": 8, "progress": False}
    run = evo.run(score=score, weights={"b": 1}, target=1.0, **about)
    assert run.best_answer.fitness == 1.0 and run.best_answer.solved
    config = RunConfig(weights={"a": 1})
    other = evo.run(score=score, weights={"b": 1}, target=1.0, config=config, **about)
    assert other.best_answer.fitness == other.best_answer.rewards["a"] and other.best_answer.target is None


def test_every_problem_must_have_the_objectives_that_are_named():
    both = ["maze:test/0", "maze:large/0"]
    assert [one.user_weights for one in problems_at(both, None, {"gold": 1})] == [{"gold": 1}] * 2
    with pytest.raises(BadAddress, match="maze:test/0 has no objective 'jade'"):
        problems_at(both, None, {"jade": 1})
    resources, one = Resources(), {"problems": ["maze:test/0"]}
    plain, heavy = (resources.problems(RunConfig(**one, weights=weights)) for weights in (None, {"gold": 1}))
    assert plain[0].user_weights is None and heavy[0].user_weights == {"gold": 1.0}
    assert resources.problems(RunConfig(**one, weights="spread"))[0].user_weights is None


def test_settings_take_a_mapping_a_text_or_spread():
    assert RunConfig(weights="gold=3,diamond=1").weights == RunConfig(weights={"gold": 3, "diamond": 1}).weights
    assert EvaluateConfig(weights="gold=3").run_config().weights == {"gold": 3.0}
    assert RunConfig(weights="spread").weights == "spread"
    with pytest.raises(ValueError, match="weights spread is for a search"):
        EvaluateConfig(weights="spread")
    for wrong in (3, [1, 2], {"gold": "much"}, {}):
        with pytest.raises(ValueError):
            RunConfig(weights=wrong)


def test_a_comparison_under_weights(here, capsys):
    arms = ("--arm", "one=scripted:random-route", "--arm", "other=scripted:mutate", "--baseline", "none")
    more = ("--weights", "gold=3,diamond=1", "--iterations", "2", "--seeds", "1", "--processes", "1", "--name", "two")
    assert "; fitness: gold 3, diamond 1\n" in output(capsys, "compare", "maze:test/0", *arms, *more)
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        records = [record for run in ("two/one/s0", "two/other/s0") for record in store.problems(store.run(run).id)]
    (problem,) = problems_at(["maze:test/0"], 1, {"gold": 3, "diamond": 1})
    assert [record.target for record in records] == [problem.target] * 2


def test_an_evaluation_under_weights_and_its_rivals(here, capsys):
    asked = ("maze:test/0", "--policy", "scripted:random-route", "--answers-total", "6")
    assert "fitness: gold 1\n" in output(capsys, "evaluate", *asked, "--weights", "gold=1", "-o", "gold.json")
    record = json.loads((here / "gold.json").read_text())
    assert record["weights"] == {"gold": 1.0}
    (problem,) = problems_at(["maze:test/0"], 1, {"gold": 1})
    assert record["per_problem"][0]["target"] == problem.target
    assert read_evaluation("gold.json", [problem], 6, {"gold": 1.0})["weights"] == {"gold": 1.0}
    with pytest.raises(BadInput, match="its weights are {'gold': 1.0}; evaluate it again"):
        read_evaluation("gold.json", [problem], 6, {"gold": 3.0, "safety": 1.0})


@pytest.mark.parametrize(("method", "more", "says"), yaml_rows(__file__, "methods_and_sources_that_no_weights_fit"))
def test_methods_and_sources_that_no_weights_fit(method, more, says):
    with pytest.raises(BadInput) as raised:
        plan_training(None, {"weights": "gold=1", "problems": ["maze:train"], **more}, method, [])
    assert says in str(raised.value) and "\n" not in str(raised.value)


def test_a_training_by_one_user_s_weights_has_them_on_its_card(tmp_path):
    run = plan_training(None, {"weights": "gold=7,safety=3"}, "grpo", ["maze:train"])
    assert run.weights == {"gold": 7.0, "safety": 3.0} and run.weightings == 100
    about = {"start": "embedded:base", "commit": "c", "command": "evo train"}
    assert "weights gold 7, safety 3" in TrainingDirectory(tmp_path).card(run, about, "maze:train", [])
    assert TrainRun.model_validate(run.stored()).weights == run.weights
