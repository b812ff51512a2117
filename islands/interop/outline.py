"""A stored problem in numbers: which candidates it has, which islands they are on, and under which ids a checkpoint
names them. Texts stay in the database until each program is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, select

from islands.db.schema import Candidate, Import, ImportedProgram, Migration, PromptGroup
from islands.db.store import Store
from islands.queries.runs import EliteRecord, elites
from islands.types import ProblemRecord


@dataclass(frozen=True)
class OutlineLine:
    """A candidate without its text. origin: whether a checkpoint brought it; sequence: of its group, -1 for a seed"""

    island: int
    generation: int
    sequence: int
    parent: int | None
    fitness: float
    rewards: tuple[float, ...]
    features: Mapping[str, float]
    measures: tuple[float, ...]
    created: float
    valid: bool
    origin: bool


@dataclass(frozen=True)
class Copy:
    """A candidate on a further island: the id of the copy, where, and when it came there."""

    id: str
    candidate: int
    island: int
    created: float


@dataclass(eq=False)
class Outline:
    """lines: by candidate id, in the order of storing; record: metadata.json of the checkpoint that the problem was
    imported from, and imported: the last group of it, -1 if there is none
    groups: their number by island, of which `own` were not imported; iterations: their number
    copies: of candidates on further islands, except imported copies
    elites: the current cells; migration: (sequence, generation) of the last one
    """

    problem: ProblemRecord
    lines: dict[int, OutlineLine]
    record: Mapping[str, Any] | None
    imported: int
    groups: dict[int, int]
    own: dict[int, int]
    iterations: int
    elites: list[EliteRecord]
    migration: tuple[int, int]
    copies: list[Copy] = field(default_factory=list)
    prefix: str = "candidate"
    _ids: dict[int, dict[int, str]] = field(default_factory=dict)  # candidate -> island -> id
    _first: dict[int, str] = field(default_factory=dict)

    @property
    def untouched(self) -> bool:
        """Whether nothing was added after the import of a checkpoint."""
        return self.record is not None and not self.own and all(line.origin for line in self.lines.values())

    @property
    def islands(self) -> int:
        placed = [island for ids in self._ids.values() for island in ids]
        stored = len(self.record.get("islands", ())) if self.record is not None else 0
        return max([stored, 1, *(island + 1 for island in (*placed, *self.groups))])

    def id_of(self, candidate: int, island: int | None = None) -> str:
        """The candidate's program on that island, else its first one."""
        there = None if island is None else self._ids[candidate].get(island)
        return self._first[candidate] if there is None else there

    def placed(self, candidate: int, island: int) -> bool:
        return island in self._ids.get(candidate, {})

    def members(self) -> list[list[str]]:
        """Program ids of each island: those of the imported checkpoint, then later ones."""
        stored = self.record.get("islands", []) if self.record is not None else []
        members = [list(ids) for ids in stored] + [list[str]() for _ in range(self.islands - len(stored))]
        held = [set(ids) for ids in members]
        for candidate, line in self.lines.items():
            if not line.origin:
                members[line.island].append(self.id_of(candidate))
        for copy in self.copies:
            if copy.id not in held[copy.island]:
                members[copy.island].append(copy.id)
        return members

    def _place(self, candidate: int, island: int, id: str) -> None:
        self._first.setdefault(candidate, id)
        self._ids.setdefault(candidate, {}).setdefault(island, id)


