"""A user's own simulator: one Python file whose answers are rules."""

from __future__ import annotations

from random import Random

import pytest
from support.rows import yaml_rows

from problems import BadAddress, ScorerFault, resolve

FILE = """
import numpy as np
features = {"work": "hours of work", "value": "what it is worth"}
families = {"few": [[(1, 2), (3, 4)]], "many": [[(3, 1), (2, 5), (1, 1)], [(5, 1), (4, 8)]]}
held_out = {"few": [[(9, 1)]], "many": [[(1, 1), (2, 3)]]}
def simulate(rule, instance):
    work, value = np.array(instance).T
    order = np.argsort(rule(work, value))
    return float((np.cumsum(work[order]) * value[order]).sum())
"""


@pytest.fixture
def opened(tmp_path):
    """The problem in a file that differs from FILE by replacements."""

    def write(*changes):
        text = FILE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "mine.py"
        path.write_text(text)
        (problem,) = resolve(str(path))
        return problem

    return write


def test_costs_are_the_means_of_families_and_lower_is_better(opened):
    problem = opened()
    assert problem.names == ("work", "value") and problem.objectives == ("few", "many")
    assert problem.seed_answer() == "work" and set(problem.directions.values()) == {"min"}
    smith = problem.score("(work / value)")
    assert smith.values == (18.0, (19.0 + 41.0) / 2) and smith.features == {"size": 3.0}
    assert smith.fitness > problem.score("work").fitness == 0.5 > problem.score("-work/value").fitness
    assert problem.score_held_out("work/value").values == (9.0, 9.0)
    assert problem.score(problem.random_answer(Random(1))).error is None
    assert problem.canonical("```\nwork/value\n```") == problem.canonical("work / value")
    assert problem.picture("work + (value + (work - value)) + 0") == "simplified: 2*work"
    assert problem.picture("work / value") == problem.picture("work /") == "", "nothing is shorter, or no rule"
    stated = problem.statement()
    assert "  value: what it is worth\n" in stated and "Lower is better in few, many." in stated


CONSUMING = """
features = {"hours": "of work", "weight": "price of an hour"}
jobs = [(2, 1), (1, 3)]
families = {"calm": [jobs, jobs], "rush": [[(4, 1), (1, 1)]], "all": [jobs, [(4, 1), (1, 1)]]}
held_out = {"calm": [jobs], "rush": [jobs], "all": [jobs]}
def simulate(rule, jobs):
    now = cost = 0
    while jobs:
        hours, weight = jobs.pop(min(range(len(jobs)), key=lambda job: rule(*jobs[job])))
        now += hours
        cost += weight * now
    return cost
"""


def test_a_simulator_may_change_an_instance_that_stands_in_two_families(tmp_path):
    path = tmp_path / "consuming.py"
    path.write_text(CONSUMING)
    (problem,) = resolve(str(path))
    # by hours: 3*1 + 1*3 = 6 for jobs, 1*1 + 1*5 = 6; by -hours: 1*2 + 3*3 = 11, 1*4 + 1*5 = 9
    assert problem.score("hours").values == (6.0, 6.0, 6.0)
    assert problem.score("-hours").values == (11.0, 9.0, 10.0)
    assert problem.score_held_out("-hours").values == (11.0, 11.0, 11.0)


def test_an_instance_that_cannot_be_copied_stands_once(tmp_path):
    path = tmp_path / "generators.py"
    once = CONSUMING.replace("jobs = [(2, 1), (1, 3)]", "source = (job for job in [(2, 1), (1, 3)])")
    once = once.replace("def simulate(rule, jobs):", "def simulate(rule, jobs):\n    jobs = list(jobs)")
    once = once[: once.index("families")] + "families = {FAMILIES}\n" + once[once.index("def simulate") :]
    path.write_text(once.replace("FAMILIES", '"calm": [source]'))
    (problem,) = resolve(str(path))
    assert problem.score("hours").values == (6.0,)
    path.write_text(once.replace("FAMILIES", '"calm": [source], "all": [source]'))
    with pytest.raises(
        ScorerFault, match="families holds .* twice, and it cannot be copied .*make an instance for each"
    ):
        resolve(str(path))[0].score("hours")


@pytest.mark.parametrize(
    ("change", "near"),
    [
        (("held_out = ", "heldout = "), "held_out"),
        (("import numpy", "targets = 3\nimport numpy"), "target"),
        (("import numpy", "weight = [1, 2]\nimport numpy"), "weights"),
        (("import numpy", "tasks = 'Sort.'\nimport numpy"), "task"),
    ],
)
def test_a_misspelt_declaration_is_refused(opened, change, near):
    with pytest.raises(BadAddress, match=rf"nothing reads \w+; did you mean {near}\?$"):
        opened(change)
    assert opened(("import numpy", "best = due_date = kinds = weighting = 3\nimport numpy")).fault is None


def test_what_is_no_rule_fails_and_what_is_no_simulator_is_told(opened, tmp_path):
    score = opened().score("work + weight")
    assert score.error.startswith("there is no variable 'weight'; there is work, value") and score.fitness == 0.0
    with pytest.raises(BadAddress, match=r"did you mean .*/mine\.py"):
        resolve(str(tmp_path))
    problem = opened(("def simulate", "def score(answer):\n    return 1.0\ndef simulate"))
    assert problem.objectives == ("score",), "a file that defines score stays a scorer file"


def test_a_rule_is_called_with_arrays_or_numbers_by_place_or_by_name(opened):
    expected = opened().score("work - value").values
    for call in ("rule(value=value, work=work)", "[rule(w, value=v) for w, v in instance]", "rule(work - value, 0)"):
        assert opened(("rule(work, value)", call)).score("work - value").values == expected, call


def test_costs_by_name_and_one_list(opened):
    by_name = ("return float(", "return {'late': len(instance), 'sum': 0.5} if True else float(")
    assert opened(by_name).objectives == ("few late", "few sum", "many late", "many sum")
    one_list = ("families = {", "families = [[(1, 2)], [(2, 3)]]\nheld = {"), ("held_out = ", "held_back = ")
    assert opened(by_name, *one_list).objectives == ("late", "sum")
    problem = opened(*one_list)
    assert problem.objectives == ("cost",) and problem.score("work").values == (4.0,)


@pytest.mark.parametrize(("change", "says"), yaml_rows(__file__, "a_fault_of_the_file_is_one_line_that_says_where"))
def test_a_fault_of_the_file_is_one_line_that_says_where(opened, change, says):
    problem = opened(change)
    with pytest.raises(ScorerFault, match=says) as fault:
        problem.score("work")
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(("change", "says"), yaml_rows(__file__, "a_file_that_lacks_a_name_is_refused_in_one_line"))
def test_a_file_that_lacks_a_name_is_refused_in_one_line(opened, change, says):
    with pytest.raises(BadAddress, match=says) as refused:
        opened(change)
    assert "\n" not in str(refused.value)
