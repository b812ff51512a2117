"""Single candidates: pages of them by filters, failures included, and the provenance, line and offspring of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, Text, cast, func, literal, select

from islands.errors import UnknownRun
from islands.groups import read_prompts
from islands.history import COLUMNS, from_row
from islands.runs import read_archives
from islands.schema import ESCAPED, Answer, Candidate, PolicyVersion, Problem, PromptGroup, Rollout
from islands.store import Store
from islands.types import Candidate as CandidateRecord
from islands.types import ProblemRecord
from problems.objectives import Reward

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


@dataclass(frozen=True)
class CandidateSummary:
    """A candidate in a list. problem: its index; iteration: None for a seed answer; error, text: their first HEAD
    characters; parent: None without one."""

    id: int
    run: int
    problem: int
    iteration: int | None
    fitness: Reward
    rewards: tuple[float, ...]
    error: str | None
    text: str
    values: tuple[float | None, ...]
    parent: int | None


def browse(store: Store, chosen: CandidateFilter, start: int, most: int) -> list[CandidateSummary]:
    """At most `most` candidates from place `start` on. Ordered by fitness, all that match are read."""
    order = [Candidate.c.error.is_not(None), Candidate.c.fitness.desc()] if chosen.by_fitness else []
    # texts are read of the rows that are shown only, not of all that are sorted
    ids = _matching(chosen).order_by(*order, Candidate.c.id.desc()).offset(start).limit(most)
    query = (
        select(
            Candidate.c.id,
            Problem.c.run_id,
            Problem.c.index,
            PromptGroup.c.iteration,
            Candidate.c.fitness,
            Candidate.c.rewards,
            func.substr(cast(Candidate.c.error, Text), 1, HEAD),
            func.substr(cast(Candidate.c.text, Text), 1, HEAD),
            Candidate.c.own_values,
            Candidate.c.parent_id,
        )
        .join(Problem, Problem.c.id == Candidate.c.problem_id)
        .outerjoin(PromptGroup, PromptGroup.c.id == Candidate.c.group_id)
        .where(Candidate.c.id.in_(ids))
        .order_by(*order, Candidate.c.id.desc())
    )
    summaries = []
    for row in store.rows(query):
        id, run, problem, iteration, fitness, rewards, error, text, own, parent = tuple(row)
        head, vector, own = None if error is None else beginning(error), tuple(rewards), tuple(own or ())
        summaries.append(
            CandidateSummary(id, run, problem, iteration, fitness, vector, head, beginning(text), own, parent)
        )
    return summaries


def count_browsed(store: Store, chosen: CandidateFilter) -> int:
    """How many candidates the filter names, MOST_COUNTED + 1 for more."""
    matching = _matching(chosen).limit(MOST_COUNTED + 1)
    return int(store.scalar(select(func.count()).select_from(matching.subquery())))


def _matching(chosen: CandidateFilter) -> Select[int]:
    """The ids that a filter names."""
    conditions: list[ColumnElement[bool]] = [Problem.c.run_id.in_(list(chosen.runs))]
    if chosen.problem is not None:
        conditions.append(Problem.c.index == chosen.problem)
    if chosen.failed is not None:
        conditions.append(Candidate.c.error.is_not(None) if chosen.failed else Candidate.c.error.is_(None))
    if chosen.kind:
        error = cast(Candidate.c.error, Text)
        begins = chosen.kind.removesuffix(_CUT) if chosen.kind.endswith(_CUT) else f"{chosen.kind}:"
        placed = error.startswith("the answer fails") | error.startswith("evaluate")  # then comes the kind
        within = placed & error.contains(f": {begins}", autoescape=True)
        conditions.append((error == chosen.kind) | error.startswith(begins, autoescape=True) | within)
    return select(Candidate.c.id).join(Problem, Problem.c.id == Candidate.c.problem_id).where(*conditions)


def beginning(stored: str) -> str:
    """A part of a stored text from its beginning, as ModelText would read it: its escapes may be cut at the end."""
    if not stored.startswith(ESCAPED):
        return stored
    return stored[1:].encode("ascii", "ignore").decode("unicode_escape", "ignore")


@dataclass(frozen=True)
class Offspring:
    """A candidate whose prompt showed another one as its parent. values: as Candidate has them"""

    id: int
    fitness: Reward
    failed: bool
    values: tuple[float | None, ...] = ()


def offspring(store: Store, candidate: int, problem_id: int, most: int) -> list[Offspring]:
    """The fittest of those that were made from a candidate."""
    query = (
        select(Candidate.c.id, Candidate.c.fitness, Candidate.c.error.is_not(None), Candidate.c.own_values)
        .where(Candidate.c.problem_id == problem_id, Candidate.c.parent_id == candidate)
        .order_by(Candidate.c.error.is_not(None), Candidate.c.fitness.desc(), Candidate.c.id)
        .limit(most)
    )
    return [Offspring(id, fitness, bool(failed), tuple(own or ())) for id, fitness, failed, own in store.rows(query)]


def neighbours(store: Store, candidate: int, problem_id: int) -> tuple[int | None, int | None]:
    """The candidates of the problem that were stored before and after one."""
    id, of = Candidate.c.id, Candidate.c.problem_id == problem_id
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
    query = (
        select(
            Rollout.c.id,
            Problem.c.index,
            PromptGroup.c.iteration,
            Rollout.c.format_error,
            func.substr(cast(Rollout.c.text, Text), 1, 10 * HEAD),
        )
        .join(PromptGroup, PromptGroup.c.id == Rollout.c.group_id)
        .join(Problem, Problem.c.id == PromptGroup.c.problem_id)
        .where(PromptGroup.c.run_id.in_(list(runs)), Rollout.c.format_error.is_not(None))
        .order_by(Rollout.c.id.desc())
        .limit(most)
    )
    return [
        Misread(id, problem, iteration, str(reason), beginning(text))
        for id, problem, iteration, reason, text in store.rows(query)
    ]


@dataclass(frozen=True)
class CandidateDetail:
    """A candidate with its provenance; iteration, sequence and policy_version are None for a seed.

    found: how often it was given as an answer, repeats included
    cells: (island, cell) of the archive cells it holds now
    """

    candidate: CandidateRecord
    problem: ProblemRecord
    iteration: int | None
    sequence: int | None
    policy_version: str | None
    created: float
    found: int
    cells: tuple[tuple[int, str], ...]


def candidate(store: Store, run_id: int, candidate_id: int) -> CandidateDetail:
    """One candidate of a run. Raises UnknownRun where the run has none with that id."""
    of_group = (PromptGroup.c.iteration, PromptGroup.c.sequence, PolicyVersion.c.version)
    query = (
        select(*COLUMNS, Candidate.c.problem_id, Candidate.c.created, *of_group)
        .join(Problem, Problem.c.id == Candidate.c.problem_id)
        .outerjoin(PromptGroup, PromptGroup.c.id == Candidate.c.group_id)
        .outerjoin(PolicyVersion, PolicyVersion.c.id == PromptGroup.c.policy_version_id)
        .where(Candidate.c.id == candidate_id, Problem.c.run_id == run_id)
    )
    with store.read() as connection:
        row = connection.execute(query).first()
        if row is None:
            raise UnknownRun(f"the run has no candidate {candidate_id}")
        given = connection.execute(select(func.count()).where(Answer.c.candidate_id == candidate_id)).scalar_one()
        problem_id, created, iteration, sequence, version = tuple(row)[len(COLUMNS) :]
        archives: dict[int, dict[tuple[int, str], int]] = {problem_id: {}}
        read_archives(connection, archives)
    cells = tuple(sorted(place for place, holder in archives[problem_id].items() if holder == candidate_id))
    (problem,) = [p for p in store.problems(run_id) if p.id == problem_id]
    record = from_row(tuple(row)[: len(COLUMNS)])
    return CandidateDetail(record, problem, iteration, sequence, version, created, given, cells)


def run_of_candidate(store: Store, candidate_id: int) -> int | None:
    """The id of the run that a candidate is of, None for one that is not there."""
    query = select(Problem.c.run_id).join(Candidate, Candidate.c.problem_id == Problem.c.id)
    run: int | None = store.scalar(query.where(Candidate.c.id == candidate_id))
    return run


@dataclass(frozen=True)
class FailedCandidate:
    """Why `count` stored answers to a problem could not be scored, and the newest of them."""

    id: int
    problem: str
    error: str
    count: int


def failed_candidates(store: Store, run_id: int, most: int) -> list[FailedCandidate]:
    """A run's failures, equal ones as one: the most frequent first, then the newest."""
    newest, count = func.max(Candidate.c.id), func.count()
    query = (
        select(newest, Problem.c.name, Candidate.c.error, count)
        .join(Problem, Problem.c.id == Candidate.c.problem_id)
        .where(Problem.c.run_id == run_id, Candidate.c.error.is_not(None))
        .group_by(Problem.c.name, Candidate.c.error)
        .order_by(count.desc(), newest.desc())
        .limit(most)
    )
    return [FailedCandidate(*row) for row in store.rows(query)]


