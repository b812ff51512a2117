"""Writing groups, candidates and migrations with bulk inserts: a handful of statements a group, no look-ups."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from islands.blobs import base_of_ids, compress, fold, ids_to_bytes, pack_floats
from islands.engine import PreparedStatement
from islands.schema import AnswerLinks, Candidates, Migrations, PromptGroups, PromptTexts, Rollouts
from islands.store import Store, Transaction
from islands.types import GroupSums, ProblemRecord
from problems.types import ScoredAnswer, ScoredGroup

_GROUP = PreparedStatement(insert(PromptGroups).returning(PromptGroups.c.id))
_ROLLOUTS = PreparedStatement(insert(Rollouts).returning(Rollouts.c.id, sort_by_parameter_order=True))
_CANDIDATES = PreparedStatement(insert(Candidates).returning(Candidates.c.id, sort_by_parameter_order=True))
_PROMPT, _ANSWERS = PreparedStatement(insert(PromptTexts)), PreparedStatement(insert(AnswerLinks))
_SUMS = PreparedStatement(update(PromptGroups).where(PromptGroups.c.id == bindparam("of_group")))
_Cells = Sequence[tuple[int, str, int | None]]
"""(island, cell, candidate id or None for a cell that is empty now)."""


def _first_places(group: ScoredGroup, born: Collection[bytes]) -> list[list[int]]:
    """Of each rollout, the places of its answers that are new candidates and are first in the group."""
    unseen, firsts = set(born), list[list[int]]()
    for scored in group.rollouts:
        firsts.append([])
        for place, answer in enumerate(scored.answers):
            if answer.identity in unseen:
                unseen.discard(answer.identity)
                firsts[-1].append(place)
    return firsts


class GroupWriter:
    """Writes for one problem, inside the caller's transactions."""

    def __init__(self, store: Store, problem: ProblemRecord) -> None:
        self._store = store
        self._problem = problem
        self._base: tuple[int, bytes, bytes] | None = None  # the first prompt of this writer, which others resemble

    def write_group(
        self,
        tx: Transaction,
        group: ScoredGroup,
        fresh: Sequence[ScoredAnswer],
        measures: Sequence[tuple[float, ...]],
        generation: int,
        id_of: Callable[[bytes], int],
    ) -> tuple[int, list[int]]:
        """The group, its rollouts, its `fresh` answers as candidates, and a link per answer; `id_of` gives the ids of
        repeats. Returns the group's id and the candidates' ids, in the order of `fresh`."""
        row = dict(
            run_id=self._problem.run_id, problem_id=group.problem, sequence=group.sequence, iteration=group.iteration,
            island=group.island, operator=group.operator, parent_id=group.parent, inspirations=list(group.inspirations),
            policy_version_id=self._store.policy_version(self._problem.run_id, group.policy_version, tx),
            answers=group.answers, stream=group.prompt.stream, seed=group.seed, temperature=group.temperature,
            top_p=group.top_p, sampling_seconds=group.sampling_seconds, scoring_seconds=group.scoring_seconds,
            created=time.time(),
        )  # fmt: skip
        (group_id,) = _GROUP.run(tx.connection, [row])
        prompt_ids = ids_to_bytes(group.rollouts[0].rollout.prompt_ids) if group.rollouts else b""
        texts = json.dumps([group.prompt.system, group.prompt.user]).encode()
        base, base_texts, base_ids = self._base or (None, None, None)
        packed = dict(texts=compress(texts, base_texts), token_ids=compress(prompt_ids, base_ids))
        _PROMPT.run(tx.connection, [dict(packed, group_id=group_id, base=base)])
        self._base = self._base or (group_id, texts, prompt_ids)
        ids = self.write_candidates(
            tx, fresh, measures, group_id, group.sequence, generation, group.island, group.parent
        )
        self._write_answers(tx, group, group_id, dict(zip((a.identity for a in fresh), ids, strict=True)), id_of)
        return group_id, ids

    def _write_answers(
        self,
        tx: Transaction,
        group: ScoredGroup,
        group_id: int,
        born: dict[bytes, int],
        id_of: Callable[[bytes], int],
    ) -> None:
        if not group.rollouts:
            return
        firsts = _first_places(group, born)
        base = base_of_ids(group.rollouts[0].rollout.prompt_ids)
        rollouts = [
            dict(
                group_id=group_id, position=position, finish=scored.rollout.finish, format_error=scored.format_error,
                text=fold(scored.rollout.text, {place: scored.answers[place].text for place in places}),
                token_ids=compress(ids_to_bytes(scored.rollout.token_ids), base),
                logprobs=pack_floats(scored.rollout.logprobs),
            )
            for position, (scored, places) in enumerate(zip(group.rollouts, firsts, strict=True))
        ]  # fmt: skip
        rollout_ids = _ROLLOUTS.run(tx.connection, rollouts)
        links = [
            dict(
                rollout_id=rollout_id, position=place, repeat=place not in places, seconds=answer.seconds,
                candidate_id=born[answer.identity] if answer.identity in born else id_of(answer.identity),
            )
            for rollout_id, scored, places in zip(rollout_ids, group.rollouts, firsts, strict=True)
            for place, answer in enumerate(scored.answers)
        ]  # fmt: skip
        if links:
            _ANSWERS.run(tx.connection, links)

    def write_candidates(
        self,
        tx: Transaction,
        answers: Sequence[ScoredAnswer],
        measures: Sequence[tuple[float, ...]],
        group_id: int | None,
        sequence: int,
        generation: int,
        island: int,
        parent: int | None,
    ) -> list[int]:
        """One row per answer; their ids in order."""
        now = time.time()
        rows = [
            dict(
                problem_id=self._problem.id, group_id=group_id, sequence=sequence, identity=answer.identity,
                text=answer.text, rewards=[float(r) for r in answer.score.rewards], fitness=float(answer.score.fitness),
                features={name: float(value) for name, value in answer.score.features.items()}, measures=list(measured),
                feedback=answer.score.feedback, error=answer.score.error, generation=generation, island=island,
                parent_id=parent, created=now, own_values=list(answer.score.values) or None,
            )
            for answer, measured in zip(answers, measures, strict=True)
        ]  # fmt: skip
        return _CANDIDATES.run(tx.connection, rows) if rows else []

    def write_sums(self, tx: Transaction, group_id: int, sums: GroupSums, cells: _Cells) -> None:
        """What a group brought, once its answers are placed."""
        values: dict[str, Any] = {**vars(sums), "errors": dict(sums.errors) or None, "cells": list(cells) or None}
        _SUMS.run(tx.connection, [{"of_group": group_id, **values}])

    def add_cells(self, tx: Transaction, group_id: int, cells: _Cells) -> None:
        """Further changes of the archive with a group: those of the migration that followed it."""
        mine = PromptGroups.c.id == group_id
        known = tx.connection.execute(select(PromptGroups.c.cells).where(mine)).scalar()
        tx.connection.execute(update(PromptGroups).where(mine).values(cells=[*(known or []), *cells]))

    def write_migration(
        self, tx: Transaction, sequence: int, generation: int, moves: Sequence[tuple[int, int, int]]
    ) -> None:
        """A row per copy, or one empty row for a migration that copied nothing."""
        common: dict[str, int | None] = dict(problem_id=self._problem.id, sequence=sequence, generation=generation)
        rows = [dict(common, source=source, target=target, candidate_id=id) for source, target, id in moves]
        tx.connection.execute(insert(Migrations), rows or [dict(common, source=None, target=None, candidate_id=None)])
