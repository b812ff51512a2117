"""What a live screen asks of the database: only what is newer than what it knows, whittled down by the database itself.

Within a run, groups are committed in the order of their sequence, so "newer" is a range of sequences; row ids say
nothing where several processes write. Each statement sees what is committed at its own moment, so everything that
belongs together is asked for up to one sequence. Statements are made once: building one costs several times its run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, Connection, Select, bindparam, func, or_, select
from sqlalchemy.orm import aliased

from islands.db.schema import Candidate, Elite, Problem, PromptGroup, Run, TrainingStep

BEFORE_SEEDS = -2
"""A sequence below that of a seed answer, which is -1."""

_run: BindParameter[Any] = bindparam("run")
_after: BindParameter[Any] = bindparam("after")
_upto: BindParameter[Any] = bindparam("upto")
_ids: BindParameter[Any] = bindparam("ids", expanding=True)


@dataclass(frozen=True)
class Step:
    """A rise of a problem's best fitness. iteration is -1 and created None for the seed answer."""

    problem: int
    iteration: int
    sequence: int
    fitness: float
    candidate: int
    created: float | None


@dataclass(frozen=True)
class Pulse:
    """The part of a run that tells whether it moved."""

    id: int
    name: str
    status: str
    updated: float
    heartbeat: float | None


_PULSE = select(Run.id, Run.name, Run.status, Run.updated, Run.heartbeat).order_by(Run.id)
_PULSES = tuple(_PULSE.where(column == bindparam("name")) for column in (Run.comparison, Run.name))


def pulses(connection: Connection, name: str) -> list[Pulse]:
    """The runs of the comparison `name`, else the run of that name, oldest first; none where there is neither."""
    for query in _PULSES:
        found = [Pulse(*row) for row in connection.execute(query, {"name": name})]
        if found:
            return found
    return []


_STATES = select(Run.id, Run.reason, Run.summary, Run.config, Run.created, Run.updated).where(Run.id.in_(_ids))


