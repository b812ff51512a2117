"""Verdicts on LiveCodeBench answers agree with the benchmark's own harness (lcb_runner.evaluation.testing_util)."""

import json

import pytest

from problems import resolve


def posed(
    tmp_path, tests, starter="class Solution:\n    def f(self, x: List[int]) -> List[int]:\n        ", stdin=False
):
    cases = [{"input": i, "output": o, "testtype": "stdin" if stdin else "functional"} for i, o in tests]
    row = {"question_content": "Do it.", "starter_code": "" if stdin else starter, "private_test_cases": "[]"}
    row |= {"public_test_cases": json.dumps(cases), "metadata": "{}" if stdin else '{"func_name": "f"}'}
    (tmp_path / "own.jsonl").write_text(json.dumps(row))
    (problem,) = resolve(f"programs:{tmp_path / 'own.jsonl'}")
    return problem


def solution(body):
    return f"class Solution:\n    def f(self, x):\n        return {body}\n"


@pytest.mark.parametrize(
    "body",
    [
        "Counter(x).most_common(1)[0][0]",  # collections, and every other star import
        "heappop(x) and reduce(add, [1]) and gcd(1, 1) and inf and bisect_left([1], 1) or 1",
        "datetime.datetime(1, 1, 1).year",  # `import datetime` comes after the class of that name
        "pow(1, 1, 7)",  # the builtin, not math's
        "math.floor(collections.deque([1.0])[0])",
        "sys.getrecursionlimit() // 50000",
        "int(open is builtins.open) if 'builtins' in globals() else 1",
    ],
)
def test_answers_run_after_the_official_preamble(tmp_path, body):
    assert posed(tmp_path, [("[1]", "1")]).score(solution(body)).fitness == 1


def test_a_deep_recursion_is_allowed(tmp_path):
    code = "class Solution:\n    def f(self, x):\n        return 1 if x == 0 else self.f(x - 1)\n"
    assert posed(tmp_path, [("20000", "1")]).score(code).fitness == 1
    program = "def f(x):\n    return 1 if x == 0 else f(x - 1)\nprint(f(int(input())), Counter('a')['a'])"
    assert posed(tmp_path, [("20000", "1 1")], stdin=True).score(program).fitness == 1


def test_one_solution_object_serves_all_tests(tmp_path):
    code = "class Solution:\n    n = 0\n    def f(self, x):\n        self.n += 1\n        return self.n\n"
    problem = posed(tmp_path, [("[1]", "1"), ("[2]", "2")])
    assert problem.score(code).fitness == 1
    assert problem.score("def f(x):\n    return x[0]\n").fitness == 1
    assert "has no attribute 'f'" in problem.score("class Solution:\n    pass\n").error


@pytest.mark.parametrize(
    ("body", "expected", "passes"),
    [
        ("Fraction(1, 2)", "0.5", True),
        ("Fraction(1, 3)", "0.3333333333333333", False),
        ("[Fraction(4, 2), Decimal('0.5')]", "[2, 0.5]", True),
        ("Decimal('0.1')", "0.1", False),  # the float is another number
        ("(1, 2)", "[1, 2]", True),
        ("[(1, 2)]", "[[1, 2]]", False),  # the outermost tuple alone becomes a list
        ("{1: 2}.keys()", "[1]", False),
        ("{1: 2}.values()", "[2]", False),
        ("OrderedDict(a=1)", '{"a": 1}', True),
        ("Counter('a')", '{"a": 1}', True),
        ("deque([1])", "[1]", False),
        ("{1, 2}", "[1, 2]", False),
        ("True", "1", True),
        ("1.0", "1", True),
        ("numpy.array([1, 2])", "[1, 2]", False),  # the truth value of their comparison raises
        ("numpy.array([7])", "[7]", True),
        ("numpy.array([7])", "7", True),
        ("numpy.array([7])", "[8]", False),
        ("[numpy.array([1, 2])]", "[[1, 2]]", False),
        ("numpy.array([])", "[]", False),
        ("numpy.int64(7)", "7", True),
        ("numpy.float64(0.5)", "0.5", True),
        ("[numpy.int64(7)]", "[7]", True),
        ("-inf", "-Infinity", True),
        ("(x for x in [1])", "[1]", False),
        ("sys.exit(1)", "null", False),
    ],
)
def test_results_are_compared_by_pythons_rules(tmp_path, body, expected, passes):
    code = "from fractions import Fraction\nfrom decimal import Decimal\nimport numpy\n" + solution(body)
    assert posed(tmp_path, [("[1]", expected)]).score(code).fitness == passes


