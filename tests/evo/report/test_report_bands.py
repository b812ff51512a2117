"""Seeds that act on all problems together are one rule: the live curve, the page and the verdict follow it alike."""

import shutil

import numpy as np
import pytest
from sqlalchemy import select, update

from evo.comparison.load import gather, load_results
from evo.comparison.survival import solve_curve
from evo.comparison.verdict import summarise, verdicts_of
from evo.monitor.poller import Poller
from evo.report.report import report_of
from islands.schema import Run
from islands.store import Store

pytestmark = pytest.mark.long


@pytest.fixture(params=[False, True], ids=["frozen", "learning"])
def address(request, made, tmp_path):
    """The made-up comparison, and the same with an arm that learns while it searches."""
    shutil.copy(made.removeprefix("sqlite:///"), tmp_path / "runs.db")
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    if request.param:
        with Store.open(address) as store, store.begin() as tx:
            for id, config in tx.connection.execute(select(Run.c.id, Run.c.config).where(Run.c.arm == "grpo")).all():
                learning = {**config, "train": {"method": "grpo"}}
                tx.connection.execute(update(Run).where(Run.c.id == id).values(config=learning))
    return address


def test_the_live_bands_are_those_of_the_page(address, coarse):
    with Store.open(address, read_only=True) as store:
        comparison = gather(store, "made-up")
        poller = Poller(store, "made-up")
        while (snapshot := poller.poll()).loaded < snapshot.runs:
            pass
        report = report_of(store, "made-up")
        found = load_results(store, comparison)
    (solved, *_) = report.curves.solve.charts
    for arm, its in zip(snapshot.arms, solved.series, strict=True):
        assert its.name == arm.name
        for live, drawn in ((arm.curve.mean, its.y), (arm.curve.low, its.low), (arm.curve.high, its.high)):
            np.testing.assert_array_equal(live, drawn)
        nested = solve_curve(found[arm.name])
        learning = bool((its.high - its.low > nested.high - nested.low + 1e-9).any())
        assert learning == comparison.crossed_seeds
    expected = verdicts_of(summarise(found, comparison.reference, crossed_seeds=comparison.crossed_seeds))
    assert snapshot.verdict == report.head.verdict == tuple(expected)
