"""Who won a problem: more seeds, then sooner, then fitter."""

from __future__ import annotations

import numpy as np
import pytest

from evo.comparison.results import Results, standings

INF, NAN = np.inf, np.nan


def results(solved_at, best):
    """(P, S) of each, over 10 iterations."""
    at, fitness = np.array(solved_at, float), np.array(best, float)
    return Results(at, np.full(at.shape, 10), 10, best=np.repeat(fitness[..., None], 10, axis=-1))


REFERENCE = results([[3, 5], [3, INF], [INF, INF], [NAN, NAN], [4, 4]], [[1, 1], [1, 0.4], [0.5, 0.5], [2, 2], [1, 1]])
OTHER = results([[2, 2], [7, 7], [INF, INF], [NAN, NAN], [4, INF]], [[1, 1], [1, 1], [0.4, 0.4], [2, 2], [1, 0.9]])


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
    assert found.took[1, :2].tolist() == [2, 7] and found.took[1, 2] == INF
    assert np.isnan(found.solved[:, 3]).all() and found.best[0, 3] == 2


def test_an_arm_without_results_is_not_level():
    found = standings([REFERENCE, None], 0, 5)
    assert np.isnan(found.sign[1]).all() and found.counts(1) == (0, 0, 0)
    assert np.isnan(standings([REFERENCE, OTHER], None, 5).sign).all()


@pytest.mark.parametrize(("near", "sign"), [(0.3, 0), (0.30001, 1)])
def test_fitnesses_are_level_if_only_rounding_differs(near, sign):
    assert standings([results([[INF]], [[0.1 + 0.2]]), results([[INF]], [[near]])], 0, 1).sign[1, 0] == sign