def outline(store: Store, problem: ProblemRecord) -> Outline:
    """Read it, with a handful of queries whatever its size. Groups committed meanwhile are left out."""
    cells = list(elites(store, [problem.id]))  # before the candidates, so that all of them are there
    with store.read() as connection:
        moves = connection.execute(
            select(Migration.c.sequence, Migration.c.generation, Migration.c.target, Migration.c.candidate_id)
            .where(Migration.c.problem_id == problem.id)
            .order_by(Migration.c.id)
        ).all()
        record, imported, names = _origin(connection, problem.id)
        groups, own, iterations = _groups(connection, problem.id, imported)
        lines = _lines(connection, problem.id, {candidate for _, candidate, _ in names})
    last = max(((sequence, generation) for sequence, generation, _, _ in moves), default=(-1, 0))
    result = Outline(problem, lines, record, imported, groups, own, iterations, cells, last)
    for name, candidate, island in names:
        result._place(candidate, island, name)
    while any(name.startswith(f"{result.prefix}-") for name, _, _ in names):
        result.prefix = f"new-{result.prefix}"
    for id, line in lines.items():
        if not line.origin:
            result._place(id, line.island, f"{result.prefix}-{id}")
    if result.untouched:
        return result
    times = {line.sequence: line.created for line in lines.values()}  # of the last one of each group
    if record is None:  # a seed begins on every island
        for seed in [id for id, line in lines.items() if line.sequence < 0]:
            for island in range(result.islands):
                _copy(result, seed, island, lines[seed].created)
    for sequence, _, target, moved in moves:
        if moved is not None and target is not None and moved in lines:
            _copy(result, moved, target, times.get(sequence, lines[moved].created))
    for cell in cells:  # an answer that was found again on another island and won a cell there
        if cell.candidate in lines:
            _copy(result, cell.candidate, cell.island, lines[cell.candidate].created)
    return result


def _copy(outline_: Outline, candidate: int, island: int, created: float) -> None:
    if outline_.placed(candidate, island):
        return
    id = f"{outline_.prefix}-{candidate}-island-{island}"
    outline_._place(candidate, island, id)
    outline_.copies.append(Copy(id, candidate, island, created))


def _origin(connection: Connection, problem: int) -> tuple[Mapping[str, Any] | None, int, list[tuple[str, int, int]]]:
    """metadata.json, the last group, and (name, candidate, island) of every program of a checkpoint."""
    row = connection.execute(select(Import.c.record, Import.c.sequence).where(Import.c.problem_id == problem)).first()
    if row is None:
        return None, -1, []
    record = json.loads(row.record)
    home = {id: island for island, ids in enumerate(record.get("islands", ())) for id in ids}
    programs = connection.execute(
        select(ImportedProgram.c.name, ImportedProgram.c.candidate_id, Candidate.c.island)
        .join(Candidate, Candidate.c.id == ImportedProgram.c.candidate_id)
        .where(ImportedProgram.c.problem_id == problem)
        .order_by(ImportedProgram.c.position)
    )
    return record, row.sequence, [(name, candidate, home.get(name, born)) for name, candidate, born in programs]


def _groups(connection: Connection, problem: int, imported: int) -> tuple[dict[int, int], dict[int, int], int]:
    """Groups by island, those of them that were not imported, and the iteration that comes next."""
    groups: dict[int, int] = {}
    own: dict[int, int] = {}
    query = select(PromptGroup.c.sequence, PromptGroup.c.island).where(PromptGroup.c.problem_id == problem)
    for sequence, island in connection.execute(query):
        groups[island] = groups.get(island, 0) + 1
        if sequence > imported:
            own[island] = own.get(island, 0) + 1
    newest = select(func.max(PromptGroup.c.iteration)).where(PromptGroup.c.problem_id == problem)
    last = connection.execute(newest).scalar()
    return groups, own, 0 if last is None else last + 1


def _lines(connection: Connection, problem: int, origin: set[int]) -> dict[int, OutlineLine]:
    query = (
        select(
            Candidate.c.id, Candidate.c.island, Candidate.c.generation, Candidate.c.sequence, Candidate.c.parent_id,
            Candidate.c.fitness, Candidate.c.rewards, Candidate.c.features, Candidate.c.measures, Candidate.c.created,
            Candidate.c.error.is_(None),
        )
        .where(Candidate.c.problem_id == problem)
        .order_by(Candidate.c.id)
    )  # fmt: skip
    return {
        id: OutlineLine(
            island, generation, sequence, parent, fitness, tuple(rewards), features, tuple(measures), created,
            bool(valid), id in origin,
        )
        for id, island, generation, sequence, parent, fitness, rewards, features, measures, created, valid
        in connection.execute(query)
    }  # fmt: skip