class Ancestor(NamedTuple):
    """One step of a lineage. values: as Candidate has them"""

    candidate: int
    fitness: Reward
    generation: int = 0
    values: tuple[float | None, ...] = ()


def ancestors(store: Store, candidate: int, most: int = 1 << 31) -> list[Ancestor]:
    """A candidate, its parent, its parent's parent, at most `most` of them; empty for an unknown candidate."""
    columns = (Candidate.c.id, Candidate.c.parent_id, Candidate.c.fitness, Candidate.c.generation)
    line = select(*columns, literal(0).label("depth")).where(Candidate.c.id == candidate).cte("line", recursive=True)
    above = Candidate.alias()
    line = line.union_all(
        select(above.c.id, above.c.parent_id, above.c.fitness, above.c.generation, line.c.depth + 1)
        .join(line, above.c.id == line.c.parent_id)
        .where(line.c.depth < most - 1)
    )
    query = select(line.c.id, line.c.fitness, line.c.generation, Candidate.c.own_values).order_by(line.c.depth)
    rows = store.rows(query.join(Candidate, Candidate.c.id == line.c.id))
    return [Ancestor(id, fitness, generation, tuple(own or ())) for id, fitness, generation, own in rows]


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
        select(Candidate.c.id, Candidate.c.group_id, Rollout.c.text, Answer.c.position)
        .join(Rollout, Rollout.c.group_id == Candidate.c.group_id)
        .join(Answer, (Answer.c.rollout_id == Rollout.c.id) & (Answer.c.candidate_id == Candidate.c.id))
        .where(Candidate.c.id.in_(candidates))
        .order_by(Rollout.c.id, Answer.c.position)
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
        select(PromptGroup.c.id)
        .where(PromptGroup.c.run_id == run, PromptGroup.c.problem_id == problem)
        .order_by(PromptGroup.c.sequence)
        .limit(1)
    )
    group = store.scalar(query)
    if group is None:
        return None
    with store.read() as connection:
        system, user = read_prompts(connection, [group])[group]
    return Origin(system, user, "", 0)


