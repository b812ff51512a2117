"""Policy versions of a run: stored on first sight, by whichever of its writers sees one first."""

from __future__ import annotations

import time

from sqlalchemy import select

from islands.db.schema import PolicyVersion
from islands.db.transaction import Transaction
from islands.db.upsert import insert_or


def policy_version_id(run_id: int, version: str, tx: Transaction) -> int:
    """The id of a run's policy version. Another shard of the run may store it at the same time."""
    query = select(PolicyVersion.c.id).where(PolicyVersion.c.run_id == run_id, PolicyVersion.c.version == version)
    found = tx.connection.execute(query).scalar()
    if found is None:
        row = dict(run_id=run_id, version=version, address="", created=time.time())
        new = insert_or(PolicyVersion, tx.connection.dialect.name)
        tx.connection.execute(new.values(**row).on_conflict_do_nothing())
        found = tx.connection.execute(query).scalar_one()
    return int(found)
