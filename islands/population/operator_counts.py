"""How an operator uses the parents in its prompts: how many of its answers are better, copies, repeats, and how much of
the parent they keep. Counted when a group is stored, by bins of the parent's fitness, so a run of any length has only a
few rows.

Bins are quarters of the way from 0, the fitness of a failed answer, to the problem's target (to 1 if there is no target
above 0); values outside are in the outermost bins. A parent that reaches the target is in a separate bin: it cannot be
improved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from sqlalchemy import Connection

from islands.queries.operators import answers_to_parents, replace_counts
from islands.types import AT_TARGET, NO_PARENT, QUARTERS, Candidate, OperatorCount, Placement, ProblemRecord
from problems.likeness import share_kept
from problems.types import ScoredGroup

TOLERANCE = 1e-9
"""Sums of the same parts in another order differ by less."""


class Scored(Protocol):
    """The compared properties of an answer and of its parent."""

    @property
    def fitness(self) -> float: ...
    @property
    def error(self) -> str | None: ...


def fitness_bin(parent: Scored | None, target: float | None) -> int:
    """NO_PARENT, a quarter from 0 to QUARTERS - 1, or AT_TARGET."""
    if parent is None:
        return NO_PARENT
    if target is not None and parent.error is None and parent.fitness >= target:
        return AT_TARGET
    whole = target if target is not None and target > 0 else 1.0
    return next((i for i in range(QUARTERS - 1) if parent.fitness < (i + 1) / QUARTERS * whole), QUARTERS - 1)


def is_better(answer: Scored, parent: Scored) -> bool:
    """Whether it is valid, and the parent is not or is less fit."""
    return answer.error is None and (parent.error is not None or answer.fitness > parent.fitness + TOLERANCE)


def count_group(
    problem: ProblemRecord, group: ScoredGroup, parent: Candidate | None, placements: Sequence[Placement]
) -> OperatorCount:
    """The answers of a group that was just placed. parent: the one its prompt showed."""
    answers = group.all_answers()
    shown = {group.parent, *group.inspirations}
    better, shares = 0, list[float]()
    if parent is not None:
        better = sum(is_better(answer.score, parent) for answer in answers)
        compared = [share_kept(parent.text, answer.text, problem.answer_format) for answer in answers]
        shares = [share for share in compared if share is not None]
    return OperatorCount(
        group.operator,
        fitness_bin(parent, problem.target),
        len(answers),
        better,
        sum(place.candidate in shown for place in placements),
        sum(not place.new for place in placements),
        len(shares),
        sum(shares),
    )


def recount(connection: Connection, problem: ProblemRecord, *, compare: bool) -> None:
    """Recount the stored answers of a problem by their current scores, in the caller's transaction.

    compare: also with their parents' texts, which may take minutes; without it, the kept shares stay unknown
    """
    counts: dict[tuple[int, int], OperatorCount] = {}
    for answer in answers_to_parents(connection, problem.id, texts=compare):
        parent = answer.parent
        share = share_kept(parent.text, answer.text, problem.answer_format) if compare and parent is not None else None
        count = OperatorCount(
            answer.operator,
            fitness_bin(parent, problem.target),
            1,
            int(parent is not None and is_better(answer, parent)),
            int(answer.candidate in answer.shown),
            int(answer.repeat),
            int(share is not None),
            share or 0.0,
        )
        key = (count.operator, count.bin)
        counts[key] = added([counts[key], count]) if key in counts else count
    replace_counts(connection, problem.id, counts.values())


def added(counts: Iterable[OperatorCount]) -> OperatorCount:
    """The sum of counts of one operator and bin. Raises ValueError for none."""
    parts = list(counts)
    if not parts:
        raise ValueError("no counts to add")
    columns = ("answers", "better", "copies", "repeats", "compared", "kept")
    return OperatorCount(
        parts[0].operator, parts[0].bin, **{name: sum(getattr(part, name) for part in parts) for name in columns}
    )
