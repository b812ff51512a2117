"""What stored answers are worth to users who name the weights afterwards: figures worked out by hand."""

import numpy as np
import pytest

from evo.evaluation.preferences import (
    ANSWERS_AT_ONCE,
    BEST_FOUND,
    JUDGED_WEIGHTINGS,
    OPTIMUM,
    is_share,
    join_units,
    judge_worth,
    judging_weights,
    read_rises,
)
from islands.types import CandidateSummary

CORNERS_AND_MEAN = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])


def answer(id, iteration, *rewards, failed=False):
    """An answer of the iteration, -1 for a seed; of other problems there were groups between."""
    sequence = 3 * iteration if iteration >= 0 else -1
    error = "failed" if failed else None
    return CandidateSummary(id, 9.0, rewards, error=error, iteration=iteration, sequence=sequence)


THREE = [
    answer(1, -1, 0.2, 0.2),
    answer(2, 0, 0.8, 0.0),
    answer(3, 1, 1.0, 1.0, failed=True),
    answer(4, 1, 0.1, 0.1),
    answer(5, 4, 0.0, 0.6),
    answer(6, 4, 0.5, 0.5),
]


def test_only_valid_answers_that_are_best_under_some_weights_are_rises():
    rises = read_rises(THREE, CORNERS_AND_MEAN)
    assert rises.iterations.tolist() == [0, 1, 5] and rises.sequences.tolist() == [-1, 0, 12]
    np.testing.assert_allclose(rises.best, [[0.2, 0.2, 0.2], [0.8, 0.2, 0.4], [0.8, 0.6, 0.5]])
    assert not rises.negative


def test_worth_and_weightings_solved_against_a_known_optimum():
    worth = judge_worth([read_rises(THREE, CORNERS_AND_MEAN)], np.array([1.0, 0.6, 0.5]))
    np.testing.assert_allclose(worth.plain[0], [0.2, 1.4 / 3, 1.9 / 3])
    np.testing.assert_allclose(worth.shares[0], [np.mean([0.2, 1 / 3, 0.4]), np.mean([0.8, 1 / 3, 0.8]), 2.8 / 3])
    np.testing.assert_allclose(worth.solved[0], [0, 0, 2 / 3])
    assert worth.start == 0 and not worth.why and join_units(["p"], [worth]) == OPTIMUM


def test_a_target_that_was_surpassed_is_not_the_measure():
    worth = judge_worth([read_rises(THREE, CORNERS_AND_MEAN)], np.array([0.4, 0.6, 0.5]))
    assert worth.shares[0][-1] == 1.0 and worth.solved[0].tolist() == [0, 1 / 3, 1]


def test_without_an_optimum_the_best_that_any_search_found_is_the_measure():
    other = read_rises([answer(1, 2, 0.4, 0.9)], CORNERS_AND_MEAN)
    worth = judge_worth([read_rises(THREE, CORNERS_AND_MEAN), other], None)
    measure = np.array([0.8, 0.9, 0.65])
    np.testing.assert_allclose(worth.shares[0][-1], np.mean([0.8, 0.6, 0.5] / measure))
    np.testing.assert_allclose(worth.shares[1], [np.mean([0.4, 0.9, 0.65] / measure)])
    assert worth.solved is None and join_units(["p"], [worth]) == BEST_FOUND
    known = judge_worth([other], np.array([1.0, 1.0, 1.0]))
    assert is_share(join_units(["p", "q"], [worth, known])) and "if unknown" in join_units(["p", "q"], [worth, known])


@pytest.mark.parametrize(
    "searches, why",
    [
        ([THREE], "there is no other search"),
        ([THREE, [answer(1, 0, -0.5, 2.0)]], "a reward is negative"),
        ([[answer(1, 0, 0.0, 0.0)], []], "no answer is worth more than 0"),
        ([[], []], "no answer is worth more than 0"),
    ],
)
def test_where_shares_are_not_defined_it_is_said_and_rewards_are_given(searches, why):
    worth = judge_worth([read_rises(of, CORNERS_AND_MEAN) for of in searches], None)
    assert why in worth.why and not worth.shares
    assert join_units(["fine", "p"], [judge_worth([], np.ones(3)), worth]).startswith(
        "rewards, as there are no shares of p:"
    )
    assert not is_share(join_units(["p"], [worth]))


def test_a_search_without_an_answer_counts_as_the_worst_beginning_and_at_most_0():
    negative = read_rises([answer(1, 0, -1.0, -0.4), answer(2, 1, 0.0, -0.4)], CORNERS_AND_MEAN)
    worth = judge_worth([negative, read_rises([], CORNERS_AND_MEAN)], None)
    assert worth.start == pytest.approx(np.mean([-1.0, -0.4, -0.7]))
    np.testing.assert_allclose(worth.plain[0], [worth.start, np.mean([0.0, -0.4, -0.2])])
    assert len(worth.plain[1]) == 0


def test_of_one_objective_it_is_the_best_reward():
    weights = judging_weights(1)
    rises = read_rises([answer(1, -1, 0.3), answer(2, 0, 0.2), answer(3, 1, 0.7)], weights)
    assert weights.shape == (JUDGED_WEIGHTINGS, 1) and judge_worth([rises], None).plain[0] == pytest.approx([0.3, 0.7])


def test_the_weightings_are_those_of_dirichlet():
    """Two corners alone are worth max(w, 1 - w) on average, 3/4; three max(w), 11/18."""
    for corners, value in ((2, 3 / 4), (3, 11 / 18)):
        given = [answer(at, 0, *row) for at, row in enumerate(np.eye(corners).tolist())]
        worth = judge_worth([read_rises(given, judging_weights(corners))], None)
        assert worth.plain[0][-1] == pytest.approx(value, abs=0.005)


def test_long_searches_are_read_in_parts():
    many = [answer(at, at, at % 7 / 7, at % 11 / 11) for at in range(2 * ANSWERS_AT_ONCE + 5)]
    rises = read_rises(iter(many), CORNERS_AND_MEAN)
    values = np.array([one.rewards for one in many]) @ CORNERS_AND_MEAN.T
    best = np.maximum.accumulate(values)
    np.testing.assert_allclose(rises.best, best[rises.iterations - 1])
    np.testing.assert_allclose(rises.best[-1], values.max(axis=0))
