"""The scorers of a run's problems: their fingerprints, and the changes that a resume accepted."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import insert, select, update

from islands.schema import Problem, ScorerChange
from islands.store import Store, Transaction


@dataclass(frozen=True)
class ScorerChangeRecord:
    """A change between a run and its resume. before: None if it was not known; created: seconds since 1970."""

    problem: str
    before: str | None
    after: str
    created: float


def set_fingerprint(problem_id: int, fingerprint: str, tx: Transaction) -> None:
    """Set the fingerprint of a problem's scorer from now on."""
    tx.connection.execute(update(Problem).where(Problem.c.id == problem_id).values(fingerprint=fingerprint))


def record_scorer_change(problem_id: int, before: str | None, after: str, tx: Transaction) -> None:
    """Put a change on record; the problem has the new fingerprint."""
    set_fingerprint(problem_id, after, tx)
    values = dict(problem_id=problem_id, before=before, after=after, created=time.time())
    tx.connection.execute(insert(ScorerChange).values(**values))


def scorer_changes(store: Store, run_id: int) -> list[ScorerChangeRecord]:
    """Every change on record, oldest first."""
    columns = (ScorerChange.c.before, ScorerChange.c.after, ScorerChange.c.created)
    query = select(Problem.c.name, *columns).join(Problem, Problem.c.id == ScorerChange.c.problem_id)
    rows = store.rows(query.where(Problem.c.run_id == run_id).order_by(ScorerChange.c.id))
    return [ScorerChangeRecord(*row) for row in rows]
