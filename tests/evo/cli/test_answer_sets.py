"""The best set of answers, held-out cases and the scorer's own numbers, wherever a user reads them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from support.command_line import evo as command
from support.command_line import output, refused

import evo
from evo.cli import invoke
from evo.progress.answer_set import AnswerSet
from evo.report.tables import set_table
from evo.values import write_number, write_signed, write_values
from islands.store import Store
from islands.types import Candidate, ProblemRecord
from problems import resolve
from problems.answer_sets import best_set
from problems.objectives import Objective, groups_of

# two kinds of days that want opposite numbers, and held-out cases that want the opposite of that
SCORER = """
isolated = False
seed_answer = "0.5, 0.5"
directions = {"calm": "min", "rush": "min"}
weights = {"calm": 3, "rush": 1}
def score(answer, calm=(0, 1), rush=(1, 0)):
    given = [float(number) for number in answer.split(",")]
    if len(given) != 2:
        raise ValueError("two numbers")
    away = {"calm": calm, "rush": rush}
    return {name: 1 + sum((a - b) ** 2 for a, b in zip(given, goal)) for name, goal in away.items()}
"""
HELD_OUT = "def held_out(answer):\n    return score(answer, (1, 0), (0, 1))\n"
Capture = pytest.CaptureFixture[str]


def search(capsys: Capture, name: str, *options: str) -> str:
    arguments = ("run", "days.py", "--policy", "scripted:mutate", "--iterations", "25", "--plain", "--name", name)
    return output(capsys, *arguments, *options)


@pytest.fixture(autouse=True)
def days(here: Path) -> None:
    Path("days.py").write_text(SCORER + HELD_OUT)


def test_a_set_is_shown_wherever_its_run_is(capsys: Capture) -> None:
    closing = search(capsys, "days", "--set", "2")
    (found,) = evo.load_run("days").sets()
    ids = [member.id for member in found.members]
    assert len(ids) == 2 and found.value > found.worth(found.single.rewards) and sorted(found.chosen) == [0, 1]
    assert "a set of 2 has value" in found.describe() and found.describe() in closing
    for member in found.members:
        assert f"\n{member.id}: {member.text}" in closing
    # the row of an objective: the members' own numbers, the better one marked, the set's, the best single answer's
    row = next(line for line in closing.splitlines() if line.startswith("calm ↓")).split()[2:]
    cells = [float(cell) for cell in row if cell != "*"]
    assert cells[2] == min(cells[:2]) <= cells[3] and row.index("*") == 1 + np.argmin(cells[:2])
    assert cells[4] > cells[2]  # the held-out cases want something else
    assert found.describe() in output(capsys, "show", "days")
    (shown,) = json.loads(output(capsys, "show", "days", "--json"))["sets"]
    assert shown["value"] == found.value and [member["candidate"] for member in shown["members"]] == ids
    page = evo.load_run("days").report("days.html").read_text()
    assert "Best set of answers" in page and all(f"<b>{id}</b>" in page for id in ids)


def test_any_run_has_sets_and_files_of_them(capsys: Capture) -> None:
    """Held-out scores choose none of their members."""
    search(capsys, "plain")
    assert "a set of" not in output(capsys, "best", "plain") and evo.load_run("plain").sets() == []
    (pair,) = json.loads(output(capsys, "best", "plain", "--set", "2", "--json"))
    (single,) = json.loads(output(capsys, "best", "plain", "--set", "1", "--json"))
    assert pair["set"]["value"] > single["set"]["value"] == pytest.approx(pair["fitness"])  # weighted as the fitness is
    assert "2 answers, one file each" in output(capsys, "best", "plain", "--set", "2", "-o", "rules/")
    texts = {member["answer"] for member in pair["set"]["members"]}
    assert {file.read_text().strip() for file in Path("rules").iterdir()} == texts
    (most,) = evo.load_run("plain").sets(32)
    assert len(most.members) == 2 and "a further answer adds nothing" in most.describe()
    assert "--set" in refused(capsys, "best", "plain", "--set", "0") + refused(capsys, "run", "days.py", "--set", "-1")
    with pytest.raises(ValueError, match="at least one answer"):
        evo.load_run("plain").sets(0)
    with_cases = pair["set"]
    Path("days.py").write_text(SCORER)
    search(capsys, "without")
    without = json.loads(output(capsys, "best", "without", "--set", "2", "--json"))[0]["set"]
    for one in (with_cases, without):
        one["members"] = [member["answer"] for member in one["members"]]
    assert with_cases["members"] == without["members"] and with_cases["value"] == without["value"]
    assert with_cases["held_out_value"] < with_cases["value"] and without["held_out_value"] is None


def test_a_fault_on_held_out_cases_is_that_of_one_member_and_one_objective_has_its_best_answer(capsys: Capture) -> None:
    refused = "def held_out(answer):\n    return score(answer) if float(answer.split(',')[0]) > 0.5 else 1 / 0\n"
    Path("days.py").write_text(SCORER + refused)
    search(capsys, "faulty")
    (found,) = evo.load_run("faulty").sets(2)
    errors = [score.error or "" for score in found.held_out]
    assert "" in errors and any("division by zero" in error for error in errors)
    Path("days.py").write_text("isolated = False\nseed_answer = '1'\ndef score(answer):\n    return float(answer)\n")
    with pytest.warns(match="has one objective, so the best set is its best answer"):
        assert "with one objective the best set is the best answer" in search(capsys, "one", "--set", "3")


# two costs of two families, by four rules: what each answer scores, as rewards
PAIRS = {"A": (0.9, 0.1, 0.2, 0.2), "B": (0.1, 0.9, 0.2, 0.2), "C": (0.6, 0.6, 0.1, 0.1), "D": (0.3, 0.3, 0.8, 0.8)}
NAMES = ("normal missed", "normal late", "rush missed", "rush late")


def chosen_of(groups: tuple[str | None, ...], weights: tuple[float, ...] = (1, 1, 1, 1)) -> AnswerSet:
    metrics = tuple(
        Objective(name, weight=w, group=group) for name, w, group in zip(NAMES, weights, groups, strict=True)
    )
    record = ProblemRecord(1, 1, 0, "p", "p", NAMES, None, "text", "done", "", None, None, 1, 1.0, None, metrics)
    places, value = best_set(list(PAIRS.values()), 3, weights, groups_of(metrics))
    members = tuple(
        Candidate(place, list(PAIRS)[place], list(PAIRS.values())[place], 0.5, {}, "", None, 0, 0, None, ())
        for place in places
    )
    found = AnswerSet(record, 3, members, members[0])
    assert found.value == pytest.approx(value)
    return found


def test_a_family_is_served_by_one_member_for_all_its_costs() -> None:
    """By costs alone A, B and D give .9, .9, .8, .8, a mean of .85, which no day has: on a normal day A and B have .5,
    C .6. By families C and D have (.6 + .8) / 2 = .7, and a third adds nothing."""
    alone = chosen_of((None,) * 4)
    assert ([one.text for one in alone.members], alone.value) == (["A", "B", "D"], pytest.approx(0.85))
    paired = chosen_of(("normal", "normal", "rush", "rush"))
    assert ([one.text for one in paired.members], paired.value) == (["C", "D"], pytest.approx(0.7))
    assert paired.chosen == (0, 0, 1, 1) and "a further answer adds nothing" in paired.describe()
    table = set_table(paired)
    assert table is not None
    rows = {row[0].text: [cell.text for cell in row[1:4]] for row in table.rows}
    assert rows["normal missed"] == ["0.6 *", "0.3", "0.6"] and rows["rush late"] == ["0.1", "0.8 *", "0.8"]
    assert rows["value"] == ["0.35", "0.55", "0.7"]
    assert "the same for all objectives of normal, and of rush" in table.below
    assert [member["best_for"] for member in paired.as_dict()["members"]] == [list(NAMES[:2]), list(NAMES[2:])]
    weighted = chosen_of(("normal", "normal", "rush", "rush"), (3, 1, 0, 0))  # A has .7 on a normal day, C .6
    assert [one.text for one in weighted.members] == ["A"] and weighted.value == pytest.approx(0.7)
    one = chosen_of(("",) * 4)
    assert "one answer serves all objectives, so the best set is the best answer" in one.describe()
    assert set_table(one) is None


def test_a_simulator_with_two_costs_of_a_family_has_a_set_of_one_rule_a_day(capsys: Capture) -> None:
    """The two costs of a normal day want opposite rules, so no day has the best of both."""
    text = """
