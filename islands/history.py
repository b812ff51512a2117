"""Candidates by id or as a query names them, and the stored groups of a problem, which resuming replays."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, Select, bindparam, func, select

from islands.schema import AnswerLinks, Candidates, Migrations, Problems, PromptGroups, Rollouts, head_of
from islands.store import Store
from islands.types import Candidate, CandidateSummary

_T = TypeVar("_T")

PAGE = 100
"""Groups that are read at once."""
COLUMNS = (
    Candidates.c.id,
    Candidates.c.text,
    Candidates.c.rewards,
    Candidates.c.fitness,
    Candidates.c.features,
    Candidates.c.feedback,
    Candidates.c.error,
    Candidates.c.generation,
    Candidates.c.island,
    Candidates.c.parent_id,
    Candidates.c.own_values,
)


_OF_CANDIDATES = ("id", "fitness", "rewards", "error", "text", "generation", "sequence")
_READ: dict[str, ColumnElement[Any]] = {
    **{name: Candidates.c[name] for name in _OF_CANDIDATES},
    "values": Candidates.c.own_values,
    "parent": Candidates.c.parent_id,
    "inspirations": PromptGroups.c.inspirations,
    "run": Problems.c.run_id,
    "problem": Problems.c.index,
    "iteration": func.coalesce(PromptGroups.c.iteration, -1),
}
"""The fields of a CandidateSummary."""


def with_groups(query: Select[Any]) -> Select[Any]:
    """A query of candidates with the tables of their problems and groups; a seed has no group."""
    query = query.join_from(Candidates, Problems, Problems.c.id == Candidates.c.problem_id)
    return query.outerjoin(PromptGroups, PromptGroups.c.id == Candidates.c.group_id)


def summaries(*fields: str, head: int | None = None) -> Select[Any]:
    """A query for `read_summaries`. head: characters to read of a text or an error, None for all"""
    cut = ("text", "error") if head is not None else ()
    read = [head_of(_READ[field], head or 0) if field in cut else _READ[field] for field in fields]
    return with_groups(select(*(column.label(field) for column, field in zip(read, fields, strict=True))))


def read_summaries(store: Store, query: Select[Any]) -> list[CandidateSummary]:
    """The rows of a query that `summaries` made."""
    return [summary_of(row) for row in store.rows(query)]


def summary_of(row: Row[Any]) -> CandidateSummary:
    """From a row of such a query."""
    values = dict(row._mapping)
    values |= {name: tuple(values[name] or ()) for name in ("rewards", "values", "inspirations") if name in values}
    return CandidateSummary(**values)


@cache
def _by_ids(count: int) -> Select[Any]:
    """A query for `count` ids. One that expands its list at each execution costs half as much again."""
    return select(*COLUMNS).where(Candidates.c.id.in_([bindparam(f"id{n}", type_=BigInteger) for n in range(count)]))


def from_row(row: Sequence[Any]) -> Candidate:
    """A record from a row of COLUMNS."""
    id, text, rewards, fitness, features, feedback, error, generation, island, parent, own = tuple(row)
    vector, own = tuple(rewards), tuple(own or ())
    return Candidate(id, text, vector, fitness, features, feedback, error, generation, island, parent, own)


class CandidateReader:
    """Candidates by id through a least-recently-used cache of at most `cache_bytes` of text.

    Candidates of a transaction that has not ended are pinned: no other connection can see them yet.
    """

    def __init__(self, store: Store, cache_bytes: int = 16 << 20) -> None:
        self._store = store
        self._room = cache_bytes
        self._cache: OrderedDict[int, Candidate] = OrderedDict()
        self._pinned: dict[int, Candidate] = {}

    def pin(self, candidate: Candidate) -> None:
        """Hold a candidate that was just inserted."""
        self._pinned[candidate.id] = candidate

    def unpin(self, committed: bool) -> None:
        """The transaction ended; what was committed moves on to the cache."""
        if committed:
            for candidate in self._pinned.values():
                self._remember(candidate)
        self._pinned.clear()

    def fetch(self, ids: Sequence[int]) -> list[Candidate]:
        """In the order asked for, by at most one query. Raises KeyError for an id that is not stored."""
        found: dict[int, Candidate] = {}
        missing = []
        for id in ids:
            candidate = self._pinned.get(id) or self._cache.get(id)
            if candidate is None:
                missing.append(id)
                continue
            found[id] = candidate
            if id in self._cache:
                self._cache.move_to_end(id)
        if missing:
            with self._store.read() as connection:
                # a few lengths, each compiled once: 1, 2, 4, 8... with the last id repeated
                count = 1 << (len(missing) - 1).bit_length()
                wanted = missing + missing[-1:] * (count - len(missing))
                for row in connection.execute(_by_ids(count), {f"id{n}": id for n, id in enumerate(wanted)}):
                    candidate = from_row(row)
                    found[candidate.id] = candidate
                    self._remember(candidate)
        return [found[id] for id in ids]

    def _remember(self, candidate: Candidate) -> None:
        if candidate.id in self._cache:
            return
        self._cache[candidate.id] = candidate
        self._room -= _size(candidate)
        while self._room < 0 and self._cache:
            self._room += _size(self._cache.popitem(last=False)[1])


def _size(candidate: Candidate) -> int:
    return 600 + len(candidate.text) + len(candidate.feedback)  # 600: the record itself, its tuples and its number


@dataclass
class StoredGroup:
    """One group as far as the population is concerned.

    answers: candidate ids in the order of rollouts and places; born: those that this group brought -> their rows
    moves: None if no migration followed
    """

    sequence: int
    island: int
    parent: int | None
    answers: list[int] = field(default_factory=list)
    born: dict[int, Row[Any]] = field(default_factory=dict)
    moves: list[tuple[int, int, int]] | None = None  # (source, target, candidate id)


_BORN = (
    Candidates.c.id,
    Candidates.c.identity,
    Candidates.c.fitness,
    Candidates.c.rewards,
    Candidates.c.measures,
    Candidates.c.generation,
    Candidates.c.error,
    Candidates.c.sequence,
    Candidates.c.features,
)


def seeds(store: Store, problem_id: int) -> list[Row[Any]]:
    """The rows of candidates that no group brought."""
    query = (
        select(*_BORN)
        .where(Candidates.c.problem_id == problem_id, Candidates.c.sequence == -1)
        .order_by(Candidates.c.id)
    )
    return list(store.rows(query))


def stored_groups(store: Store, problem_id: int, after: int, upto: int | None) -> Iterator[StoredGroup]:
    """A problem's groups with after < sequence <= upto (None: all that are stored now), in order. Memory: one page."""
    query = select(PromptGroups.c.sequence, PromptGroups.c.island, PromptGroups.c.parent_id)

    def read(connection: Connection, rows: Sequence[Row[Any]]) -> list[StoredGroup]:
        groups = {row.sequence: StoredGroup(row.sequence, row.island, row.parent_id) for row in rows}
        _fill(connection, problem_id, groups)
        return list(groups.values())

    return read_pages(store, query.where(PromptGroups.c.problem_id == problem_id), after, upto, read)


