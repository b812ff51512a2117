"""What happens around a search: the clock jumps by days, forth and back; its database is moved or deleted."""

import asyncio
import random
import time
from pathlib import Path

import pytest
from support.stored_rows import assert_same_run, stored_answers

import evo
from evo.errors import SearchFailed
from evo.exit_status import exit_code_of
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


GONE = "no longer be written: sqlite.* was moved, replaced or deleted"


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_a_comparison_begins_no_further_run(digits, db, how):
    file = Path(db.removeprefix("sqlite:///"))

    class Spoiling(digits):
        def score(self, answer):
            if len(self.scored) == 12:
                file.unlink() if how == "deleted" else file.rename(f"{file}.moved")
            return super().score(answer)

    problem, arms = Spoiling(), {"vary": "scripted:mutate", "mutate": "scripted:mutate"}
    settings = {"iterations": 200, "seeds": 3, "baselines": [], "progress": False}
    with pytest.raises(SearchFailed, match=GONE) as caught:
        evo.compare(problem, arms=arms, db=db, **settings)
    assert exit_code_of(caught.value) == 1 and "\n" not in str(caught.value)
    assert len(problem.scored) < 200  # of 1,200: those in flight of the two runs of the first seed
    assert not file.exists()


def test_a_search_that_waits_for_a_slow_reply_notices_it(search_with, digits, digits_policy, db, monkeypatch):
    class Silent(digits_policy):
        async def sample(self, prompts, **settings):
            Path(db.removeprefix("sqlite:///")).unlink()
            await asyncio.Event().wait()

    monkeypatch.setattr("evo.search.loop._WAITING_SECONDS", 1e9)  # nothing is written meanwhile
    with pytest.raises(SearchFailed, match=GONE):
        search_with([digits("a")], Silent(batch=1), db, iterations=20)
