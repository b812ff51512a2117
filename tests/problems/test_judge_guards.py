"""Answers that cheat in the process of their tests: each is kept out, or stands in the list of those that are not."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from problems import ScorerFault

TABLE: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("cheats.yaml").read_text())
LIBRARIES = TABLE["kept_out_of_libraries"]


def limited(problem):
    problem._limits = type(problem._limits)(cpu_seconds=0.5, wall_seconds=5.0)
    return problem


@pytest.fixture
def problem(posed):
    return posed(test_list=[TABLE["tests"]], code="def f(n):\n    return n ** .5\n")


@pytest.mark.parametrize("cheat", TABLE["kept_out"])
def test_a_cheat_earns_nothing_and_stops_nothing(problem, cheat):
    assert problem.score(TABLE["kept_out"][cheat]).fitness == 0
    assert problem.score("import math\ndef f(n):\n    return math.sqrt(n)\n").fitness == 1


@pytest.mark.parametrize(("by", "cheat"), [(by, cheat) for by in LIBRARIES for cheat in LIBRARIES[by]["cheats"]])
def test_a_cheat_at_a_library_earns_nothing(posed, by, cheat):
    square = "def f(n):\n    return n * n\n"
    for row in ({}, {"code": square}):
        problem = limited(posed(test_list=[LIBRARIES[by]["tests"]], **row))
        assert problem.score(square).fitness == 1
        assert problem.score(LIBRARIES[by]["cheats"][cheat]).fitness == 0


@pytest.mark.parametrize("cheat", TABLE["not_kept_out"])
def test_cheats_that_are_not_kept_out_are_named(posed, cheat):
    form = TABLE["not_kept_out"][cheat]
    problem = posed(test_list=[form["tests"]], code=form["right"])
    assert problem.score(form["right"]).fitness == 1
    assert problem.score(form["wrong"]).fitness == 1, "it is kept out now: take it off the list, in the guide too"


@pytest.mark.parametrize("answer", TABLE["honest"])
def test_an_honest_answer_is_let_through(problem, answer):
    score = problem.score(TABLE["honest"][answer])
    assert score.fitness == 1, score.feedback


@pytest.mark.parametrize(
    ("tests", "code", "says"),
    [
        ("assert sorted(f([])) == []", "def f(x): return x", "only returns []"),
        ("assert sum(map(f, [1, 2])) <= 0", "def f(x): return -x", "StopIteration"),
        ("assert not abs(f(2) - 4) > 1e-6", "def f(x): return 2 * x", "only returns nan"),
        ("x = [3, 1]\nassert f(x) == sorted(x)", "def f(x): return sorted(x)", "empties its arguments"),
        ("f(1)\nassert True is not None", "def f(x): return x", "with an empty body"),
        ("assert f(1) + 0 == 3", "def f(x): return x", "own solution fails 1 of 1"),
    ],
)
def test_a_row_that_cannot_be_judged_is_named(posed, tests, code, says):
    with pytest.raises(ScorerFault, match=f"cannot be judged here: .*{says}".replace("[", r"\[")) as fault:
        posed(test_list=[tests], code=code).score(code)
    assert "\n" not in str(fault.value) and "mend" not in str(fault.value)


def test_as_many_assertions_run_as_with_the_own_solution(posed):
    problem = posed(test_list=["for p in f(12):\n    assert 12 % p == 0 and p > 1"], code="def f(n): return [2, 3]")
    assert problem.score("def f(n): return [3, 2]").fitness == 1
    assert "only 1 of 2 assertions ran" in problem.score("def f(n): return [2]").feedback


@pytest.mark.parametrize("forger", TABLE["forgers"].values(), ids=TABLE["forgers"])
@pytest.mark.parametrize("test", TABLE["asked"])
def test_no_object_of_an_answer_decides_a_test(posed, test, forger):
    problem = posed(test_list=[test])
    assert problem.score(f"{forger}\ndef f(x):\n    return E()\n").fitness == 0


WHOLE = {
    "prompt": "def f(x):\n    '''Do it.'''\n",
    "entry_point": "f",
    "test": "def check(candidate):\n    if candidate(1) != 2:\n        raise AssertionError\n"
    "    if candidate(0) == 1:\n        return\n    assert False\n",
}
RAISES = {"text": "t", "test_list": ["import pytest\nassert f(1) == 2\nwith pytest.raises(ValueError):\n    f(-1)"]}
FUNCTION = {"text": "t", "test_list": ["add = f(3)\nassert add(4) == 7"]}
ITERATOR = {"text": "t", "test_list": ["import itertools\nassert list(itertools.islice(f(3), 3)) == [7, 8, 9]"]}


@pytest.mark.parametrize("row", [WHOLE, FUNCTION, ITERATOR, RAISES], ids=["whole", "function", "iterator", "raises"])
@pytest.mark.parametrize("attack", TABLE["attacks"].values(), ids=TABLE["attacks"])
def test_no_attack_forges_the_verdict_of_a_whole_test(posed, row, attack):
    problem = limited(posed(**row))
    body = "class E:\n    def __eq__(self, other):\n        return True\n"
    assert problem.score(f"{attack}{body}def f(x):\n    forge()\n    return E()\n").fitness < 1
    assert problem.score(f"{attack}def f(x):\n    return lambda y: forge()\n").fitness < 1
    assert problem.score(f"{attack}def f(x):\n    yield forge()\n").fitness < 1


def test_an_endless_or_ended_answer_is_no_expected_exception(posed):
    tests = "try:\n    f(1)\n    assert False\nexcept (KeyError, MemoryError, SystemExit):\n    pass"
    problem = limited(posed(test_list=[tests]))
    assert problem.score("def f(x):\n    raise KeyError\n").fitness == 1
    assert problem.score("def f(x):\n    while True:\n        pass\n").fitness == 0
    assert problem.score("import os\ndef f(x):\n    os._exit(1)\n").fitness == 0


def test_a_case_that_ends_the_process_does_not_cost_those_after_it(posed):
    lines = ["assert f(1) + 0 == 2", "assert f(2) + 0 == 3", "x = f(3)\nassert x == 4"]
    problem = limited(posed(test_list=lines))
    assert problem.score("import os\ndef f(x):\n    return x + 1 if x != 2 else os._exit(0)\n").rewards == (1, 0, 1)
    assert problem.score("def f(x):\n    while x == 1:\n        pass\n    return x + 1\n").rewards == (0, 1, 1)


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("def test_f(tmp_path):\n    assert f(tmp_path) == 1", "test_f needs the fixture tmp_path"),
        ("import pytest\n@pytest.mark.skip\ndef test_f():\n    assert f(1) == 1", "decorated by pytest.mark.skip"),
        ("f(1)", "`test` asserts nothing"),
        ("assert 1 + 1 == 2", "call no function"),
    ],
)
def test_a_row_that_cannot_be_judged_is_refused_when_it_is_loaded(posed, test, says):
    with pytest.warns(UserWarning, match=rf"own\.jsonl:1: skipped: cannot be judged here: .*{says}"):
        pytest.raises(ValueError, posed, text="t", test=test)


def test_a_range_without_end_is_compared_in_no_time(posed):
    problem = posed(test_list=["assert set(f(1)) == {1}", "assert f(1) == [1]"])
    assert limited(problem).score("def f(x):\n    return range(10 ** 30)").fitness == 0.0
