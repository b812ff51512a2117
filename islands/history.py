"""What a population reads: its candidates by id, and its stored groups in commit order, which resuming replays."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Connection, Row, Select, bindparam, select

from islands.schema import Answer, Migration, PromptGroup, Rollout
from islands.schema import Candidate as CandidateRow
from islands.store import Store
from islands.types import Candidate

PAGE = 500
COLUMNS = (
    CandidateRow.c.id,
    CandidateRow.c.text,
    CandidateRow.c.rewards,
    CandidateRow.c.fitness,
    CandidateRow.c.features,
    CandidateRow.c.feedback,
    CandidateRow.c.error,
    CandidateRow.c.generation,
    CandidateRow.c.island,
    CandidateRow.c.parent_id,
    CandidateRow.c.own_values,
)


@cache
def _by_ids(count: int) -> Select[Any]:
    """A query for `count` ids. One that expands its list at each execution costs half as much again."""
    return select(*COLUMNS).where(CandidateRow.c.id.in_([bindparam(f"id{n}", type_=BigInteger) for n in range(count)]))


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
    CandidateRow.c.id,
    CandidateRow.c.identity,
    CandidateRow.c.fitness,
    CandidateRow.c.rewards,
    CandidateRow.c.measures,
    CandidateRow.c.generation,
    CandidateRow.c.error,
    CandidateRow.c.sequence,
    CandidateRow.c.features,
)


def seeds(store: Store, problem_id: int) -> list[Row[Any]]:
    """The rows of candidates that no group brought."""
    query = (
        select(*_BORN)
        .where(CandidateRow.c.problem_id == problem_id, CandidateRow.c.sequence == -1)
        .order_by(CandidateRow.c.id)
    )
    return list(store.rows(query))


def texts(store: Store, ids: list[int]) -> list[str]:
    """The texts of candidates, in the order of the ids."""
    rows = store.rows(select(CandidateRow.c.id, CandidateRow.c.text).where(CandidateRow.c.id.in_(ids)))
    found = {row.id: row.text for row in rows}
    return [found[id] for id in ids]


def stored_groups(store: Store, problem_id: int, after: int, upto: int | None) -> Iterator[StoredGroup]:
    """A problem's groups with after < sequence <= upto (None: all that are stored now), in order. Memory: one page."""
    while page := _read(store, problem_id, after, upto):
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].sequence


def _read(store: Store, problem_id: int, after: int, upto: int | None) -> list[StoredGroup]:
    query = (
        select(PromptGroup.c.sequence, PromptGroup.c.island, PromptGroup.c.parent_id)
        .where(PromptGroup.c.problem_id == problem_id, PromptGroup.c.sequence > after)
        .order_by(PromptGroup.c.sequence)
        .limit(PAGE)
    )
    if upto is not None:
        query = query.where(PromptGroup.c.sequence <= upto)
    with store.read() as connection:
        groups = {row.sequence: StoredGroup(*row) for row in connection.execute(query)}
        if groups:
            _fill(connection, problem_id, groups, after, max(groups))
    return list(groups.values())


def _fill(connection: Connection, problem_id: int, groups: dict[int, StoredGroup], after: int, last: int) -> None:
    answers = (
        select(PromptGroup.c.sequence, Answer.c.candidate_id)
        .join(Rollout, Rollout.c.group_id == PromptGroup.c.id)
        .join(Answer, Answer.c.rollout_id == Rollout.c.id)
        .where(PromptGroup.c.problem_id == problem_id, PromptGroup.c.sequence.between(after + 1, last))
        .order_by(PromptGroup.c.sequence, Rollout.c.position, Answer.c.position)
    )
    for sequence, candidate in connection.execute(answers):
        groups[sequence].answers.append(candidate)
    born: Select[Any] = select(*_BORN).where(
        CandidateRow.c.problem_id == problem_id, CandidateRow.c.sequence.between(max(0, after + 1), last)
    )
    for row in connection.execute(born.order_by(CandidateRow.c.id)):
        groups[row.sequence].born[row.id] = row
    moves = (
        select(Migration.c.sequence, Migration.c.source, Migration.c.target, Migration.c.candidate_id)
        .where(Migration.c.problem_id == problem_id, Migration.c.sequence.between(after + 1, last))
        .order_by(Migration.c.id)
    )
    for at, source, target, migrant in connection.execute(moves):
        group = groups[at]
        if group.moves is None:
            group.moves = []
        if source is not None and target is not None and migrant is not None:
            group.moves.append((source, target, migrant))
