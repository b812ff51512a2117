"""`maths:` as problems: the contract, the two interfaces, stages, records, and what is listed."""

import hashlib
import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from click.testing import CliRunner

from evo.cli.problems import problems_command
from evo.plugins.maths.family import TASKS
from evo.plugins.maths.problem import MathsProblem
from evo.plugins.maths.task import Best
from evo.testing import ProblemContract
from problems import BadAddress, describe_sets, resolve
from problems.sandbox import shared_sandbox

GRID = "[((i % 6 + 0.5) / 6, (i // 6 + 0.5) / 6, 1 / 12) for i in range({n})]"


class TestCircles(ProblemContract):
    answers = (f"def pack(n):\n    return {GRID.format(n='n')}\n", "def pack(n):\n    return [[1j] * 3] * n\n")

    def problem(self):
        return resolve("maths:circle_packing_26")[0]


class TestKissing(ProblemContract):
    def problem(self):
        return resolve("maths:kissing_number")[0]


class TestErdos(ProblemContract):
    def problem(self):
        return resolve("maths:erdos_min_overlap")[0]


@pytest.mark.parametrize("name", sorted(TASKS))
def test_the_seed_works_and_is_weak(name):
    (problem,) = resolve(f"maths:{name}")
    found = problem.score(problem.seed_answer())
    assert found.error is None and all(reward >= 0 for reward in found.rewards)
    task = TASKS[name]
    assert found.fitness > 0 and found.rewards[0] < 0.95 * task.quality(task.headline, task.best.value)


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_task_says_what_it_is_from_where_and_how_far_others_came(name):
    task, (problem,) = TASKS[name], resolve(f"maths:{name}")
    assert task.headline in task.instances and task.source and problem.licence
    assert all(best.source and best.value > 0 for best in task.instances.values())
    assert f"`{task.entry}(" in task.text and f"def {task.entry}(" in task.seed
    assert f"{task.best.value:.10g}" in problem.statement() and task.aliases[0] in problem.statement()
    assert problem.best_known == task.fitness(task.best.value)
    assert problem.best_known * (1 - 2e-9) < problem.target < problem.best_known
    assert len(problem.objectives) == len(task.instances) and problem.objectives[0] == f"{task.symbol}{task.headline}"


OPENEVOLVE = {
    "circle_packing_26": "import numpy as np\ndef run_packing():\n    c = np.array([[(i % 6 + .5) / 6,"
    " (i // 6 + .5) / 6] for i in range(26)])\n    return c, np.full(26, 1 / 12), 99.0\n",
    "circle_packing_rect": "import numpy as np\ndef circle_packing21():\n    return np.array([[i % 5, i // 5, .5]"
    " for i in range(21)], dtype=float)\n",
    "heilbronn_triangle": "import numpy as np\ndef heilbronn_triangle11():\n    t = np.linspace(.05, .95, 11)\n"
    "    return np.c_[t, .8 * t * (1 - t)]\n",
    "distance_ratio_2d": "import numpy as np\ndef min_max_dist_dim2_16():\n"
    "    return np.array([[i % 4, i // 4] for i in range(16)])\n",
    "kissing_number": "import numpy as np\ndef kissing_number11():\n"
    "    return 3.1 * np.vstack([np.eye(11), -np.eye(11)])\n",
    "erdos_min_overlap": "import numpy as np\ndef run():\n    return np.full(70, 0.5), 0.1, 70\n",
    "autocorrelation_1": "import numpy as np\ndef run():\n    return np.ones(70), 0.1, 0.1, 70\n",
}


@pytest.mark.parametrize("name", sorted(OPENEVOLVE))
def test_a_program_of_openevolves_examples_is_read_as_it_is(name):
    (problem,) = resolve(f"maths:{name}")
    found = problem.score(f"# EVOLVE-BLOCK-START\n{OPENEVOLVE[name]}# EVOLVE-BLOCK-END\n")
    assert found.error is None, found.feedback
    assert 0 < found.fitness < problem.best_known and 0 < found.rewards[0] < 1
    assert not any(found.rewards[1:]) and "not constructed" in found.feedback


def test_the_other_sizes_are_not_run_where_the_smallest_fails():
    (problem,) = resolve("maths:circle_packing_26")
    code = "def pack(n):\n    if n == 10:\n        raise ValueError('no idea')\n    while True:\n        pass\n"
    found = problem.score(code)
    assert found.error == "ValueError: no idea (line 3)" and found.feedback.count("not run, as n = 10 failed") == 4


def test_sizes_fail_one_by_one():
    (problem,) = resolve("maths:circle_packing_26")
    found = problem.score(f"def pack(n):\n    return {GRID.format(n='min(n, 26)')}\n")
    assert found.error is None and found.fitness == pytest.approx(26 / 12)
    named = dict(zip(problem.objectives, found.rewards, strict=True))
    assert named["n32"] == 0 and named["n20"] > 0
    assert "n = 32: 26 circles, where 32 belong" in found.feedback


def with_best(task, value):
    return replace(task, instances={**task.instances, task.headline: Best(value, "a weak record of our own")})


def test_a_record_is_said_where_exact_arithmetic_confirms_it():
    code = f"def pack(n):\n    return {GRID.format(n='n')}\n"
    worth = 26 / 12
    for best, said in ((2.0, True), (worth * (1 - 1e-8), True), (worth * (1 - 1e-12), False), (worth, False)):
        found = MathsProblem(with_best(TASKS["circle_packing_26"], best), shared_sandbox).score(code)
        assert ("A RECORD" in found.feedback) == said, best
    # beyond the best value known the component stays at 1, the fitness does not
    assert found.fitness == pytest.approx(worth) and max(found.rewards) <= 1


def test_values_are_never_rounded_up():
    task = TASKS["distance_ratio_2d"]
    third = [(0.0, 0.0), (3.0, 0.0), (0.0, 1.0)]
    value = task.measure(third, 3).value
    assert isinstance(value, Fraction) and value == 10
    assert math.isclose(task.quality(16, 18.0), 12.889229907717521 / 18)
    assert task.quality(16, 5.0) == 1.0


def test_addresses():
    assert [p.name for p in resolve("maths:all")] == [f"maths:{name}" for name in TASKS]
    assert [p.name for p in resolve("maths:all/1-2")] == [p.name for p in resolve("maths:all")[1:3]]
    with pytest.raises(BadAddress, match="did you mean maths:heilbronn_triangle"):
        resolve("maths:heilbron_triangle")


def test_every_set_is_listed_with_its_source():
    rows = {row["name"]: row for row in describe_sets()}
    for name in ("maths:all", *(f"maths:{name}" for name in TASKS)):
        row = rows[name]
        assert row["count"] and row["objectives"] and row["source"] and row["licence"], name
    (row,) = json.loads(CliRunner().invoke(problems_command, ["maths:kissing_number", "--json"]).output)
    assert (row["best_known"], row["licence"]) == (604, "Apache-2.0") and "Ganzhinov" in row["source"]
    alone = CliRunner().invoke(problems_command, ["maths:kissing_number"]).output
    assert "best known 604" in " ".join(alone.split())


def test_best_values_change_together_with_the_fingerprint():
    """Runs keep the fingerprint: write new ones into tasks.yaml, and this digest, when a best value changes."""
    known = {name: sorted((size, best.value) for size, best in task.instances.items()) for name, task in TASKS.items()}
    fingerprints = {name: task.fingerprint for name, task in TASKS.items()}
    digest = hashlib.sha256(json.dumps([known, fingerprints], sort_keys=True).encode()).hexdigest()
    assert digest.startswith("2384def5f854")