isolated = False
features = {"a": "one", "b": "other"}
families = {"normal": [3], "rush": [5]}
held_out = {"normal": [4], "rush": [6]}
seed_answer = "a"
def simulate(rule, day):
    high = float(rule(float(day), 1.0))
    if day < 5:
        return {"missed": 1 / (1 + abs(high)), "late": abs(high)}
    return {"missed": 1 + abs(high - 7), "late": 1 + abs(high - 7)}
"""
    Path("days.py").write_text(text)
    run = ("run", "days.py", "--set", "3", "--iterations", "20", "--seed", "1", "--name", "days", "--plain")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = output(capsys, *run)
    (found,) = evo.load_run("days").sets()
    assert found.groups == ((0, 1), (2, 3)) and len(found.members) == 2
    best = [max(np.mean(one.rewards[columns]) for one in found.members) for columns in (slice(0, 2), slice(2, 4))]
    assert found.value == pytest.approx(np.mean(best)) and found.chosen[0] == found.chosen[1] != found.chosen[2]
    assert found.describe() in out and found.describe() in output(capsys, "best", "days", "--set", "3")
    assert json.loads(output(capsys, "best", "days", "--set", "3", "--json"))[0]["set"]["value"] == found.value
    page = evo.load_run("days").report("days.html").read_text()
    assert "held out set" in page and "held out single" in page and f"{write_number(found.value)}<" in page


def test_values_have_a_mean_only_where_their_scales_are_alike() -> None:
    def mean(*metrics: Objective) -> float | None:
        names = tuple(one.name for one in metrics)
        record = ProblemRecord(1, 1, 0, "p", "p", names, None, "text", "done", "", None, None, 1, 1.0, None, metrics)
        only = Candidate(1, "x", (0.5, 0.5), 0.5, {}, "", None, 0, 0, None, (10.0, 20.0))
        return AnswerSet(record, 1, (only,), only).mean((10.0, 20.0))

    assert mean(Objective("a", True, 10), Objective("b", True, 40)) == 15
    assert mean(Objective("a", True, 10), Objective("b", True, 60)) is None
    assert mean(Objective("a", True, 10), Objective("b")) is None


def test_arms_are_compared_by_the_value_of_their_sets(capsys: Capture) -> None:
    arms = ("--arm", "mutate=scripted:mutate", "--baseline", "best-of-n", "--seeds", "2", "--iterations", "8")
    more = ("--plain", "--processes", "1")
    out = output(capsys, "compare", "days.py", *arms, "--name", "arms", "--set", "2", *more)
    assert "Mean value of the best set after 8 of 8 iterations" in out
    shown = json.loads(output(capsys, "show", "arms", "--json"))
    for arm in ("mutate", "best-of-n"):
        values = [evo.load_run(f"arms/{arm}/s{seed}").sets()[0].value for seed in (0, 1)]
        assert shown["arms"][arm]["set_value"]["mean"] == pytest.approx(np.mean(values))
    few = ("--seeds", "1", "--iterations", "1")
    output(capsys, "compare", "days.py", *arms, *few, "--name", "one", "--set", "1", *more)
    assert json.loads(output(capsys, "show", "one", "--json"))["arms"]["mutate"]["set_value"] is None


# the search is steered to length; the held-out cases prefer answers without the letter b
LETTERS = """
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
    Path("scorer.py").write_text(LETTERS)
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
    Path("scorer.py").write_text(LETTERS + "# edited\nx = 1\n")
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


