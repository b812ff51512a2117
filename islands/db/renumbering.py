"""New numbers for the operators of a stored run, whose policies have changed."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import case, select, update

from islands.db.schema import OperatorCount, Problem, PromptGroup
from islands.db.transaction import Transaction

_APART = 1 << 20
"""Keeps new numbers apart from old ones until all are written: a number may be both."""


def renumber_operators(run_id: int, moved: Mapping[int, int], tx: Transaction) -> None:
    """Give every group and every count of the run's operators its new number. moved: old number -> new number"""
    if not moved:
        return
    mine = select(Problem.c.id).where(Problem.c.run_id == run_id)
    for table, of_run in (
        (PromptGroup, PromptGroup.c.run_id == run_id),
        (OperatorCount, OperatorCount.c.problem_id.in_(mine)),
    ):
        number = table.c.operator
        apart = case({old: new + _APART for old, new in moved.items()}, value=number)
        tx.connection.execute(update(table).where(of_run, number.in_(list(moved))).values(operator=apart))
        tx.connection.execute(update(table).where(of_run, number >= _APART).values(operator=number - _APART))
