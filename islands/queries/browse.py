"""Candidates for a browser: a page of them by filters, failures included, and the offspring of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Select, Text, cast, false, func, or_, select

from islands.db.column_types import ESCAPED
from islands.db.schema import Candidate, Problem, PromptGroup, Rollout
from islands.db.store import Store

HEAD = 300
"""Characters of a text that a list reads."""
MOST_COUNTED = 10_000
_CUT = "..."


@dataclass(frozen=True)
class CandidateFilter:
    """Which candidates of some runs to list, and in which order.

    operators: run id -> the places of operators, of which one gave the answer; empty for all, seed answers included
    failed: True for those with an error only, False for those without; None for both
    kind: of the error (problems.scoring.error_kind); low, high: bounds of the fitness, included
    by_fitness: the fittest first, failures last; else the newest first
    ids: only these, if they match; None for all
    """

    runs: Sequence[int]
    operators: dict[int, tuple[int, ...]] = field(default_factory=dict)
    problem: int | None = None
    failed: bool | None = None
    kind: str = ""
    low: float | None = None
    high: float | None = None
    by_fitness: bool = False
    ids: Sequence[int] | None = None


@dataclass(frozen=True)
class CandidateSummary:
    """A candidate in a list. problem: its index; iteration, operator: None for a seed answer; error, text: their first
    HEAD characters."""

    id: int
    run: int
    problem: int
    iteration: int | None
    operator: int | None
    generation: int
    parent: int | None
    fitness: float
    rewards: tuple[float, ...]
    error: str | None
    text: str


def browse(store: Store, chosen: CandidateFilter, start: int, most: int) -> list[CandidateSummary]:
    """At most `most` candidates from place `start` on. Ordered by fitness, all that match are read."""
    order = [Candidate.c.error.is_not(None), Candidate.c.fitness.desc()] if chosen.by_fitness else []
    # texts are read of the rows that are shown only, not of all that are sorted
    ids = _matching(chosen).order_by(*order, Candidate.c.id.desc()).offset(start).limit(most)
    query = (
        select(
            Candidate.c.id,
            Problem.c.run_id,
            Problem.c.index,
            PromptGroup.c.iteration,
            PromptGroup.c.operator,
            Candidate.c.generation,
            Candidate.c.parent_id,
            Candidate.c.fitness,
            Candidate.c.rewards,
            func.substr(cast(Candidate.c.error, Text), 1, HEAD),
            func.substr(cast(Candidate.c.text, Text), 1, HEAD),
        )
        .join(Problem, Problem.c.id == Candidate.c.problem_id)
        .outerjoin(PromptGroup, PromptGroup.c.id == Candidate.c.group_id)
        .where(Candidate.c.id.in_(ids))
        .order_by(*order, Candidate.c.id.desc())
    )
    found = []
    for row in store.rows(query):
        id, run, problem, iteration, operator, generation, parent, fitness, rewards, error, text = tuple(row)
        head, rewards = None if error is None else beginning(error), tuple(rewards)
        found.append(
            CandidateSummary(
                id, run, problem, iteration, operator, generation, parent, fitness, rewards, head, beginning(text)
            )
        )
    return found


def count_browsed(store: Store, chosen: CandidateFilter) -> int:
    """How many candidates the filter names, MOST_COUNTED + 1 for more."""
    matching = _matching(chosen).limit(MOST_COUNTED + 1)
    return int(store.scalar(select(func.count()).select_from(matching.subquery())))


def _matching(chosen: CandidateFilter) -> Select[int]:
    """The ids that a filter names. Groups are joined only for a filter that reads them."""
    query = select(Candidate.c.id).join(Problem, Problem.c.id == Candidate.c.problem_id)
    if chosen.operators:
        query = query.join(PromptGroup, PromptGroup.c.id == Candidate.c.group_id)
    return query.where(*_conditions(chosen))


def _conditions(chosen: CandidateFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [Problem.c.run_id.in_(list(chosen.runs))]
    if chosen.operators:
        of_operator = [
            (Problem.c.run_id == run) & PromptGroup.c.operator.in_(places) for run, places in chosen.operators.items()
        ]
        conditions.append(or_(false(), *of_operator))
    if chosen.problem is not None:
        conditions.append(Problem.c.index == chosen.problem)
    if chosen.failed is not None:
        conditions.append(Candidate.c.error.is_not(None) if chosen.failed else Candidate.c.error.is_(None))
    if chosen.kind:
        error = cast(Candidate.c.error, Text)
        begins = chosen.kind.removesuffix(_CUT) if chosen.kind.endswith(_CUT) else f"{chosen.kind}:"
        conditions.append((error == chosen.kind) | error.startswith(begins, autoescape=True))
    if chosen.low is not None:
        conditions.append(Candidate.c.fitness >= chosen.low)
    if chosen.ids is not None:
        conditions.append(Candidate.c.id.in_(list(chosen.ids)))
    if chosen.high is not None:
        conditions.append(Candidate.c.fitness <= chosen.high)
    return conditions


def beginning(stored: str) -> str:
    """A part of a stored text from its beginning, as ModelText would read it: its escapes may be cut at the end."""
    if not stored.startswith(ESCAPED):
        return stored
    return stored[1:].encode("ascii", "ignore").decode("unicode_escape", "ignore")


@dataclass(frozen=True)
class Offspring:
    """A candidate whose prompt showed another one as its parent."""

    id: int
    fitness: float
    failed: bool


def offspring(store: Store, candidate: int, problem_id: int, most: int) -> list[Offspring]:
    """The fittest of those that were made from a candidate."""
    query = (
        select(Candidate.c.id, Candidate.c.fitness, Candidate.c.error.is_not(None))
        .where(Candidate.c.problem_id == problem_id, Candidate.c.parent_id == candidate)
        .order_by(Candidate.c.error.is_not(None), Candidate.c.fitness.desc(), Candidate.c.id)
        .limit(most)
    )
    return [Offspring(id, fitness, bool(failed)) for id, fitness, failed in store.rows(query)]


@dataclass(frozen=True)
class Misread:
    """A rollout that could not be read in full: the reason, and the beginning of its text."""

    id: int
    problem: int
    iteration: int
    reason: str
    text: str


def misread_rollouts(store: Store, runs: Sequence[int], most: int) -> list[Misread]:
    """The newest of these runs."""
    query = (
        select(
            Rollout.c.id,
            Problem.c.index,
            PromptGroup.c.iteration,
            Rollout.c.format_error,
            func.substr(cast(Rollout.c.text, Text), 1, 10 * HEAD),
        )
        .join(PromptGroup, PromptGroup.c.id == Rollout.c.group_id)
        .join(Problem, Problem.c.id == PromptGroup.c.problem_id)
        .where(PromptGroup.c.run_id.in_(list(runs)), Rollout.c.format_error.is_not(None))
        .order_by(Rollout.c.id.desc())
        .limit(most)
    )
    return [
        Misread(id, problem, iteration, str(reason), beginning(text))
        for id, problem, iteration, reason, text in store.rows(query)
    ]
