"""The clock of the wall jumps by days, forth and back: the search is the same, and nobody else takes it over."""

import random
import time

import pytest
from support.stored_rows import assert_same_run, stored_answers

from evo.progress.model import Progress
from islands.store import Store

DAY = 86_400.0


@pytest.fixture
def jumping(monkeypatch):
    """time.time is off by up to a day, otherwise at every call."""
    usual, chance = time.time, random.Random(2)

    def jump():
        monkeypatch.setattr(time, "time", lambda: usual() + chance.choice([-DAY, 0.0, DAY]))

    return jump


def test_a_search_is_the_same_and_is_resumed_and_watched(jumping, search_with, digits, digits_policy, tmp_path):
    calm, db = f"sqlite:///{tmp_path / 'calm.db'}", f"sqlite:///{tmp_path / 'evo.db'}"
    search_with([digits()], digits_policy(), calm, iterations=20, max_seconds=600)
    jumping()
    search_with([digits()], digits_policy(), db, iterations=20, max_seconds=600, stop_after=8)
    with Store.open(db, read_only=True) as store:
        assert Progress.open(store, "run").snapshot().groups < 20
    search_with([digits()], digits_policy(), db, resume=True)
    assert_same_run(stored_answers(db), stored_answers(calm))
    with Store.open(db, read_only=True) as store:
        snapshot = Progress.open(store, "run").snapshot()
        assert snapshot.groups == 20 and snapshot.elapsed(time.time()) >= 0
        assert 0 <= store.run("run").summary["seconds"] < 600
