"""What grows with the length of a run: neither the memory of a live screen, nor its work, nor that of an export."""

import tracemalloc

import numpy as np
import pytest
from sqlalchemy import event

from bench.watch_length import NAME, RISES, make
from evo.comparison.results import Results, drawn_times
from evo.comparison.survival import best_curve, solve_curve
from evo.monitor.live_cache import STEPS_KEPT, TIMES_KEPT
from evo.monitor.poller import Poller
from islands.store import Store

MB = 2**20


def peak_of(work):
    """(what `work` returns, bytes that Python and numpy held at the most while it ran)."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


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
    assert arm.coarsened(100).times.tolist() == [1, 2, 10]
    curve = solve_curve(arm)
    assert np.isfinite(curve.mean[:2]).all() and np.isnan(curve.mean[2])


def test_arms_of_unequal_cost_are_thinned_to_times_that_they_share():
    dear = drawn_times(9_000, 100)
    cheap = drawn_times(27_000, 100, 3)
    assert set(cheap // 3) == set(dear)


def test_a_curve_of_a_long_run_takes_no_more_than_its_own_size():
    arm = searches(100_000)
    _, peak = peak_of(lambda: best_curve(arm))
    assert peak < 60 * MB  # resamples x iterations would be 1,600


def test_a_screen_of_a_run_planned_long_is_as_small_as_one_planned_short(tmp_path):
    db = make(tmp_path / "evo.db", 300, planned=20_000_000)
    with Store.open(db, read_only=True) as store:

        def look():
            poller = Poller(store, NAME)
            while (snapshot := poller.poll()).loaded < snapshot.runs:
                pass
            return snapshot

        look()
        snapshot, peak = peak_of(look)
    assert peak < 20 * MB  # a number for each iteration would be 160
    assert snapshot.arms[0].groups == 300 and snapshot.iterations == 20_000_000
    assert len(snapshot.axis) == snapshot.arms[0].results.best.shape[-1] == TIMES_KEPT


def test_opening_a_screen_reads_rises_and_no_other_candidates(tmp_path):
    """The database's own count of its steps, which no other load of the machine changes."""
    work = {}
    for iterations in (RISES, 20 * RISES):
        steps = [0]
        with Store.open(make(tmp_path / f"{iterations}.db", iterations), read_only=True) as store:

            def count(connection, _, steps=steps):
                def more():
                    steps[0] += 1
                    return 0

                connection.set_progress_handler(more, 10)

            event.listen(store.reader, "connect", count)
            store.reader.dispose()
            snapshot = Poller(store, NAME).poll()
        (operator,) = snapshot.arms[0].operators
        assert (operator.answers, operator.shares["kept"]) == (iterations, 0.5)
        assert snapshot.arms[0].groups == iterations and snapshot.arms[0].results.best[0, 0, -1] == 1 - 1 / RISES
        work[iterations] = 10 * steps[0]
    assert work[RISES] > 1_000
    assert (work[20 * RISES] - work[RISES]) / (19 * RISES) < 120  # of one more group, whose narrow row is summed


def test_a_long_training_is_shown_by_some_of_its_steps_and_the_newest(tmp_path):
    db = make(tmp_path / "evo.db", RISES)
    with Store.open(db) as store:
        run = store.run(NAME)
        poller, told = Poller(store, NAME), 0
        for upto in (3, 7 * STEPS_KEPT + 1, 7 * STEPS_KEPT + 3, 9 * STEPS_KEPT):
            with store.begin() as tx:
                for step in range(told, upto):
                    version = f"v{step}" if step % 100 == 0 else None
                    store.add_training_step(run.id, step, {"loss": step / 2, "kl": None}, tx, policy_version=version)
            store.finish_run(run.id, "running")
            told = upto
            shown = poller.poll().arms[0].training
            assert shown.steps[-1] == upto - 1 and shown.version == f"v{(upto - 1) // 100 * 100}"
            assert list(shown.steps) == sorted(set(shown.steps)) and len(shown.steps) <= 2 * STEPS_KEPT + 2
            assert shown.metrics["loss"] == tuple(step / 2 for step in shown.steps) and "kl" not in shown.metrics
            fresh = Poller(store, NAME).poll().arms[0].training
            assert (fresh.steps, fresh.metrics, fresh.version) == (shown.steps, shown.metrics, shown.version)
