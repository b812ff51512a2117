"""What became of the answers to a parent (islands.population.operator_counts): the counts that are kept as groups are
stored, whose number does not depend on the length of a run, and the answers that they are counts of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, delete, func, insert, literal, select
from sqlalchemy.orm import aliased

from islands.db.schema import Answer, Candidate, Problem, PromptGroup, Rollout, table
from islands.db.schema import OperatorCount as Row
from islands.db.store import Store
from islands.types import OperatorCount

BATCH = 1000
COUNTED = (Row.answers, Row.better, Row.copies, Row.repeats, Row.compared, Row.kept)
_run: BindParameter[int] = bindparam("run")
_BY_PROBLEM = (
    select(Problem.index, Row.operator, Row.bin, *COUNTED)
    .join(Problem, Problem.id == Row.problem_id)
    .where(Problem.run_id == _run)
    .order_by(Problem.index, Row.operator, Row.bin)
)
_SUMMED = (
    select(Row.operator, Row.bin, *(func.sum(column) for column in COUNTED))
    .join(Problem, Problem.id == Row.problem_id)
    .where(Problem.run_id == _run)
    .group_by(Row.operator, Row.bin)
    .order_by(Row.operator, Row.bin)
)


def counts_by_problem(store: Store, run_id: int) -> Iterator[tuple[int, OperatorCount]]:
    """(the problem's index in its run, count) of each of the run's problems, operators and bins."""
    with store.read() as connection:
        rows = connection.execute(_BY_PROBLEM, {"run": run_id}).all()
    return ((row[0], _count(tuple(row)[1:])) for row in rows)


def summed_counts(connection: Connection, run_id: int) -> list[OperatorCount]:
    """Of all problems of a run together: one for each operator and bin."""
    return [_count(tuple(row)) for row in connection.execute(_SUMMED, {"run": run_id})]


def _count(row: Sequence[Any]) -> OperatorCount:
    """PostgreSQL's sums are decimals."""
    operator, bin, answers, better, copies, repeats, compared, kept = row
    return OperatorCount(
        operator, bin, int(answers), int(better), int(copies), int(repeats), int(compared), float(kept)
    )


@dataclass(frozen=True)
class ShownParent:
    """What a prompt showed as its parent; text is "" where it was not asked for."""

    fitness: float
    error: str | None
    text: str


@dataclass(frozen=True)
class GivenAnswer:
    """An answer, and what its prompt showed. shown: candidate ids, the parent's among them."""

    operator: int
    candidate: int
    repeat: bool
    fitness: float
    error: str | None
    text: str
    parent: ShownParent | None
    shown: tuple[int, ...]


def answers_to_parents(connection: Connection, problem_id: int, *, texts: bool) -> Iterator[GivenAnswer]:
    """Every stored answer to a problem, as a transaction sees it, a batch of them in memory."""
    parent = aliased(Candidate)
    nothing = literal("")
    query = (
        select(
            PromptGroup.operator,
            PromptGroup.inspirations,
            Answer.repeat,
            Candidate.id,
            Candidate.fitness,
            Candidate.error,
            Candidate.text if texts else nothing.label("text"),
            parent.id.label("parent"),
            parent.fitness.label("parent_fitness"),
            parent.error.label("parent_error"),
            parent.text.label("parent_text") if texts else nothing.label("parent_text"),
        )
        .join(Rollout, Rollout.group_id == PromptGroup.id)
        .join(Answer, Answer.rollout_id == Rollout.id)
        .join(Candidate, Candidate.id == Answer.candidate_id)
        .outerjoin(parent, parent.id == PromptGroup.parent_id)
        .where(PromptGroup.problem_id == problem_id)
        .execution_options(yield_per=BATCH)
    )
    for row in connection.execute(query):
        known = row.parent is not None
        shown = (*row.inspirations, *([row.parent] if known else []))
        of = ShownParent(row.parent_fitness, row.parent_error, row.parent_text) if known else None
        yield GivenAnswer(row.operator, row.id, row.repeat, row.fitness, row.error, row.text, of, shown)


def replace_counts(connection: Connection, problem_id: int, counts: Iterable[OperatorCount]) -> None:
    """Put these in the place of a problem's counts."""
    connection.execute(delete(table(Row)).where(Row.problem_id == problem_id))
    rows = [dict(problem_id=problem_id, **asdict(count)) for count in counts]
    if rows:
        connection.execute(insert(table(Row)), rows)
