"""A whole run in columns, for a report: its answers and candidates without their texts. The number of queries does not
depend on the number of problems. Texts stay in the database, because a search may have written gigabytes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Select, Text, cast, func, select

from islands.db.schema import Answer, Candidate, PolicyVersion, Problem, PromptGroup, Rollout
from islands.db.store import Store

BATCH = 20_000
Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CandidateColumns:
    """The C candidates of a run by rising id, each column (C,).

    parent: id, -1 for none; iteration: -1 for a seed; valid: without an error
    values: the reward vectors of all, end to end; a problem has its own number of objectives
    starts: where each candidate's begins in `values`
    """

    problem: Ints
    id: Ints
    parent: Ints
    iteration: Ints
    fitness: npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]
    values: npt.NDArray[np.float64]
    starts: Ints


@dataclass(frozen=True, eq=False)
class AnswerColumns:
    """The N answers of a run in the order in which they were given, each column (N,).

    candidate, version: database ids
    """

    problem: Ints
    candidate: Ints
    iteration: Ints
    version: Ints


@dataclass(frozen=True, eq=False)
class IterationCosts:
    """The costs of a run's iterations, each column (T,), summed over the problems of an iteration.

    groups: committed; token_bytes: of the stored token ids, 0 for a policy without any; seconds: sampling and scoring
    """

    groups: npt.NDArray[np.float64]
    token_bytes: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float64]


def iteration_costs(store: Store, run_id: int) -> IterationCosts:
    """By two aggregations in the database."""
    groups = (
        select(
            PromptGroup.c.iteration,
            func.count(),
            func.sum(PromptGroup.c.sampling_seconds + PromptGroup.c.scoring_seconds),
        )
        .where(PromptGroup.c.run_id == run_id)
        .group_by(PromptGroup.c.iteration)
    )
    tokens = (
        select(PromptGroup.c.iteration, func.sum(func.length(Rollout.c.token_ids)))
        .join(Rollout, Rollout.c.group_id == PromptGroup.c.id)
        .where(PromptGroup.c.run_id == run_id)
        .group_by(PromptGroup.c.iteration)
    )
    by_iteration = {int(at): (float(count), float(seconds)) for at, count, seconds in store.rows(groups)}
    columns = np.zeros((3, max(by_iteration, default=-1) + 1))
    for at, (count, seconds) in by_iteration.items():
        columns[0, at], columns[2, at] = count, seconds
    for at, size in store.rows(tokens):
        if at in by_iteration:  # the run may be writing
            columns[1, at] = float(size or 0)
    return IterationCosts(*columns)


def candidate_columns(store: Store, run_id: int) -> CandidateColumns:
    """Rewards are read as JSON text, so that those of a whole batch are decoded together."""
    query = (
        select(
            Candidate.c.problem_id,
            Candidate.c.id,
            func.coalesce(Candidate.c.parent_id, -1),
            func.coalesce(PromptGroup.c.iteration, -1),
            Candidate.c.fitness,
            Candidate.c.error.is_(None),
            cast(Candidate.c.rewards, Text),
        )
        .join(Problem, Problem.c.id == Candidate.c.problem_id)
        .outerjoin(PromptGroup, PromptGroup.c.id == Candidate.c.group_id)
        .where(Problem.c.run_id == run_id)
        .order_by(Candidate.c.id)
    )

    def with_rewards_read() -> Iterator[Sequence[Sequence[Any]]]:
        for batch in _batches(store, query):
            *columns, texts = zip(*batch, strict=True)
            vectors = json.loads(f"[{','.join(texts)}]")
            yield [*columns, list(map(len, vectors)), list(chain.from_iterable(vectors))]

    kinds = (np.int64, np.int64, np.int64, np.int64, np.float64, np.bool_, np.int64, np.float64)
    problem, id, parent, iteration, fitness, valid, size, values = _columns(with_rewards_read(), kinds)
    return CandidateColumns(problem, id, parent, iteration, fitness, valid, values, starts=np.cumsum(size) - size)


def answer_columns(store: Store, run_id: int) -> AnswerColumns:
    query = (
        select(
            PromptGroup.c.problem_id,
            Answer.c.candidate_id,
            PromptGroup.c.iteration,
            PromptGroup.c.policy_version_id,
        )
        .join(Rollout, Rollout.c.group_id == PromptGroup.c.id)
        .join(Answer, Answer.c.rollout_id == Rollout.c.id)
        .where(PromptGroup.c.run_id == run_id)
        .order_by(PromptGroup.c.sequence, Rollout.c.position, Answer.c.position)
    )
    kinds = (np.int64, np.int64, np.int64, np.int64)
    return AnswerColumns(*_columns((list(zip(*batch, strict=True)) for batch in _batches(store, query)), kinds))


def policy_versions(store: Store, run_id: int) -> dict[int, str]:
    """Database id -> name of each policy version of a run, oldest first."""
    query = (
        select(PolicyVersion.c.id, PolicyVersion.c.version)
        .where(PolicyVersion.c.run_id == run_id)
        .order_by(PolicyVersion.c.id)
    )
    return {id: version for id, version in store.rows(query)}


def valid_measures(store: Store, problem_id: int) -> Iterator[list[float]]:
    """What the archive's dimensions measured of each valid candidate, in the order of storing."""
    query = (
        select(cast(Candidate.c.measures, Text))
        .where(Candidate.c.problem_id == problem_id, Candidate.c.error.is_(None))
        .order_by(Candidate.c.id)
    )
    for batch in _batches(store, query):
        yield from json.loads(f"[{','.join(text for (text,) in batch)}]")


def _columns(batches: Iterator[Sequence[Sequence[Any]]], kinds: Sequence[type[np.generic]]) -> list[Array]:
    """The columns of all batches, one of each kind. A batch becomes arrays before the next is read: as Python's numbers
    a million rows take twenty times as much."""
    parts: list[list[Array]] = [[np.zeros(0, kind)] for kind in kinds]
    for batch in batches:
        for part, values, kind in zip(parts, batch, kinds, strict=True):
            part.append(np.array(values, dtype=kind))
    return [np.concatenate(part) for part in parts]


def _batches(store: Store, query: Select[*tuple[Any, ...]]) -> Iterator[Sequence[Any]]:
    with store.read() as connection:
        yield from connection.execute(query).partitions(BATCH)