LOSS = """
isolated = False
seed_answer = "3.0"
directions = {"loss": "min"}
target = -3.9
def score(answer):
    return {"loss": float(answer) ** 2 - 4}
"""
NOISY = """
isolated = False
import random
seed_answer = "3.0"
directions = {"wait": "min", "cost": "min"}
def score(answer):
    return {"wait": float(answer) ** 2 + random.random(), "cost": abs(float(answer))}
"""


@pytest.mark.parametrize(
    ("number", "beside", "text"),
    [
        (54.8123, [63.4], "54.81"),
        (-1234531.2, [-1234567.4], "-1234531"),
        (0.09816, [0.09812], "0.09816"),
        (0.1 + 0.2, [0.3], "0.3"),
        (1e-9, [], "1e-09"),
        (None, [1.0], "-"),
        (float("nan"), [], "-"),
    ],
)
def test_digits_tell_numbers_apart_that_are_read_together(number, beside, text):
    assert write_number(number, beside) == text


def test_a_change_has_three_digits_and_no_exponent_below_a_million():
    changes = (-2118.0, 999.9, -12.3456, -0.000333, 1234567.0, 0.0)
    assert list(map(write_signed, changes)) == ["-2118", "+1000", "-12.3", "-0.000333", "+1.23e+06", "0"]


