"""Candidates by id or as a query names them; stored groups read back, a page at a time, however long the run is: as the
ScoredGroups they were, for a trainer; as plain objects, for export; and as far as a population replays them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    bindparam,
    cast,
    func,
    select,
    tuple_,
)

from islands.blobs import base_of_ids, decompress, ids_of, unfold, unpack_floats
from islands.schema import (
    AnswerLinks,
    Candidates,
    Migrations,
    PolicyVersions,
    Problems,
    PromptGroups,
    PromptTexts,
    Rollouts,
)  # fmt: skip
from islands.store import Store
from islands.types import Candidate, CandidateSummary
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout

_T = TypeVar("_T")
_BATCH = 2000
"""Candidates that are read at once."""
_RECORD_BYTES = 600
"""Of a candidate in memory without its texts: the record, its tuples and its number."""
PAGE = 100
"""Groups that are read at once."""
COLUMNS = (
    Candidates.c.id,
    Candidates.c.text,
    Candidates.c.rewards,
    Candidates.c.fitness,
    Candidates.c.features,
    Candidates.c.feedback,
    Candidates.c.error,
    Candidates.c.generation,
    Candidates.c.island,
    Candidates.c.parent_id,
    Candidates.c.own_values,
)


_OF_CANDIDATES = ("id", "fitness", "rewards", "error", "text", "generation", "sequence")
_READ: dict[str, ColumnElement[Any]] = {
    **{name: Candidates.c[name] for name in _OF_CANDIDATES},
    "values": Candidates.c.own_values,
    "parent": Candidates.c.parent_id,
    "inspirations": PromptGroups.c.inspirations,
    "run": Problems.c.run_id,
    "problem": Problems.c.index,
    "iteration": func.coalesce(PromptGroups.c.iteration, -1),
}
"""The fields of a CandidateSummary."""


def with_groups(query: Select[Any]) -> Select[Any]:
    """A query of candidates with the tables of their problems and groups; a seed has no group."""
    query = query.join_from(Candidates, Problems, Problems.c.id == Candidates.c.problem_id)
    return query.outerjoin(PromptGroups, PromptGroups.c.id == Candidates.c.group_id)


def summaries(*fields: str) -> Select[Any]:
    """A query for `read_summaries`."""
    return with_groups(select(*(_READ[field].label(field) for field in fields)))


def read_summaries(store: Store, query: Select[Any]) -> list[CandidateSummary]:
    """The rows of a query that `summaries` made."""
    found = []
    for row in store.rows(query):
        values = dict(row._mapping)
        values |= {name: tuple(values[name] or ()) for name in ("rewards", "values") if name in values}
        if "inspirations" in values:
            values["inspirations"] = tuple(id for id in values["inspirations"] or () if id != values["parent"])
        found.append(CandidateSummary(**values))
    return found


@cache
def _by_ids(count: int) -> Select[Any]:
    """A query for `count` ids. One that expands its list at each execution costs half as much again."""
    return select(*COLUMNS).where(Candidates.c.id.in_([bindparam(f"id{n}", type_=BigInteger) for n in range(count)]))


def from_row(row: Sequence[Any]) -> Candidate:
    """A record from a row of COLUMNS."""
    id, text, rewards, fitness, features, feedback, error, generation, island, parent, own = tuple(row)
    vector, own = tuple(rewards), tuple(own or ())
    return Candidate(id, text, vector, fitness, features, feedback, error, generation, island, parent, own)


class CandidateReader:
    """Candidates by id through a least-recently-used cache of at most `cache_bytes` of text.

    pinned: candidates of a transaction that has not ended: no other connection can see them yet
    """

    def __init__(self, store: Store, cache_bytes: int = 16 << 20) -> None:
        self._store = store
        self._room = cache_bytes
        self._cache: OrderedDict[int, tuple[Candidate, int]] = OrderedDict()  # with its bytes
        self.pinned: dict[int, Candidate] = {}

    def unpin(self, committed: bool) -> None:
        """The transaction ended; what was committed moves on to the cache."""
        if committed:
            for candidate in self.pinned.values():
                self._remember(candidate)
        self.pinned.clear()

    def fetch(self, ids: Sequence[int]) -> list[Candidate]:
        """In the order asked for, by at most one query. Raises KeyError for an id that is not stored."""
        found: dict[int, Candidate] = {}
        missing = []
        for id in ids:
            if id in self.pinned:
                found[id] = self.pinned[id]
            elif id in self._cache:
                found[id] = self._cache[id][0]
                self._cache.move_to_end(id)
            else:
                missing.append(id)
        if missing:
            with self._store.read() as connection:
                # a few lengths, each compiled once: 1, 2, 4, 8... with the last id repeated
                count = 1 << (len(missing) - 1).bit_length()
                wanted = missing + missing[-1:] * (count - len(missing))
                for row in connection.execute(_by_ids(count), {f"id{n}": id for n, id in enumerate(wanted)}):
                    candidate = from_row(row)
                    found[candidate.id] = candidate
                    self._remember(candidate)
        return [found[id] for id in ids]

    def _remember(self, candidate: Candidate) -> None:
        if candidate.id in self._cache:
            return
        size = _RECORD_BYTES + len(candidate.text) + len(candidate.feedback)
        self._cache[candidate.id] = candidate, size
        self._room -= size
        while self._room < 0 and self._cache:
            _, (_, freed) = self._cache.popitem(last=False)
            self._room += freed


class StoredCandidate(NamedTuple):
    """The numbers of one candidate. features: a JSON object"""

    id: int
    identity: bytes
    fitness: float
    generation: int
    valid: bool
    sequence: int
    features: str
    rewards: list[float]
    measures: list[float]


@dataclass
class StoredGroup:
    """One group as far as the population is concerned.

    answers: candidate ids in the order of rollouts and places; born: those that this group brought, by id
    moves: None if no migration followed
    """

    sequence: int
    island: int
    parent: int | None
    answers: list[int] = field(default_factory=list)
    born: dict[int, StoredCandidate] = field(default_factory=dict)
    moves: list[tuple[int, int, int]] | None = None  # (source, target, candidate id)


_NUMBERS = (
    Candidates.c.id,
    Candidates.c.identity,
    Candidates.c.fitness,
    Candidates.c.generation,
    Candidates.c.error.is_(None),
    Candidates.c.sequence,
    cast(Candidates.c.features, Text),
    cast(Candidates.c.rewards, Text),
    cast(Candidates.c.measures, Text),
)


def seeds(store: Store, problem_id: int) -> list[StoredCandidate]:
    """The candidates that no group brought."""
    with store.read() as connection:
        return _read_numbers(connection, problem_id, -1, -1)


def _read_numbers(connection: Connection, problem_id: int, first: int, last: int) -> list[StoredCandidate]:
    """The candidates of these sequences, in the order of storing."""
    query = select(*_NUMBERS).where(Candidates.c.problem_id == problem_id, Candidates.c.sequence.between(first, last))
    rows = connection.execute(query.order_by(Candidates.c.id)).all()
    # one text to decode, not two a candidate: that is most of the time which reading them takes
    numbers = json.loads(f"[{','.join([f'[{rewards},{measures}]' for *_, rewards, measures in rows])}]")
    return [StoredCandidate(*row[:7], *vectors) for row, vectors in zip(rows, numbers, strict=True)]


def stored_groups(store: Store, problem_id: int, after: int, upto: int | None) -> Iterator[StoredGroup]:
    """A problem's groups with after < sequence <= upto (None: all that are stored now), in order. Memory: one page."""
    query = select(PromptGroups.c.sequence, PromptGroups.c.island, PromptGroups.c.parent_id)

    def read(connection: Connection, rows: Sequence[Row[Any]]) -> list[StoredGroup]:
        groups = {row.sequence: StoredGroup(row.sequence, row.island, row.parent_id) for row in rows}
        _fill(connection, problem_id, groups)
        return list(groups.values())

    return read_pages(store, query.where(PromptGroups.c.problem_id == problem_id), after, upto, read)


