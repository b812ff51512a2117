"""Whether a policy mutates what it is shown, against chance, and the end of a training whose policy does not."""

import json

import numpy as np
import pytest
from support.training_runs import scored

from evo.search.stop import StopReason
from evo.training.curriculum import TrainingPrompt
from evo.training.on_policy import WINDOW, ParentUsageWatch, parent_usage
from islands.types import NOTHING_SHOWN, Candidate, Selection

PARENT = Candidate(0, "RRDD", (1.0,), 0.5, {}, None, None, 0, 0, None)


def group(*answers, asked=2, begun=""):
    return scored(0, *((text, (fitness,)) for text, fitness in answers), asked=asked, begun=begun)


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


def test_what_was_begun_for_the_policy_is_not_its_doing():
    shown = TrainingPrompt(0, Selection(PARENT, (), ()))
    begun, own = group(("RRDD", 0.5), begun="RR"), group(("LLLL", 0.1))
    assert parent_usage([shown, shown], [begun, own])["kept"] == 0.0
    assert parent_usage([shown], [begun]) == {}


def test_missing_answers_are_asked_for_all_the_same():
    assert (
        parent_usage([TrainingPrompt(0, Selection(PARENT, (), ()))], [group(("UUUU", 0.9), asked=4)])["refined"] == 0.25
    )


def watched(*phases, watch=None):
    """What a watch says after phases of (lead of the share kept over chance, of the refinement rate, steps)."""
    rng, watch, stop = np.random.default_rng(0), watch or ParentUsageWatch(), None
    for kept, refined, steps in phases:
        for _ in range(steps):
            noise = rng.normal(0, 0.05, 2)
            leads = {"kept": 0.3 + kept + noise[0], "refined": 0.2 + refined + noise[1]}
            stop = watch.add({**leads, "kept_chance": 0.3, "refined_chance": 0.2})
            if stop is not None:
                return stop
    return None


def test_a_training_ends_where_its_policy_no_longer_mutates():
    assert watched((0.2, 0.1, 3 * WINDOW)) is None
    at_chance, worse = (
        watched((0.2, 0.1, WINDOW), (0.0, 0.1, 2 * WINDOW)),
        watched((0.2, 0.1, WINDOW), (0.2, -0.1, 2 * WINDOW)),
    )
    assert at_chance.reason is StopReason.CHANCE and "keep no more" in str(at_chance)
    assert worse.reason is StopReason.CHANCE and "less often" in str(worse)
    assert watched((0.2, 0.1, WINDOW), (0.0, -0.1, 5)) is None  # too few to tell


def test_a_policy_that_has_yet_to_learn_to_mutate_is_left_to_learn_it():
    assert watched((0.0, -0.1, 3 * WINDOW)) is None


def test_steps_with_one_kind_of_prompt_do_not_count_and_the_state_goes_on():
    watch, again = ParentUsageWatch(), ParentUsageWatch()
    assert all(watch.add({"kept": 0.0, "refined": 0.0}) is None for _ in range(2 * WINDOW))
    watched((0.2, 0.1, WINDOW + 3), watch=watch)
    again.restore(json.loads(json.dumps(watch.state())))
    fall = {"kept": 0.1, "kept_chance": 0.3, "refined": 0.1, "refined_chance": 0.1}
    stops = [(watch.add(fall), again.add(fall)) for _ in range(WINDOW)]
    assert all(one == other for one, other in stops) and stops[-1][0] is not None