def test_a_value_has_its_direction_and_the_seed_s():
    metrics = [Objective("max_wait", True, seed=63.4), Objective("gain", seed=None), Objective("failed", True)]
    assert write_values(metrics, [54.8, 2.0, None]) == "max_wait 54.8 ↓ seed 63.4, gain 2, failed - ↓"


def test_one_value_to_be_lowered_is_the_fitness_and_so_is_its_target(here, capsys):
    (here / "loss.py").write_text(LOSS)
    run = evo.run("loss.py", policy="scripted:mutate", iterations=60, until_solved=True, name="low", progress=False)
    best = run.best_answer
    assert best.solved and best.fitness == best.values["loss"] == float(best.text) ** 2 - 4 <= best.target == -3.9
    assert (best.seed, best.directions) == ({"loss": 5.0}, {"loss": "min"})
    assert run.frame().fitness.min() == best.fitness
    (row,) = json.loads(command(capsys, "best", "low", "--json")[1])
    assert (row["fitness"], row["values"], row["target"]) == (best.fitness, {"loss": best.fitness}, -3.9)
    for verb in ("best", "show"):
        assert f"loss {write_number(best.fitness, [5.0])} ↓ seed 5" in command(capsys, verb, "low")[1]
    verified = command(capsys, "verify", "low", "--no-sample", "--no-tune")[1]
    assert "(loss: lower is better); the winner reaches -3.9" in verified
    with evo.Search("loss.py", db="sqlite:///asked.db") as search:
        assert "# Answer to improve\nloss 5 ↓\n" in search.ask(1)[0].text


def test_a_resume_keeps_the_scales_that_a_noisy_seed_gave(here, capsys):
    (here / "noisy.py").write_text(NOISY)
    given = ("noisy.py", "--policy", "scripted:mutate", "--answers", "1", "--name", "n", "--plain")
    assert command(capsys, "run", *given, "--iterations", "3")[0] == 0
    assert command(capsys, "resume", "n", "--iterations", "6", "--plain")[0] == 0
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        (problem,) = store.problems(store.run("n").id)
        found = [row for row in evo.load_run("n").frame().to_dict("records") if row["error"] is None]
    wait, cost = problem.metrics
    assert problem.objectives == ("wait", "cost") and wait.scale == wait.seed != 9 and cost.scale == 3
    assert len(found) > 4
    for row in found:
        assert row["reward.wait"] == wait.reward(row["value.wait"])
        assert row["reward.cost"] == cost.reward(row["value.cost"])
