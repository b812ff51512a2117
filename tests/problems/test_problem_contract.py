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


class TestJudgedProgram(ProblemContract):
    answers = ("def f(x):\n    return x\n", "def f(x):\n    return [x][1]\n")
    solution = "def f(x):\n    return x + 1e-9\n"

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path):
        row = {"text": "Nearly.", "test_list": [f"assert 0 < f({n}) - {n} < 1e-6" for n in range(20)]}
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


class Capable:
    """Four members, and everything that a problem may have besides."""

    name, objectives, target, source, settings, batched = "capable", ("a",), 0.5, "here", {"language": "rust"}, True

    def statement(self):
        return "Do it."

    def score(self, answer):
        return Score((1.0,), 1.0)

    def score_batch(self, answers):
        return [Score((0.5,), 0.5) for _ in answers]

    def score_seed(self):
        return Score((0.25,), 0.25)

    def verify_record(self, answer):
        return True

    def score_of_metrics(self, metrics, feedback="", error=None):
        return Score((0.75,), 0.75)

    def known_answers(self, seed):
        return ["x"]

    def further_seeds(self):
        return ["y", "z"]

    holds_out = True

    def score_held_out(self, answer):
        return Score((0.1,), 0.1)

    def files_of(self, answer):
        return {"main.c": answer}

    def answer_of(self, files):
        return files["main.c"]

    def picture(self, answer):
        return f"[{answer}]"


def test_what_an_object_can_do_besides_is_kept_and_what_it_cannot_has_a_default():
    able, plain = complete_problem(Capable()), complete_problem(Ten())
    assert (able.target, able.source) == (0.5, "here") and (plain.target, plain.source) == (None, "")
    assert dict(able.settings) == {"language": "rust"} and dict(plain.settings) == {}
    assert able.score_seed().fitness == 0.25 and plain.score_seed() == plain.score("")
    assert [s.fitness for s in able.score_batch(["x"])] == [0.5] and able.batched and not plain.batched
    assert (able.further_seeds(), plain.further_seeds()) == (["y", "z"], ())
    assert able.holds_out and not plain.holds_out and able.score_held_out("x").fitness == 0.1
    with pytest.raises(ScorerFault, match="no held-out cases"):
        plain.score_held_out("x")
    assert able.files_of("x") == {"main.c": "x"} and plain.files_of("x") == {"answer.txt": "x"}
    assert able.answer_of({"main.c": "x"}) == plain.answer_of({"answer.txt": "x"}) == "x"
    assert (able.picture("x"), plain.picture("x")) == ("[x]", "")
    assert (able.verify_record("x"), plain.verify_record("x")) == (True, False)
    assert able.score_of_metrics({}).fitness == 0.75 and plain.score_of_metrics({}) is None
    assert (able.known_answers(0), plain.known_answers(0)) == (["x"], [])


def test_what_lacks_a_member_is_no_problem():
    assert complete_problem(Ten) is None and complete_problem(3) is None
    assert complete_problem(Ten()).fingerprint() == complete_problem(Ten()).fingerprint()
