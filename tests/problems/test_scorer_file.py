"""A user's scorer file: what score() may return, what the file may declare, and whose fault a failure is."""

from pathlib import Path

import pytest

from problems import BadAddress, Problem, Score, ScorerFault, resolve

EXAMPLE = Path(__file__).parents[2] / "examples" / "scorers" / "short_primes.py"


@pytest.fixture
def scorer(tmp_path):
    def write(text, name="scorer.py"):
        (tmp_path / name).write_text(text)
        (problem,) = resolve(str(tmp_path / name))
        return problem

    return write


def test_the_example_scores_and_is_a_problem():
    (problem,) = resolve(str(EXAMPLE))
    assert isinstance(problem, Problem) and problem.objectives == ("brevity", "primes")
    assert problem.score("n*n + n + 41").rewards[1] == 1.0
    failed = problem.score("n +")
    assert failed == Score.failure(2, failed.error) and failed.error.startswith("SyntaxError")


@pytest.mark.parametrize(
    ("body", "objectives", "expected"),
    [
        ("return {'b': 1, 'a': 0.5}", ("a", "b"), Score((0.5, 1.0), 0.75)),
        ("return 3", ("score",), Score((3.0,), 3.0)),
        ("return {'a': 1, 'fitness': 9}", ("a",), Score((1.0,), 9.0)),
        ("return {'a': 1, 'combined_score': 8, 'feedback': 'hm'}", ("a",), Score((1.0,), 8.0, {}, "hm")),
        ("return {'combined_score': 2.5}", ("combined_score",), Score((2.5,), 2.5)),
        ("return {'a': 1, 'features': {'size': 4}}", ("a",), Score((1.0,), 1.0, {"size": 4.0})),
        ("return {'rewards': [1, 2], 'fitness': 7}", ("reward_1", "reward_2"), Score((1.0, 2.0), 7.0)),
        ("return {'rewards': {'y': 1, 'x': 3}}", ("x", "y"), Score((3.0, 1.0), 2.0)),
        ("return {'a': 0, 'error': 'too long'}", ("a",), Score((0.0,), 0.0, {}, "too long", "too long")),
        ("import numpy; return {'a': numpy.float64(0.5)}", ("a",), Score((0.5,), 0.5)),
        ("from problems import Score; return Score((1, 2), 5)", ("reward_1", "reward_2"), Score((1.0, 2.0), 5.0)),
        ("return True", ("score",), Score((1.0,), 1.0)),
    ],
)
def test_what_score_may_return(scorer, body, objectives, expected):
    problem = scorer(f"def score(answer):\n    {body}\n")
    assert problem.score("x").check(problem) == expected
    assert problem.objectives == objectives


def test_what_the_file_may_declare(scorer):
    problem = scorer(
        "objectives = ('x', 'y')\nweights = {'x': 3, 'y': 1}\ntarget = 2\nanswer_format = 'python'\n"
        "def statement():\n    return 'Do it.'\nseed_answer = '```python\\na = 1\\n```'\n"
        "def score(answer):\n    return {'x': 1, 'y': len(answer)}\n"
    )
    assert problem.objectives == ("x", "y") and problem.target == 2.0 and problem.answer_format == "python"
    assert problem.statement() == "Do it." and problem.seed_answer() == "a = 1\n"
    assert problem.score("12345").fitness == (3 * 1 + 5) / 4
    assert problem.canonical("```python\nb\n```") == "b\n"


OBJECT = """
from problems import Score

class {kind}:
    name = "mine"
    objectives = ("up", "down")
    target = 3.0
    answer_format = "text"

    def statement(self):
        return "Say something."

    def seed_answer(self):
        return "hello"

    def canonical(self, answer):
        return answer.strip().lower()

    def score(self, answer):
        return Score((len(answer), -1.0), 2.0, {{"n": 1.0}}, "fine")
"""


