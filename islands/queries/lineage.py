"""Where a problem's best answer came from: the answer itself, its line of parents, the rollout that gave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, literal, select

from islands.db.schema import Answer, Candidate, Problem, PromptGroup, Rollout
from islands.db.store import Store

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


class Ancestor(NamedTuple):
    """One step of a lineage."""

    candidate: int
    fitness: float
    generation: int = 0


_first = select(
    Candidate.c.id, Candidate.c.parent_id, Candidate.c.fitness, Candidate.c.generation, literal(0).label("depth")
)
_LINE = _first.where(Candidate.c.id == bindparam("candidate")).cte("line", recursive=True)
_above = Candidate.alias()
_LINE = _LINE.union_all(
    select(_above.c.id, _above.c.parent_id, _above.c.fitness, _above.c.generation, _LINE.c.depth + 1)
    .join(_LINE, _above.c.id == _LINE.c.parent_id)
    .where(_LINE.c.depth < bindparam("most") - 1)
)
_ANCESTORS = select(_LINE.c.id, _LINE.c.fitness, _LINE.c.generation).order_by(_LINE.c.depth)


def ancestors(store: Store, candidate: int, most: int = 1 << 31) -> list[Ancestor]:
    """A candidate, its parent, its parent's parent, at most `most` of them; none where there is no such candidate."""
    with store.read() as connection:
        return [Ancestor(*row) for row in connection.execute(_ANCESTORS, {"candidate": candidate, "most": most})]


@dataclass(frozen=True)
class Origin:
    """Where an answer was given first: the prompt, and the whole text of the rollout with the answer's place in it,
    from 0."""

    system: str
    user: str
    chain: str
    place: int


_ORIGINS = (
    select(
        Candidate.c.id, PromptGroup.c.system, PromptGroup.c.user, PromptGroup.c.prefill, Rollout.c.text,
        Answer.c.position,
    )
    .join(PromptGroup, PromptGroup.c.id == Candidate.c.group_id)
    .join(Rollout, Rollout.c.group_id == PromptGroup.c.id)
    .join(Answer, (Answer.c.rollout_id == Rollout.c.id) & (Answer.c.candidate_id == Candidate.c.id))
    .where(Candidate.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(Rollout.c.id, Answer.c.position)
)  # fmt: skip


def origins(store: Store, candidates: Sequence[int]) -> dict[int, Origin]:
    """Candidate id -> where it was given first; a seed answer has no origin."""
    found: dict[int, Origin] = {}
    with store.read() as connection:
        for id, system, user, prefill, text, place in connection.execute(_ORIGINS, {"ids": list(candidates)}):
            found.setdefault(id, Origin(system or "", user or "", (prefill or "") + text, int(place)))
    return found


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
