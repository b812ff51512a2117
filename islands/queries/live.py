"""What a live screen asks of the database: only what is newer than what it knows, whittled down by the database itself.

Within a run, groups are committed in the order of their sequence, so "newer" is a range of sequences; row ids say
nothing where several processes write. Each statement sees what is committed at its own moment, so everything that
belongs together is asked for up to one sequence. Statements are made once: building one costs several times its run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, BindParameter, Connection, bindparam, func, select

from islands.db.lease import is_lost
from islands.db.schema import (
    Candidate,
    Improvement,
    PolicyVersion,
    Problem,
    PromptGroup,
    Run,
    TrainingStep,
)
from islands.db.store import Store
from islands.queries.training import current_names

BEFORE_SEEDS = -2
"""A sequence below that of a seed answer, which is -1."""

_run: BindParameter[Any] = bindparam("run")
_after: BindParameter[Any] = bindparam("after")
_upto: BindParameter[Any] = bindparam("upto")
_ids: BindParameter[Any] = bindparam("ids", expanding=True)


@dataclass(frozen=True)
class Rise:
    """A rise of a problem's best fitness. iteration is -1 and created None for the seed answer."""

    problem: int
    iteration: int
    sequence: int
    fitness: float
    candidate: int
    created: float | None


@dataclass(frozen=True)
class Pulse:
    """The part of a run that tells whether it moved. lost: its writer is gone, so that it is interrupted"""

    id: int
    name: str
    status: str
    updated: float
    heartbeat: float | None
    lost: bool = False


_PULSE = select(Run.c.id, Run.c.name, Run.c.status, Run.c.updated, Run.c.heartbeat, Run.c.owner).order_by(Run.c.id)
_PULSES = tuple(_PULSE.where(column == bindparam("name")) for column in (Run.c.comparison, Run.c.name))


def pulses(connection: Connection, name: str) -> list[Pulse]:
    """The runs of the comparison `name`, else the run of that name, oldest first; none where there is neither."""
    for query in _PULSES:
        rows = connection.execute(query, {"name": name}).all()
        if rows:
            return [_pulse(*row) for row in rows]
    return []


def _pulse(id: int, name: str, status: str, updated: float, heartbeat: float | None, owner: str | None) -> Pulse:
    lost = is_lost(status, owner, heartbeat)
    return Pulse(id, name, "interrupted" if lost else status, updated, heartbeat, lost)


_STATES = select(Run.c.id, Run.c.reason, Run.c.summary, Run.c.config, Run.c.created, Run.c.updated).where(
    Run.c.id.in_(_ids)
)


