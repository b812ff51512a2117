"""How far a run has come, from the database alone: what a resume and an overview need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Integer, Select, case, cast, func, select

from islands.db.schema import Answer, Problem, PromptGroup, Reflection, Rollout, Run
from islands.db.store import Store
from islands.queries.runs import solved_iterations


@dataclass(frozen=True)
class ProblemProgress:
    """One problem: its committed groups, the iteration that comes next, and after how many iterations it was solved
    (0 for a seed that solves it, None for unsolved).

    missing: iterations before the next that are not committed, as where groups are committed as they come back
    """

    groups: int
    next_iteration: int
    solved_at: int | None
    missing: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunProgress:
    """A run: totals over what is committed, and each problem by its database id.

    tokens: generated, those of reflections included; those of a server that keeps token ids to itself, and
        prompt_tokens and cost, are known from the run's summary, which is up to a second older than its last group
        where the run was killed
    """

    groups: int
    answers: int
    tokens: int
    next_sequence: int
    problems: dict[int, ProblemProgress]
    prompt_tokens: int = 0
    cost: float = 0.0


def run_progress(store: Store, run_id: int) -> RunProgress:
    """Totals by a handful of aggregate queries; the cost grows with the run, so ask at its start and end."""
    size = func.length(Rollout.c.token_ids)
    # islands.db.blobs: one leading byte, then 2 bytes a token under "H", else 4
    width = case((func.substr(Rollout.c.token_ids, 1, 1) == b"H", 2), else_=4)
    tokens = cast(case((size > 0, (size - 1) / width), else_=0), Integer)
    rollouts = select(func.coalesce(func.sum(tokens), 0)).join(PromptGroup).where(PromptGroup.c.run_id == run_id)
    reflected = (
        select(func.coalesce(func.sum(Reflection.c.tokens), 0)).join(Problem, Problem.c.id == Reflection.c.problem_id)
    ).where(Problem.c.run_id == run_id)
    answers = (
        select(func.count()).select_from(Answer).join(Rollout).join(PromptGroup).where(PromptGroup.c.run_id == run_id)
    )
    last = select(func.count(), func.max(PromptGroup.c.sequence)).where(PromptGroup.c.run_id == run_id)
    by_problem = _by_problem(run_id)
    with store.reader.connect() as connection:
        summary = connection.execute(select(Run.c.summary).where(Run.c.id == run_id)).scalar_one_or_none() or {}
        groups, newest = connection.execute(last).one()
        counts = {problem: (n, newest_of) for problem, n, newest_of in connection.execute(by_problem)}
        problems = {}
        for problem, at in solved_iterations(store, run_id).items():
            n, newest_of = counts.get(problem, (0, -1))
            missing = _missing(connection, problem, newest_of) if n <= newest_of else ()
            problems[problem] = ProblemProgress(n, newest_of + 1, at, missing)
        generated = int(connection.execute(rollouts).scalar_one()) + int(connection.execute(reflected).scalar_one())
        return RunProgress(
            groups=groups,
            answers=connection.execute(answers).scalar_one(),
            tokens=max(generated, _counted(summary, "tokens")),
            prompt_tokens=int(_counted(summary, "prompt_tokens")),
            cost=float(_counted(summary, "cost")),
            next_sequence=0 if newest is None else newest + 1,
            problems=problems,
        )


def _missing(connection: Connection, problem: int, newest: int) -> tuple[int, ...]:
    there = select(PromptGroup.c.iteration).where(PromptGroup.c.problem_id == problem)
    return tuple(sorted(set(range(newest + 1)) - set(connection.execute(there).scalars())))


def _counted(summary: Mapping[str, Any], key: str) -> Any:
    """A number of the summary; 0 where a run of another version has something else there."""
    value = summary.get(key)
    return value if isinstance(value, int | float) else 0


def groups_by_problem(store: Store, run_id: int) -> dict[int, int]:
    """Problem id -> its committed groups; problems that have none are left out."""
    return {problem: n for problem, n, _ in store.rows(_by_problem(run_id))}


def _by_problem(run_id: int) -> Select[int, int, int]:
    """(problem id, committed groups, newest iteration)."""
    return (
        select(PromptGroup.c.problem_id, func.count(), func.max(PromptGroup.c.iteration))
        .where(PromptGroup.c.run_id == run_id)
        .group_by(PromptGroup.c.problem_id)
    )


def last_sequences(store: Store, run_id: int) -> list[tuple[int, int, int]]:
    """(index, committed groups - 1, sequence) of the last committed group of every problem that has one. The first is
    its iteration, unless groups were committed as they came back."""
    query = (
        select(Problem.c.index, func.count() - 1, func.max(PromptGroup.c.sequence))
        .join(PromptGroup, PromptGroup.c.problem_id == Problem.c.id)
        .where(PromptGroup.c.run_id == run_id)
        .group_by(Problem.c.index)
    )
    return [(int(index), int(iteration), int(sequence)) for index, iteration, sequence in store.rows(query)]


def group_count(store: Store, run_id: int) -> tuple[int, int]:
    """How many groups a run has, and the sequence of the last; (0, -1) for none."""
    query = select(func.count(), func.max(PromptGroup.c.sequence)).where(PromptGroup.c.run_id == run_id)
    with store.read() as connection:
        groups, last = connection.execute(query).one()
    return int(groups), -1 if last is None else int(last)
