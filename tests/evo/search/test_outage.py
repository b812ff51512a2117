"""A PostgreSQL server that is restarted while a search runs: it waits, says so, and goes on to the same rows."""

from __future__ import annotations

import asyncio
import warnings

import pytest
from support.postgres import PostgresServer
from support.stored_rows import assert_same_run, stored_answers

from evo.config.run import RunConfig
from evo.runs import finish as outage
from evo.runs.finish import SearchOutcome, run_to_end
from evo.runs.start import launch
from evo.search.stop import INTERRUPTED

SETTINGS = {"problems": ["maze:test"], "limit": 3, "policy": "scripted:mutate", "iterations": 12, "seed": 2}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "PAUSES", (0.05, 0.2))


@pytest.fixture
def server():
    started = PostgresServer.start()  # one of its own: it is stopped in the middle
    yield started
    started.stop()


async def search(db: str, after: int, act) -> tuple[SearchOutcome, list[int]]:
    """Search, and call `act(launched)` once so many groups are committed."""
    launched = await launch(RunConfig.model_validate(SETTINGS), db=db, name="run", command="test")
    seen: list[int] = []

    def committed(group) -> None:
        seen.append(group.sequence)
        if len(seen) == after:
            act(launched)

    launched.search.on_commit = committed
    owned = launched.resources
    try:
        return await run_to_end(launched), seen
    finally:
        assert launched.resources is owned, "its policies are still its own to close"
        await launched.close()


@pytest.mark.long
def test_a_search_waits_for_its_server_and_goes_on(server, tmp_path):
    with server.database() as db:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found, seen = asyncio.run(search(db, 10, lambda launched: server.restart()))
        rows = stored_answers(db, "run")
    whole = f"sqlite:///{tmp_path}/whole.db"
    asyncio.run(search(whole, -1, lambda launched: None))
    assert found.outcome == "done" and found.failure is None
    assert_same_run(rows, stored_answers(whole, "run"))
    assert sorted(seen) == list(range(36))
    lines = [str(one.message) for one in said if "run run" in str(one.message)]
    assert "Lost the database of run" in lines[0] and "Reconnected; run" in lines[-1]
    assert all("\n" not in line for line in lines)


@pytest.mark.long
def test_an_interrupt_ends_the_waiting(server, monkeypatch):
    monkeypatch.setattr(
        outage, "_check_reachable", lambda db: (_ for _ in ()).throw(outage.DatabaseUnavailable("away"))
    )

    def act(launched) -> None:
        server.restart()
        asyncio.get_running_loop().call_later(1.0, lambda: launched.search.interrupt(INTERRUPTED))

    with server.database() as db, pytest.warns(UserWarning, match="Lost the database of run"):
        found, _ = asyncio.run(search(db, 10, act))
    assert found.failure is not None and "can no longer be written" in str(found.failure)
