"""A PostgreSQL server that is restarted while a search runs: the search fails, and a resume makes the same rows."""

from __future__ import annotations

import asyncio

import pytest
from support.postgres import PostgresServer
from support.stored_rows import assert_same_run, stored_answers

from evo.config.run import RunConfig
from evo.runs.finish import run_to_end
from evo.runs.resume import relaunch
from evo.runs.start import launch

SETTINGS = {"problems": ["maze:test"], "limit": 3, "policy": "scripted:mutate", "iterations": 12, "seed": 2}


async def search(db: str, server: PostgresServer | None = None, resume: bool = False) -> str:
    """The outcome and its reason. server: to restart after ten groups"""
    if resume:
        opened = await relaunch("run", db=db)
    else:
        opened = await launch(RunConfig.model_validate(SETTINGS), db=db, name="run", command="test")
    seen: list[int] = []

    def committed(group) -> None:
        seen.append(group.sequence)
        if server is not None and len(seen) == 10:
            server.restart()

    opened.search.on_commit = committed
    try:
        ended = await run_to_end(opened)
        return f"{ended.outcome}: {ended.reason}"
    finally:
        await opened.close()


@pytest.mark.long
def test_a_search_that_lost_its_server_is_resumed_to_the_same_rows(tmp_path):
    whole, server = f"sqlite:///{tmp_path}/whole.db", PostgresServer.start()  # one of its own: it is stopped
    assert asyncio.run(search(whole)) == "done: "
    try:
        with server.database() as db:
            assert asyncio.run(search(db, server)).startswith("failed: the database can no longer be written")
            assert asyncio.run(search(db, resume=True)) == "done: "
            assert_same_run(stored_answers(db, "run"), stored_answers(whole, "run"))
    finally:
        server.stop()
