"""One candidate with its provenance and lineage; failed ones, and every one as a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, literal, select

from islands.groups import COLUMNS, from_row, read_prompts, read_rollouts, read_summaries, summaries, with_groups
from islands.runs import Archives, read_archives
from islands.schema import AnswerLinks, Candidates, PolicyVersions, Problems, PromptGroups
from islands.store import Store, problem_record
from islands.types import Candidate, CandidateSummary, ProblemRecord


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


def offspring(store: Store, problem: int, candidate: int, most: int) -> list[CandidateSummary]:
    """The fittest valid answers that were made from a candidate of a problem (its row's id)."""
    c, g = Candidates.c, PromptGroups.c
    asked = select(g.sequence).where(g.problem_id == problem, g.parent_id == candidate)  # its rows are narrow
    query = summaries("id", "fitness", "values").where(c.problem_id == problem, c.sequence.in_(asked))
    query = query.where(c.parent_id == candidate, c.error.is_(None)).order_by(c.fitness.desc(), c.id)
    return read_summaries(store, query.limit(most))


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
    query = select(Candidates.c.id, Candidates.c.group_id)
    query = query.where(Candidates.c.id.in_(candidates), Candidates.c.group_id.is_not(None))
    first: dict[int, Origin] = {}
    with store.read() as connection:
        groups = {id: group for id, group in connection.execute(query)}
        ids = list(set(groups.values()))
        prompts, rollouts = read_prompts(connection, ids), read_rollouts(connection, ids)
    for group in ids:
        system, user = prompts[group]
        for scored in rollouts[group]:
            for place, answer in enumerate(scored.answers):
                if answer.candidate is not None and groups.get(answer.candidate) == group:
                    first.setdefault(answer.candidate, Origin(system, user, scored.rollout.text, place))
    return first


def first_prompt(store: Store, run: int, problem: int) -> Origin | None:
    """What a search asked first, without an answer to it; None before its first iteration is stored."""
    g = PromptGroups.c
    query = select(g.id).where(g.run_id == run, g.problem_id == problem).order_by(g.sequence).limit(1)
    with store.read() as connection:
        group = connection.execute(query).scalar()
        prompt = None if group is None else read_prompts(connection, [group])[group]
    return None if prompt is None else Origin(prompt[0], prompt[1], "", 0)


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