@pytest.mark.parametrize("ending", ["sys.exit(1)", "exit(2)", "raise SystemExit('no')", "quit()"])
def test_a_program_that_exits_is_judged_by_what_it_printed(tmp_path, ending):
    problem = posed(tmp_path, [("1 2\n", "3\n"), ("2 3\n", "5\n")], stdin=True)
    assert problem.score(f"print(sum(map(int, input().split())))\n{ending}").fitness == 1
    assert problem.score(f"print(3)\n{ending}").fitness == 0.5
    assert problem.score(f"print(3)\nraise ValueError\n{ending}").fitness == 0


def test_a_program_may_read_dev_stdin(tmp_path):
    problem = posed(tmp_path, [("1 2\n", "3\n")], stdin=True)
    assert problem.score("print(sum(map(int, open('/dev/stdin').read().split())))").fitness == 1
    assert problem.score("with open('/dev/stdin') as f:\n    print(sum(map(int, f.readline().split())))").fitness == 1


@pytest.mark.parametrize("where", ["root: Optional[TreeNode]) -> int", "x: List[int]) -> Optional['ListNode']"])
def test_a_task_whose_tests_would_need_objects_is_refused_when_it_is_loaded(tmp_path, where):
    starter = f"# class TreeNode: ...\nclass Solution:\n    def f(self, {where}:\n        "
    with pytest.warns(UserWarning, match=r":1: skipped: f takes or returns a (TreeNode|ListNode), an object"):
        assert not list(resolve_all(tmp_path, starter))


def resolve_all(tmp_path, starter):
    try:
        yield posed(tmp_path, [("[1]", "1")], starter)
    except ValueError:
        return


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (
            {
                "text": "t",
                "code": "class Solution:\n    def f(self, x):\n        return 2.0",
                "test_list": ["assert abs(Solution().f(3) - 2) < 1e-6"],
            },
            "class Solution:\n    def f(self, x):\n        return 2.1",
        ),
        (
            {
                "prompt": "class Node:\n    pass\n\ndef same(a):\n    return type(a) is Node\n\ndef f(x):\n    pass\n",
                "entry_point": "f",
                "canonical_solution": "    return Node()",
                "test": "def check(candidate):\n    assert same(candidate(1)) is True\n",
            },
            "def f(x):\n    return 1",
        ),
    ],
)
def test_a_test_may_make_objects_of_a_class(tmp_path, row, wrong):
    (tmp_path / "own.jsonl").write_text(json.dumps(row))
    (problem,) = resolve(f"programs:{tmp_path / 'own.jsonl'}")
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score(wrong).fitness == 0


def test_infinities_and_objects_made_beside_the_answer_are_compared(tmp_path):
    code = "class Solution:\n    def f(self, x):\n        return -inf\n\nfrom math import inf\n"
    row = {"text": "t", "code": code, "test_list": ["assert Solution().f(3) == -inf", "assert Solution().f(1) < 0"]}
    (tmp_path / "own.jsonl").write_text(json.dumps({**row, "test_list": row["test_list"][:1]}))
    (problem,) = resolve(f"programs:{tmp_path / 'own.jsonl'}")
    assert problem.score(code).fitness == 1
