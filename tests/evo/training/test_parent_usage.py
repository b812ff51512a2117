"""Whether a policy mutates what it is shown, against chance."""

import pytest
from support.training_runs import scored

from evo.training.curriculum import TrainingPrompt
from evo.training.on_policy import parent_usage
from islands.types import NOTHING_SHOWN, Candidate, Selection

PARENT = Candidate(0, "RRDD", (1.0,), 0.5, {}, None, None, 0, 0, None)


def group(*answers, asked=2):
    return scored(0, *((text, (fitness,)) for text, fitness in answers), asked=asked)


def test_answers_are_measured_against_the_parent_shown_and_the_one_withheld():
    shown = TrainingPrompt(0, Selection(PARENT, (), ()))
    hidden_parent = TrainingPrompt(1, NOTHING_SHOWN, PARENT)
    first = TrainingPrompt(2, NOTHING_SHOWN)
    found = parent_usage(
        [shown, hidden_parent, first],
        [
            group(("RRDR", 0.75), ("RRDD", 0.5)),  # keeps three of four and is fitter; the parent again
            group(("LLLD", 0.6), ("LLLL", 0.1)),  # an end by chance, fitter by chance
            group(("RRDD", 1.0)),
        ],
    )
    assert found == {
        "refined": 0.5, "copied": 0.5, "kept": pytest.approx((0.75 + 1) / 2),
        "refined_chance": 0.5, "kept_chance": pytest.approx(0.125),
    }  # fmt: skip
    assert parent_usage([first], [group()]) == {}


def test_missing_answers_are_asked_for_all_the_same():
    assert (
        parent_usage([TrainingPrompt(0, Selection(PARENT, (), ()))], [group(("UUUU", 0.9), asked=4)])["refined"] == 0.25
    )
