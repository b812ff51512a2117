"""What a problem's stored groups did to its population, in commit order, read in pages: what resuming replays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from islands.db.schema import Answer, Candidate, Migration, PromptGroup, Rollout
from islands.db.store import Store

PAGE = 500


@dataclass
class StoredGroup:
    """One group as far as the population is concerned. answers are candidate ids in the order of rollouts and places;
    born maps the ids that this group brought to their rows; moves is None where no migration followed."""

    sequence: int
    island: int
    parent: int | None
    answers: list[int] = field(default_factory=list)
    born: dict[int, Row[Any]] = field(default_factory=dict)
    moves: list[tuple[int, int, int]] | None = None  # (source, target, candidate id)


_BORN = (
    Candidate.c.id,
    Candidate.c.identity,
    Candidate.c.fitness,
    Candidate.c.rewards,
    Candidate.c.measures,
    Candidate.c.generation,
    Candidate.c.error,
    Candidate.c.sequence,
    Candidate.c.features,
)


def seeds(store: Store, problem_id: int) -> list[Row[Any]]:
    """The rows of candidates that no group brought."""
    query = (
        select(*_BORN).where(Candidate.c.problem_id == problem_id, Candidate.c.sequence == -1).order_by(Candidate.c.id)
    )
    return list(store.rows(query))


def texts(store: Store, ids: list[int]) -> list[str]:
    """The texts of candidates, in the order of the ids."""
    rows = store.rows(select(Candidate.c.id, Candidate.c.text).where(Candidate.c.id.in_(ids)))
    found = {row.id: row.text for row in rows}
    return [found[id] for id in ids]


def texts_after(store: Store, problem_id: int, after: int, limit: int) -> list[tuple[int, str]]:
    """(id, text) of the next candidates of a problem by id."""
    query = select(Candidate.c.id, Candidate.c.text).where(Candidate.c.problem_id == problem_id, Candidate.c.id > after)
    return [(id, text) for id, text in store.rows(query.order_by(Candidate.c.id).limit(limit))]


class History:
    """A problem's groups after the last one taken. Memory: one page."""

    def __init__(self, store: Store, problem_id: int) -> None:
        self._store = store
        self._problem = problem_id
        self._page: list[StoredGroup] = []
        self._ended = False  # the last page was read

    def take(self, after: int, upto: int | None) -> Iterator[StoredGroup]:
        """Groups with after < sequence <= upto (None: all that are stored now), in order. Once the last one was read,
        only None and `forget` look for more: who goes by sequence is who would have written them."""
        while True:
            if not self._page:
                if self._ended and upto is not None:
                    return
                self._page = self._read(after)
                self._ended = len(self._page) < PAGE
                self._page.reverse()
                if not self._page:
                    return
            while self._page:
                if upto is not None and self._page[-1].sequence > upto:
                    return
                group = self._page.pop()
                after = group.sequence
                yield group

    def forget(self) -> None:
        """Drop what was read ahead."""
        self._page, self._ended = [], False

    def _read(self, after: int) -> list[StoredGroup]:
        query = (
            select(PromptGroup.c.sequence, PromptGroup.c.island, PromptGroup.c.parent_id)
            .where(PromptGroup.c.problem_id == self._problem, PromptGroup.c.sequence > after)
            .order_by(PromptGroup.c.sequence)
            .limit(PAGE)
        )
        with self._store.read() as connection:
            groups = {row.sequence: StoredGroup(*row) for row in connection.execute(query)}
            if groups:
                self._fill(connection, groups, after, max(groups))
        return list(groups.values())

    def _fill(self, connection: Connection, groups: dict[int, StoredGroup], after: int, last: int) -> None:
        answers = (
            select(PromptGroup.c.sequence, Answer.c.candidate_id)
            .join(Rollout, Rollout.c.group_id == PromptGroup.c.id)
            .join(Answer, Answer.c.rollout_id == Rollout.c.id)
            .where(PromptGroup.c.problem_id == self._problem, PromptGroup.c.sequence.between(after + 1, last))
            .order_by(PromptGroup.c.sequence, Rollout.c.position, Answer.c.position)
        )
        for sequence, candidate in connection.execute(answers):
            groups[sequence].answers.append(candidate)
        born: Select[Any] = select(*_BORN).where(
            Candidate.c.problem_id == self._problem, Candidate.c.sequence.between(max(0, after + 1), last)
        )
        for row in connection.execute(born.order_by(Candidate.c.id)):
            groups[row.sequence].born[row.id] = row
        moves = (
            select(Migration.c.sequence, Migration.c.source, Migration.c.target, Migration.c.candidate_id)
            .where(Migration.c.problem_id == self._problem, Migration.c.sequence.between(after + 1, last))
            .order_by(Migration.c.id)
        )
        for at, source, target, migrant in connection.execute(moves):
            group = groups[at]
            if group.moves is None:
                group.moves = []
            if source is not None and target is not None and migrant is not None:
                group.moves.append((source, target, migrant))
