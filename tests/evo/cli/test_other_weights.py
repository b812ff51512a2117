"""`--weights` on stored runs: best, show, report, export, verify and Python judge all answers again, without a new one.
What they say is worked out here from the exported rewards."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.command_line import output, refused
from support.stored_searches import store_vectors

import evo
from evo.cli import invoke
from evo.errors import BadInput
from islands.store import Store
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


def store_comparison(address):
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
        store_comparison("sqlite:///evo.db")
        mazes = ["maze:test/0-4", "--policy", "scripted:random-route", "--answers", "3", "--iterations", "12"]
        costs = ["costs.py", "--policy", "scripted:mutate", "--answers", "1", "--iterations", "25", "--seed", "3"]
        for name, search in (("mazes", mazes), ("costs", costs)):
            assert invoke(["run", *search, "--name", name, "--plain"]) == 0
        assert invoke(["export", "mazes", "-o", "mazes.jsonl", "--no-tokens"]) == 0
        yield folder


@pytest.fixture(autouse=True)
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
def test_best_and_show_agree_with_the_rewards_and_the_exact_optimum(capsys, weights):
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


def test_the_exported_fitness_is_the_weighted_one(capsys):
    said = output(capsys, "export", "mazes", "-o", "gold.jsonl", "--no-tokens", "--weights", ASKED[0])
    assert "Judged under the weights gold 3, diamond 1; searched under" in said
    rows = [
        [json.loads(line) for line in Path(file).read_text().splitlines()] for file in ("mazes.jsonl", "gold.jsonl")
    ]
    for before, after in zip(*rows, strict=True):
        (old,), (new,) = before["rollouts"], after["rollouts"]
        expected = np.average(np.array(old["rewards"]), axis=-1, weights=numbers(ASKED[0]))
        assert new.pop("fitness") == pytest.approx(expected.tolist())
        assert {**old, "fitness": None} == {**new, "fitness": None}


LINE = "Judged under the weights gold 3, diamond 1; searched under completion 1, gold 1, diamond 1, safety 1."


def test_every_view_says_under_which_weights_it_is(capsys):
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


def test_its_own_weights_show_what_is_shown_without_them(capsys):
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


def test_costs_stay_in_the_users_unit(capsys):
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
def test_a_comparison_has_its_verdict_under_the_weights(capsys, weights, sign):
    shown = json.loads(output(capsys, "show", "both", "--weights", weights, "--json"))
    (gap,) = [one for one in shown["differences"] if one["metric"] == "best"]
    assert (gap["arm"], gap["against"], gap["mean"], gap["shown"]) == ("right", "left", -sign, sign != 0)
    assert shown["weights"] == evo.load_comparison("both", weights=weights).summary["weights"]
    assert evo.load_comparison("both", weights=weights).verdicts == shown["verdicts"]


def test_python_reads_runs_so_too(capsys):
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
def test_a_verification_in_python_takes_whole_numbers_and_no_spread(capsys):
    found = evo.verify("costs", weights={"rush": 1}, tune=False, sample=True, max_answers=3, progress=False)
    assert found.fitness.name == "rush"
    assert list(found.runs.values()) == [f"costs-sampled-{fingerprint_of('rush=1')[:6]}"]
    with pytest.raises(BadInput, match="weights spread names no best answer"):
        evo.verify("costs", weights="spread", progress=False)


@pytest.mark.parametrize(
    "arguments", [["best"], ["show"], ["report", "-o", "x.html"], ["export", "-o", "x.jsonl"], ["verify", "--no-tune"]]
)
def test_a_name_that_is_no_objective_is_refused(capsys, arguments):
    name, *more = arguments
    said = refused(capsys, name, "mazes", *more, "--weights", "gold=1,dimond=1")
    assert "has no objective 'dimond'" in said and said.endswith("did you mean diamond?\n")
    assert "as in gold=3,diamond=1" in refused(capsys, name, "mazes", *more, "--weights", "gold")
    assert not Path("x.html").exists() and not Path("x.jsonl").exists()


def test_the_winner_under_the_weights_is_verified(capsys):
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
