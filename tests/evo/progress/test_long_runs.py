"""Long runs: curves through fewer points, and the steps of a training."""

import numpy as np
import pytest

from evo.comparison.results import Results, drawn_times
from evo.comparison.summary import best_curve, solve_curve
from evo.progress.model import Progress
from islands.store import Store


def searches(iterations, points=None, problems=4, seeds=2):
    """Finished searches, half of which were solved on their way."""
    rng = np.random.default_rng(0)
    times = drawn_times(iterations, points or iterations)
    solved_at = np.where(rng.random((problems, seeds)) < 0.5, rng.integers(1, iterations, (problems, seeds)), np.inf)
    best = np.sort(rng.random((problems, seeds, iterations)), axis=2)[:, :, times - 1]
    return Results(solved_at, np.full((problems, seeds), iterations), iterations, 2, best, False, times)


def test_a_thinned_curve_goes_through_the_points_of_the_whole_one():
    whole, thinned = searches(5_000), searches(5_000, 100)
    at = np.searchsorted(whole.times, thinned.times)
    assert len(thinned.times) == 100 and thinned.times[-1] == 5_000
    for curve in (solve_curve, best_curve):
        full, few = curve(whole), curve(thinned)
        for name in ("at", "mean", "low", "high"):
            np.testing.assert_allclose(getattr(few, name), getattr(full, name)[at], rtol=1e-12)
    assert (thinned.horizon, thinned.best_horizon) == (whole.horizon, whole.best_horizon) == (5_000, 5_000)
    np.testing.assert_array_equal(thinned.best_at(5_000), whole.best_at(5_000))
    with pytest.raises(ValueError, match="not one of those"):
        thinned.best_at(2)


def test_horizons_of_thinned_searches_are_the_last_times_that_all_have_reached():
    done = np.array([[120, 260], [260, 300]])
    arm = Results(np.full((2, 2), np.inf), done, 1_000, times=np.array([100, 200, 1_000]), best=np.zeros((2, 2, 3)))
    assert (arm.horizon, arm.best_horizon) == (100, 100)
    curve = solve_curve(arm)
    assert np.isfinite(curve.mean[:2]).all() and np.isnan(curve.mean[2])


def test_a_training_is_shown_by_the_metrics_that_have_a_number(small):
    with Store.open(small) as store:
        run = store.run("run")
        progress, stored = Progress(store, "run"), 0
        for upto in (3, 8):
            with store.begin() as tx:
                for step in range(stored, upto):
                    store.add_training_step(run.id, step, {"loss": step / 2 if step else None, "kl": None}, tx)
            stored = upto
            progress.refresh()
            assert list(progress.training(0)) == ["loss"]
            shown = progress.training(0)["loss"]
            np.testing.assert_array_equal(shown.at, np.arange(upto))
            np.testing.assert_array_equal(shown.mean, [np.nan, *np.arange(1, upto) / 2])