def run_states(connection: Connection, runs: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Run id -> what may change of its record; asked for runs that moved alone, since summaries and configurations of
    large runs are long."""
    if not runs:
        return {}
    return {
        id: {"reason": reason, "summary": summary, "config": config, "created": created, "updated": updated}
        for id, reason, summary, config, created, updated in connection.execute(_STATES, {"ids": list(runs)})
    }


_NEWEST = select(func.max(PromptGroup.sequence)).where(PromptGroup.run_id == _run)


def newest_sequence(connection: Connection, run: int) -> int:
    """The last committed group; -1 before the first."""
    newest = connection.execute(_NEWEST, {"run": run}).scalar()
    return -1 if newest is None else int(newest)


_GROUPS = (
    select(PromptGroup.problem_id, func.count())
    .where(PromptGroup.run_id == _run, PromptGroup.sequence > _after, PromptGroup.sequence <= _upto)
    .group_by(PromptGroup.problem_id)
)


def groups_between(connection: Connection, run: int, after: int, upto: int) -> Iterator[tuple[int, int]]:
    """(problem id, groups committed) for sequences in (after, upto]."""
    found = connection.execute(_GROUPS, {"run": run, "after": after, "upto": upto})
    return ((problem, count) for problem, count in found)


_SOLVED = (
    select(Problem.id, PromptGroup.iteration)
    .outerjoin(PromptGroup, (PromptGroup.run_id == Problem.run_id) & (PromptGroup.sequence == Problem.solved_sequence))
    .where(Problem.run_id == _run, Problem.solved_sequence > _after, Problem.solved_sequence <= _upto)
)


def solved_between(connection: Connection, run: int, after: int, upto: int) -> Iterator[tuple[int, int]]:
    """(problem id, iterations it took) for problems that were solved by a sequence in (after, upto]; 0 by a seed."""
    for problem, iteration in connection.execute(_SOLVED, {"run": run, "after": after, "upto": upto}):
        yield problem, 0 if iteration is None else iteration + 1


_FAILED = select(Problem.run_id, Problem.id, Problem.message).where(
    Problem.run_id.in_(_ids), Problem.status == "failed"
)


def failed_problems(connection: Connection, runs: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """(run id, problem id, what stopped it)."""
    found = connection.execute(_FAILED, {"ids": list(runs)})
    return ((run, problem, message) for run, problem, message in found)


def _steps(moved: Select[int]) -> Select[Any]:
    """Valid candidates of a range that are better than all before them in it, for the problems `moved`."""
    columns = (Candidate.problem_id, Candidate.id, Candidate.fitness, Candidate.sequence, Candidate.group_id)
    before = func.max(Candidate.fitness).over(
        partition_by=Candidate.problem_id, order_by=(Candidate.sequence, Candidate.id), rows=(None, -1)
    )
    in_range = (Candidate.sequence > _after) & (Candidate.sequence <= _upto)
    valid = (
        select(*columns, before.label("before"))
        .where(Candidate.problem_id.in_(moved), in_range, Candidate.error.is_(None))
        .subquery()
    )
    own = valid.c
    return (
        select(own.problem_id, PromptGroup.iteration, own.sequence, own.fitness, own.id, PromptGroup.created)
        .select_from(valid.outerjoin(PromptGroup, PromptGroup.id == own.group_id))
        .where(or_(own.before.is_(None), own.fitness > own.before))
        .order_by(own.problem_id, own.sequence, own.id)
    )


_ALL_STEPS = _steps(select(Problem.id).where(Problem.run_id == _run))
_NEW_STEPS = _steps(
    select(PromptGroup.problem_id).where(
        PromptGroup.run_id == _run, PromptGroup.sequence > _after, PromptGroup.sequence <= _upto
    )
)


def steps_between(connection: Connection, run: int, after: int, upto: int) -> Iterator[Step]:
    """The valid candidates of (after, upto] that are better than all before them in that range, by problem in order;
    whether they beat what came before the range is for the caller to see."""
    query = _ALL_STEPS if after < -1 else _NEW_STEPS
    found = connection.execute(query, {"run": run, "after": after, "upto": upto})
    for problem, iteration, sequence, fitness, candidate, created in found:
        yield Step(problem, -1 if iteration is None else iteration, sequence, fitness, candidate, created)


_parent = aliased(Candidate)
_VECTORS = (
    select(Candidate.id, Candidate.rewards, _parent.rewards)
    .outerjoin(_parent, _parent.id == Candidate.parent_id)
    .where(Candidate.id.in_(_ids))
)


def vectors(
    connection: Connection, candidates: Sequence[int]
) -> dict[int, tuple[tuple[float, ...], tuple[float, ...] | None]]:
    """Candidate id -> its reward vector and its parent's, None without a parent."""
    return {
        id: (tuple(own), None if of is None else tuple(of))
        for id, own, of in connection.execute(_VECTORS, {"ids": list(candidates)})
    }


_ELITES = (
    select(Elite.problem_id, Elite.island, Candidate.rewards)
    .join(Candidate, Candidate.id == Elite.candidate_id)
    .where(Elite.problem_id.in_(_ids))
)


def elite_vectors(connection: Connection, problems: Sequence[int]) -> Iterator[tuple[int, int, list[float]]]:
    """(problem id, island, reward vector) for every occupied cell of these problems' archives."""
    found = connection.execute(_ELITES, {"ids": list(problems)})
    return ((problem, island, rewards) for problem, island, rewards in found)


_FITTEST = (
    select(Problem.id, Problem.best)
    .where(Problem.id.in_(_ids), Problem.best.is_not(None))
    .order_by(Problem.best_fitness.desc(), Problem.id)
    .limit(1)
)


def fittest(connection: Connection, problems: Sequence[int]) -> tuple[int, int] | None:
    """(problem id, candidate id) of the fittest of several searches of one problem; None where none has any."""
    row = connection.execute(_FITTEST, {"ids": list(problems)}).first()
    return None if row is None else (int(row[0]), int(row[1] or 0))


_TRAINED = (
    select(TrainingStep.run_id, func.max(TrainingStep.step))
    .where(TrainingStep.run_id.in_(_ids))
    .group_by(TrainingStep.run_id)
)


def newest_training(connection: Connection, runs: Sequence[int]) -> dict[int, int]:
    """Run id -> its trainer's last step, for the runs that have any."""
    return {run: step for run, step in connection.execute(_TRAINED, {"ids": list(runs)})}
