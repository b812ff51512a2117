"""Where a problem's best answer came from: the answer itself, its line of parents, the rollout that gave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, literal, select

from islands.db.schema import Answer, Candidate, Problem, PromptGroup, Rollout

_FITTEST = (
    select(Problem.c.id, Problem.c.best)
    .where(Problem.c.id.in_(bindparam("ids", expanding=True)), Problem.c.best.is_not(None))
    .order_by(Problem.c.best_fitness.desc(), Problem.c.id)
    .limit(1)
)


def fittest(connection: Connection, problems: Sequence[int]) -> tuple[int, int] | None:
    """(problem id, candidate id) of the fittest of several searches of one problem; None where none has any."""
    row = connection.execute(_FITTEST, {"ids": list(problems)}).first()
    return None if row is None else (int(row[0]), int(row[1] or 0))


_line = select(Candidate.c.id, Candidate.c.parent_id, Candidate.c.fitness, literal(0).label("depth"))
_LINE = _line.where(Candidate.c.id == bindparam("candidate")).cte("line", recursive=True)
_above = Candidate.alias()
_LINE = _LINE.union_all(
    select(_above.c.id, _above.c.parent_id, _above.c.fitness, _LINE.c.depth + 1)
    .join(_LINE, _above.c.id == _LINE.c.parent_id)
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
    select(PromptGroup.c.system, PromptGroup.c.user, PromptGroup.c.prefill, Rollout.c.text, Answer.c.position)
    .join(Rollout, Rollout.c.group_id == PromptGroup.c.id)
    .join(Answer, Answer.c.rollout_id == Rollout.c.id)
    .where(Answer.c.candidate_id == bindparam("candidate"))
    .order_by(Answer.c.rollout_id, Answer.c.position)
    .limit(1)
)


def origin(connection: Connection, candidate: int) -> Origin | None:
    """None for a seed answer that no rollout has given since."""
    row = connection.execute(_ORIGIN, {"candidate": candidate}).first()
    return None if row is None else Origin(row[0], row[1], row[2] + row[3], int(row[4]))


_FIRST_PROMPT = (
    select(PromptGroup.c.system, PromptGroup.c.user)
    .where(PromptGroup.c.run_id == bindparam("run"), PromptGroup.c.problem_id == bindparam("problem"))
    .order_by(PromptGroup.c.sequence)
    .limit(1)
)


def first_prompt(connection: Connection, run: int, problem: int) -> Origin | None:
    """What a search asked first, without an answer to it; None before its first iteration is stored."""
    row = connection.execute(_FIRST_PROMPT, {"run": run, "problem": problem}).first()
    return None if row is None else Origin(row[0], row[1], "", 0)
