"""Each check on a scorer that has the fault and on one that has not."""

import numpy as np
import pytest

from evo.checks.determinism import RepeatedScores, check_cost, check_determinism, repeat
from evo.checks.objectives import check_objectives, check_sampled, check_steps, distinct_vectors
from evo.checks.soundness import check_seed, check_trivial, check_values
from evo.checks.subject import Outcome, Subject
from evo.evaluation.metrics import ProblemAnswers
from problems import Problem, Score, resolve

GRADED = """\
def score(answer):
    word = answer.strip()
    return {"letters": len(set(word)) / 26, "a": word.count("a") / 9}
"""


@pytest.fixture
def subject_of(tmp_path):
    """subject_of(code of a scorer file) -> Subject"""

    def make(code, seed="abcd", **settings):
        file = tmp_path / "scorer.py"
        file.write_text(f"seed_answer = {seed!r}\n{code}")
        return Subject(resolve(str(file))[0], **{"mutants": 16, **settings})

    return make


class Vectors(Problem):
    """Names objectives; what it scores is given by the test."""

    execution = "never"

    def __init__(self, *objectives, target=None, **given):
        self.name, self.objectives, self.target = "vectors", objectives, target
        self.__dict__.update(given)

    def statement(self):
        return "Numbers."

    def score(self, answer):
        raise AssertionError("nothing is scored here")


def scored(problem, *rows, fitness=None, seconds=1.0):
    """A Subject that has asked for answers of these rewards."""
    subject = Subject(problem)
    for place, row in enumerate(rows):
        value = fitness[place] if fitness else sum(row) / len(row)
        subject.asked.append(Outcome(str(place), Score(tuple(row), value), "", seconds))
    subject._mutants = list(subject.asked)
    return subject


def levels(findings):
    return {finding.check: finding.level for finding in findings}


def test_a_scorer_that_fails_on_its_seed(subject_of):
    assert check_seed(subject_of("def score(answer):\n    return 1 / 0\n")).level == "finding"
    sound = check_seed(subject_of(GRADED))
    assert sound.level == "ok" and sound.figures["rewards"] == {"a": pytest.approx(1 / 9), "letters": 4 / 26}


@pytest.mark.parametrize(
    "then",
    ["raise KeyError(answer)", "return {'x': float('nan')}", "return {'x': float('inf')}", "return {'y': 1.0}"],
)
def test_a_scorer_that_fails_on_some_answers(subject_of, then):
    subject = subject_of(f"def score(answer):\n    if answer != 'abcd':\n        {then}\n    return {{'x': 1.0}}\n")
    faults = next(iter(check_values(subject)))
    assert faults.level == "finding" and faults.figures["faults"] == faults.figures["answers"] > 16


def test_a_scorer_that_takes_every_answer(subject_of):
    assert set(levels(check_values(subject_of(GRADED))).values()) == {"ok"}


def test_scores_below_zero():
    found = dict((f.check, f) for f in check_values_of(scored(Vectors("x", "y"), (-1.0, 2.0), (3.0, 1.0))))
    assert found["negative"].level == "finding" and found["negative"].details == ("x: down to -1",)
    assert levels(check_values_of(scored(Vectors("x", "y"), (1.0, 2.0), (3.0, 1.0))))["negative"] == "ok"


def check_values_of(subject):
    subject.ask_all = lambda answers: []
    return check_values(subject)


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("import os\ndef score(answer):\n    return {'x': 1 + os.urandom(1)[0]}\n", "several scores"),
        ("def score(answer):\n    return {'x': 1.0 + hash('evo') % 1000}\n", "in another folder and hash seed"),
    ],
    ids=["random", "hash"],
)
def test_a_scorer_that_is_not_deterministic(subject_of, body, told):
    subject = subject_of(body)
    finding = check_determinism(subject, repeat(subject, "auto"))
    assert finding.level == "finding" and told in finding.summary


@pytest.mark.long
def test_a_scorer_that_is_deterministic(subject_of):
    subject = subject_of(GRADED)
    repeats = repeat(subject, "auto")
    finding = check_determinism(subject, repeats)
    assert finding.level == "ok" and finding.figures == {"times": 10, "answers": 4}, finding.summary
    assert 1 << 20 < repeats.memory < 1 << 30


@pytest.mark.parametrize(
    ("seconds", "timeout", "level"), [(1.0, 1.5, "finding"), (1.0, 10.0, "ok"), (0.01, 30.0, "note"), (1.0, None, "ok")]
)
def test_a_time_out_that_does_not_fit(seconds, timeout, level):
    subject = scored(Vectors("x", timeout=timeout), (1.0,), seconds=seconds)
    assert levels(check_cost(subject, RepeatedScores()))["time"] == level


def test_memory_is_reported():
    subject = scored(Vectors("x"), (1.0,))
    assert levels(check_cost(subject, RepeatedScores(memory=3 << 30)))["memory"] == "finding"
    assert levels(check_cost(subject, RepeatedScores(memory=1 << 20)))["memory"] == "ok"


