"""The read side, from the database alone: what `evo runs`, `show`, `best` and `watch` ask. No index in memory, no
lock; each call sees what is committed, also while another process writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, func, select

from islands.db.schema import Answer, Elite, PolicyVersion, Problem, PromptGroup, Rollout
from islands.db.schema import Candidate as CandidateRow
from islands.db.store import Store
from islands.errors import UnknownRun
from islands.queries.candidates import COLUMNS, from_row
from islands.types import Candidate, ProblemRecord, RunRecord


@dataclass(frozen=True)
class RunOverview:
    """A run in one line. candidates are distinct answers; best is the mean, over problems that have one, of the best
    fitness (None where none has)."""

    run: RunRecord
    problems: int
    solved: int
    failed: int
    groups: int
    candidates: int
    best: float | None


@dataclass(frozen=True)
class CandidateDetail:
    """A candidate with its provenance; iteration, sequence and policy_version are None for a seed.

    found: how often it was given as an answer, repeats included
    cells: (island, cell) of the archive cells it holds now
    """

    candidate: Candidate
    problem: ProblemRecord
    iteration: int | None
    sequence: int | None
    policy_version: str | None
    created: float
    found: int
    cells: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class EliteRecord:
    """An occupied cell of a problem's archive."""

    problem: int
    island: int
    cell: str
    candidate: int
    fitness: float
    rewards: tuple[float, ...]


IDS_AT_ONCE = 5000


def overview(store: Store) -> list[RunOverview]:
    """Every run, oldest first. O(groups + candidates) of index entries."""
    of_problems = select(
        Problem.c.run_id,
        func.count(),
        func.count(Problem.c.solved_sequence),
        func.avg(Problem.c.best_fitness),
        func.count().filter(Problem.c.status == "failed"),
    ).group_by(Problem.c.run_id)
    of_groups = select(PromptGroup.c.run_id, func.count()).group_by(PromptGroup.c.run_id)
    of_candidates = select(Problem.c.run_id, func.count()).join(CandidateRow, CandidateRow.c.problem_id == Problem.c.id)
    with store.read() as connection:
        problems = {row[0]: row[1:] for row in connection.execute(of_problems)}
        groups = {row[0]: row[1] for row in connection.execute(of_groups)}
        candidates = {row[0]: row[1] for row in connection.execute(of_candidates.group_by(Problem.c.run_id))}
    lines = []
    for run in store.runs():
        count, solved, best, failed = problems.get(run.id, (0, 0, None, 0))
        lines.append(RunOverview(run, count, solved, failed, groups.get(run.id, 0), candidates.get(run.id, 0), best))
    return lines


def candidate(store: Store, run_id: int, candidate_id: int) -> CandidateDetail:
    """One candidate of a run. Raises UnknownRun where the run has none with that id."""
    query = (
        select(*COLUMNS, CandidateRow.c.problem_id, CandidateRow.c.created, PromptGroup, PolicyVersion.c.version)
        .join(Problem, Problem.c.id == CandidateRow.c.problem_id)
        .outerjoin(PromptGroup, PromptGroup.c.id == CandidateRow.c.group_id)
        .outerjoin(PolicyVersion, PolicyVersion.c.id == PromptGroup.c.policy_version_id)
        .where(CandidateRow.c.id == candidate_id, Problem.c.run_id == run_id)
        .with_only_columns(
            *COLUMNS,
            CandidateRow.c.problem_id,
            CandidateRow.c.created,
            PromptGroup.c.iteration,
            PromptGroup.c.sequence,
            PolicyVersion.c.version,
        )
    )
    held = (
        select(Elite.c.island, Elite.c.cell)
        .where(Elite.c.candidate_id == candidate_id)
        .order_by(Elite.c.island, Elite.c.cell)
    )
    with store.read() as connection:
        row = connection.execute(query).first()
        if row is None:
            raise UnknownRun(f"the run has no candidate {candidate_id}")
        found = connection.execute(select(func.count()).where(Answer.c.candidate_id == candidate_id)).scalar_one()
        problem_id, created, iteration, sequence, version = tuple(row)[len(COLUMNS) :]
        held_now = connection.execute(held.where(Elite.c.problem_id == problem_id))
        cells = tuple((island, cell) for island, cell in held_now)
    (problem,) = [p for p in store.problems(run_id) if p.id == problem_id]
    return CandidateDetail(
        from_row(tuple(row)[: len(COLUMNS)]), problem, iteration, sequence, version, created, found, cells
    )


