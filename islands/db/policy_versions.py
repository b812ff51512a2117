"""Policy versions of a run: stored on first sight, by whichever of its writers sees one first."""

from __future__ import annotations

import time

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from islands.db.schema import PolicyVersion, table
from islands.db.transaction import Transaction


def policy_version_id(run_id: int, version: str, tx: Transaction) -> int:
    """The id of a run's policy version. Another shard of the run may store it at the same time."""
    query = select(PolicyVersion.id).where(PolicyVersion.run_id == run_id, PolicyVersion.version == version)
    found = tx.connection.execute(query).scalar()
    if found is None:
        row = dict(run_id=run_id, version=version, address="", created=time.time())
        new = (sqlite if tx.connection.dialect.name == "sqlite" else postgresql).insert(table(PolicyVersion))
        tx.connection.execute(new.values(**row).on_conflict_do_nothing())
        found = tx.connection.execute(query).scalar_one()
    return int(found)
