"""The best value known beside what was found."""

from dataclasses import replace

import pytest

from evo.progress import answer as answers
from evo.progress.answer import best_known_of, describe_best_known
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


@pytest.mark.parametrize(
    "fitness, told",
    [
        (None, "best known 2"),
        (1.0, "best known 2, 50% reached"),
        (2.0 * (1 - 1e-12), "best known 2, reached"),
        (1.9999999, "best known 2, 99.9999% reached"),
        (2.1, "best known 2, and this is above it"),
    ],
)
def test_what_is_reached_of_the_best_known(fitness, told):
    assert describe_best_known(fitness, 2.0) == told


def test_the_best_known_is_looked_up(monkeypatch):
    monkeypatch.setattr(answers, "problem_of", lambda record: Half())
    assert best_known_of(RECORD) == 0.49
    assert best_known_of(replace(RECORD, address="maze:test/0")) is None, "no problem of ours has one"
