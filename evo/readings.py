"""What a live screen asks of the database: only what is newer than what it knows, whittled down by the database itself.

Within a run, groups are committed in the order of their sequence, so "newer" is a range of sequences; row ids say
nothing where several processes write. Each statement sees what is committed at its own moment, so everything that
belongs together is asked for up to one sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, or_, select
from sqlalchemy.orm import aliased

from islands.schema import Candidate, Elite, Problem, PromptGroup, Run

BEFORE_SEEDS = -2
"""A sequence below that of a seed answer, which is -1."""


@dataclass(frozen=True)
class Step:
    """A rise of a problem's best fitness. iteration is -1 and created None for the seed answer."""

    problem: int
    iteration: int
    sequence: int
    fitness: float
    candidate: int
    created: float | None


@dataclass(frozen=True)
class Pulse:
    """The part of a run that tells whether it moved."""

    id: int
    name: str
    status: str
    updated: float
    heartbeat: float | None


def pulses(connection: Connection, name: str) -> list[Pulse]:
    """The runs of the comparison `name`, else the run of that name, oldest first; none where there is neither."""
    columns = (Run.id, Run.name, Run.status, Run.updated, Run.heartbeat)
    for query in (select(*columns).where(Run.comparison == name), select(*columns).where(Run.name == name)):
        found = [Pulse(*row) for row in connection.execute(query.order_by(Run.id))]
        if found:
            return found
    return []


def newest_sequence(connection: Connection, run: int) -> int:
    """The last committed group; -1 before the first."""
    newest = connection.execute(select(func.max(PromptGroup.sequence)).where(PromptGroup.run_id == run)).scalar()
    return -1 if newest is None else int(newest)


def groups_between(connection: Connection, run: int, after: int, upto: int) -> Iterator[tuple[int, int]]:
    """(problem id, groups committed) for sequences in (after, upto]."""
    query = (
        select(PromptGroup.problem_id, func.count())
        .where(PromptGroup.run_id == run, PromptGroup.sequence > after, PromptGroup.sequence <= upto)
        .group_by(PromptGroup.problem_id)
    )
    yield from connection.execute(query).tuples()


def solved_between(connection: Connection, run: int, after: int, upto: int) -> Iterator[tuple[int, int]]:
    """(problem id, iterations it took) for problems that were solved by a sequence in (after, upto]; 0 by a seed."""
    solving = (PromptGroup.run_id == Problem.run_id) & (PromptGroup.sequence == Problem.solved_sequence)
    query = (
        select(Problem.id, PromptGroup.iteration)
        .outerjoin(PromptGroup, solving)
        .where(Problem.run_id == run, Problem.solved_sequence > after, Problem.solved_sequence <= upto)
    )
    for problem, iteration in connection.execute(query):
        yield problem, 0 if iteration is None else iteration + 1


def failed_problems(connection: Connection, run: int) -> dict[int, str]:
    """Problem id -> what stopped it."""
    query = select(Problem.id, Problem.message).where(Problem.run_id == run, Problem.status == "failed")
    return {problem: message for problem, message in connection.execute(query)}


def steps_between(connection: Connection, run: int, after: int, upto: int) -> Iterator[Step]:
    """The valid candidates of (after, upto] that are better than all before them in that range, by problem in order;
    whether they beat what came before the range is for the caller to see."""
    columns = (Candidate.problem_id, Candidate.id, Candidate.fitness, Candidate.sequence, Candidate.group_id)
    before = func.max(Candidate.fitness).over(
        partition_by=Candidate.problem_id, order_by=(Candidate.sequence, Candidate.id), rows=(None, -1)
    )
    if after < -1:
        moved = select(Problem.id).where(Problem.run_id == run)
    else:
        moved = select(PromptGroup.problem_id).where(
            PromptGroup.run_id == run, PromptGroup.sequence > after, PromptGroup.sequence <= upto
        )
    valid = (
        select(*columns, before.label("before"))
        .where(
            Candidate.problem_id.in_(moved),
            Candidate.sequence > after,
            Candidate.sequence <= upto,
            Candidate.error.is_(None),
        )
        .subquery()
    )
    query = (
        select(
            valid.c.problem_id, PromptGroup.iteration, valid.c.sequence, valid.c.fitness, valid.c.id,
            PromptGroup.created,
        )
        .select_from(valid.outerjoin(PromptGroup, PromptGroup.id == valid.c.group_id))
        .where(or_(valid.c.before.is_(None), valid.c.fitness > valid.c.before))
        .order_by(valid.c.problem_id, valid.c.sequence, valid.c.id)
    )  # fmt: skip
    for problem, iteration, sequence, fitness, candidate, created in connection.execute(query):
        yield Step(problem, -1 if iteration is None else iteration, sequence, fitness, candidate, created)


def vectors(
    connection: Connection, candidates: Sequence[int]
) -> dict[int, tuple[tuple[float, ...], tuple[float, ...] | None]]:
    """Candidate id -> its reward vector and its parent's, None without a parent."""
    if not candidates:
        return {}
    parent = aliased(Candidate)
    query = (
        select(Candidate.id, Candidate.rewards, parent.rewards)
        .outerjoin(parent, parent.id == Candidate.parent_id)
        .where(Candidate.id.in_(list(candidates)))
    )
    return {id: (tuple(own), None if of is None else tuple(of)) for id, own, of in connection.execute(query)}


def elite_vectors(connection: Connection, problems: Sequence[int]) -> Iterator[tuple[int, int, list[float]]]:
    """(problem id, island, reward vector) for every occupied cell of these problems' archives."""
    query = (
        select(Elite.problem_id, Elite.island, Candidate.rewards)
        .join(Candidate, Candidate.id == Elite.candidate_id)
        .where(Elite.problem_id.in_(list(problems)))
    )
    yield from connection.execute(query).tuples()


def fittest(connection: Connection, problems: Sequence[int]) -> tuple[int, int] | None:
    """(problem id, candidate id) of the fittest of several searches of one problem; None where none has any."""
    query = select(Problem.id, Problem.best).where(Problem.id.in_(list(problems)), Problem.best.is_not(None))
    row = connection.execute(query.order_by(Problem.best_fitness.desc(), Problem.id).limit(1)).first()
    return None if row is None else (int(row[0]), int(row[1] or 0))


def run_states(connection: Connection, runs: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Run id -> what may change of its record; asked for runs that moved alone, since summaries and configurations of
    large runs are long."""
    if not runs:
        return {}
    query = select(Run.id, Run.reason, Run.summary, Run.config, Run.created, Run.updated).where(Run.id.in_(list(runs)))
    return {
        id: {"reason": reason, "summary": summary, "config": config, "created": created, "updated": updated}
        for id, reason, summary, config, created, updated in connection.execute(query)
    }
