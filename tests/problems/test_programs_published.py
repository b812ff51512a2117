"""Published files as they are: EvalPlus in both forms, LeetCodeDataset, and lines with `test` or no entry point."""

import gzip
import json
import os
from pathlib import Path

import pytest

from problems import BadAddress, ScorerFault, resolve
from problems.programs.cases import CallCase, JudgeCase
from problems.programs.comparison import call_passes

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
    assert problem.task.cases == tuple(
        CallCase(f"root({x})", y, "close") for x, y in ((1.0, 1.0), (4.0, 2.0), (9.0, 3.0))
    )
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score(PROMPT + "    return x ** 0.5 + 1e-9\n").fitness == 1, "floats are compared as EvalPlus does"
    assert problem.score(PROMPT + "    return x ** 0.5 + 1e-3\n").fitness == 0
    assert problem.score(PROMPT + "    return 2\n").rewards == (0, 1, 0)


def test_a_loop_that_asks_a_reference_of_the_file_has_it_worked_out_in_the_sandbox(tmp_path):
    helpers = CLOSE + "\ndef ref_func(x):\n    return x ** 0.5\n"
    loop = "for i, inp in enumerate(inputs):\n    assertion(candidate(*inp), ref_func(*inp), 0)\n"
    problem = posed(tmp_path, humaneval_plus("inputs = [[1.0], [4.0]]\n" + loop, helpers))
    assert [case.accepts for case in problem.task.cases] == [("ref_func(1.0)",), ("ref_func(4.0)",)]
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score(PROMPT + "    return ref_func(x)\n").fitness == 0, "the reference is not beside the answer"
    assert problem.score(PROMPT + "    return x\n").rewards == (1, 0)


def test_a_reference_that_fails_is_the_scorers_fault(tmp_path):
    helpers = CLOSE + "\ndef ref_func(x):\n    return 1 / (x - 1)\n"
    loop = "for i, inp in enumerate(inputs):\n    assertion(candidate(*inp), ref_func(*inp), 0)\n"
    problem = posed(tmp_path, humaneval_plus("inputs = [[1.0]]\n" + loop, helpers))
    with pytest.raises(ScorerFault, match=r"the reference failed at ref_func\(1.0\): ZeroDivisionError"):
        problem.score(PROMPT + "    return 1.0\n")


def test_an_assertion_of_the_files_own_is_judged_pair_by_pair(tmp_path):
    loop = "for i, inp in enumerate(inputs):\n    assert abs(candidate(*inp) ** 2 - inp[0]) < 0.01\n"
    problem = posed(tmp_path, humaneval_plus("inputs = [[1.0], [4.0]]\n" + loop))
    assert [type(case) for case in problem.task.cases] == [JudgeCase, JudgeCase]
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score(PROMPT + "    return -1\n").rewards == (1, 0)
    own = "def assertion(out, exp, atol):\n    exact_match = out == -exp\n    assert exact_match\n"
    negated = {"canonical_solution": "    return -(x ** 0.5)\n"}
    problem = posed(tmp_path, humaneval_plus(PAIRS + LOOP.format(call="candidate"), own, **negated))
    assert [type(case) for case in problem.task.cases] == [JudgeCase] * 3
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
    assert [case.relation for case in problem.task.cases] == ["set", "set"]
    assert "set(similar((3, 4, 5), (5, 4, 10))) == set((4, 5))" in problem.statement()
    assert problem.score("def similar(a, b):\n    return [5, 4, 4] if 5 in a else [2, 1]\n").fitness == 1
    assert problem.score("def similar(a, b):\n    return 7\n").fitness == 0


def evalplus(task_id, entry, solution, inputs, prompt='"""\nDo it.\n"""\n', **changes):
    row = {"task_id": task_id, "prompt": prompt, "entry_point": entry, "canonical_solution": solution, "contract": ""}
    return row | {"base_input": inputs[:1], "plus_input": inputs[1:], "atol": 0} | changes