def run_states(connection: Connection, runs: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Run id -> what may change of its record; asked for runs that moved alone, since summaries and configurations of
    large runs are long."""
    if not runs:
        return {}
    return {
        id: {"reason": reason, "summary": summary, "config": config, "created": created, "updated": updated}
        for id, reason, summary, config, created, updated in connection.execute(_STATES, {"ids": list(runs)})
    }


_NEWEST = select(func.max(PromptGroup.c.sequence)).where(PromptGroup.c.run_id == _run)


def newest_sequence(connection: Connection, run: int) -> int:
    """The last committed group; -1 before the first."""
    newest = connection.execute(_NEWEST, {"run": run}).scalar()
    return -1 if newest is None else int(newest)


_GROUPS = (
    select(PromptGroup.c.problem_id, func.count())
    .where(PromptGroup.c.run_id == _run, PromptGroup.c.sequence > _after, PromptGroup.c.sequence <= _upto)
    .group_by(PromptGroup.c.problem_id)
)
# by problem an index alone holds the answer; by run each group's row, with its prompt, would have to be read
_ALL_GROUPS = select(
    Problem.c.id,
    select(func.count())
    .where(PromptGroup.c.problem_id == Problem.c.id, PromptGroup.c.sequence <= _upto)
    .scalar_subquery(),
).where(Problem.c.run_id == _run)


def groups_between(connection: Connection, run: int, after: int, upto: int) -> Iterator[tuple[int, int]]:
    """(problem id, groups committed) for sequences in (after, upto]."""
    query, bounds = (_ALL_GROUPS, {}) if after == BEFORE_SEEDS else (_GROUPS, {"after": after})
    found = connection.execute(query, {"run": run, "upto": upto, **bounds})
    return ((problem, count) for problem, count in found)


_SOLVED = (
    select(Problem.c.id, PromptGroup.c.iteration)
    .outerjoin(
        PromptGroup, (PromptGroup.c.run_id == Problem.c.run_id) & (PromptGroup.c.sequence == Problem.c.solved_sequence)
    )
    .where(Problem.c.run_id == _run, Problem.c.solved_sequence > _after, Problem.c.solved_sequence <= _upto)
)


def solved_between(connection: Connection, run: int, after: int, upto: int) -> Iterator[tuple[int, int]]:
    """(problem id, iterations it took) for problems that were solved by a sequence in (after, upto]; 0 by a seed."""
    for problem, iteration in connection.execute(_SOLVED, {"run": run, "after": after, "upto": upto}):
        yield problem, 0 if iteration is None else iteration + 1


_FAILED = select(Problem.c.run_id, Problem.c.id, Problem.c.message).where(
    Problem.c.run_id.in_(_ids), Problem.c.status == "failed"
)


def failed_problems(connection: Connection, runs: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """(run id, problem id, what stopped it)."""
    found = connection.execute(_FAILED, {"ids": list(runs)})
    return ((run, problem, message) for run, problem, message in found)


_STEPS = (
    select(
        Improvement.c.problem_id,
        PromptGroup.c.iteration,
        Improvement.c.sequence,
        Improvement.c.fitness,
        Improvement.c.candidate_id,
        PromptGroup.c.created,
    )
    .join(Problem, Problem.c.id == Improvement.c.problem_id)
    .outerjoin(
        PromptGroup, (PromptGroup.c.run_id == Problem.c.run_id) & (PromptGroup.c.sequence == Improvement.c.sequence)
    )
    .order_by(Improvement.c.problem_id, Improvement.c.sequence)
)
_ALL_STEPS = _STEPS.where(Problem.c.run_id == _run, Improvement.c.sequence <= _upto)
_NEW_STEPS = _STEPS.where(
    Improvement.c.problem_id.in_(
        select(PromptGroup.c.problem_id).where(
            PromptGroup.c.run_id == _run, PromptGroup.c.sequence > _after, PromptGroup.c.sequence <= _upto
        )
    ),
    Improvement.c.sequence > _after,
    Improvement.c.sequence <= _upto,
)


def rises_between(connection: Connection, run: int, after: int, upto: int) -> Iterator[Rise]:
    """The rises of best fitnesses with sequences in (after, upto], by problem in order."""
    query, bounds = (_ALL_STEPS, {}) if after == BEFORE_SEEDS else (_NEW_STEPS, {"after": after})
    found = connection.execute(query, {"run": run, "upto": upto, **bounds})
    for problem, iteration, sequence, fitness, candidate, created in found:
        yield Rise(problem, -1 if iteration is None else iteration, sequence, fitness, candidate, created)


@dataclass(frozen=True)
class Course:
    """How the searches of a run went over a range of sequences, by problem id. Problems without a group, not solved, or
    without a valid answer there are left out.

    groups: committed; solved: iterations it took, 0 by a seed; rises: of the best fitness, in order
    """

    groups: dict[int, int]
    solved: dict[int, int]
    rises: dict[int, list[Rise]]


def course_between(connection: Connection, run: int, after: int, upto: int) -> Course:
    """A run's course over the sequences in (after, upto]."""
    groups = dict(groups_between(connection, run, after, upto))
    rises: dict[int, list[Rise]] = {}
    for rise in rises_between(connection, run, after, upto):
        rises.setdefault(rise.problem, []).append(rise)
    solved = dict(solved_between(connection, run, after, upto))
    return Course({id: count for id, count in groups.items() if count}, solved, rises)


def course_of(store: Store, run: int) -> Course:
    """A run's course as far as it is committed."""
    with store.read() as connection:
        return course_between(connection, run, BEFORE_SEEDS, newest_sequence(connection, run))


_parent = Candidate.alias()
_VECTORS = (
    select(Candidate.c.id, Candidate.c.rewards, _parent.c.rewards)
    .outerjoin(_parent, _parent.c.id == Candidate.c.parent_id)
    .where(Candidate.c.id.in_(_ids))
)


def vectors(
    connection: Connection, candidates: Sequence[int]
) -> dict[int, tuple[tuple[float, ...], tuple[float, ...] | None]]:
    """Candidate id -> its reward vector and its parent's, None without a parent."""
    return {
        id: (tuple(own), None if of is None else tuple(of))
        for id, own, of in connection.execute(_VECTORS, {"ids": list(candidates)})
    }


_TRAINED = (
    select(TrainingStep.c.run_id, func.max(TrainingStep.c.step))
    .where(TrainingStep.c.run_id.in_(_ids))
    .group_by(TrainingStep.c.run_id)
)


def newest_training(connection: Connection, runs: Sequence[int]) -> dict[int, int]:
    """Run id -> its trainer's last step, for the runs that have any."""
    return {run: step for run, step in connection.execute(_TRAINED, {"ids": list(runs)})}


_TRAINING = (
    select(TrainingStep.c.step, TrainingStep.c.stats)
    .where(TrainingStep.c.run_id == _run, TrainingStep.c.step > _after)
    .where((TrainingStep.c.step % bindparam("every", type_=BigInteger) == 0) | (TrainingStep.c.step == _upto))
    .order_by(TrainingStep.c.step)
)


def training_between(
    connection: Connection, run: int, after: int, newest: int, every: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(step, metrics) of every so many steps beyond `after`, and of the newest."""
    found = connection.execute(_TRAINING, {"run": run, "after": after, "upto": newest, "every": every})
    return ((step, current_names(stats)) for step, stats in found)


_VERSION = (
    select(PolicyVersion.c.version)
    .join(TrainingStep, TrainingStep.c.policy_version_id == PolicyVersion.c.id)
    .where(TrainingStep.c.run_id == _run)
    .order_by(TrainingStep.c.step.desc())
    .limit(1)
)


def newest_version(connection: Connection, run: int) -> str:
    """The last policy version that the run's trainer made, "" before the first."""
    return str(connection.execute(_VERSION, {"run": run}).scalar() or "")
