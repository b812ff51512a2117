"""Programs through the sandbox: the shipped problems, judged cases, feedback, what an answer can see; and the lines of
data sets of three shapes."""

from __future__ import annotations

import ast
import base64
import importlib.util
import json
import math
import pickle
import sys
import types
import zlib
from pathlib import Path

import pytest
import yaml

from problems import BadAddress, Problem, ScorerFault, resolve
from problems.programs import shipped
from problems.programs.cases import Case, Task, passes, same_output
from problems.programs.livecodebench import ERRATA, text_of_pickle
from problems.programs.sets import DIFFICULTIES, ProgramProblem, read_task, set_sizes
from problems.programs.shapes import call_case
from problems.rows import read_hub, rows_of
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


# -- the three JSONL shapes


HUMANEVAL = {
    "task_id": "own/0",
    "prompt": (
        "import math\n\n\ndef half(x):\n    return x / 2\n\n\n"
        'def area(r: float) -> float:\n    """Area of a circle."""\n'
    ),
    "entry_point": "area",
    "canonical_solution": "    return math.pi * half(2 * r) ** 2\n",
    "test": """
METADATA = {"author": "me"}


def check(candidate):
    assert True, "heading"
    assert candidate(0) == 0
    assert 0 == candidate(0.0), "the other way round"
    assert not candidate(0)
    assert abs(candidate(1) - 3.141592653589793) < 1e-9
    assert candidate(half(0)) == 0


check(area)
""",
}
MBPP = {
    "text": "Write a function to double a number.",
    "code": "import sys\r\ndef double(x, times=1):\r\n    return x * 2 ** times",
    "test_list": [
        "assert double(2) == 4",
        "assert double(1, 3) == 8",
        "import sys",
        "assert double(0, sys.maxsize - sys.maxsize) == 0",
    ],
    "test_setup_code": "",
}
FUNCTIONAL = {
    "question_content": "Add two numbers.",
    "starter_code": "class Solution:\n    def add(self, a: int, b: List[int]) -> List[int]:\n",
    "public_test_cases": json.dumps([{"input": "1\n[2, 3]", "output": "[3, 4]", "testtype": "functional"}]),
    "private_test_cases": json.dumps([{"input": "0\n[]", "output": "[]", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "add"}),
}
STDIN = {
    "question_content": "Print the sum.",
    "starter_code": "",
    "public_test_cases": json.dumps([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]),
    "private_test_cases": "[]",
}


def written(tmp_path, *rows):
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def task(tmp_path, row):
    ((where, found),) = rows_of(written(tmp_path, row))
    return read_task(found, where)


def test_a_case_of_humaneval_is_an_assertion(tmp_path):
    found = task(tmp_path, HUMANEVAL)
    assert "def half" in found.setup and "def area" not in found.setup
    assert "check" not in found.text and "pi" not in found.text
    assert [case.source for case in found.cases] == ["area(0)", "area(0.0)", "not area(0)", "area(1)", "area(half(0))"]
    assert [case.expected for case in found.cases] == [0, 0, True, math.pi, 0]
    assert not any(case.public for case in found.cases)


def test_mbpp_shows_the_signature_and_one_example_and_hides_the_rest(tmp_path):
    found = task(tmp_path, MBPP)
    assert found.entry == "double"
    assert found.seed == "def double(x, times=1):\n    pass\n"
    assert "double(2) == 4" in found.text and "8" not in found.text
    assert [case.public for case in found.cases] == [True, False, False]
    assert found.epilogue == "import sys"


def test_mbpp_without_reference_guesses_the_signature_from_the_calls(tmp_path):
    found = task(tmp_path, {"prompt": "p", "test_list": ["assert f(1) == {1}", "assert f(1, 2) == 3"]})
    assert found.seed == "def f(arg1, arg2):\n    pass\n"


def test_mbpp_entry_may_shadow_a_builtin(tmp_path):
    row = {"text": "t", "code": "def sum(a, b):\n    return a + b", "test_list": ["assert sum(1, 2) == 3"]}
    assert task(tmp_path, row).cases[0] == Case("sum(1, 2)", 3, "==", True)


def test_livecodebench_functional_and_stdin(tmp_path):
    functional = task(tmp_path, FUNCTIONAL)
    assert functional.cases[0].shown == "add(1, [2, 3])" and functional.cases[0].expected == [3, 4]
    assert functional.cases[0].public and not functional.cases[1].public
    assert functional.seed.endswith("List[int]:\n        pass\n")
    stdin = task(tmp_path, STDIN)
    assert stdin.cases == (Case("1 2\n", "3\n", "printed", True),) and stdin.stdin


def test_only_the_sixteen_smallest_tests_are_kept_and_large_ones_dropped(tmp_path):
    tests = [{"input": f"{'x' * n}{n}\n", "output": "y", "testtype": "stdin"} for n in range(40, 0, -1)]
    tests.append({"input": "z" * 9000, "output": "y", "testtype": "stdin"})
    found = task(tmp_path, {**STDIN, "public_test_cases": "[]", "private_test_cases": json.dumps(tests)})
    assert len(found.cases) == 16
    assert {len(case.source.rstrip("\n0123456789")) for case in found.cases} == set(range(1, 17))


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def test_packed_private_tests_are_read(tmp_path):
    tests = json.dumps([{"input": "4 5\n", "output": "9\n", "testtype": "stdin"}])
    for data in (pickle.dumps(tests), tests.encode()):
        found = task(tmp_path, {**STDIN, "private_test_cases": packed(data)})
        assert [case.source for case in found.cases] == ["1 2\n", "4 5\n"]


def test_a_task_without_usable_tests_is_skipped_with_a_warning_and_keeps_its_index(tmp_path):
    huge = {**STDIN, "public_test_cases": json.dumps([{"input": "z" * 9000, "output": "", "testtype": "stdin"}])}
    path = written(tmp_path, huge, STDIN)
    with pytest.warns(UserWarning, match=r":1: skipped"):
        (problem,) = resolve(f"programs:{path}")
    assert problem.name == f"programs:{path}/1"


def test_an_empty_file_is_a_bad_address(tmp_path):
    with pytest.raises(BadAddress, match="holds no rows"):
        resolve(f"programs:{written(tmp_path)}")


PROMPT = 'def root(x: float) -> float:\n    """The square root of x."""\n'


CODE, HEAD = "def f(x):\n    return 2 * x\n", "def f(x):\n    '''Twice.'''\n"
LINES = ["assert f(1) == 2", "assert f(0) == 0"]
CHECK = "def check(g):\n    assert g(1) == 2\n    assert g(0) == 0\n"


@pytest.mark.parametrize(
    "row",
    [
        {"text": "Twice.", "code": CODE, "test": "\n".join(LINES)},
        {"text": "Twice.", "code": CODE, "test": LINES},
        {"prompt": "Twice.", "canonical_solution": CODE, "test": "\n".join(LINES)},
        {"prompt": "def f(x):", "canonical_solution": "    return 2 * x", "test": "\n".join(LINES)},
        {"prompt": HEAD, "entry_point": "f", "test": "\n".join(LINES)},
        {"prompt": f"{HEAD}\ndef other(x):\n    return x\n", "entry_point": "f", "test": f"{CHECK}\ncheck(f)\n"},
    ],
)
def test_lines_with_test_or_without_entry_point(posed, row):
    problem = posed(**row)
    assert problem.task.entry == "f" and len(problem.objectives) == 2
    assert problem.score(CODE).fitness == 1
    assert problem.score("def f(x):\n    return x\n").fitness == 0.5
    assert problem.task.reference is None or problem.score(problem.task.reference).fitness == 1


@pytest.fixture
def converted(tmp_path, posed, capsys):
    """converted(ROW): the problem that examples/programs/convert.py makes of a published row."""
    script = Path(__file__).parents[2] / "examples" / "programs" / "convert.py"
    spec = importlib.util.spec_from_file_location("convert", script)
    convert = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(convert)

    def make(row):
        convert.main(str(written(tmp_path, row)))
        return posed(**json.loads(capsys.readouterr().out))

    return make


def test_rows_of_evalplus_are_converted(converted):
    row = {"task_id": "HumanEval/900", "prompt": PROMPT, "entry_point": "root", "atol": 0}
    row |= {"canonical_solution": "    return x ** 0.5\n", "base_input": [[1.0], [4.0]], "plus_input": [[float("inf")]]}
    problem = converted(row)
    assert len(problem.objectives) == 3
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score("def root(x):\n    return 1.00000001 if x == 1 else 5.0\n").rewards == (1, 0, 0)
    assert problem.score("def root(x):\n    return 1 if x == 1 else inf if x > 4 else 2\n").rewards == (1, 1, 1)
    assert problem.score("def root(x):\n    return 1e308\n").rewards == (0, 0, 0)  # infinity equals infinity only
    assert problem.score("def root(x):\n    return x ** 0.5 + 1e-5\n").rewards == (0, 0, 1)
    assert converted(row | {"atol": 0.1}).score("def root(x):\n    return x ** 0.5 + 1e-2\n").fitness == 1


def test_rows_of_leetcode_dataset_are_converted(converted):
    starter = "class Solution:\n    def f(self, n: int) -> int:\n        "
    prompt = "class Node:\n    def __init__(self, v):\n        self.v = v\n"
    tests = {
        "    assert candidate(n = 1) == 2\n    assert candidate(n = 5) == 6\n": ("return n + 1", "return 2"),
        "    assert candidate(n = Node(1)) == 1\n": ("return n.v", "return n"),
    }
    for test, (right, wrong) in tests.items():
        row = {"task_id": "own", "prompt": prompt, "entry_point": "Solution().f"}
        asked = {"query": f"Do it.\n```python\n{starter}\n```\n"} if "5" in test else {"starter_code": starter}
        row |= {
            "test": f"def check(candidate):\n{test}",
            "completion": starter + right,
            **({"problem_description": "Do it."} | asked),
        }
        problem = converted(row)
        assert "def f(self, n: int) -> int:" in problem.statement()
        assert problem.score(problem.task.reference).fitness == 1
        assert problem.score(starter + wrong).fitness < 1


SAMPLE = Path(__file__).parents[2] / "examples" / "livecodebench"


def ids(address, **options):
    return [problem.name.rpartition("/")[2] for problem in resolve(f"livecodebench:{address}", **options)]


def row(**changes):
    private = json.dumps([{"input": f"{n}\n", "output": f"{n}\n", "testtype": "stdin"} for n in range(3, 6)])
    return {
        "question_id": "own_a",
        "question_title": "Echo",
        "question_content": "Print what you read.",
        "contest_date": "2025-02-01T00:00:00",
        "starter_code": "",
        "public_test_cases": json.dumps([{"input": "1\n", "output": "1\n", "testtype": "stdin"}]),
        "private_test_cases": packed(pickle.dumps(private)),
        "metadata": "{}",
    } | changes


def test_a_folder_of_the_official_files_is_one_set_named_by_question_ids():
    assert ids(SAMPLE) == [
        *("own001_a", "own001_b", "own002_a", "own002_c", "9001", "own003_a"),
        *("own003_d", "own004_c", "own005_e", "9002"),
    ]
    assert ids(SAMPLE, limit=2) == ["own001_a", "own001_b"]
    assert ids(f"{SAMPLE}/1-2") == ["own001_b", "own002_a"]
    assert ids(f"{SAMPLE / 'test2.jsonl'}/9002") == ["9002"] == ids(f"{SAMPLE}/9002")


def test_a_window_holds_its_first_day_and_not_its_last():
    assert ids(f"{SAMPLE}?to=2025-02-01") == ["own001_a", "own001_b", "own002_a", "own002_c", "9001"]
    assert ids(f"{SAMPLE}?from=2025-02-01&to=2025-04-12") == ["own003_a", "own003_d", "own004_c"]
    assert ids(f"{SAMPLE}?from=2025-02-01/0-1") == ["own003_a", "own003_d"]
    assert ids(f"{SAMPLE}?from=2025-02-01/9002") == ["9002"]
    (alone,) = resolve(f"livecodebench:{SAMPLE}/own003_d")
    assert alone.name in {problem.name for problem in resolve(f"livecodebench:{SAMPLE}?from=2025-02-01")}


def test_private_tests_alone_decide_and_public_ones_where_there_are_no_others(tmp_path):
    (problem,) = resolve(f"livecodebench:{written(tmp_path, row())}")
    assert [case.source for case in problem.task.cases] == ["3\n", "4\n", "5\n"]
    (problem,) = resolve(f"livecodebench:{written(tmp_path, row(private_test_cases='[]'))}")
    assert [case.source for case in problem.task.cases] == ["1\n"]
    (problem,) = resolve(f"programs:{written(tmp_path, row())}")
    assert [case.source for case in problem.task.cases] == ["1\n", "3\n", "4\n", "5\n"]


def test_errata_are_left_out_with_the_reason(tmp_path):
    """Those of LeetCode go by title."""
    titled = row(question_id="3194", question_title="find-words-containing-character")
    with pytest.warns(UserWarning, match="several outputs are right"):
        assert len(resolve(f"livecodebench:{written(tmp_path, titled, row())}")) == 1
    named = "abc326_d"
    path = written(tmp_path, row(), row(question_id=named))
    with pytest.warns(UserWarning, match=f":2: skipped: {named} is in the data set's errata: {ERRATA[named]}"):
        assert [p.name for p in resolve(f"livecodebench:{path}")] == [f"livecodebench:{path}/own_a"]
    with (
        pytest.warns(UserWarning, match="errata"),
        pytest.raises(BadAddress, match="names no problem that can be posed"),
    ):
        resolve(f"livecodebench:{path}/{named}")


class Evil:
    """Unpickling it calls a function."""

    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled code ran')",)


HOSTILE = {
    "a call": pickle.dumps(Evil()),
    "a call of protocol 0": b"\x80\x00" + pickle.dumps(Evil(), protocol=0),
    "a function": pickle.dumps(len),
    **{f"a {type(value).__name__}": pickle.dumps(value) for value in (["[]"], {"a": "[]"}, b"[]", 7)},
    "a persistent id": b"\x80\x04Pother\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "two texts": b"\x80\x02X\x02\x00\x00\x00[]X\x02\x00\x00\x00[].",
    "no end": pickle.dumps("[]")[:-1],
    "nothing": b"\x80\x04.",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_pickle_of_anything_but_one_text_is_refused_in_one_line(tmp_path, data):
    path = written(tmp_path, row(private_test_cases=packed(data)))
    with pytest.raises(BadAddress, match=r"tasks\.jsonl:1: `private_test_cases` is neither JSON nor packed") as caught:
        resolve(f"livecodebench:{path}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickled_text_of_every_protocol_is_read(protocol):
    for text in ("[]", '[{"input": "é\\n"}]' * 50_000):
        assert text_of_pickle(pickle.dumps(text, protocol=protocol)) == text


def test_the_hub_out_of_reach_is_one_line_with_a_remedy(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=None))  # the real one takes seconds
    with pytest.raises(BadAddress, match=r"(needs the package datasets|cannot be loaded).*name its folder") as caught:
        read_hub("own/tasks", "test", "get test.jsonl and name its folder")
    assert "\n" not in str(caught.value)