def test_the_files_of_evalplus_hold_inputs_and_a_reference(tmp_path):
    row = evalplus(
        "HumanEval/900",
        "root",
        "    return x ** 0.5\n",
        [[1.0], [4.0], [2.0]],
        PROMPT,
        test="def check(candidate):\n    pass\n",
    )
    problem = posed(tmp_path, row)
    assert len(problem.objectives) == 3 and "canonical" not in problem.statement()
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score(PROMPT + "    return 1.4142135 if x == 2 else x\n").rewards == (1, 0, 1)


@pytest.mark.parametrize(
    ("number", "entry", "inputs", "solution", "right", "wrong"),
    [
        (2, "similar_elements", [[[3, 4], [4, 5]]], "return tuple(set(a) & set(b))", "return [4, 4]", "return [3]"),
        (580, "evens", [[[1, [2, 3]], 0]], "return a", "return (1, (2, 3))", "return [1, [2, 3]]"),
        (124, "angle", [["1.0", "1j"]], "return a + b", "return 1 + 1j", "return '1.01j'"),
        (295, "sum_div", [[7, 0]], "return a", "return 0", "return 1"),
        (558, "digit_distance_nums", [[23, 1]], "return 3", "return 2 + 2 if a == 23 else 0", "return 5"),
        (581, "surface_Area", [[3, 4]], "return 33", "return 35", "return 34"),
        (164, "are_equivalent", [[1, 2]], "return True", "return False", "raise ValueError"),
        (794, "text_starta_endb", [["ab", 0]], "return 'Found'", "return 17", "return None"),
    ],
)
def test_mbpp_plus_restores_arguments_and_has_oracles_of_its_own(
    tmp_path, number, entry, inputs, solution, right, wrong
):
    header = f"def {entry}(a, b):\n    "
    problem = posed(tmp_path, evalplus(f"Mbpp/{number}", entry, header + solution, inputs))
    assert problem.score(header + solution).fitness == 1
    assert problem.score(header + right).fitness == 1
    assert problem.score(header + wrong).fitness == 0


def test_any_zero_of_the_polynomial_will_do(tmp_path):
    prompt = "def find_zero(xs):\n    '''A zero of the polynomial.'''\n"
    row = evalplus("HumanEval/32", "find_zero", "    return 1.0\n", [[[-1, 0, 1]]], prompt, atol=1e-4)
    problem = posed(tmp_path, row)
    assert [problem.score(prompt + f"    return {x}").fitness for x in ("1.0", "-1", "0.5", "'1'")] == [1, 1, 0, 0]


def test_relations_survive_what_hostile_code_returns():
    for relation, expected in (("close", [1.0]), ("set", [1]), ("present", True), ("root", [1, 2]), ("any", None)):
        for value in (None, "x", [[]], {}, 10**400, [10**400], float("nan"), [float("nan")]):
            assert call_passes(CallCase("f()", expected, relation, tolerance=1e-6), value) in (True, False)
    assert not call_passes(CallCase("f()", [1.0], "close"), [10**400])


def leetcode(
    test,
    starter="class Solution:\n    def f(self, n: int) -> int:\n        ",
    prompt="from typing import *\n",
    **changes,
):
    row = {
        "task_id": "own",
        "prompt": prompt,
        "entry_point": "Solution().f",
        "test": f"def check(candidate):\n{indented(test)}",
    }
    row |= {"starter_code": starter, "problem_description": "Do it.", "estimated_date": "2024-08-04"}
    return row | {"completion": f"{starter}return n + 1\n", "input_output": [], **changes}


def test_leetcode_dataset_calls_by_keyword_and_keeps_the_sixteen_smallest(tmp_path):
    asserts = "".join(f"assert candidate(n = {10**k}) == {10**k + 1}\n" for k in range(20, 0, -1))
    asserts += f"assert candidate(n = {[1] * 3000}) == 2\n"
    problem = posed(tmp_path, leetcode(asserts))
    assert len(problem.task.cases) == 16
    assert problem.task.cases[0].call == f"f(n={10**16})" and problem.task.cases[-1].expected == 11
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score("class Solution:\n    def f(self, n):\n        return 11\n").fitness == 1 / 16