@pytest.mark.parametrize("text", [OBJECT.format(kind="Problem"), OBJECT.format(kind="Mine") + "\nproblem = Mine()\n"])
def test_a_problem_object_or_class(scorer, text):
    problem = scorer(text)
    assert problem.objectives == ("up", "down") and problem.target == 3.0
    assert problem.seed_answer() == "hello" and problem.canonical("  HI ") == "hi"
    assert problem.score("hey") == Score((3.0, -1.0), 2.0, {"n": 1.0}, "fine")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return 1 / (len(answer) - 1)", r"scorer\.py, line 2: ZeroDivisionError: .*answer of 1 char"),
        ("return None if answer else 1", "returned None"),
        ("return {'a': float('nan') if answer else 1}", "a = nan"),
        ("return {'a': 1, 'fitness': float('inf') if answer else 1}", "fitness = inf"),
        ("return {'b' if answer else 'a': 1}", "the objectives are a"),
        ("return {'a': 'high' if answer else 1}", "a = 'high'"),
        ("return {'a': 1, 'features': {'f': float('nan') if answer else 1}}", "f = nan"),
        ("return {'a': 1, 'more': 1} if answer else {'a': 1}", "the objectives are a"),
        ("return object() if answer else 1", "object"),
        ("raise ValueError('plain')", "ValueError: plain"),
    ],
)
def test_faults_of_the_scorer_name_the_file_and_the_value(scorer, body, says):
    problem = scorer(f"def score(answer):\n    {body}\n")
    with pytest.raises(ScorerFault, match=says) as caught:
        problem.score("x")
    assert "scorer.py" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", r"no function score"),
        ("import no_such_module_here\n", r"scorer\.py, line 1: ModuleNotFoundError.*readable"),
        ("answer_format = 'poem'\ndef score(a):\n    return 1\n", "answer_format is 'poem'"),
        ("weights = [1, 2]\ndef score(a):\n    return 1\n", "weights is"),
        ("weights = {'z': 1}\ndef score(a):\n    return 1\n", "weights names z"),
        ("target = 'high'\ndef score(a):\n    return 1\n", "target is 'high'"),
        ("timeout = 0.3\ndef score(a):\n    while True: pass\n", "seed answer itself fails.*timeout is 0.3"),
    ],
)
def test_a_file_that_cannot_score_its_seed_is_told_when_it_scores(scorer, text, says):
    problem = scorer(text)  # does not raise: the other problems of a run go on
    with pytest.raises(ScorerFault, match=says):
        problem.score("x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def score(:\n", "is not Python"),
        ("timeout = -1\ndef score(a): return 1\n", "timeout is -1"),
        ("isolated = 'no'\ndef score(a): return 1\n", "isolated is 'no'"),
        ("timeout = compute()\ndef score(a): return 1\n", "written out as a plain value"),
        ("readable = ['gone.txt']\ndef score(a): return 1\n", "does not exist"),
    ],
)
def test_a_file_that_is_wrong_before_it_runs_is_a_bad_address(scorer, text, says):
    with pytest.raises(BadAddress, match=says) as caught:
        scorer(text)
    assert "\n" not in str(caught.value)


def test_time_memory_and_death_are_the_answers_fault_and_the_worker_comes_back(scorer):
    problem = scorer(
        "import os\ntimeout = 1\nobjectives = ('a',)\ndef score(answer):\n    exec(answer)\n    return {'a': 1}\n"
    )
    assert problem.score("pass").rewards == (1.0,)
    slow = problem.score("while True: pass")
    assert slow.rewards == (0.0,) and "timeout is 1 s" in slow.error
    assert problem.score("x = bytearray(1 << 36)").error
    assert problem.score("os._exit(3)").error
    assert problem.score("import ctypes; ctypes.string_at(0)").error
    assert problem.score("pass").rewards == (1.0,)


def test_calls_do_not_see_one_another(scorer):
    problem = scorer("seen = []\ndef score(answer):\n    seen.append(answer)\n    return len(seen)\n")
    assert [problem.score(a).fitness for a in "abc"] == [1, 1, 1]


def test_an_isolated_scorer_sees_its_own_file_and_what_it_names(scorer, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "table.txt").write_text("42")
    body = (
        "from pathlib import Path\nhere = Path(__file__).parent\n"
        "def score(answer):\n"
        "    try:\n        (here / 'secret.txt').read_text()\n        return {'secret': 1, 'table': 0}\n"
        "    except OSError:\n        pass\n"
        "    return {'secret': 0, 'table': int((here / 'table.txt').read_text())}\n"
    )
    problem = scorer("readable = ['table.txt']\n" + body)
    assert dict(zip(problem.objectives, problem.score("x").rewards, strict=True)) == {"secret": 0, "table": 42}
    trusted = scorer("isolated = False\n" + body, "trusted.py")
    assert dict(zip(trusted.objectives, trusted.score("x").rewards, strict=True)) == {"secret": 1, "table": 0}
