"""Summary from searches whose figures can be worked out by hand."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from evo.comparison.results import Results, worst_values
from evo.comparison.summary import farthest, summarise, verdicts_of
from evo.stats.differences import Verdict
from problems.objectives import Objective

T = 10


def arm(solved_at, done=T, answers=3, best=None):
    """solved_at: (P, S), 0 standing for not solved."""
    at = np.array(solved_at, dtype=float)
    at[at == 0] = np.inf
    fitness = None if best is None else np.broadcast_to(np.array(best, float)[:, None, None], (*at.shape, T)).copy()
    return Results(at, np.full(at.shape, done), T, answers, fitness)


def test_figures_are_those_of_the_searches():
    a = arm([[1], [2], [4], [0]], best=[1, 1, 1, 0.5])
    found = summarise({"a": a}, None).arms["a"]
    assert found.solved.mean == 0.75
    assert found.area.mean == pytest.approx((10 + 9 + 7 + 0) / 40)
    assert found.median == 2
    assert found.best.mean == pytest.approx(3.5 / 4)
    assert found.only == (0, 1, 2)


def test_differences_are_arm_minus_reference_and_corrected_for_their_number():
    strong, weak = arm([[1]] * 11 + [[0]]), arm([[0]] * 11 + [[1]])
    found = summarise({"a": strong, "b": strong, "grpo": weak}, "grpo")
    assert list(found.against) == ["a", "b"] and list(found.pairs) == [("a", "grpo"), ("b", "grpo"), ("b", "a")]
    assert {gap.comparisons for metrics in found.pairs.values() for gap in metrics.values()} == {3}
    assert found.pairs["b", "a"]["solved"].interval.mean == 0
    assert found.against["a"]["solved"].interval.mean == pytest.approx(10 / 12)
    one = found.against["a"]["solved"]
    assert one.p == pytest.approx(3 * binomtest(11, 12).pvalue, abs=1e-3)
    assert one.interval.low > 0
    assert summarise({"a": strong, "grpo": weak}, "grpo").against["a"]["solved"].interval.low > one.interval.low
    assert "best" not in found.against["a"]  # not asked for
    assert verdicts_of(found)[0].text.startswith("a - grpo = +0.83 [")


def test_few_problems_show_nothing():
    found = summarise({"a": arm([[1]] * 3), "grpo": arm([[0]] * 3)}, "grpo")
    assert [verdict.text for verdict in verdicts_of(found)] == [
        "no difference shown (a - grpo = +1.00 [-0.47, 1.00], p = 0.25; 3 problems cannot show one)"
    ]
    assert found.arms["grpo"].solved.high > 0.3, "none of three is not never"


def test_a_comparison_under_way_stands_where_every_search_has_come_to():
    ahead, behind = arm([[3], [0]], done=8), arm([[0], [7]], done=5)
    found = summarise({"a": ahead, "b": behind}, "b")
    assert found.horizon == 5
    assert found.arms["b"].solved.mean == 0  # at 5 it was not known yet
    assert verdicts_of(found)[0].text.endswith("cannot show one) at iteration 5 of 10")


def test_all_figures_under_way_are_of_one_iteration():
    # every search is solved, which is known for good; their best fitness is known as far as they have come
    a, b = arm([[1]] * 8, done=4, best=[0.5] * 8), arm([[2]] * 8, done=6, best=[0.7] * 8)
    found = summarise({"a": a, "b": b}, "b")
    assert found.horizon == found.best_horizon == 4
    assert found.arms["a"].solved.mean == found.arms["b"].solved.mean == 1
    assert found.against["a"]["solved"].interval.mean == 0
    assert "at iteration 4 of 10; of mean best fitness one is: a - b = -0.20" in verdicts_of(found)[0].text


def test_seeds_that_wait_do_not_hold_the_others_back():
    done = np.array([[T, 0], [T, 0]])
    a = Results(np.array([[1, np.inf], [np.inf, np.inf]]), done, T, 3)
    found = summarise({"a": a, "b": a}, "b")
    assert (found.horizon, found.seeds) == (T, 1)
    assert found.arms["a"].solved.mean == 0.5
    assert [one.solved_at.shape for one in farthest({"a": a, "b": a}).values()] == [(2, 1)] * 2
    with pytest.raises(ValueError, match="same seeds"):
        summarise({"a": a, "b": a.only(seeds=[0])}, "b")


def test_before_anything_is_known_there_are_no_figures_and_no_verdict():
    found = summarise({"a": arm([[0], [0]], done=0), "b": arm([[0], [0]], done=0)}, "b")
    assert found.horizon == 0 and found.arms["a"].solved is None
    assert [verdict.text for verdict in verdicts_of(found)] == []


def test_without_targets_the_verdict_is_of_fitness():
    at, done = np.full((8, 1), np.nan), np.full((8, 1), T)
    arms = {name: Results(at, done, T, 3, np.full((8, 1, T), value)) for name, value in (("a", 0.9), ("b", 0.4))}
    assert verdicts_of(summarise(arms, "b")) == [Verdict("a - b = +0.50 [0.26, 0.61]", shown=True)]


def lowered(values):
    """An arm of one seed whose problems' delays end at these values, from 100 on."""
    best = np.repeat(np.array(values, float)[:, None, None], T, axis=2)
    at, objectives = np.full((len(values), 1), np.nan), (Objective("delay", True, 100.0, 100.0, True),) * len(values)
    return Results(at, np.full(at.shape, T), T, 3, best, objectives=objectives)


def test_a_difference_of_a_lowered_value_cannot_be_read_as_a_gain():
    ten = np.arange(10.0)
    found = summarise({"a": lowered(1 + ten), "b": lowered(9 + ten)}, "a")
    assert found.arms["b"].best.mean == 13.5 and found.measure.title == "delay ↓"
    (told,) = verdicts_of(found)
    assert re.fullmatch(r"b - a = \+8.00 \[\d.\d\d, \d+.\d\d\] ↓ worse", told.text) and told.shown
    (told,) = verdicts_of(summarise({"a": lowered(9 + ten), "b": lowered(1 + ten)}, "a"))
    assert told.text.startswith("b - a = -8.00 [") and told.text.endswith("] ↓ better")


def test_problems_that_measure_different_things_have_a_mean_of_rewards():
    """A delay of 50 with a scale of 100 counts 100 / 150."""
    objectives = (Objective("delay", True, 100.0, 100.0, True), Objective("fitness"))
    best = np.array([[[50.0, 50.0]], [[0.5, 0.6]]])
    arm = Results(np.full((2, 1), np.nan), np.full((2, 1), 2), 2, 1, best, objectives=objectives)
    assert arm.measure.name == "reward" and arm.mean_best == pytest.approx((100 / 150 + 0.6) / 2)
    assert summarise({"a": arm}, None).title("best") == "mean reward"


def test_a_search_without_an_answer_counts_as_the_worst_of_its_problem():
    nothing = np.full((1, 1, T), np.nan)
    for objective, values, worst in (
        (Objective("delay", True, 1.0, None, True), (3.0, 8.0), 8.0),
        (Objective("fitness"), (-4.0, -1.0), -4.0),
        (Objective("fitness"), (4.0, 1.0), 0.0),
    ):
        bests = [np.full((1, 1, T), value) for value in values]
        arms = [Results(nothing[:, :, 0], np.full((1, 1), T), T, 1, best, objectives=(objective,)) for best in bests]
        empty = replace(arms[0], best=nothing, missing=worst_values(arms))
        assert empty.best_at(T)[0, 0] == worst, objective