def objective_levels(problem, rows):
    subject = scored(problem, *rows)
    return levels(check_objectives(subject, distinct_vectors(subject)))


SPREAD = np.random.default_rng(0).uniform(0.1, 1.0, (20, 3))


def test_objectives_worth_having():
    found = objective_levels(Vectors("x", "y", "z"), SPREAD)
    assert set(found.values()) == {"ok"} and {"constant", "collinear", "scale", "timings", "direction"} <= set(found)


def test_objectives_that_never_change():
    rows = np.column_stack([SPREAD[:, :2], np.full(20, 0.5)])
    assert objective_levels(Vectors("x", "y", "z"), rows)["constant"] == "finding"
    gated = [*rows, (0.0, 0.0, 0.0)]  # a mutant that achieves nothing
    assert objective_levels(Vectors("x", "y", "z"), gated)["constant"] == "note"


def test_objectives_that_are_one_and_the_same():
    rows = np.column_stack([SPREAD[:, 0], 2 * SPREAD[:, 0], 5 * SPREAD[:, 0] + 1])
    subject = scored(Vectors("x", "y", "z"), *rows)
    (finding,) = [f for f in check_objectives(subject, distinct_vectors(subject)) if f.check == "collinear"]
    assert finding.level == "finding" and "nothing to win" in finding.summary
    assert finding.figures["correlation"]["x"] == [1.0, 1.0, 1.0]
    two_of_three = np.column_stack([SPREAD[:, :2], SPREAD[:, 0]])
    assert objective_levels(Vectors("x", "y", "z"), two_of_three)["collinear"] == "note"


def test_one_objective_alone_is_said():
    assert objective_levels(Vectors("x"), SPREAD[:, :1])["collinear"] == "note"


def test_objectives_of_wildly_different_scale():
    rows = SPREAD[:, :2] * [1.0, 5000.0]
    assert objective_levels(Vectors("x", "y"), rows)["scale"] == "finding"


def test_too_few_answers_that_achieve_anything_tell_nothing():
    assert objective_levels(Vectors("x", "y"), SPREAD[:3, :2])["objectives"] == "skipped"


@pytest.mark.parametrize(
    ("names", "directions", "check", "level"),
    [
        (("x", "eval_time"), {}, "timings", "finding"),
        (("x", "total_ms"), {}, "timings", "finding"),
        (("x", "y"), {}, "timings", "ok"),
        (("x", "loss"), {}, "direction", "finding"),
        (("x", "loss"), {"loss": "min"}, "direction", "ok"),
        (("x", "code_length"), {}, "sizes", "note"),
    ],
)
def test_what_names_of_objectives_say(names, directions, check, level):
    assert objective_levels(Vectors(*names, directions=directions), SPREAD[:, :2])[check] == level


def test_answers_that_do_nothing_and_score_high(subject_of):
    short = "def score(answer):\n    return {'brevity': 1 / (1 + len(answer))}\n"
    finding = check_trivial(subject_of(short))
    assert finding.level == "finding" and "empty answer" in finding.summary
    assert check_trivial(subject_of(f"target = 1.0\n{GRADED}")).level == "ok"


LINE = '{{"task_id": 1, "text": "Write f(n).", "code": "def f(n):\\n    return n * n", "test_list": [{tests}]}}\n'


def test_a_fitness_without_steps():
    problem = Vectors("x", target=1.0)
    assert check_steps(scored(problem, (0.0,), (1.0,), (0.0,))).level == "finding"
    assert check_steps(scored(problem, (0.0,), (0.5,), (1.0,))).level == "ok"
    assert check_steps(scored(problem, (0.0,), (0.0,))).level == "note"  # nothing moved: no evidence
    assert (
        check_steps(scored(Vectors("x", "y"), (0, 1.0), (1.0, 0), (0.5, 0.5))).level == "note"
    )  # the mean stands still


def sampled(rewards):
    rewards = np.array(rewards, dtype=float)
    count = len(rewards)
    yes, no = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
    return ProblemAnswers("p", ("x", "y"), 1.0, rewards, rewards.mean(axis=1), yes, no)


def test_what_a_model_answers():
    finding = check_sampled("openai:m", sampled([(0.1, 0.9), (0.9, 0.1), (0.0, 0.0), (1.0, 1.0)]))
    assert (
        finding.level == "ok" and "3 of 50 answers achieve anything, in 3 distinct vectors, 1 solved" in finding.summary
    )
    assert finding.figures["percentiles"]["x"] == pytest.approx([0.1, 0.5, 0.9, 0.95, 1.0])
    assert check_sampled("m", sampled([(0.5, 0.5)] * 4)).level == "finding"
    assert check_sampled("m", sampled([(0.0, 0.0)] * 4)).level == "finding"
