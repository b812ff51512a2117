"""The best value known beside what was found; a record is said after the answer was run again and measured exactly."""

from dataclasses import replace

import pytest

from evo.plugins.maths.family import TASKS
from evo.plugins.maths.problem import MathsProblem
from evo.plugins.maths.task import Best
from evo.progress import answer as answers
from evo.progress.answer import best_known_of, describe_best_known, verify_best
from islands.types import ProblemRecord
from problems.registry import shared_sandbox

RECORD = ProblemRecord(
    1, 1, 0, "maths:circle_packing_26", "maths:circle_packing_26", ("n26",), None, "python", "active", "", None, None,
    None, None,
)  # fmt: skip
ANSWER = "def pack(n):\n    return [[0.25, 0.25, 0.25], [0.75, 0.75, 0.25]]\n"


def two_circles(best):
    """A packing of two circles of which so much is known."""
    task = replace(TASKS["circle_packing_26"], headline=2, instances={2: Best(best, "here")}, aliases=())
    return MathsProblem(task, shared_sandbox)


@pytest.mark.parametrize(
    "fitness, told",
    [
        (None, "best known 2"),
        (1.0, "best known 2, 50% reached"),
        (2.0 * (1 - 1e-12), "best known 2, reached"),
        (1.9999999, "best known 2, 99.9999% reached"),
        (2.1, "best known 2, and this is above it; evo show with the candidate's number verifies it"),
    ],
)
def test_what_is_reached_of_the_best_known(fitness, told):
    assert describe_best_known(fitness, 2.0) == told
    assert "record" not in told


def test_it_is_looked_up_by_the_address():
    assert best_known_of(RECORD) == pytest.approx(2.6359830849176076)
    assert best_known_of(replace(RECORD, address="maze:hard/3")) is None
    assert best_known_of(replace(RECORD, address="my/scorer.py")) is None


def test_a_record_is_said_after_it_is_measured_exactly(monkeypatch):
    monkeypatch.setattr(answers, "problem_of", lambda record: two_circles(0.49))
    assert verify_best(RECORD, 0.5, ANSWER).startswith("a record: run again and measured exactly")
    assert verify_best(RECORD, 0.4, ANSWER) == "best known 0.49, 81.6327% reached"


@pytest.mark.parametrize(
    "answer",
    [
        "def pack(n):\n    return [[0.25, 0.25, 0.1], [0.75, 0.75, 0.1]]\n",  # does not do it again
        "def pack(n):\n    raise SystemExit\n",
    ],
)
def test_what_cannot_be_confirmed_is_no_record(monkeypatch, answer):
    monkeypatch.setattr(answers, "problem_of", lambda record: two_circles(0.49))
    told = verify_best(RECORD, 0.5, answer)
    assert "not confirmed" in told and "a record" not in told
