"""Arrays of one arm's searches: what is known of all, figures of single searches, who solved what, and who won:
more seeds, then sooner, then fitter."""

import math

import numpy as np
import pytest
from support.arm_results import arm

from evo.comparison.results import Results, common_horizon, standings
from evo.comparison.summary import summarise

inf, nan = math.inf, math.nan


def test_figures_by_hand():
    got = arm([[0, 1], [5, inf]])
    assert got.solved_by(0).tolist() == [[1, 0], [0, 0]]
    assert got.solved_by(4).tolist() == [[1, 1], [0, 0]]
    assert got.solved_by(5).tolist() == [[1, 1], [1, 0]]
    assert got.solve_areas(10).tolist() == [[1, 1], [0.6, 0]]


def test_the_area_is_the_mean_of_the_solve_rate_over_iterations():
    solved_at = np.random.default_rng(0).integers(0, 15, (20, 3))
    got = arm(np.where(solved_at > 12, inf, solved_at), iterations=12)
    for t in (1, 7, 12):
        assert got.solve_areas(t).mean() == pytest.approx(np.mean([got.solved_by(i).mean() for i in range(1, t + 1)]))


def test_the_horizon_is_the_last_open_searchs():
    running = arm([[3, inf], [inf, 9]], [[3, 6], [8, 9]])
    assert running.horizon == 6
    assert running.solved_by(6).tolist() == [[1, 0], [0, 0]]
    for t in (-1, 7):
        with pytest.raises(ValueError, match=f"iteration {t}: every search has reached 6"):
            running.solved_by(t)
    with pytest.raises(ValueError, match="iteration 0"):
        running.solve_areas(0)
    assert arm([[11.0]]).horizon == 10, "solved after the budget is not solved within it"
    assert arm([[11.0]]).solved_by(10).tolist() == [[0]]


def test_best_fitness_ends_where_a_search_is_still_going():
    best = np.array([[[nan, 0.5, 0.5, nan]], [[0.1, 1.0, nan, nan]]])
    going = arm([[inf], [2]], [[3], [2]], 4, best=best)
    assert going.best_horizon == 2
    stopping = arm([[inf], [2]], [[3], [2]], 4, best=best, until_solved=True)
    assert stopping.best_horizon == 3
    assert stopping.best_at(3).tolist() == [[0.5], [1.0]]
    assert stopping.best_at(1).tolist() == [[0.0], [0.1]]
    with pytest.raises(ValueError, match="reached 3"):
        stopping.best_at(4)
    with pytest.raises(ValueError, match="no best"):
        arm([[1]]).best_at(1)


def test_problems_without_a_target_are_out_of_solve_figures_alone():
    got = arm([[nan], [2]], [[1], [4]], best=np.ones((2, 1, 10)))
    assert got.horizon == 10
    assert got.solved_by(10).shape == (1, 1)
    assert got.best_at(1).shape == (2, 1)
    with pytest.raises(ValueError, match="none of the problems"):
        arm([[nan]], best=np.ones((1, 1, 10))).solved_by(1)


def test_a_failed_problem_and_a_late_seed_can_be_left_out():
    got = arm([[1, inf, inf], [inf, inf, inf]], [[10, 10, 0], [2, 2, 0]], best=np.ones((2, 3, 10)))
    assert got.horizon == 0
    assert got.only(seeds=[0, 1]).horizon == 2
    left = got.only(problems=np.array([True, False]), seeds=[0, 1])
    assert (left.horizon, left.best_horizon) == (10, 10)
    assert left.solved_at.tolist() == [[1, inf]]


def test_horizons_of_several_arms():
    a, b = arm([[inf]], [[4]], best=np.ones((1, 1, 10))), arm([[1]], [[9]], best=np.ones((1, 1, 10)))
    assert (common_horizon(a, b), common_horizon(a, b, best=True)) == (4, 4)
    with pytest.raises(ValueError, match="same problems"):
        common_horizon(a, arm([[1], [2]]))
    with pytest.raises(ValueError, match="target"):
        common_horizon(a, arm([[nan]]), best=True)


def test_who_solved_what():
    arms = {
        "base": arm([[1, inf], [inf, inf], [nan, nan], [inf, inf], [9, inf]]),
        "vpo": arm([[2, 2], [3, inf], [nan, nan], [inf, inf], [inf, 2]]),
    }
    found = summarise(arms, None)
    assert {name: one.only for name, one in found.arms.items()} == {"base": (), "vpo": (1,)}
    assert (found.by_all, found.by_none) == ((0, 4), (3,))
    with pytest.raises(ValueError, match="seeds"):
        summarise({"a": arm([[1]]), "b": arm([[1, 1]])}, None)


def results(solved_at, best):
    """(P, S) of each, over 10 iterations."""
    at, fitness = np.array(solved_at, float), np.array(best, float)
    return Results(at, np.full(at.shape, 10), 10, best=np.repeat(fitness[..., None], 10, axis=-1))


REFERENCE = results([[3, 5], [3, inf], [inf, inf], [nan, nan], [4, 4]], [[1, 1], [1, 0.4], [0.5, 0.5], [2, 2], [1, 1]])
OTHER = results([[2, 2], [7, 7], [inf, inf], [nan, nan], [4, inf]], [[1, 1], [1, 1], [0.4, 0.4], [2, 2], [1, 0.9]])


def test_more_seeds_then_sooner_then_fitter():
    found = standings([REFERENCE, OTHER], 0, 5)
    assert found.sign[1].tolist() == [1, 1, -1, 0, -1]
    assert found.sign[0].tolist() == [0] * 5
    assert found.gap[1, 0] == 2 and found.timed[1].tolist() == [True, False, False, False, False]
    assert found.counts(1) == (2, 2, 1)


def test_what_differs_and_what_is_solved_and_when():
    found = standings([REFERENCE, OTHER], 0, 5)
    assert found.unsolved.tolist() == [False, False, True, False, False]
    assert found.differing.tolist() == [False, True, False, False, True]
    assert found.took[1, :2].tolist() == [2, 7] and found.took[1, 2] == inf
    assert np.isnan(found.solved[:, 3]).all() and found.best[0, 3] == 2


def test_an_arm_without_results_is_not_level():
    found = standings([REFERENCE, None], 0, 5)
    assert np.isnan(found.sign[1]).all() and found.counts(1) == (0, 0, 0)
    assert np.isnan(standings([REFERENCE, OTHER], None, 5).sign).all()


@pytest.mark.parametrize(("near", "sign"), [(0.3, 0), (0.30001, 1)])
def test_fitnesses_are_level_if_only_rounding_differs(near, sign):
    assert standings([results([[inf]], [[0.1 + 0.2]]), results([[inf]], [[near]])], 0, 1).sign[1, 0] == sign
