"""What became of parents: every candidate of a problem with the parent that it was an answer to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import select

from islands.db.schema import Candidate, PromptGroup
from islands.db.store import Store

BATCH = 2000


class Child(NamedTuple):
    """A candidate in a few numbers. parent: the candidate that its prompt showed, None where it showed none and of a
    seed; inspirations: those beside it; sequence, iteration: of the group that gave it first, -1 of a seed."""

    id: int
    sequence: int
    parent: int | None
    inspirations: tuple[int, ...]
    rewards: tuple[float, ...]
    fitness: float
    failed: bool
    iteration: int


def children(store: Store, problem_id: int, *, upto: int | None = None) -> Iterator[Child]:
    """Every distinct candidate of a problem in the order in which they were stored, up to the group `upto`."""
    query = (
        select(
            Candidate.c.id,
            Candidate.c.sequence,
            Candidate.c.parent_id,
            PromptGroup.c.inspirations,
            Candidate.c.rewards,
            Candidate.c.fitness,
            Candidate.c.error,
            PromptGroup.c.iteration,
        )
        .outerjoin(PromptGroup, PromptGroup.c.id == Candidate.c.group_id)
        .where(Candidate.c.problem_id == problem_id)
        .order_by(Candidate.c.sequence, Candidate.c.id)
        .execution_options(yield_per=BATCH)
    )
    if upto is not None:  # seeds have -1
        query = query.where(Candidate.c.sequence <= upto)
    with store.read() as connection:
        for id, sequence, parent, beside, rewards, fitness, error, iteration in connection.execute(query):
            inspirations = tuple(other for other in beside or () if other != parent)
            place = -1 if iteration is None else iteration
            yield Child(id, sequence, parent, inspirations, tuple(rewards), fitness, error is not None, place)
