"""Reading candidates by id, with the few that are read again and again kept at hand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Select, bindparam, select

from islands.db.schema import Candidate as CandidateRow
from islands.db.store import Store
from islands.types import Candidate

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
)


@cache
def _by_ids(count: int) -> Select[Any]:
    """A query for `count` ids. One that expands its list at each execution costs half as much again."""
    return select(*COLUMNS).where(CandidateRow.c.id.in_([bindparam(f"id{n}", type_=BigInteger) for n in range(count)]))


def from_row(row: Sequence[Any]) -> Candidate:
    """A record from a row of COLUMNS."""
    id, text, rewards, fitness, features, feedback, error, generation, island, parent = tuple(row)
    return Candidate(id, text, tuple(rewards), fitness, features, feedback, error, generation, island, parent)


class CandidateReader:
    """Candidates by id through a least-recently-used cache of at most `cache_bytes` of text.

    Candidates of a transaction that has not ended are pinned: no other connection can see them yet.
    """

    def __init__(self, store: Store, cache_bytes: int) -> None:
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
