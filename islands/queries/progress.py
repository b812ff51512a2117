"""How far a run has come, from the database alone: what a resume and an overview need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, Select, case, func, select

from islands.db.schema import Answer, Candidate, Problem, PromptGroup, Rollout
from islands.db.store import Store
from islands.queries.live import course_of
from islands.types import ParentKind


@dataclass(frozen=True)
class ProblemProgress:
    """One problem: its committed groups, the iteration that comes next, and after how many iterations it was solved
    (0 for a seed that solves it, None for unsolved).

    missing: iterations before the next that are not committed, as where groups are committed as they come back
    """

    groups: int
    next_iteration: int
    solved_at: int | None
    missing: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunProgress:
    """A run: its committed groups, the sequence that comes next, and each problem by its database id."""

    groups: int
    next_sequence: int
    problems: dict[int, ProblemProgress]


def run_progress(store: Store, run_id: int) -> RunProgress:
    """By a few queries whose cost grows with the run: read it once."""
    problems, solved = {}, course_of(store, run_id).solved
    ids = select(Problem.c.id).where(Problem.c.run_id == run_id).order_by(Problem.c.index)
    with store.read() as connection:
        counts = {problem: (n, newest) for problem, n, newest in connection.execute(_by_problem(run_id))}
        for id in connection.execute(ids).scalars():
            n, newest = counts.get(id, (0, -1))
            missing = _missing(connection, id, newest) if n <= newest else ()
            problems[id] = ProblemProgress(n, newest + 1, solved.get(id), missing)
    groups, last = group_count(store, run_id)
    return RunProgress(groups, last + 1, problems)


def _missing(connection: Connection, problem: int, newest: int) -> tuple[int, ...]:
    there = select(PromptGroup.c.iteration).where(PromptGroup.c.problem_id == problem)
    return tuple(sorted(set(range(newest + 1)) - set(connection.execute(there).scalars())))


def _by_problem(run_id: int) -> Select[int, int, int]:
    """(problem id, committed groups, newest iteration)."""
    return (
        select(PromptGroup.c.problem_id, func.count(), func.max(PromptGroup.c.iteration))
        .where(PromptGroup.c.run_id == run_id)
        .group_by(PromptGroup.c.problem_id)
    )


def last_sequences(store: Store, run_id: int) -> list[tuple[int, int, int]]:
    """(index, committed groups - 1, sequence) of the last committed group of every problem that has one. The first is
    its iteration, unless groups were committed as they came back."""
    query = (
        select(Problem.c.index, func.count() - 1, func.max(PromptGroup.c.sequence))
        .join(PromptGroup, PromptGroup.c.problem_id == Problem.c.id)
        .where(PromptGroup.c.run_id == run_id)
        .group_by(Problem.c.index)
    )
    return [(int(index), int(iteration), int(sequence)) for index, iteration, sequence in store.rows(query)]


def group_count(store: Store, run_id: int, upto: int | None = None) -> tuple[int, int]:
    """How many groups a run has, up to the sequence `upto`, and the sequence of the last; (0, -1) for none."""
    query = select(func.count(), func.max(PromptGroup.c.sequence)).where(PromptGroup.c.run_id == run_id)
    if upto is not None:
        query = query.where(PromptGroup.c.sequence <= upto)
    with store.read() as connection:
        groups, last = connection.execute(query).one()
    return int(groups), -1 if last is None else int(last)


def repeats_by_group(store: Store, run_id: int, last: int) -> Iterator[tuple[int, int, int, ParentKind, int, int]]:
    """(sequence, problem id, operator, parent shown, answers that repeat, answers) in order of sequence: of each
    problem, operator and kind of parent the last `last` groups."""
    shown = case(
        (PromptGroup.c.parent_id.is_(None), ParentKind.NOTHING.value),
        (Candidate.c.group_id.is_(None), ParentKind.SEED.value),
        else_=ParentKind.ANSWER.value,
    )
    place = func.row_number().over(
        partition_by=(PromptGroup.c.problem_id, PromptGroup.c.operator, shown), order_by=PromptGroup.c.sequence.desc()
    )
    columns = (PromptGroup.c.id, PromptGroup.c.sequence, PromptGroup.c.problem_id, PromptGroup.c.operator)
    placed = (
        select(*columns, shown.label("shown"), place.label("place"))
        .outerjoin(Candidate, Candidate.c.id == PromptGroup.c.parent_id)
        .where(PromptGroup.c.run_id == run_id)
        .subquery()
    )
    query = (
        select(
            placed.c.sequence,
            placed.c.problem_id,
            placed.c.operator,
            placed.c.shown,
            func.sum(case((Answer.c.repeat, 1), else_=0)),
            func.count(Answer.c.rollout_id),
        )
        .select_from(placed)
        .outerjoin(Rollout, Rollout.c.group_id == placed.c.id)
        .outerjoin(Answer, Answer.c.rollout_id == Rollout.c.id)
        .where(placed.c.place <= last)
        .group_by(placed.c.sequence, placed.c.problem_id, placed.c.operator, placed.c.shown)
        .order_by(placed.c.sequence)
    )
    for sequence, problem, operator, was_shown, repeated, answers in store.rows(query):
        yield sequence, problem, operator, ParentKind(was_shown), int(repeated), int(answers)
