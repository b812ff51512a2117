"""How many answers of a group were stored before it: what a search that goes on has to know of the one that ended."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import case, func, select

from islands.db.schema import Answer, PromptGroup, Rollout
from islands.db.store import Store


def repeats_by_group(store: Store, run_id: int, last: int) -> Iterator[tuple[int, int, int, bool, int, int]]:
    """(sequence, problem id, operator, whether a parent was shown, answers that repeat, answers) in order of sequence:
    of each problem, operator and kind the last `last` groups."""
    shown = PromptGroup.c.parent_id.is_not(None)
    place = func.row_number().over(
        partition_by=(PromptGroup.c.problem_id, PromptGroup.c.operator, shown), order_by=PromptGroup.c.sequence.desc()
    )
    columns = (PromptGroup.c.id, PromptGroup.c.sequence, PromptGroup.c.problem_id, PromptGroup.c.operator)
    placed = (
        select(*columns, shown.label("shown"), place.label("place")).where(PromptGroup.c.run_id == run_id).subquery()
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
        yield sequence, problem, operator, bool(was_shown), int(repeated), int(answers)
