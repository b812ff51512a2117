"""Published files as they are: EvalPlus of the hub, and lines with `test` or no entry point."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from problems import BadAddress, ScorerFault, resolve
from problems.programs.cases import TestCase

ASSERTION = """
import numpy as np


def is_floats(x) -> bool:
    if isinstance(x, float):
        return True
    return isinstance(x, (list, tuple)) and all(isinstance(i, float) for i in x)


def assertion(out, exp, atol):
    {match}
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if not exact_match and atol != 0:
        np.testing.assert_allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert exact_match

"""
CLOSE, SET = (
    ASSERTION.format(match="exact_match = out == exp"),
    ASSERTION.format(match="exact_match = set(out) == set(exp)"),
)
PAIRS = "inputs = [[1.0], [4.0], [9.0]]\nresults = [1.0, 2.0, 3.0]\n"
LOOP = "for i, (inp, exp) in enumerate(zip(inputs, results)):\n    assertion({call}(*inp), exp, 0)\n"
PROMPT = 'def root(x: float) -> float:\n    """The square root of x."""\n'


def indented(text):
    return "".join(f"    {line}\n" for line in text.splitlines())


def posed(tmp_path, row, name="own.jsonl"):
    (tmp_path / name).write_text(json.dumps(row))
    (problem,) = resolve(f"programs:{tmp_path / name}")
    return problem


def humaneval_plus(check, helpers=CLOSE, **changes):
    test = f"{helpers}\ndef check(candidate):\n{indented(check)}\n\ncheck(root)\n"
    return {"task_id": "HumanEval/900", "prompt": PROMPT, "entry_point": "root", "test": test} | {
        "canonical_solution": "    return x ** 0.5\n",
        **changes,
    }


def test_humaneval_plus_of_the_hub_has_a_case_for_every_pair(tmp_path):
    problem = posed(tmp_path, humaneval_plus(PAIRS + LOOP.format(call="candidate")))
    assert len(problem.objectives) == 3
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score(PROMPT + "    return x ** 0.5 + 1e-9\n").fitness == 1, "floats are compared as EvalPlus does"
    assert problem.score(PROMPT + "    return x ** 0.5 + 1e-3\n").fitness == 0
    assert problem.score(PROMPT + "    return 2\n").rewards == (0, 1, 0)


def test_a_loop_may_ask_a_reference_of_the_file_which_no_answer_reaches(tmp_path):
    helpers = CLOSE + "\ndef ref_func(x):\n    return x ** 0.5\n"
    loop = "for i, inp in enumerate(inputs):\n    assertion(candidate(*inp), ref_func(*inp), 0)\n"
    problem = posed(tmp_path, humaneval_plus("inputs = [[1.0], [4.0]]\n" + loop, helpers))
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score(PROMPT + "    return ref_func(x)\n").fitness == 0, "the reference is not beside the answer"
    assert problem.score(PROMPT + "    return x\n").rewards == (1, 0)


def test_a_test_that_fails_by_itself_is_the_rows_fault(tmp_path):
    helpers = CLOSE + "\ndef ref_func(x):\n    return 1 / (x - 1)\n"
    loop = "for i, inp in enumerate(inputs):\n    assertion(candidate(*inp), ref_func(*inp), 0)\n"
    problem = posed(tmp_path, humaneval_plus("inputs = [[1.0]]\n" + loop, helpers))
    with pytest.raises(ScorerFault, match="own solution fails 1 of 1 tests .*ZeroDivisionError"):
        problem.score(PROMPT + "    return 1.0\n")


def test_an_assertion_of_the_files_own_is_judged_pair_by_pair(tmp_path):
    loop = "for i, inp in enumerate(inputs):\n    assert abs(candidate(*inp) ** 2 - inp[0]) < 0.01\n"
    problem = posed(tmp_path, humaneval_plus("inputs = [[1.0], [4.0]]\n" + loop))
    assert [type(case) for case in problem.task.cases] == [TestCase, TestCase]
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score(PROMPT + "    return -1\n").rewards == (1, 0)
    own = "def assertion(out, exp, atol):\n    exact_match = out == -exp\n    assert exact_match\n"
    negated = {"canonical_solution": "    return -(x ** 0.5)\n"}
    problem = posed(tmp_path, humaneval_plus(PAIRS + LOOP.format(call="candidate"), own, **negated))
    assert [type(case) for case in problem.task.cases] == [TestCase] * 3
    assert problem.score(PROMPT + "    return -(x ** 0.5)\n").fitness == 1


def test_mbpp_plus_of_the_hub_is_decided_by_its_script(tmp_path):
    inputs = "inputs = [[(3, 4, 5), (5, 4, 10)], [(1, 2), (2, 1)]]\nresults = [(4, 5), (1, 2)]\n"
    row = {
        "task_id": 2,
        "prompt": "Write a function to find the shared elements of two lists.",
        "code": "def similar(a, b):\n    return tuple(set(a) & set(b))\n",
        "test_imports": [],
        "test_list": ["assert set(similar((3, 4, 5), (5, 4, 10))) == set((4, 5))"],
        "test": f"{SET}\n{inputs}{LOOP.format(call='similar')}",
    }
    problem = posed(tmp_path, row)
    assert "set(similar((3, 4, 5), (5, 4, 10))) == set((4, 5))" in problem.statement()
    assert problem.score("def similar(a, b):\n    return [5, 4, 4] if 5 in a else [2, 1]\n").fitness == 1
    assert problem.score("def similar(a, b):\n    return 7\n").fitness == 0


@pytest.mark.parametrize(
    "row",
    [
        {"text": "Twice.", "code": "def f(x):\n    return 2 * x\n", "test": "assert f(1) == 2\nassert f(0) == 0\n"},
        {"text": "Twice.", "code": "def f(x):\n    return 2 * x\n", "test": ["assert f(1) == 2", "assert f(0) == 0"]},
        {
            "prompt": "Twice.",
            "canonical_solution": "def f(x):\n    return 2 * x\n",
            "test": "assert f(1) == 2\nassert f(0) == 0",
        },
        {"prompt": "def f(x):", "canonical_solution": "    return 2 * x", "test": "assert f(1) == 2\nassert f(0) == 0"},
        {"prompt": "def f(x):\n    '''Twice.'''\n", "entry_point": "f", "test": "assert f(1) == 2\nassert f(0) == 0"},
        {
            "prompt": "def f(x):\n    '''Twice.'''\n",
            "test": "def check(g):\n    assert g(1) == 2\n    assert g(0) == 0\n",
        },
        {
            "prompt": "def f(x):\n    '''Twice.'''\n\ndef other(x):\n    return x\n",
            "test": "def check(g):\n    assert g(1) == 2\n    assert g(0) == 0\n\ncheck(f)\n",
        },
    ],
)
def test_lines_with_test_or_without_entry_point(tmp_path, row):
    problem = posed(tmp_path, row)
    assert problem.task.entry == "f" and len(problem.objectives) == 2
    assert problem.score("def f(x):\n    return 2 * x\n").fitness == 1
    assert problem.score("def f(x):\n    return x\n").fitness == 0.5
    assert problem.task.reference is None or problem.score(problem.task.reference).fitness == 1


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"text": "t", "test": "assert ("}, "`test` does not parse"),
        ({"prompt": "nothing", "test": "def check(f):\n    assert f(1)\n"}, "is no function header"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_in_one(tmp_path, row, says):
    with pytest.raises(BadAddress, match=says) as caught:
        posed(tmp_path, row)
    assert "own.jsonl:1: " in str(caught.value) and "\n" not in str(caught.value)


def converted(tmp_path, row):
    (tmp_path / "published.jsonl").write_text(json.dumps(row) + "\n")
    script = Path(__file__).parents[2] / "examples" / "programs" / "convert.py"
    made = subprocess.run([sys.executable, script, tmp_path / "published.jsonl"], capture_output=True, check=True)
    return posed(tmp_path, json.loads(made.stdout))


def test_rows_of_evalplus_are_converted(tmp_path):
    row = {"task_id": "HumanEval/900", "prompt": PROMPT, "entry_point": "root", "atol": 0}
    row |= {"canonical_solution": "    return x ** 0.5\n", "base_input": [[1.0], [4.0]], "plus_input": [[float("inf")]]}
    problem = converted(tmp_path, row)
    assert len(problem.objectives) == 3
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score("def root(x):\n    return 1.00000001 if x == 1 else 5.0\n").rewards == (1, 0, 0)


def test_rows_of_leetcode_dataset_are_converted(tmp_path):
    starter = "class Solution:\n    def f(self, n: int) -> int:\n        "
    prompt = (
        "class Node:\n    def __init__(self, v, n=None):\n        self.v, self.n = v, n\n"
        "def same(a, b):\n    return a.v == b.v and (a.n is b.n is None or same(a.n, b.n))\n"
    )
    tests = {
        "    assert candidate(n = 1) == 2\n    assert candidate(n = 5) == 6\n": ("return n + 1", "return 2"),
        "    assert same(candidate(n = Node(1)), Node(1))\n": ("return Node(n.v)", "return Node(2)"),
    }
    for test, (right, wrong) in tests.items():
        row = {"task_id": "own", "prompt": prompt, "entry_point": "Solution().f", "starter_code": starter}
        row |= {
            "test": f"def check(candidate):\n{test}",
            "completion": starter + right,
            "problem_description": "Do it.",
        }
        problem = converted(tmp_path, row)
        assert "def f(self, n: int) -> int:" in problem.statement()
        assert problem.score(problem.task.reference).fitness == 1
        assert problem.score(starter + wrong).fitness < 1