def read_pages(
    store: Store, query: Select[Any], after: int, upto: int | None,
    read: Callable[[Connection, Sequence[Row[Any]]], list[_T]],
) -> Iterator[_T]:  # fmt: skip
    """What `read` makes of the groups that a query names, with after < sequence <= upto, in order, a page at a time."""
    query = query.order_by(PromptGroups.c.sequence).limit(PAGE)
    if upto is not None:
        query = query.where(PromptGroups.c.sequence <= upto)
    while True:
        with store.read() as connection:
            rows = connection.execute(query.where(PromptGroups.c.sequence > after)).all()
            page = read(connection, rows) if rows else []
        yield from page
        if len(rows) < PAGE:
            return
        after = rows[-1].sequence


def _fill(connection: Connection, problem_id: int, groups: dict[int, StoredGroup]) -> None:
    first, last = min(groups), max(groups)
    for candidate in _read_numbers(connection, problem_id, first, last):
        groups[candidate.sequence].born[candidate.id] = candidate
    answers = (
        select(PromptGroups.c.sequence, AnswerLinks.c.candidate_id)
        .join(Rollouts, Rollouts.c.group_id == PromptGroups.c.id)
        .join(AnswerLinks, AnswerLinks.c.rollout_id == Rollouts.c.id)
        .where(PromptGroups.c.problem_id == problem_id, PromptGroups.c.sequence.between(first, last))
        .where(PromptGroups.c.repeats > 0)  # the answers of the others are what they brought, in that order
        .order_by(PromptGroups.c.sequence, Rollouts.c.position, AnswerLinks.c.position)
    )
    for sequence, candidate_id in connection.execute(answers):
        groups[sequence].answers.append(candidate_id)
    for group in groups.values():
        group.answers = group.answers or list(group.born)
    moves = (
        select(Migrations.c.sequence, Migrations.c.source, Migrations.c.target, Migrations.c.candidate_id)
        .where(Migrations.c.problem_id == problem_id, Migrations.c.sequence.between(first, last))
        .order_by(Migrations.c.id)
    )
    for at, source, target, migrant in connection.execute(moves):
        group = groups[at]
        if group.moves is None:
            group.moves = []
        if source is not None and target is not None and migrant is not None:
            group.moves.append((source, target, migrant))


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
    ids = [row.id for row in rows]
    rollouts, prompts = read_rollouts(connection, ids), read_prompts(connection, ids)
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
    of = {id: decompress(row.blob) for id, row in (packed | bases).items() if row.base is None}
    return {id: of[id] if row.base is None else decompress(row.blob, of[row.base]) for id, row in packed.items()}


