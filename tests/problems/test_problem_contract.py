"""Every kind of problem keeps the contract (evo.testing.ProblemContract)."""

import functools
import json
import math
from pathlib import Path

import pytest

from evo.testing import ProblemContract
from problems import Problem, Score, ScorerFault, resolve
from problems.custom.scorer_function import ScorerFunctionProblem
from problems.sandbox import shared_sandbox

EXAMPLES = Path(__file__).parents[2] / "examples"


@functools.cache
def the(address):
    (problem,) = resolve(address)
    return problem


class TestMaze(ProblemContract):
    answers = ("U U U U", "DDDDDDDDRRRRRRRR", "R, d L u")

    def problem(self):
        return the("maze:test/3")


class TestLargeMaze(ProblemContract):
    answers = ("U U U U", "D" * 12 + "R" * 12, "R, d L u")

    def problem(self):
        return the("maze:large/3")


class TestFunction(ProblemContract):
    def problem(self):
        return the("programs:easy/0")

    @property
    def solution(self):
        return self.problem().task.reference


@functools.cache
def stdin_program():
    return next(problem for problem in resolve("programs:shipped") if problem.task.stdin)


class TestStdinProgram(ProblemContract):
    def problem(self):
        return stdin_program()

    @property
    def solution(self):
        return self.problem().task.reference


class TestTolerances(ProblemContract):
    answers = ("def f(x):\n    return x\n", "def f(x):\n    return [x][1]\n")
    solution = "def f(x):\n    return x + 1e-9\n"

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path):
        row = {"text": "Nearly.", "test_list": [f"assert abs(f({n}) - {n}) < 1e-6" for n in range(20)]}
        (tmp_path / "own.jsonl").write_text(json.dumps(row))
        self.address = f"programs:{tmp_path / 'own.jsonl'}"

    def problem(self):
        return resolve(self.address)[0]


class TestScorerFile(ProblemContract):
    answers = ("n*n + n + 41", "n +")

    def problem(self):
        return the(str(EXAMPLES / "scorers" / "short_primes.py"))


class TestScorerFunction(ProblemContract):
    """Whose target counts under its own weights alone."""

    answers = ("9", "none")
    solution = "5"

    def problem(self):
        about = {"seed_answer": "1", "isolated": False, "weights": {"a": 1}, "target": 5.0}
        return ScorerFunctionProblem(number_and_one, about, shared_sandbox)

    def test_the_target_counts_under_its_own_weights(self):
        problem = self.problem()
        assert problem.target == problem.weighted({"a": 9}).target == 5.0
        assert problem.weighted({"b": 3, "a": 1}).target is None


def number_and_one(answer):
    try:
        return {"a": float(answer), "b": 1.0} if math.isfinite(float(answer)) else {"error": "no number"}
    except ValueError:
        return {"error": "no number"}


class TestOpenEvolveDirectory(ProblemContract):
    def problem(self):
        return the(str(EXAMPLES / "valley"))


class Ten(Problem):
    """Counts vowels."""

    name, objectives = "ten", ("vowels",)

    def statement(self):
        return "Write many vowels."

    def score(self, answer):
        vowels = float(sum(letter in "aeiou" for letter in answer))
        return Score((vowels,), vowels)


class TestTenLines(ProblemContract):
    """A problem of nothing but what it must have."""

    answers = ("banana",)

    def problem(self):
        return Ten()

    def test_the_defaults(self):
        problem = self.problem()
        assert (problem.target, problem.answer_format, problem.inline, dict(problem.settings)) == (
            None,
            "text",
            False,
            {},
        )
        assert problem.seed_answer() == "" and problem.canonical(" a\r\nb ") == "a\nb"
        assert problem.files_of("x") == {"answer.txt": "x"} and problem.answer_of({"answer.txt": "x"}) == "x"
        assert problem.target_under([1.0]) is None and problem.fingerprint() == Ten().fingerprint()
        assert Problem.__abstractmethods__ == {"statement", "score"}
        with pytest.raises(ScorerFault, match="no held-out cases"):
            problem.score_held_out("x")


def test_the_suite_fails_a_problem_that_breaks_its_promises():
    class Broken(Ten):
        objectives = ("a", "a")

        def statement(self):
            return ""

        def canonical(self, answer):
            return answer + "!"

        def score(self, answer):
            return Score((float(len(answer)), float(answer)), 1.0)

        def fingerprint(self):
            return str(id(object()))

    class Suite(ProblemContract):
        def problem(self):
            return Broken()

    suite = Suite()
    tests = [name for name in dir(suite) if name.startswith("test_")]
    kept = {"test_it_can_be_scored", "test_metrics_measured_elsewhere_make_a_score_or_none"}
    kept |= {"test_the_solution_reaches_the_target"}
    for name in tests:
        if name in kept:
            getattr(suite, name)()
        else:
            with pytest.raises((AssertionError, ValueError)):
                getattr(suite, name)()
