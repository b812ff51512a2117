"""A database server that is away for a while: the search waits for it and goes on after its last committed group.

What was in flight is asked again, as after a kill. Only a server is waited for: where SQLite cannot be written, a disk
is full or a file is gone, which no waiting helps.
"""

from __future__ import annotations

import asyncio
import warnings

from evo.errors import SearchFailed
from evo.runs.launch import Launched
from islands.db.store import Store
from islands.errors import DatabaseUnavailable

PATIENCE = 3600.0
"""Seconds after which a server counts as gone for good."""
PAUSES = (0.5, 15.0)
"""Between attempts: doubling from the first to the second."""


async def go_on_after(launched: Launched, error: SearchFailed) -> bool:
    """Whether a search that lost its database has it back and is ready to go on, put together anew in `launched`.
    Interrupts end the waiting."""
    cause = error.__cause__
    waits = isinstance(cause, DatabaseUnavailable) and launched.store.dialect == "postgresql"
    if not waits or launched.search.stopped is not None or launched.config.train is not None:
        return False
    db = launched.store.url.render_as_string(hide_password=False)
    warnings.warn(f"run {launched.run.name} waits for its database, and goes on with it: {cause}", stacklevel=2)
    pause, waited = PAUSES[0], 0.0
    while waited < PATIENCE:
        await asyncio.sleep(pause)
        waited, pause = waited + pause, min(2 * pause, PAUSES[1])
        if launched.search.stopped is not None:
            return False
        try:
            await asyncio.to_thread(_ask, db)
            await _put_together(launched, db)
        except DatabaseUnavailable:
            continue
        warnings.warn(f"run {launched.run.name} has its database back and goes on", stacklevel=2)
        return True
    return False


def _ask(db: str) -> None:
    """Raises DatabaseUnavailable while the server cannot be asked."""
    Store.open(db, read_only=True).close()


async def _put_together(launched: Launched, db: str) -> None:
    """The search as its record has it now, in the place of the one that failed."""
    from evo.runs.resume import relaunch  # with what reads every kind of run: few searches need it
    from evo.runs.shards import relaunch_shard

    old, parts = launched.search, launched.parts or launched.own
    launched.store.close()
    if launched.shard is None:
        new = await relaunch(launched.run.name, db=db, shared=parts)
    else:
        number = launched.shard.number
        new = await relaunch_shard(launched.run.name, number, db=db, node=launched.node, shared=parts)
    new.search.on_commit = old.on_commit
    if old.paused:
        new.search.pause()
    launched.search, launched.store, launched.run = new.search, new.store, new.run
    launched.status, launched.problem_runs, launched.scorer = new.status, new.problem_runs, new.scorer
