"""The scorer's own numbers wherever a user reads them: direction, seed, order, digits, scales kept over a resume."""

import json

import pytest
from support.command_line import evo as command

import evo
from evo.values import write_number, write_signed, write_values
from islands.store import Store
from problems.objectives import Objective

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