def read_pages(
    store: Store, query: Select[Any], after: int, upto: int | None,
    read: Callable[[Connection, Sequence[Row[Any]]], list[_T]],
) -> Iterator[_T]:  # fmt: skip
    """What `read` makes of the groups that a query names, with after < sequence <= upto, in order, a page at a time."""
    query = query.order_by(PromptGroups.c.sequence).limit(PAGE)
    if upto is not None:
        query = query.where(PromptGroups.c.sequence <= upto)
    while True:
        with store.read() as connection:
            rows = connection.execute(query.where(PromptGroups.c.sequence > after)).all()
            page = read(connection, rows) if rows else []
        yield from page
        if len(rows) < PAGE:
            return
        after = rows[-1].sequence


def _fill(connection: Connection, problem_id: int, groups: dict[int, StoredGroup]) -> None:
    first, last = min(groups), max(groups)
    answers = (
        select(PromptGroups.c.sequence, AnswerLinks.c.candidate_id)
        .join(Rollouts, Rollouts.c.group_id == PromptGroups.c.id)
        .join(AnswerLinks, AnswerLinks.c.rollout_id == Rollouts.c.id)
        .where(PromptGroups.c.problem_id == problem_id, PromptGroups.c.sequence.between(first, last))
        .order_by(PromptGroups.c.sequence, Rollouts.c.position, AnswerLinks.c.position)
    )
    for sequence, candidate in connection.execute(answers):
        groups[sequence].answers.append(candidate)
    born: Select[Any] = select(*_BORN).where(
        Candidates.c.problem_id == problem_id, Candidates.c.sequence.between(first, last)
    )
    for row in connection.execute(born.order_by(Candidates.c.id)):
        groups[row.sequence].born[row.id] = row
    moves = (
        select(Migrations.c.sequence, Migrations.c.source, Migrations.c.target, Migrations.c.candidate_id)
        .where(Migrations.c.problem_id == problem_id, Migrations.c.sequence.between(first, last))
        .order_by(Migrations.c.id)
    )
    for at, source, target, migrant in connection.execute(moves):
        group = groups[at]
        if group.moves is None:
            group.moves = []
        if source is not None and target is not None and migrant is not None:
            group.moves.append((source, target, migrant))
