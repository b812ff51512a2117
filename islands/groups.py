"""Stored groups read back, all of a run in order or those of some places in it: as the ScoredGroups they were, for a
trainer; and as plain objects, for export.

Memory stays at one page of groups, however long the run is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, select, tuple_

from islands.blobs import ids_of, unpack, unpack_floats
from islands.history import COLUMNS, PAGE, from_row, read_pages, read_summaries, summaries
from islands.schema import AnswerLinks, Candidates, PolicyVersions, Problems, PromptGroups, PromptTexts, Rollouts
from islands.store import Store
from islands.types import CandidateSummary
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout

_BATCH = 2000


def groups_at(store: Store, run_id: int, sequences: Sequence[int]) -> list[ScoredGroup]:
    """The groups of these places in the run, in the order asked for. Raises LookupError where one is not there."""
    found: dict[int, ScoredGroup] = {}
    wanted = sorted(set(sequences))
    for start in range(0, len(wanted), PAGE):
        query = _groups(run_id).where(PromptGroups.c.sequence.in_(wanted[start : start + PAGE]))
        found |= {group.sequence: group for _, group in read_pages(store, query, -1, None, _read)}
    missing = [sequence for sequence in wanted if sequence not in found]
    if missing:
        raise LookupError(f"there is no group {missing[0]}" + (f", nor {len(missing) - 1} others" * bool(missing[1:])))
    return [found[sequence] for sequence in sequences]


def _groups(run_id: int) -> Select[Any]:
    return (
        select(PromptGroups, PolicyVersions.c.version)
        .join(PolicyVersions, PolicyVersions.c.id == PromptGroups.c.policy_version_id)
        .where(PromptGroups.c.run_id == run_id)
    )


def read_groups(
    store: Store, run_id: int, *, after: int = -1, upto: int | None = None
) -> Iterator[tuple[int, ScoredGroup]]:
    """(group id, group) of a run in order of sequence, after < sequence <= upto.

    A group comes back as it was added, with two differences: every answer names its candidate, and the text of a repeat
    is that of the candidate it repeats, which may be laid out differently.
    """
    return read_pages(store, _groups(run_id), after, upto, _read)


def _read(connection: Connection, rows: Sequence[Row[Any]]) -> list[tuple[int, ScoredGroup]]:
    rollouts, prompts = _rollouts(connection, rows), read_prompts(connection, [row.id for row in rows])
    return [(row.id, _group(row, prompts[row.id], rollouts.get(row.id, []))) for row in rows]


def read_prompts(connection: Connection, groups: Sequence[int]) -> dict[int, list[str]]:
    """Group id -> system message and request."""
    return {id: json.loads(data) for id, data in _unpacked(connection, groups, PromptTexts.c.texts).items()}


def _unpacked(connection: Connection, groups: Sequence[int], column: Column[Any]) -> dict[int, bytes]:
    """What a packed column of prompts holds, by group id."""
    query = select(PromptTexts.c.group_id, PromptTexts.c.base, column.label("blob"))
    packed = {row.group_id: row for row in connection.execute(query.where(PromptTexts.c.group_id.in_(groups)))}
    missing = {row.base for row in packed.values()} - packed.keys() - {None}
    bases = {row.group_id: row for row in connection.execute(query.where(PromptTexts.c.group_id.in_(missing)))}
    of = {id: unpack(row.blob) for id, row in (packed | bases).items() if row.base is None}
    return {id: of[id] if row.base is None else unpack(row.blob, of[row.base]) for id, row in packed.items()}


def _rollouts(connection: Connection, groups: Sequence[Any]) -> dict[int, list[ScoredRollout]]:
    """Rollouts with their answers, by group id."""
    ids = [row.id for row in groups]
    prompts = {id: ids_of(data) for id, data in _unpacked(connection, ids, PromptTexts.c.token_ids).items()}
    answers: dict[int, list[ScoredAnswer]] = {}
    links = (
        select(AnswerLinks.c.rollout_id, AnswerLinks.c.seconds, Candidates.c.identity, *COLUMNS)
        .join(Candidates, Candidates.c.id == AnswerLinks.c.candidate_id)
        .join(Rollouts, Rollouts.c.id == AnswerLinks.c.rollout_id)
        .where(Rollouts.c.group_id.in_(ids))
        .order_by(AnswerLinks.c.rollout_id, AnswerLinks.c.position)
    )
    for rollout, seconds, identity, *columns in connection.execute(links):
        held = from_row(columns)
        answer = ScoredAnswer(held.text, bytes(identity), held.score, seconds, held.id)
        answers.setdefault(rollout, []).append(answer)
    found: dict[int, list[ScoredRollout]] = {}
    samples = select(*Rollouts.c).where(Rollouts.c.group_id.in_(ids)).order_by(Rollouts.c.group_id, Rollouts.c.position)
    for row in connection.execute(samples):
        record = Rollout(
            row.text, ids_of(unpack(row.token_ids)), unpack_floats(row.logprobs), prompts[row.group_id], row.finish
        )
        scored = ScoredRollout(record, tuple(answers.get(row.id, ())), row.format_error)
        found.setdefault(row.group_id, []).append(scored)
    return found


def _group(row: Any, prompt: list[str], rollouts: list[ScoredRollout]) -> ScoredGroup:
    system, user = prompt
    return ScoredGroup(
        problem=row.problem_id,
        sequence=row.sequence,
        iteration=row.iteration,
        island=row.island,
        parent=row.parent_id,
        inspirations=tuple(row.inspirations),
        prompt=Prompt(user, system, row.stream),
        policy_version=row.version,
        answers=row.answers,
        seed=row.seed,
        temperature=row.temperature,
        rollouts=tuple(rollouts),
        sampling_seconds=row.sampling_seconds,
        scoring_seconds=row.scoring_seconds,
        operator=row.operator,
        top_p=row.top_p,
    )


def export_groups(store: Store, run_id: int, *, tokens: bool = True) -> Iterator[dict[str, Any]]:
    """One JSON-ready object per group, in order: what `evo export` writes.

    Lists inside a rollout go by answer. `tokens` adds token ids and behaviour log-probabilities, which a trainer needs
    and which make most of the size.
    """
    rows = store.rows(select(Problems.c.id, Problems.c.address).where(Problems.c.run_id == run_id))
    addresses = {row.id: row.address for row in rows}
    for id, group in read_groups(store, run_id):
        yield {
            "id": id,
            "problem": addresses[group.problem],
            "sequence": group.sequence,
            "iteration": group.iteration,
            "island": group.island,
            "parent": group.parent,
            "inspirations": list(group.inspirations),
            "policy_version": group.policy_version,
            "prompt": {"system": group.prompt.system, "user": group.prompt.user}
            | ({"token_ids": group.rollouts[0].rollout.prompt_ids.tolist()} if tokens and group.rollouts else {}),
            "answers": group.answers,
            "operator": group.operator,
            "seed": group.seed,
            "stream": group.prompt.stream,
            "temperature": group.temperature,
            "top_p": group.top_p,
            "sampling_seconds": group.sampling_seconds,
            "scoring_seconds": group.scoring_seconds,
            "rollouts": [_export(rollout, tokens) for rollout in group.rollouts],
        }


def _export(scored: ScoredRollout, tokens: bool) -> dict[str, Any]:
    scores = [answer.score for answer in scored.answers]
    exported: dict[str, Any] = {
        "text": scored.rollout.text,
        "answers": [answer.text for answer in scored.answers],
        "candidates": [answer.candidate for answer in scored.answers],
        "values": [None if score.error else list(score.values or score.rewards) for score in scores],
        "rewards": [list(score.rewards) for score in scores],
        "fitness": [score.fitness for score in scores],
        "errors": [score.error for score in scores],
        "format_error": scored.format_error,
        "finish": scored.rollout.finish,
    }
    if tokens:
        exported["token_ids"] = scored.rollout.token_ids.tolist()
        exported["logprobs"] = [float(value) for value in scored.rollout.logprobs]
    return exported


def children(store: Store, problem_id: int, *, upto: int | None = None) -> Iterator[CandidateSummary]:
    """Every distinct candidate of a problem in the order in which they were stored, up to the group `upto`."""
    place = (Candidates.c.sequence, Candidates.c.id)
    fields = ("id", "sequence", "parent", "inspirations", "rewards", "fitness", "error", "iteration")
    query = summaries(*fields).where(Candidates.c.problem_id == problem_id).order_by(*place).limit(_BATCH)
    if upto is not None:  # seeds have -1
        query = query.where(Candidates.c.sequence <= upto)
    page = read_summaries(store, query)
    while page:
        yield from page
        rest = query.where(tuple_(*place) > (page[-1].sequence, page[-1].id))
        page = read_summaries(store, rest) if len(page) == _BATCH else []
