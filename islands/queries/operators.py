"""What became of the answers to a parent (islands.population.operator_counts): the counts that are kept as groups are
stored, whose number does not depend on the length of a run, and the answers that they are counts of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, delete, func, insert, literal, select

from islands.db.schema import Answer, Candidate, Problem, PromptGroup, Rollout
from islands.db.schema import OperatorCount as Row
from islands.db.store import Store
from islands.types import OperatorCount

BATCH = 1000
COUNTED = (Row.c.answers, Row.c.better, Row.c.copies, Row.c.repeats, Row.c.compared, Row.c.kept)
_run: BindParameter[int] = bindparam("run")
_BY_PROBLEM = (
    select(Problem.c.index, Row.c.operator, Row.c.bin, *COUNTED)
    .join(Problem, Problem.c.id == Row.c.problem_id)
    .where(Problem.c.run_id == _run)
    .order_by(Problem.c.index, Row.c.operator, Row.c.bin)
)
_SUMMED = (
    select(Row.c.operator, Row.c.bin, *(func.sum(column) for column in COUNTED))
    .join(Problem, Problem.c.id == Row.c.problem_id)
    .where(Problem.c.run_id == _run)
    .group_by(Row.c.operator, Row.c.bin)
    .order_by(Row.c.operator, Row.c.bin)
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
    parent = Candidate.alias()
    nothing = literal("")
    query = (
        select(
            PromptGroup.c.operator,
            PromptGroup.c.inspirations,
            Answer.c.repeat,
            Candidate.c.id,
            Candidate.c.fitness,
            Candidate.c.error,
            Candidate.c.text if texts else nothing.label("text"),
            parent.c.id.label("parent"),
            parent.c.fitness.label("parent_fitness"),
            parent.c.error.label("parent_error"),
            parent.c.text.label("parent_text") if texts else nothing.label("parent_text"),
        )
        .join(Rollout, Rollout.c.group_id == PromptGroup.c.id)
        .join(Answer, Answer.c.rollout_id == Rollout.c.id)
        .join(Candidate, Candidate.c.id == Answer.c.candidate_id)
        .outerjoin(parent, parent.c.id == PromptGroup.c.parent_id)
        .where(PromptGroup.c.problem_id == problem_id)
        .execution_options(yield_per=BATCH)
    )
    for row in connection.execute(query):
        known = row.parent is not None
        shown = (*row.inspirations, *([row.parent] if known else []))
        of = ShownParent(row.parent_fitness, row.parent_error, row.parent_text) if known else None
        yield GivenAnswer(row.operator, row.id, row.repeat, row.fitness, row.error, row.text, of, shown)


def replace_counts(connection: Connection, problem_id: int, counts: Iterable[OperatorCount]) -> None:
    """Put these in the place of a problem's counts."""
    connection.execute(delete(Row).where(Row.c.problem_id == problem_id))
    rows = [dict(problem_id=problem_id, **asdict(count)) for count in counts]
    if rows:
        connection.execute(insert(Row), rows)
