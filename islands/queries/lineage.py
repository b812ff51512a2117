"""Where a problem's best answer came from: the answer itself, its line of parents, the rollout that gave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, literal, select
from sqlalchemy.orm import aliased

from islands.db.schema import Answer, Candidate, Problem, PromptGroup, Rollout

_FITTEST = (
    select(Problem.id, Problem.best)
    .where(Problem.id.in_(bindparam("ids", expanding=True)), Problem.best.is_not(None))
    .order_by(Problem.best_fitness.desc(), Problem.id)
    .limit(1)
)


def fittest(connection: Connection, problems: Sequence[int]) -> tuple[int, int] | None:
    """(problem id, candidate id) of the fittest of several searches of one problem; None where none has any."""
    row = connection.execute(_FITTEST, {"ids": list(problems)}).first()
    return None if row is None else (int(row[0]), int(row[1] or 0))


_line = select(Candidate.id, Candidate.parent_id, Candidate.fitness, literal(0).label("depth"))
_LINE = _line.where(Candidate.id == bindparam("candidate")).cte("line", recursive=True)
_above = aliased(Candidate)
_LINE = _LINE.union_all(
    select(_above.id, _above.parent_id, _above.fitness, _LINE.c.depth + 1)
    .join(_LINE, _above.id == _LINE.c.parent_id)
    .where(_LINE.c.depth < bindparam("most") - 1)
)
_ANCESTORS = select(_LINE.c.id, _LINE.c.fitness).order_by(_LINE.c.depth)


def ancestors(connection: Connection, candidate: int, most: int) -> list[tuple[int, float]]:
    """(id, fitness) of a candidate, its parent, its parent's parent: at most `most` of them."""
    found = connection.execute(_ANCESTORS, {"candidate": candidate, "most": most})
    return [(id, fitness) for id, fitness in found]


@dataclass(frozen=True)
class Origin:
    """Where an answer was given first: the prompt, and the whole text of the rollout with the answer's place in it,
    from 0."""

    system: str
    user: str
    chain: str
    place: int


_ORIGIN = (
    select(PromptGroup.system, PromptGroup.user, PromptGroup.prefill, Rollout.text, Answer.position)
    .join(Rollout, Rollout.group_id == PromptGroup.id)
    .join(Answer, Answer.rollout_id == Rollout.id)
    .where(Answer.candidate_id == bindparam("candidate"))
    .order_by(Answer.rollout_id, Answer.position)
    .limit(1)
)


def origin(connection: Connection, candidate: int) -> Origin | None:
    """None for a seed answer that no rollout has given since."""
    row = connection.execute(_ORIGIN, {"candidate": candidate}).first()
    return None if row is None else Origin(row[0], row[1], row[2] + row[3], int(row[4]))


_FIRST_PROMPT = (
    select(PromptGroup.system, PromptGroup.user)
    .where(PromptGroup.run_id == bindparam("run"), PromptGroup.problem_id == bindparam("problem"))
    .order_by(PromptGroup.sequence)
    .limit(1)
)


def first_prompt(connection: Connection, run: int, problem: int) -> Origin | None:
    """What a search asked first, without an answer to it; None before its first iteration is stored."""
    row = connection.execute(_FIRST_PROMPT, {"run": run, "problem": problem}).first()
    return None if row is None else Origin(row[0], row[1], "", 0)
