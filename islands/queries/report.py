"""A whole run in columns, for a report: what a page needs of answers and candidates but their texts, by a handful of
queries whatever the number of problems. Texts stay in the database: a search has written gigabytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Select, Text, cast, func, select

from islands.db.schema import Answer, Candidate, Elite, Migration, PolicyVersion, Problem, PromptGroup, Rollout
from islands.db.store import Store

BATCH = 20_000
ERROR_HEAD = 120
"""Characters of an answer's error that are read; its kind is in the first few words."""

Columns = list[list[Any]]


def candidate_columns(store: Store, run_id: int) -> Columns:
    """problem, id, parent (-1: none), iteration (-1: a seed), fitness, whether it has no error, rewards as JSON text:
    a row each would be decoded by itself, a column's texts can be decoded together. By rising id."""
    query = (
        select(
            Candidate.problem_id,
            Candidate.id,
            func.coalesce(Candidate.parent_id, -1),
            func.coalesce(PromptGroup.iteration, -1),
            Candidate.fitness,
            Candidate.error.is_(None),
            cast(Candidate.rewards, Text),
        )
        .join(Problem, Problem.id == Candidate.problem_id)
        .outerjoin(PromptGroup, PromptGroup.id == Candidate.group_id)
        .where(Problem.run_id == run_id)
        .order_by(Candidate.id)
    )
    return _columns(store, query)


def answer_columns(store: Store, run_id: int) -> Columns:
    """problem, candidate, iteration, policy version, whether it is a repeat, seconds of scoring; in the order in which
    the answers were given."""
    query = (
        select(
            PromptGroup.problem_id,
            Answer.candidate_id,
            PromptGroup.iteration,
            PromptGroup.policy_version_id,
            Answer.repeat,
            Answer.seconds,
        )
        .join(Rollout, Rollout.group_id == PromptGroup.id)
        .join(Answer, Answer.rollout_id == Rollout.id)
        .where(PromptGroup.run_id == run_id)
        .order_by(PromptGroup.sequence, Rollout.position, Answer.position)
    )
    return _columns(store, query)


def occupied_cells(store: Store, run_id: int) -> Iterator[tuple[int, int, str, int]]:
    """(problem id, island, cell, candidate id) of every elite of a run."""
    query = (
        select(Elite.problem_id, Elite.island, Elite.cell, Elite.candidate_id)
        .join(Problem, Problem.id == Elite.problem_id)
        .where(Problem.run_id == run_id)
        .order_by(Elite.problem_id, Elite.island, Elite.cell)
    )
    for batch in _batches(store, query):
        yield from map(tuple, batch)


def sampling_seconds(store: Store, run_id: int) -> float:
    """Seconds that the policy sampled for the run's groups, summed."""
    query = select(func.coalesce(func.sum(PromptGroup.sampling_seconds), 0.0)).where(PromptGroup.run_id == run_id)
    return float(store.scalar(query))


def migrated_copies(store: Store, run_id: int) -> int:
    """Candidates copied from island to island."""
    query = (
        select(func.count())
        .select_from(Migration)
        .join(Problem, Problem.id == Migration.problem_id)
        .where(Problem.run_id == run_id, Migration.candidate_id.is_not(None))
    )
    return int(store.scalar(query))


def error_heads(store: Store, run_id: int) -> list[tuple[str, int]]:
    """(the first ERROR_HEAD characters of an answer's error, distinct answers that have it), seeds left out."""
    head = func.substr(cast(Candidate.error, Text), 1, ERROR_HEAD).label("head")
    query = (
        select(head, func.count())
        .join(Problem, Problem.id == Candidate.problem_id)
        .where(Problem.run_id == run_id, Candidate.error.is_not(None), Candidate.group_id.is_not(None))
        .group_by("head")
    )
    return [(str(error), count) for error, count in store.rows(query)]


def policy_versions(store: Store, run_id: int) -> dict[int, str]:
    """Database id -> name of each policy version of a run, oldest first."""
    query = (
        select(PolicyVersion.id, PolicyVersion.version).where(PolicyVersion.run_id == run_id).order_by(PolicyVersion.id)
    )
    return {id: version for id, version in store.rows(query)}


def valid_measures(store: Store, problem_id: int) -> Iterator[list[float]]:
    """What the archive's dimensions measured of each valid candidate, in the order of storing."""
    query = (
        select(cast(Candidate.measures, Text))
        .where(Candidate.problem_id == problem_id, Candidate.error.is_(None))
        .order_by(Candidate.id)
    )
    for batch in _batches(store, query):
        yield from json.loads(f"[{','.join(text for (text,) in batch)}]")


def _columns(store: Store, query: Select[*tuple[Any, ...]]) -> Columns:
    """The query's columns, read in batches so that the rows of a long run do not stand in memory beside them."""
    columns: Columns = [[] for _ in query.selected_columns]
    for batch in _batches(store, query):
        for column, values in zip(columns, zip(*batch, strict=True), strict=True):
            column.extend(values)
    return columns


def _batches(store: Store, query: Select[*tuple[Any, ...]]) -> Iterator[Sequence[Any]]:
    with store.read() as connection:
        yield from connection.execute(query).partitions(BATCH)


def prompts_of(store: Store, candidates: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Candidate id -> the system and the user text that its prompt group showed; a seed answer has none."""
    query = (
        select(Candidate.id, PromptGroup.system, PromptGroup.user)
        .join(PromptGroup, PromptGroup.id == Candidate.group_id)
        .where(Candidate.id.in_(candidates))
    )
    return {id: (system or "", user or "") for id, system, user in store.rows(query)}


def chains_of(store: Store, candidates: Sequence[int]) -> dict[int, tuple[str, int]]:
    """Candidate id -> the whole text of the rollout that gave it first, and its place among that one's answers, from 0;
    none for a seed answer."""
    query = (
        select(Candidate.id, PromptGroup.prefill, Rollout.text, Answer.position)
        .join(PromptGroup, PromptGroup.id == Candidate.group_id)
        .join(Rollout, Rollout.group_id == PromptGroup.id)
        .join(Answer, (Answer.rollout_id == Rollout.id) & (Answer.candidate_id == Candidate.id))
        .where(Candidate.id.in_(candidates))
        .order_by(Rollout.id, Answer.position)
    )
    found: dict[int, tuple[str, int]] = {}
    for id, prefill, text, position in store.rows(query):
        found.setdefault(id, ((prefill or "") + text, int(position)))
    return found