@dataclass(frozen=True)
class CandidateLine:
    """A distinct answer. iteration, policy_version are None for a seed, whose sequence is -1. values: what the scorer
    measured, {} where that is the rewards; created: seconds since 1970, UTC"""

    problem: str
    candidate: int
    iteration: int | None
    sequence: int
    island: int
    generation: int
    parent: int | None
    policy_version: str | None
    fitness: float
    rewards: dict[str, float]
    values: dict[str, float | None]
    features: dict[str, float]
    error: str | None
    feedback: str
    answer: str
    created: float


LINE_FIELDS = (
    *("problem", "objectives", "candidate", "iteration", "sequence", "island", "generation", "parent"),
    *("policy_version", "fitness", "rewards", "values", "features", "error", "feedback", "answer", "created"),
)
"""Of the query, in its order."""


def candidates_table(store: Store, run_id: int) -> Iterator[CandidateLine]:
    """By problem, oldest first. One query."""
    query = (
        select(
            Problem.c.name,
            Problem.c.objectives,
            Candidate.c.id,
            PromptGroup.c.iteration,
            Candidate.c.sequence,
            Candidate.c.island,
            Candidate.c.generation,
            Candidate.c.parent_id,
            PolicyVersion.c.version,
            Candidate.c.fitness,
            Candidate.c.rewards,
            Candidate.c.own_values,
            Candidate.c.features,
            Candidate.c.error,
            Candidate.c.feedback,
            Candidate.c.text,
            Candidate.c.created,
        )
        .join(Problem, Problem.c.id == Candidate.c.problem_id)
        .outerjoin(PromptGroup, PromptGroup.c.id == Candidate.c.group_id)
        .outerjoin(PolicyVersion, PolicyVersion.c.id == PromptGroup.c.policy_version_id)
        .where(Problem.c.run_id == run_id)
        .order_by(Problem.c.index, Candidate.c.id)
    )
    for row in store.rows(query):
        values = dict(zip(LINE_FIELDS, tuple(row), strict=True))
        objectives = values.pop("objectives")
        rewards, own = (dict(zip(objectives, values[key] or (), strict=False)) for key in ("rewards", "values"))
        yield CandidateLine(**{**values, "rewards": rewards, "values": own})
