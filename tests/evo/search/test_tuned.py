"""The tuned start: CMA-ES on the numbers of the seed, as a policy and as a baseline."""

import sys
from pathlib import Path

import pytest
from support.command_line import refused

from evo.cli import invoke
from islands.runs import best
from islands.store import Store
from vpo.policies.tunable import Tunable

SCORER = """
isolated = False
answer_format = "python"
seed_answer = "X, N = 2.0, 3  # at 9\\n"
def score(answer):
    names = {}
    exec(answer, names)
    return {"near": -abs(names["X"] - 2.6) - abs(names["N"] - 5)}
"""


def answers(name):
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        (problem, found) = best(store, store.run(name).id)[0]
        query = "SELECT text FROM candidates WHERE problem_id = ? ORDER BY sequence, id"
        with store.read() as connection:
            return found.fitness, [text for (text,) in connection.exec_driver_sql(query, (problem.id,))]


def test_only_numbers_change_and_whole_ones_stay_whole():
    code = Tunable('x = [1.5, -2, True]\ndef f(n=0):\n    """7"""\n    return f"{n} 8"\n', python=True)
    changed = 'x = [1.65775637711, -5, True]\ndef f(n=(-1)):\n    """7"""\n    return f"{n} 8"\n'
    assert code.at([0.1, 1.0, -1.0]) == changed
    assert Tunable("1, v2 -3.5e2 5", python=False).at([9, -1, 1]) == "8103, v2 -700.0 14"
    block = "a = 1\n# EVOLVE-BLOCK-START\nb = 2.0\n# EVOLVE-BLOCK-END\nc = 3\n"
    assert Tunable(block, python=True).at([0.0]) == block and Tunable("no number", python=False).steps == []
    assert "inf" not in Tunable("1e300 1e9 0.0", python=False).at([1e9, 1e9, 1e9])


def test_a_resumed_run_makes_the_same_answers_and_finds_the_numbers(here):
    pytest.importorskip("cma")
    Path("near.py").write_text(SCORER)
    tuned = ["run", "near.py", "--policy", "scripted:tuned", "--answers", "1", "--rollouts", "2", "--plain"]
    assert invoke([*tuned, "--iterations", "40", "--name", "whole"]) == 0
    assert invoke([*tuned, "--iterations", "13", "--name", "parts"]) == 0  # within a generation of four iterations
    assert invoke(["resume", "parts", "--iterations", "40", "--plain"]) == 0
    assert answers("whole") == answers("parts") and answers("whole")[0] > -0.05


def test_it_is_a_baseline_and_refuses_what_it_cannot_tune(here, capsys, monkeypatch):
    pytest.importorskip("cma")
    Path("near.py").write_text(SCORER)
    few = ["--iterations", "4", "--seeds", "1", "--processes", "1", "--plain", "--name", "c"]
    arms = ["--baseline", "tuned-start", "--arm", "m=scripted:mutate,answers=3"]
    assert invoke(["compare", "near.py", *arms, *few]) == 0
    with Store.open("sqlite:///evo.db") as store:
        config = store.run("c/tuned-start/s0").config
    assert (config["policy"], config["answers"], config["rollouts"]) == ("scripted:tuned", 1, 3)
    capsys.readouterr()
    Path("word.py").write_text("seed_answer = 'word'\ndef score(answer):\n    return len(answer)\n")
    for file, policy, missing, said in (
        ("word.py", "scripted:tuned", {}, "has no numbers to tune"),
        ("near.py", "scripted:tuned,scripted:mutate", {}, "searches alone"),
        ("near.py", "scripted:tuned", {"cma": None}, "pip install"),
    ):
        for name in missing:
            monkeypatch.setitem(sys.modules, name, None)
        assert said in refused(capsys, "run", file, "--policy", policy, "--answers", "1")
