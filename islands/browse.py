"""Candidates by filters, a page at a time, failures included; the provenance, lineage and offspring of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, cast, func, literal, select

from islands.groups import COLUMNS, from_row, read_prompts, read_summaries, summaries, with_groups
from islands.runs import Archives, read_archives
from islands.schema import AnswerLinks, Candidates, PolicyVersions, Problems, PromptGroups, Rollouts, head_of
from islands.store import Store, problem_record
from islands.types import Candidate, CandidateSummary, ProblemRecord

HEAD = 300
"""Characters of a text that a list reads."""
MOST_COUNTED = 10_000
_CUT = "..."


@dataclass(frozen=True)
class CandidateFilter:
    """Which candidates of some runs to list, and in which order.

    failed: True for those with an error only, False for those without; None for both
    kind: of the error (problems.scoring.error_kind)
    by_fitness: the fittest first, failures last; else the newest first
    """

    runs: Sequence[int]
    problem: int | None = None
    failed: bool | None = None
    kind: str = ""
    by_fitness: bool = False


def browse(store: Store, chosen: CandidateFilter, start: int, most: int) -> list[CandidateSummary]:
    """At most `most` candidates from place `start` on, with the first HEAD characters of texts and errors. Ordered by
    fitness, all that match are read."""
    order = [Candidates.c.error.is_not(None), Candidates.c.fitness.desc()] if chosen.by_fitness else []
    # texts are read of the rows that are shown only, not of all that are sorted
    ids = _matching(chosen).order_by(*order, Candidates.c.id.desc()).offset(start).limit(most)
    fields = ("id", "run", "problem", "iteration", "fitness", "rewards", "error", "text", "values", "parent")
    query = summaries(*fields, head=HEAD).where(Candidates.c.id.in_(ids))
    return read_summaries(store, query.order_by(*order, Candidates.c.id.desc()))


def count_browsed(store: Store, chosen: CandidateFilter) -> int:
    """How many candidates the filter names, MOST_COUNTED + 1 for more."""
    matching = _matching(chosen).limit(MOST_COUNTED + 1)
    return int(store.scalar(select(func.count()).select_from(matching.subquery())))


def _matching(chosen: CandidateFilter) -> Select[int]:
    """The ids that a filter names."""
    conditions: list[ColumnElement[bool]] = [Problems.c.run_id.in_(list(chosen.runs))]
    if chosen.problem is not None:
        conditions.append(Problems.c.index == chosen.problem)
    if chosen.failed is not None:
        conditions.append(Candidates.c.error.is_not(None) if chosen.failed else Candidates.c.error.is_(None))
    if chosen.kind:
        error = cast(Candidates.c.error, Text)
        begins = chosen.kind.removesuffix(_CUT) if chosen.kind.endswith(_CUT) else f"{chosen.kind}:"
        placed = error.startswith("the answer fails") | error.startswith("evaluate")  # then comes the kind
        within = placed & error.contains(f": {begins}", autoescape=True)
        conditions.append((error == chosen.kind) | error.startswith(begins, autoescape=True) | within)
    return select(Candidates.c.id).join(Problems, Problems.c.id == Candidates.c.problem_id).where(*conditions)


def offspring(store: Store, candidate: int, problem_id: int, most: int) -> list[CandidateSummary]:
    """The fittest of those that were made from a candidate."""
    query = summaries("id", "fitness", "error", "values").where(
        Candidates.c.problem_id == problem_id, Candidates.c.parent_id == candidate
    )
    order = (Candidates.c.error.is_not(None), Candidates.c.fitness.desc(), Candidates.c.id)
    return read_summaries(store, query.order_by(*order).limit(most))


def neighbours(store: Store, candidate: int, problem_id: int) -> tuple[int | None, int | None]:
    """The candidates of the problem that were stored before and after one."""
    id, of = Candidates.c.id, Candidates.c.problem_id == problem_id
    before = store.scalar(select(func.max(id)).where(of, id < candidate))
    return before, store.scalar(select(func.min(id)).where(of, id > candidate))


@dataclass(frozen=True)
class Misread:
    """A rollout that could not be read in full: the reason, and the beginning of its text."""

    id: int
    problem: int
    iteration: int
    reason: str
    text: str


def misread_rollouts(store: Store, runs: Sequence[int], most: int) -> list[Misread]:
    """The newest of these runs."""
    columns = (Rollouts.c.id, Problems.c.index, PromptGroups.c.iteration, Rollouts.c.format_error)
    query = (
        select(*columns, head_of(Rollouts.c.text, 10 * HEAD))
        .join(PromptGroups, PromptGroups.c.id == Rollouts.c.group_id)
        .join(Problems, Problems.c.id == PromptGroups.c.problem_id)
        .where(PromptGroups.c.run_id.in_(list(runs)), Rollouts.c.format_error.is_not(None))
        .order_by(Rollouts.c.id.desc())
        .limit(most)
    )
    return [Misread(*row) for row in store.rows(query)]


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


def candidate(store: Store, candidate_id: int) -> CandidateDetail | None:
    """One candidate of any run, None if no candidate has that id."""
    of_group = (PromptGroups.c.iteration, PromptGroups.c.sequence, PolicyVersions.c.version)
    query = _with_versions(select(*COLUMNS, Candidates.c.created, *of_group)).where(Candidates.c.id == candidate_id)
    with store.read() as connection:
        row = connection.execute(query).first()
        if row is None:
            return None
        of_problem = select(Problems).join(Candidates, Candidates.c.problem_id == Problems.c.id)
        problem = problem_record(connection.execute(of_problem.where(Candidates.c.id == candidate_id)).one())
        given = connection.execute(select(func.count()).where(AnswerLinks.c.candidate_id == candidate_id)).scalar_one()
        archives: Archives = {problem.id: {}}
        read_archives(connection, archives)
    created, iteration, sequence, version = row[len(COLUMNS) :]
    cells = tuple(sorted(place for place, holder in archives[problem.id].items() if holder == candidate_id))
    record = from_row(row[: len(COLUMNS)])
    return CandidateDetail(record, problem, iteration, sequence, version, created, given, cells)


@dataclass(frozen=True)
class FailedCandidate:
    """Why `count` stored answers to a problem could not be scored, and the newest of them."""

    id: int
    problem: str
    error: str
    count: int


def failed_candidates(store: Store, run_id: int, most: int) -> list[FailedCandidate]:
    """A run's failures, equal ones as one: the most frequent first, then the newest."""
    newest, count = func.max(Candidates.c.id), func.count()
    query = (
        select(newest, Problems.c.name, Candidates.c.error, count)
        .join(Problems, Problems.c.id == Candidates.c.problem_id)
        .where(Problems.c.run_id == run_id, Candidates.c.error.is_not(None))
        .group_by(Problems.c.name, Candidates.c.error)
        .order_by(count.desc(), newest.desc())
        .limit(most)
    )
    return [FailedCandidate(*row) for row in store.rows(query)]


