"""Programs through the sandbox: the shipped problems, judged cases, feedback, and what an answer can see."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path

import pytest
import yaml

from problems import Problem, ScorerFault, resolve
from problems.programs import shipped
from problems.programs.cases import Case, Task, passes, same_output
from problems.programs.sets import DIFFICULTIES, ProgramProblem, set_sizes
from problems.programs.shapes import call_case
from problems.sandbox import shared_sandbox
from problems.sandbox.contract import CaseOutcome

SHIPPED = [f"programs:{level}/{index}" for level in DIFFICULTIES for index in range(set_sizes()[level])]


@pytest.mark.parametrize("address", SHIPPED)
def test_the_reference_solves_a_shipped_problem_and_the_wrong_solution_solves_a_part(address):
    (problem,) = resolve(address)
    assert isinstance(problem, Problem) and 5 <= len(problem.objectives) <= 16
    solved = problem.score(problem.task.reference)
    assert solved.fitness == problem.target == 1.0 and solved.feedback == "" and solved.error is None
    level, _, index = address.removeprefix("programs:").partition("/")
    line = (Path(shipped.__file__).parent / f"{level}.jsonl").read_text().splitlines()[int(index)]
    wrong = problem.score(json.loads(line)["wrong"]).check(problem)
    assert 0 < wrong.fitness < 1, wrong.feedback
    assert problem.task.reference not in problem.statement() and problem.task.reference != problem.seed_answer()
    assert problem.score(problem.seed_answer()).check(problem).fitness < 0.5


@pytest.mark.parametrize(
    ("tests", "code", "says"),
    [
        ("assert f(2) == 3", "def f(x): return x", "own solution fails 1 of 1"),
        ("assert not f(2)", "def f(x): return 0", "with an empty body"),
    ],
)
def test_a_row_that_its_own_solution_or_nothing_solves_stops_the_problem(posed, tests, code, says):
    with pytest.raises(ScorerFault, match=f"cannot be judged here: .*{says}") as fault:
        posed(test_list=[tests], code=code).score(code)
    assert "\n" not in str(fault.value)


SECRET = "needle-" + "5a1fce07"
HUNTERS: dict[str, str] = yaml.safe_load(Path(__file__).with_name("hunters.yaml").read_text())


@pytest.mark.parametrize("code", HUNTERS.values(), ids=HUNTERS)
def test_an_answer_that_searches_its_process_finds_no_expected_output(posed, code):
    problem = posed(text="t", test_list=["assert f(0) == 1", f"assert f(1) == {SECRET!r}"])
    score = problem.score(code)
    assert score.rewards == (0, 0) and SECRET not in score.feedback
    # the same hunters do find it where it is: they are able to fail this test
    planted = problem.score(f"planted = ['nee' 'dle-5a1fce07']\n{code}")
    assert "gc" not in code or planted.rewards[1] == 1


def test_feedback_shows_inputs_and_outcomes_but_hidden_expectations_never(posed):
    tests = ["assert f(1) == 'public value'", *(f"assert f({n}) == 'hidden value'" for n in range(2, 7))]
    problem = posed(text="t", test_list=tests)
    score = problem.score("def f(n):\n    if n == 2:\n        raise KeyError('gone')\n    return n\n")
    assert "f(1) returned 1; expected 'public value'" in score.feedback
    assert "f(2) failed: KeyError: 'gone'" in score.feedback
    assert "f(3) returned 3, which is wrong" in score.feedback
    assert "also failing: 4, 5, 6" in score.feedback
    assert "hidden value" not in score.feedback + problem.statement()
    many = posed(text="t", test_list=[f"assert f({n}) == {n * n}" for n in range(2, 102)])
    feedback = many.score("def f(n):\n    return n\n").feedback
    assert feedback.endswith(" and 77 more") and len(feedback) < 400


def test_values_too_large_to_print_do_not_break_feedback(posed):
    problem = posed(text="t", test_list=["assert f(1) == 1", "assert f(2) == 2"])
    score = problem.score("def f(n):\n    return 10 ** 20000 if n == 1 else 'x' * 100000\n")
    assert score.fitness == 0 and len(score.feedback) < 2000


def test_code_that_does_not_run_is_an_error_of_the_answer(posed):
    problem = posed(text="t", test_list=["assert f(1) == 1", "assert f(2) == 2"])
    broken = problem.score("def f(:\n")
    assert broken.error.startswith("SyntaxError") and broken.rewards == (0, 0)
    assert problem.score("  \n").error == "empty answer"
    half = problem.score("def f(n):\n    return 1 // (2 - n)\n")
    assert half.error is None and half.rewards == (1, 0)


def test_an_answer_that_hangs_is_given_up():
    tests = tuple(Case(str(n), "1", "printed") for n in range(8))
    problem = ProgramProblem("slow", Task("t", "", tests, seconds=0.1), shared_sandbox)
    score = problem.score("while True:\n    pass\n")
    assert score.fitness == 0 and "0.1 s" in score.error
    assert "not run" in problem._run("while True:\n    pass\n")[-1].message, "every case was waited for"


def test_setup_that_builds_the_answers_objects_runs_beside_it(tmp_path, posed):
    problem = posed(
        text="t",
        code="class Node:\n    def __init__(self, v):\n        self.v = v\ndef value(node):\n    return node.v\n",
        test_list=["assert value(root) == 3"],
        test_setup_code="root = Node(3)\n",
    )
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score("def value(node):\n    return 3\n").fitness == 0


def test_canonical_takes_code_out_of_its_fence():
    (problem,) = resolve("programs:easy/0")
    plain = "def initials(name):\n    return name\n"
    fenced = f"Sure!\r\n```text\nno\n```\n```python\n{plain}```\nDone."
    assert problem.canonical(fenced) == plain
    assert problem.canonical(f"```py\n{plain}") == plain
    assert problem.canonical(f"\n\n{plain}\n\n") == plain
    assert problem.canonical(problem.canonical(fenced)) == plain
    with_fence = 'x = """\n```python\ny = 1\n```\n"""\n'
    assert problem.canonical(with_fence) == with_fence


def test_features_are_exact(posed):
    problem = posed(text="t", test_list=["assert f(1) == 1"])
    answer = "def f(n):\n    if n:\n        return n\n    return [x for x in range(n)]\n"
    assert problem.score(answer).features == {"code_length": len(answer), "branching": 2}


@pytest.mark.parametrize("count", [17, 26, 100])
def test_solved_means_that_every_test_of_the_file_passes(posed, count):
    checks = [f"square({n}) == {n * n}" for n in range(count)]
    rows = {
        "prompt": "def square(n):\n    '''n times n.'''\n",
        "entry_point": "square",
        "test": "def check(square):\n" + "".join(f"    assert {check}\n" for check in checks),
    }
    mbpp = {"text": "Square.", "test_list": [f"assert {check}" for check in checks]}
    for row in (rows, mbpp):
        problem = posed(**row)
        assert len(problem.objectives) == 16 and len(problem.task.cases) == count
        assert f"There are {count} tests and 16 scores" in problem.statement()
        assert problem.score("def square(n):\n    return n * n\n").fitness == problem.target
        last = problem.score(f"def square(n):\n    return n * n if n != {count - 1} else 0\n")
        assert last.rewards == (1.0,) * 15 + (0.0,) and last.fitness < problem.target
        assert f"case {count}: " in last.feedback
        first = problem.score("def square(n):\n    return n * n if n else 1\n")
        assert first.rewards == (0.0,) + (1.0,) * 15


def posed_as_published(
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
    assert posed_as_published(tmp_path, [("[1]", "1")]).score(solution(body)).fitness == 1


def test_a_deep_recursion_is_allowed(tmp_path):
    code = "class Solution:\n    def f(self, x):\n        return 1 if x == 0 else self.f(x - 1)\n"
    assert posed_as_published(tmp_path, [("20000", "1")]).score(code).fitness == 1
    program = "def f(x):\n    return 1 if x == 0 else f(x - 1)\nprint(f(int(input())), Counter('a')['a'])"
    assert posed_as_published(tmp_path, [("20000", "1 1")], stdin=True).score(program).fitness == 1


def test_one_solution_object_serves_all_tests(tmp_path):
    code = "class Solution:\n    n = 0\n    def f(self, x):\n        self.n += 1\n        return self.n\n"
    problem = posed_as_published(tmp_path, [("[1]", "1"), ("[2]", "2")])
    assert problem.score(code).fitness == 1
    assert problem.score("def f(x):\n    return x[0]\n").fitness == 1
    assert "has no attribute 'f'" in problem.score("class Solution:\n    pass\n").error


def test_the_words_of_a_comment_are_no_class(tmp_path):
    problem = posed_as_published(tmp_path, [("[1]", "1"), ("[2]\n", "2")])
    assert problem.score("# class Solution is not needed\ndef f(x):\n    return x[0]\n").fitness == 1


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
    assert posed_as_published(tmp_path, [("[1]", expected)]).score(code).fitness == passes


@pytest.mark.parametrize("where", ["root: Optional[TreeNode]) -> int", "x: List[int]) -> Optional['ListNode']"])
def test_a_task_whose_tests_would_need_objects_is_refused_when_it_is_loaded(tmp_path, where):
    starter = f"# class TreeNode: ...\nclass Solution:\n    def f(self, {where}:\n        "
    said = r":1: skipped: f takes or returns a (TreeNode|ListNode), an object"
    with pytest.warns(UserWarning, match=said), pytest.raises(ValueError, match="unpack"):
        posed_as_published(tmp_path, [("[1]", "1")], starter)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


CLOSE = (0.0, 1e-6)


@pytest.mark.parametrize(
    ("value", "expected", "tolerance", "same"),
    [
        (0.1 + 0.2, 0.3, None, False),
        (float("nan"), float("nan"), None, False),
        ([float("nan")], [1.0], None, False),
        ("1", 1, None, False),
        (nested(50_000), nested(50_000), None, False),
        (1.0 + 1e-7, 1.0, CLOSE, True),
        (1.0 + 1e-5, 1.0, CLOSE, False),
        (1.0 + 1e-7, 1.0, (0.0, 0.0), False),
        (3, 2, (0.0, math.nextafter(1, 0)), False),
        (3, 2, (0.0, 1.0), True),
        (3.0, 2, (0.0, 1.0), True),
        (float("nan"), 1.0, (0.0, 1.0), False),
        (float("inf"), 1.0, (0.0, 1.0), False),
        ("1", 1.0, (0.0, 1.0), False),
        (None, 1.0, (0.0, 1.0), False),
        (10**400, 1.0, (0.0, 1.0), False),
    ],
)
def test_equality_is_pythons_and_tolerances_are_those_of_isclose(value, expected, tolerance, same):
    case = Case("f()", expected, "isclose", tolerance=tolerance) if tolerance else Case("f()", expected)
    assert passes(case, CaseOutcome("ok", value)) is same


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("3\n", "3", True),
        ("  3  \n\n", "3\n", True),
        ("1  2\n", "1 2", True),
        ("* *", "*  *", False),
        ("[1, 2]", "[1,  2]", False),
        ("a\tb", "a b", False),
        ("a\x0cb", "a\nb", False),
        ("a\u2028b", "a\nb", False),
        ("0", "1e-9", False),
        ("1000001.4", "1000000.5", False),
        ("1 x", "1.0 x", False),
        ("1 2", "1\n2", False),
        ("3.0", "3", True),
        ("0.3333334", "0.3333333", False),
        ("0.334", "0.333", False),
        ("3.0000001", "3", False),
        ("1e3", "1000.0", True),
        ("nan", "1.0", False),
        ("1_000", "1000", True),
        ("YES", "Yes", False),
        ("", "", True),
        ("9" * 5000, "1.5", False),
        ("1e999999", "2.5", False),
    ],
)
def test_printed_output_is_compared_as_the_benchmarks_harness_does(printed, expected, same):
    assert same_output(printed, expected) is same


NAMES = ("f", "Tree")


@pytest.mark.parametrize(
    ("source", "case"),
    [
        ("assert f(1) == 2", Case("f(1)", 2)),
        ("assert [1] == f(g(2))", Case("f(g(2))", [1])),
        ("assert f(1) is None", Case("f(1)", None, "is")),
        ("assert f(1)", Case("not not f(1)", True, "true", written="f(1)")),
        ("assert not f(1), 'why'", Case("not f(1)", True, "true", written="not f(1)")),
        ("assert Tree([1]).depth() == -1", Case("Tree([1]).depth()", -1)),
        ("assert f(1) == 2 == 2", None),
        ("assert f(1) != 2", None),
        ("assert sorted(f(1)) == [1]", Case("sorted(f(1))", [1])),
        ("assert set(f(1)) == set((1, 2))", Case("set(f(1))", {1, 2})),
        ("assert round(f(1)[0], 2) == 2.5", Case("round(f(1)[0], 2)", 2.5)),
        ("assert f(1) == (3 + 5, 3 * 5)", Case("f(1)", (8, 15))),
        ("assert round(f(1), g(2)) == 2.5", None),
        ("assert eval(f(1)) == 2", None),
        ("assert f(1) - 2 == 0", None),
        ("assert f(1) == 9 ** 9 ** 9", None),
        (
            "assert abs(f(1) - 2.0 / 4) <= 0.1",
            Case("f(1)", 0.5, "isclose", whole="abs(f(1) - 2.0 / 4) <= 0.1", tolerance=(0.0, 0.1)),
        ),
        (
            "assert abs(2 - f(1)) < 1",
            Case("f(1)", 2, "isclose", whole="abs(2 - f(1)) < 1", tolerance=(0.0, math.nextafter(1, 0))),
        ),
        ("assert abs(f(1) - f(2)) < 1", None),
        ("assert abs(f(1)) < 1", None),
        ("assert f(1) == g(1)", None),
        (
            "assert math.isclose(f(1), 2)",
            Case("f(1)", 2, "isclose", whole="math.isclose(f(1), 2)", tolerance=(1e-9, 0.0)),
        ),
        (
            "assert math.isclose(f(1), 2, rel_tol=0.001)",
            Case("f(1)", 2, "isclose", whole="math.isclose(f(1), 2, rel_tol=0.001)", tolerance=(0.001, 0.0)),
        ),
        ("assert math.isclose(f(1), f(2))", None),
        ("assert Tree().f(1) == -inf", Case("Tree().f(1)", -math.inf)),
        ("assert f(1) == [math.inf, float('-inf'), 2]", Case("f(1)", [math.inf, -math.inf, 2])),
        ("assert f(1) == float('nan')", None),
        ("assert f(1) == float(g)", None),
        ("assert f(1) is True or f(2)", None),
        ("x = f(1)", None),
    ],
)
def test_only_a_plain_call_against_a_literal_is_compared_in_the_parent(source, case):
    assert call_case(ast.parse(source).body[0], NAMES) == case


@pytest.mark.parametrize(
    ("test", "value", "truth"),
    [
        ("assert f()", "[0]", True),
        ("assert f()", "[]", False),
        ("assert not f()", "0", True),
        ("assert not f()", "1", False),
        ("assert f()", "__import__('re').match('a', 'a')", True),  # which is not plain
        ("assert f()", "__import__('numpy').array([1, 0])", False),  # an array of several elements has no truth
        ("assert not f()", "__import__('numpy').array([0])", True),
        ("assert f() is True", "True", True),
        ("assert f() is True", "1", False),
    ],
)
def test_the_truth_of_a_value_is_pythons_whatever_the_answer_calls_bool(posed, test, value, truth):
    problem = posed(text="t", test_list=[test, "assert f(1) == 2"])
    score = problem.score(f"bool = lambda value: {not truth}\ndef f(n=0):\n    return 2 if n else {value}\n")
    assert score.rewards == (truth, 1)
