"""A run's record of the checkpoint that it was imported from."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import select

from islands.db.schema import Import, ImportedProgram, Problem
from islands.db.store import Store


@dataclass(frozen=True)
class OriginalProgram:
    """The program of OpenEvolve behind a candidate. iteration: OpenEvolve's, 0 for an initial program"""

    id: str
    iteration: int


def source_of(store: Store, run_id: int) -> str | None:
    """The checkpoint that a run was imported from, None for a run that began here."""
    query = select(Import.c.source).join(Problem, Problem.c.id == Import.c.problem_id).where(Problem.c.run_id == run_id)
    source: str | None = store.scalar(query)
    return source


def originals_of(store: Store, candidate_id: int) -> list[OriginalProgram]:
    """The programs that a candidate was imported from, the first one first; none for one that was found here."""
    query = select(ImportedProgram.c.name, ImportedProgram.c.record).where(
        ImportedProgram.c.candidate_id == candidate_id
    )
    rows = store.rows(query.order_by(ImportedProgram.c.position))
    return [
        OriginalProgram(name, int(json.loads(record)["program"].get("iteration_found") or 0)) for name, record in rows
    ]