def read_rollouts(connection: Connection, groups: Sequence[int]) -> dict[int, list[ScoredRollout]]:
    """Rollouts with their answers, by group id."""
    prompts = {id: ids_of(data) for id, data in _unpacked(connection, groups, PromptTexts.c.token_ids).items()}
    answers: dict[int, list[ScoredAnswer]] = {}
    links = (
        select(AnswerLinks.c.rollout_id, AnswerLinks.c.seconds, Candidates.c.identity, *COLUMNS)
        .join(Candidates, Candidates.c.id == AnswerLinks.c.candidate_id)
        .join(Rollouts, Rollouts.c.id == AnswerLinks.c.rollout_id)
        .where(Rollouts.c.group_id.in_(groups))
        .order_by(AnswerLinks.c.rollout_id, AnswerLinks.c.position)
    )
    for rollout, seconds, identity, *columns in connection.execute(links):
        held = from_row(columns)
        answer = ScoredAnswer(held.text, bytes(identity), held.score, seconds, held.id)
        answers.setdefault(rollout, []).append(answer)
    found: dict[int, list[ScoredRollout]] = {}
    samples = (
        select(*Rollouts.c).where(Rollouts.c.group_id.in_(groups)).order_by(Rollouts.c.group_id, Rollouts.c.position)
    )
    for row in connection.execute(samples):
        given, prompt = answers.get(row.id, []), prompts[row.group_id]
        text = unfold(row.text, [answer.text for answer in given])
        token_ids = ids_of(decompress(row.token_ids, base_of_ids(prompt)))
        record = Rollout(text, token_ids, unpack_floats(row.logprobs), prompt, row.finish)
        scored = ScoredRollout(record, tuple(given), row.format_error)
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
