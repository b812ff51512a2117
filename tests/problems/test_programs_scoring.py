"""Programs through the sandbox: the shipped problems, judged cases, feedback, and what an answer can see."""

import json

import pytest

from problems import BadAddress, Problem, resolve
from problems.programs.cases import StdinCase, Task, TestCase
from problems.programs.problem import ProgramProblem
from problems.programs.sets import DIFFICULTIES, set_sizes
from problems.sandbox import shared_sandbox

SHIPPED = [f"programs:{level}/{index}" for level in DIFFICULTIES for index in range(set_sizes()[level])]


def posed(tmp_path, **row):
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps(row))
    (problem,) = resolve(f"programs:{path}")
    return problem


def test_at_least_eight_problems_of_each_difficulty():
    assert all(set_sizes()[level] >= 8 for level in DIFFICULTIES)
    assert [p.name for p in resolve("programs:shipped", limit=2)] == ["programs:shipped/0", "programs:shipped/1"]


@pytest.mark.parametrize("address", SHIPPED)
def test_the_reference_solves_a_shipped_problem_and_the_wrong_solution_solves_a_part(address):
    (problem,) = resolve(address)
    assert isinstance(problem, Problem) and 5 <= len(problem.objectives) <= 16
    solved = problem.score(problem.task.reference)
    assert solved.fitness == problem.target == 1.0 and solved.feedback == "" and solved.error is None
    wrong = problem.score(problem.task.extra["wrong"]).check(problem)
    assert 0 < wrong.fitness < 1, wrong.feedback
    assert problem.task.reference not in problem.statement() and problem.task.reference != problem.seed_answer()
    assert problem.score(problem.seed_answer()).check(problem).fitness < 0.5


def test_hard_problems_tell_partial_solutions_apart():
    for problem in resolve("programs:hard"):
        wrong = problem.score(problem.task.extra["wrong"])
        assert len(set(wrong.rewards)) == 2 and len(problem.objectives) >= 10


JUDGED = {
    "prompt": "import math\n\n\ndef roots(n):\n    '''Divisors of n in any order.'''\n",
    "entry_point": "roots",
    "test": (
        "def check(candidate):\n"
        "    assert sorted(candidate(6)) == [1, 2, 3, 6]\n"
        "    assert math.prod(candidate(4)) == 8\n"
        "    known = {n: n for n in range(1, 30)}\n"
        "    for n in known:\n"
        "        assert all(n % d == 0 for d in roots(n)), n\n"
        "    try:\n"
        "        candidate(-1)\n"
        "        assert False\n"
        "    except AssertionError:\n"
        "        raise\n"
        "    except Exception:\n"
        "        pass\n"
    ),
}


def test_test_code_runs_beside_the_answer(tmp_path):
    problem = posed(tmp_path, **JUDGED)
    assert all(isinstance(case, TestCase) for case in problem.task.cases) and len(problem.objectives) == 4
    guard = "    if n < 1:\n        raise ValueError(n)\n"
    good = f"def roots(n):\n{guard}    return [d for d in range(1, n + 1) if n % d == 0]\n"
    assert problem.score(good).rewards == (1, 1, 1, 1)
    partial = problem.score("def roots(n):\n    return [1, n]\n")
    assert partial.rewards == (0, 0, 1, 0)
    assert "roots(6) returned [1, 6]" in partial.feedback and "[1, 2, 3, 6]" not in partial.feedback
    crashing = problem.score("def roots(n):\n    return 1 // 0\n")
    assert crashing.rewards == (0, 0, 0, 1) and "ZeroDivisionError" in crashing.feedback


def test_an_answer_cannot_pass_a_judge_with_an_object_that_equals_everything(tmp_path):
    problem = posed(tmp_path, **JUDGED)
    forged = (
        "class Any(list):\n"
        "    def __eq__(self, other):\n        return True\n"
        "    def __iter__(self):\n        return iter([1, 2, 3, 6])\n"
        "    def __len__(self):\n        return 4\n"
        "def roots(n):\n    return Any()\n"
        "sorted = lambda x: [1, 2, 3, 6]\n"
    )
    assert problem.score(forged).rewards[1] == 0


def test_a_test_with_a_name_that_nothing_defines_is_left_out(tmp_path):
    row = {**JUDGED, "test": "def check(candidate):\n    assert undefined_name(candidate(1)) == 1\n"}
    (tmp_path / "own.jsonl").write_text(json.dumps(row))
    with pytest.warns(UserWarning, match="cannot be judged here: its test names undefined_name"):
        assert resolve(f"programs:{tmp_path / 'own.jsonl'}") == []


SECRET = "needle-" + "5a1fce07"
HUNTERS = {
    "frames and the garbage collector": """
import gc, sys
def f(x):
    mark, found = "nee" + "dle-", []
    frame = sys._getframe()
    while frame is not None:
        found += [v for scope in (frame.f_locals, frame.f_globals) for v in list(scope.values())]
        found += list(frame.f_code.co_consts)
        frame = frame.f_back
    seen, pending = set(), found + gc.get_objects()
    while pending:
        item = pending.pop()
        if id(item) in seen or len(seen) > 400000:
            continue
        seen.add(id(item))
        if isinstance(item, str) and item.startswith(mark) and len(item) > 8:
            return item
        if isinstance(item, (list, tuple, set, dict)):
            pending += list(item) + (list(item.values()) if isinstance(item, dict) else [])
    return "nothing"
""",
    "the memory of the process": """
def f(x):
    mark = b"nee" + b"dle-"
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
        for line in maps:
            span, mode = line.split()[:2]
            if "r" in mode and "[v" not in line:
                start, end = (int(part, 16) for part in span.split("-"))
                try:
                    memory.seek(start)
                    data = memory.read(min(end - start, 1 << 26))
                except (OSError, ValueError, OverflowError):
                    continue
                at = data.find(mark)
                while at >= 0:
                    text = data[at:at + 15]
                    if text[7:].isalnum():
                        return text.decode()
                    at = data.find(mark, at + 1)
    return "nothing"
""",
}