STRUCTURES = """
from collections import deque
class ListNode:
    def __init__(self, val=0, next=None):
        self.val, self.next = val, next
class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val, self.left, self.right = val, left, right
def list_node(values):
    head = None
    for value in reversed(values):
        head = ListNode(value, head)
    return head
def tree_node(values):
    nodes = [None if value is None else TreeNode(value) for value in values]
    kids = iter(nodes[1:])
    for node in nodes:
        if node is not None:
            node.left, node.right = next(kids, None), next(kids, None)
    return nodes[0] if nodes else None
"""


def test_lists_and_trees_leave_the_answers_process_as_values(tmp_path):
    def solution(body):
        return f"class Solution:\n    def f(self, x):\n        {body}\n"

    same = "assert is_same_list(candidate(x = list_node({0})), list_node({0}))\n"
    asserts = same.format([1, 2]) + same.format([])
    problem = posed(tmp_path, leetcode(asserts, prompt=STRUCTURES, completion=solution("return x")))
    assert problem.score(solution("return x")).fitness == 1
    assert problem.score(solution("return x and ListNode(1, ListNode(3))")).rewards == (0, 1)
    assert problem.score(solution("return [1, 2] if x else None")).rewards == (0, 1)
    asserts = "assert is_same_tree(candidate(x = tree_node([1, None, 2, 3])), tree_node([1, None, 2, 3, None]))\n"
    problem = posed(tmp_path, leetcode(asserts, prompt=STRUCTURES, completion=solution("return x")))
    assert problem.score(solution("return x")).fitness == 1
    assert problem.score(solution("return TreeNode(1, TreeNode(2, TreeNode(3)))")).fitness == 0
    loop = "x.right.left.left = x\n        return x"
    assert problem.score(solution(loop)).fitness == 0


def test_leetcode_dataset_goes_by_window_and_as_it_is_packed(tmp_path):
    path = tmp_path / "test.jsonl.gz"
    rows = [leetcode("assert candidate(n = 1) == 2", estimated_date=f"2024-0{month}-01") for month in (7, 8, 9)]
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    assert len(resolve(f"programs:{path}")) == 3
    assert [p.name for p in resolve(f"programs:{path}?from=2024-08-01")] == [f"programs:{path}/{k}" for k in (1, 2)]
    assert [p.name for p in resolve(f"programs:{path}?to=2024-09-01/1-1")] == [f"programs:{path}/1"]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BadAddress, match=r"cannot read .*test\.jsonl\.gz"):
        resolve(f"programs:{path}")


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
        (evalplus("HumanEval/1", "f", "    return 1\n", [[1]], "def g(x):\n"), "does not define the entry point f"),
        (evalplus("HumanEval/1", "g", "    return 1\n", [1], "def g(x):\n"), "no list of lists"),
        (leetcode("candidate(n = 1)") | {"test": "x = 1"}, "defines no check"),
        ({"text": "t", "test": "assert ("}, "`test` does not parse"),
        ({"prompt": "nothing", "test": "def check(f):\n    assert f(1)\n"}, "is no function header"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_in_one(tmp_path, row, says):
    with pytest.raises(BadAddress, match=says) as caught:
        posed(tmp_path, row)
    assert "own.jsonl:1: " in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.skipif("EVO_DATA" not in os.environ, reason="EVO_DATA names no folder with LeetCodeDataset")
def test_every_reference_of_leetcode_dataset_solves_its_problem():
    path = Path(os.environ["EVO_DATA"], "LeetCodeDataset-v0.3.1-test.jsonl.gz")
    problems = resolve(f"programs:{path}")
    assert len(problems) == 228
    assert [problem.name for problem in problems if problem.score(problem.task.reference).fitness < 1] == []
