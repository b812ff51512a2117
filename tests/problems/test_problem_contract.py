"""Every kind of problem keeps the contract (evo.testing.ProblemContract)."""

import functools
import json
from pathlib import Path

import pytest

from evo.testing import ProblemContract
from problems import Problem, Score, ScorerFault, contract, register, resolve
from problems import registry as registry_module
from problems.contract import complete_problem

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


class TestStdinProgram(ProblemContract):
    def problem(self):
        return next(problem for problem in resolve("programs:shipped") if problem.task.stdin)

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


class TestOpenEvolveDirectory(ProblemContract):
    def problem(self):
        return the(str(EXAMPLES / "valley"))


class Ten:
    """Counts vowels."""

    name, objectives = "ten", ("vowels",)

    def statement(self):
        return "Write many vowels."

    def score(self, answer):
        vowels = float(sum(letter in "aeiou" for letter in answer))
        return Score((vowels,), vowels)


class TestTenLines(ProblemContract):
    """A problem of nothing but what it must have, registered and completed."""

    answers = ("banana",)

    @pytest.fixture(autouse=True)
    def _registered(self, monkeypatch):
        monkeypatch.setattr(registry_module, "_registered", {})
        register("ten")(Ten)

    def problem(self):
        return resolve("ten")[0]

    def test_the_defaults(self):
        problem = self.problem()
        assert (problem.target, problem.answer_format, problem.inline, dict(problem.settings)) == (
            None,
            "text",
            False,
            {},
        )
        assert problem.seed_answer() == "" and problem.canonical(" a\r\nb ") == "a\nb"


def test_the_suite_fails_a_problem_that_breaks_its_promises():
    class Broken(Ten, Problem):
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


def test_a_third_party_writes_four_members_and_may_declare_the_rest():
    assert not any(hasattr(Problem, member) for member in contract.MEMBERS[:2])
    assert Problem.__abstractmethods__ == set(contract.MEMBERS[2:])


BESIDES = {
    "target": (0.5, None),
    "source": ("here", ""),
    "settings": ({"language": "rust"}, {}),
    "holds_out": (True, False),
}
"""What a problem may declare besides its four members, and the default."""
METHODS = {
    "score_seed": ((), Score((0.25,), 0.25), Score((0.0,), 0.0)),
    "further_seeds": ((), ["y", "z"], ()),
    "files_of": (("x",), {"main.c": "x"}, {"answer.txt": "x"}),
    "answer_of": (({"answer.txt": "x"},), "own", "x"),
    "picture": (("x",), "[x]", ""),
    "verify_record": (("x",), True, False),
    "score_of_metrics": (({},), Score((0.75,), 0.75), None),
    "known_answers": ((0,), ["x"], []),
}
"""What it may do besides: arguments, what the object's own gives, and what the default gives."""


def test_what_an_object_can_do_besides_is_kept_and_what_it_cannot_has_a_default():
    capable, plain = Ten(), complete_problem(Ten())
    for name, (own, _) in BESIDES.items():
        setattr(capable, name, own)
    for name, (_, own, _) in METHODS.items():
        setattr(capable, name, lambda *_, own=own: own)
    able = complete_problem(capable)
    for name, values in BESIDES.items():
        assert (getattr(able, name), getattr(plain, name)) == values, name
    for name, (arguments, *values) in METHODS.items():
        assert [getattr(one, name)(*arguments) for one in (able, plain)] == values, name
    with pytest.raises(ScorerFault, match="no held-out cases"):
        plain.score_held_out("x")


def test_what_lacks_a_member_is_no_problem():
    assert complete_problem(Ten) is None and complete_problem(3) is None
    assert complete_problem(Ten()).fingerprint() == complete_problem(Ten()).fingerprint()
