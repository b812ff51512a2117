"""The best value known beside what was found; a record is said after the answer was run again and measured exactly."""

import pytest

from evo.progress import answer as answers
from evo.progress.answer import best_known_of, describe_best_known, verify_best
from islands.types import ProblemRecord
from problems.contract import Problem, Score

RECORD = ProblemRecord(
    1, 1, 0, "half", "my/half.py", ("value",), None, "text", "active", "", None, None, None, None
)  # fmt: skip


class Half(Problem):
    """The number is to be large; .49 is the best known one."""

    name, objectives, best_known = "half", ("value",), 0.49

    def statement(self):
        return "A number."

    def score(self, answer):
        return Score((float(answer),), float(answer))

    def verify_record(self, answer):
        return float(answer) > self.best_known


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


def test_a_record_is_said_after_it_is_measured_exactly(monkeypatch):
    monkeypatch.setattr(answers, "problem_of", lambda record: Half())
    assert best_known_of(RECORD) == 0.49
    assert verify_best(RECORD, 0.5, "0.5").startswith("a record: run again and measured exactly")
    assert verify_best(RECORD, 0.4, "0.4") == "best known 0.49, 81.6327% reached"
    told = verify_best(RECORD, 0.5, "0.4")  # does not do it again
    assert "not confirmed" in told and "a record" not in told
