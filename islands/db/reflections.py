"""Stored reflections: a policy's advice on a candidate, at most once per candidate."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import insert, select

from islands.db.schema import Reflection as ReflectionRow
from islands.db.store import Store
from islands.db.transaction import Transaction
from problems.types import ScoredGroup


def write_reflection(store: Store, run_id: int, group: ScoredGroup, tx: Transaction) -> None:
    """Store the reflection that a group's prompt was the first to need, if there is one, with the group."""
    said = group.reflection
    if said is None:
        return
    values = dict(
        candidate_id=said.candidate, problem_id=group.problem, sequence=group.sequence,
        policy_version_id=store.policy_version(run_id, said.policy_version, tx), text=said.text, tokens=said.tokens,
        prompt_tokens=said.prompt_tokens, created=time.time(),
    )  # fmt: skip
    tx.connection.execute(insert(ReflectionRow).values(**values))


def read_reflections(store: Store, problem_ids: Sequence[int]) -> dict[int, str]:
    """Candidate id -> its reflection ("" for an empty one), for all candidates of these problems that have one."""
    query = select(ReflectionRow.c.candidate_id, ReflectionRow.c.text).where(
        ReflectionRow.c.problem_id.in_(problem_ids)
    )
    return {candidate: text for candidate, text in store.rows(query)}


def reflections_on(store: Store, candidates: Sequence[int]) -> dict[int, str]:
    """Candidate id -> its reflection, for those of the candidates that have one."""
    query = select(ReflectionRow.c.candidate_id, ReflectionRow.c.text).where(
        ReflectionRow.c.candidate_id.in_(candidates)
    )
    return {candidate: text for candidate, text in store.rows(query) if text}
