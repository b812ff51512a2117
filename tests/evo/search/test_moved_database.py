"""A database that is moved or deleted during a search: one line, and nothing more is asked of a policy."""

import asyncio
from pathlib import Path

import pytest

import evo
from evo.errors import SearchFailed
from evo.exit_status import exit_code_of

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
