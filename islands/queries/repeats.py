"""How many answers of a group were stored before it: what a search that goes on has to know of the one that ended."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import case, func, select

from islands.db.schema import Answer, PromptGroup, Rollout
from islands.db.store import Store


def repeats_by_group(store: Store, run_id: int, last: int) -> Iterator[tuple[int, int, int, bool, int, int]]:
    """(sequence, problem id, operator, whether a parent was shown, answers that repeat, answers) in order of sequence:
    of each problem, operator and kind the last `last` groups."""
    shown = PromptGroup.parent_id.is_not(None)
    place = func.row_number().over(
        partition_by=(PromptGroup.problem_id, PromptGroup.operator, shown), order_by=PromptGroup.sequence.desc()
    )
    columns = (PromptGroup.id, PromptGroup.sequence, PromptGroup.problem_id, PromptGroup.operator)
    placed = select(*columns, shown.label("shown"), place.label("place")).where(PromptGroup.run_id == run_id).subquery()
    query = (
        select(
            placed.c.sequence,
            placed.c.problem_id,
            placed.c.operator,
            placed.c.shown,
            func.sum(case((Answer.repeat, 1), else_=0)),
            func.count(Answer.rollout_id),
        )
        .select_from(placed)
        .outerjoin(Rollout, Rollout.group_id == placed.c.id)
        .outerjoin(Answer, Answer.rollout_id == Rollout.id)
        .where(placed.c.place <= last)
        .group_by(placed.c.sequence, placed.c.problem_id, placed.c.operator, placed.c.shown)
        .order_by(placed.c.sequence)
    )
    for sequence, problem, operator, was_shown, repeated, answers in store.rows(query):
        yield sequence, problem, operator, bool(was_shown), int(repeated), int(answers)