def ancestors(store: Store, candidate: int, most: int = 1 << 31) -> list[CandidateSummary]:
    """A candidate, its parent, its parent's parent, at most `most` of them; empty for an unknown candidate."""
    columns, above = (Candidates.c.id, Candidates.c.parent_id), Candidates.alias()
    line = select(*columns, literal(0).label("depth")).where(Candidates.c.id == candidate).cte("line", recursive=True)
    line = line.union_all(
        select(above.c.id, above.c.parent_id, line.c.depth + 1)
        .join(line, above.c.id == line.c.parent_id)
        .where(line.c.depth < most - 1)
    )
    query = summaries("id", "fitness", "generation", "values").join(line, line.c.id == Candidates.c.id)
    return read_summaries(store, query.order_by(line.c.depth))


@dataclass(frozen=True)
class Origin:
    """Where an answer was given first: the prompt, and the whole text of the rollout with the answer's place in it,
    from 0."""

    system: str
    user: str
    chain: str
    place: int


def origins(store: Store, candidates: Sequence[int]) -> dict[int, Origin]:
    """Candidate id -> where it was given first; a seed answer has no origin."""
    query = (
        select(Candidates.c.id, Candidates.c.group_id, Rollouts.c.text, AnswerLinks.c.position)
        .join(Rollouts, Rollouts.c.group_id == Candidates.c.group_id)
        .join(AnswerLinks, AnswerLinks.c.rollout_id == Rollouts.c.id)
        .where(Candidates.c.id.in_(candidates), AnswerLinks.c.candidate_id == Candidates.c.id)
        .order_by(Rollouts.c.id, AnswerLinks.c.position)
    )
    first: dict[int, Origin] = {}
    with store.read() as connection:
        rows = connection.execute(query).all()
        prompts = read_prompts(connection, list({row.group_id for row in rows}))
    for id, group, text, place in rows:
        if id not in first:
            system, user = prompts[group]
            first[id] = Origin(system, user, text, int(place))
    return first


def first_prompt(store: Store, run: int, problem: int) -> Origin | None:
    """What a search asked first, without an answer to it; None before its first iteration is stored."""
    query = (
        select(PromptGroups.c.id)
        .where(PromptGroups.c.run_id == run, PromptGroups.c.problem_id == problem)
        .order_by(PromptGroups.c.sequence)
        .limit(1)
    )
    group = store.scalar(query)
    if group is None:
        return None
    with store.read() as connection:
        system, user = read_prompts(connection, [group])[group]
    return Origin(system, user, "", 0)


def candidates_table(store: Store, run_id: int) -> Iterator[dict[str, Any]]:
    """Every distinct answer of a run by problem, oldest first. One query. iteration, policy_version are None for a
    seed, whose sequence is -1; rewards, values: by objective, values what the scorer measured, {} where that is the
    rewards; created: seconds since 1970, UTC."""
    c = Candidates.c
    columns = {
        "problem": Problems.c.name, "candidate": c.id, "iteration": PromptGroups.c.iteration, "sequence": c.sequence,
        "island": c.island, "generation": c.generation, "parent": c.parent_id,
        "policy_version": PolicyVersions.c.version, "fitness": c.fitness, "rewards": c.rewards, "values": c.own_values,
        "features": c.features, "error": c.error, "feedback": c.feedback, "answer": c.text, "created": c.created,
    }  # fmt: skip
    query = _with_versions(select(*columns.values(), Problems.c.objectives)).where(Problems.c.run_id == run_id)
    for row in store.rows(query.order_by(Problems.c.index, c.id)):
        *values, objectives = row
        line = dict(zip(columns, values, strict=True))
        yield line | {key: dict(zip(objectives, line[key] or (), strict=False)) for key in ("rewards", "values")}


def _with_versions(query: Select[Any]) -> Select[Any]:
    """A query of candidates with the tables of their problems, groups and policy versions."""
    return with_groups(query).outerjoin(PolicyVersions, PolicyVersions.c.id == PromptGroups.c.policy_version_id)