def run_of_candidate(store: Store, candidate_id: int) -> int | None:
    """The id of the run that a candidate is of, None for one that is not there."""
    query = select(Problem.c.run_id).join(CandidateRow, CandidateRow.c.problem_id == Problem.c.id)
    found: int | None = store.scalar(query.where(CandidateRow.c.id == candidate_id))
    return found


def best(store: Store, run_id: int) -> list[tuple[ProblemRecord, Candidate | None]]:
    """Each problem by index with its fittest valid candidate, None if it has none. Two queries. Raises LookupError if a
    damaged database lacks a problem's best candidate."""
    problems = store.problems(run_id)
    query = select(*COLUMNS).join(Problem, Problem.c.best == CandidateRow.c.id).where(Problem.c.run_id == run_id)
    found = {row.id: from_row(row) for row in store.rows(query)}
    for problem in problems:
        if problem.best is not None and problem.best not in found:
            raise LookupError(f"candidate {problem.best}, the best of problem {problem.name}, is missing")
    return [(p, None if p.best is None else found[p.best]) for p in problems]


_ELITES = (
    select(
        Elite.c.problem_id,
        Elite.c.island,
        Elite.c.cell,
        Elite.c.candidate_id,
        CandidateRow.c.fitness,
        CandidateRow.c.rewards,
    )
    .join(CandidateRow, CandidateRow.c.id == Elite.c.candidate_id)
    .where(Elite.c.problem_id.in_(bindparam("ids", expanding=True)))
    .order_by(Elite.c.problem_id, Elite.c.island, Elite.c.cell)
)


def elites(store: Store, problems: Sequence[int]) -> Iterator[EliteRecord]:
    """The archives of these problems on every island, as of the last stored group."""
    with store.read() as connection:
        for start in range(0, len(problems), IDS_AT_ONCE):
            part = list(problems[start : start + IDS_AT_ONCE])
            for problem, island, cell, candidate, fitness, rewards in connection.execute(_ELITES, {"ids": part}):
                yield EliteRecord(problem, island, cell, candidate, fitness, tuple(rewards))


@dataclass(frozen=True)
class FailedCandidate:
    """A stored answer that could not be scored, and why."""

    id: int
    problem: str
    error: str


def failed_candidates(store: Store, run_id: int, most: int) -> list[FailedCandidate]:
    """The newest of a run's failed candidates, newest first."""
    query = (
        select(CandidateRow.c.id, Problem.c.name, CandidateRow.c.error)
        .join(Problem, Problem.c.id == CandidateRow.c.problem_id)
        .where(Problem.c.run_id == run_id, CandidateRow.c.error.is_not(None))
        .order_by(CandidateRow.c.id.desc())
        .limit(most)
    )
    return [FailedCandidate(*row) for row in store.rows(query)]


def format_errors(store: Store, run_id: int) -> dict[str, int]:
    """How many rollouts could not be read in full, by reason."""
    query = (
        select(Rollout.c.format_error, func.count())
        .join(PromptGroup, PromptGroup.c.id == Rollout.c.group_id)
        .where(PromptGroup.c.run_id == run_id, Rollout.c.format_error.is_not(None))
        .group_by(Rollout.c.format_error)
    )
    return {str(reason): count for reason, count in store.rows(query)}