@pytest.mark.parametrize("code", HUNTERS.values(), ids=HUNTERS)
@pytest.mark.parametrize("test", [f"assert f(1) == {SECRET!r}", f"assert f(1).upper() == {SECRET!r}.upper()"])
def test_an_answer_that_searches_its_process_finds_no_expected_output(tmp_path, code, test):
    problem = posed(tmp_path, text="t", test_list=["assert f(0) == 1", test])
    score = problem.score(code)
    assert score.rewards == (0, 0)
    assert SECRET not in score.feedback
    # the same hunters do find it where it is: they are able to fail this test
    planted = problem.score(f"planted = ['nee' 'dle-5a1fce07']\n{code}")
    if "gc" in code and "upper" not in test:  # beside test code the garbage collector ends the process
        assert planted.rewards[1] == 1


def test_feedback_shows_inputs_and_outcomes_but_hidden_expectations_never(tmp_path):
    tests = ["assert f(1) == 'public value'", *(f"assert f({n}) == 'hidden value'" for n in range(2, 7))]
    problem = posed(tmp_path, text="t", test_list=tests)
    score = problem.score("def f(n):\n    if n == 2:\n        raise KeyError('gone')\n    return n\n")
    assert "f(1) returned 1; expected 'public value'" in score.feedback
    assert "f(2) failed: KeyError: 'gone'" in score.feedback
    assert "f(3) returned 3, which is wrong" in score.feedback
    assert "also failing: 4, 5, 6" in score.feedback
    assert "hidden value" not in score.feedback + problem.statement()


def test_values_too_large_to_print_do_not_break_feedback(tmp_path):
    problem = posed(tmp_path, text="t", test_list=["assert f(1) == 1", "assert f(2) == 2"])
    score = problem.score("def f(n):\n    return 10 ** 20000 if n == 1 else 'x' * 100000\n")
    assert score.fitness == 0 and len(score.feedback) < 2000


def test_code_that_does_not_run_is_an_error_of_the_answer(tmp_path):
    problem = posed(tmp_path, text="t", test_list=["assert f(1) == 1", "assert f(2) == 2"])
    broken = problem.score("def f(:\n")
    assert broken.error.startswith("SyntaxError") and broken.rewards == (0, 0)
    assert problem.score("  \n").error == "empty answer"
    half = problem.score("def f(n):\n    return 1 // (2 - n)\n")
    assert half.error is None and half.rewards == (1, 0)


def test_an_answer_that_hangs_is_given_up():
    tests = tuple(StdinCase(str(n), "1") for n in range(8))
    problem = ProgramProblem("slow", Task("t", "", tests, seconds=0.3), shared_sandbox)
    score = problem.score("while True:\n    pass\n")
    assert score.fitness == 0 and "0.3 s" in score.error
    assert "not run" in problem._reports("while True:\n    pass\n")[-1].outcome.message, "every case was waited for"


def test_setup_that_builds_the_answers_objects_runs_beside_it(tmp_path):
    problem = posed(
        tmp_path,
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


def test_features_are_exact(tmp_path):
    problem = posed(tmp_path, text="t", test_list=["assert f(1) == 1"])
    answer = "def f(n):\n    if n:\n        return n\n    return [x for x in range(n)]\n"
    assert problem.score(answer).features == {"code_length": len(answer), "branching": 2}


def test_an_index_beyond_the_set_is_a_bad_address(tmp_path):
    with pytest.raises(BadAddress, match="programs:easy/0 to"):
        resolve("programs:easy/99")
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps({"text": "t", "test_list": ["assert f(1) == 1"]}))
    assert [p.name for p in resolve(f"programs:{path}/0")] == [f"programs:{path}/0"]
    with pytest.raises(BadAddress, match="last index is 0"):
        resolve(f"programs:{path}/1")


@pytest.mark.parametrize("count", [17, 26, 100])
@pytest.mark.parametrize("judged", [False, True])
def test_solved_means_that_every_test_of_the_file_passes(tmp_path, count, judged):
    checks = [f"square({n}) + 0 == {n * n}" if judged else f"square({n}) == {n * n}" for n in range(count)]
    rows = {
        "prompt": "def square(n):\n    '''n times n.'''\n",
        "entry_point": "square",
        "test": "def check(square):\n" + "".join(f"    assert {check}\n" for check in checks),
    }
    mbpp = {"text": "Square.", "test_list": [f"assert {check}" for check in checks]}
    for row in (rows, mbpp):
        problem = posed(tmp_path, **row)
        assert len(problem.objectives) == 16 and len(problem.task.cases) == count
        assert f"There are {count} tests and 16 scores" in problem.statement()
        assert problem.score("def square(n):\n    return n * n\n").fitness == problem.target
        last = problem.score(f"def square(n):\n    return n * n if n != {count - 1} else 0\n")
        assert last.rewards == (1.0,) * 15 + (0.0,) and last.fitness < problem.target
        assert f"case {count}: " in last.feedback
        first = problem.score("def square(n):\n    return n * n if n else 1\n")
        assert first.rewards == (0.0,) + (1.0,) * 15


def test_a_long_list_of_failing_cases_is_cut(tmp_path):
    tests = [f"assert square({n}) == {n * n}" for n in range(2, 102)]
    problem = posed(tmp_path, text="Square.", test_list=tests)
    feedback = problem.score("def square(n):\n    return n\n").feedback
    assert feedback.endswith(" and 77 more") and len(feedback) < 400
