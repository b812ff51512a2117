"""The read model of runs: how far they are, what they spent and brought, their best answers, their training.

Everything is a sum or a maximum over the rows of groups. Within a run, groups are committed in the order of their
sequence, so "newer" is a range of sequences: a screen adds the range (after, upto] to what it knows. What belongs
together is read in one `Store.read`, which sees one moment. No lock is taken; nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Text, case, cast, func, select

from islands.groups import COLUMNS, CandidateReader, from_row
from islands.schema import (
    Candidates,
    Migrations,
    Problems,
    PromptGroups,
    Rollouts,
    Runs,
    ScorerChanges,
)
from islands.store import Store, problem_record
from islands.types import Candidate, ParentKind, ProblemRecord, RunRecord, Totals
from problems.objectives import Reward, Value, value_of

BEFORE_SEEDS = -2
"""A sequence below that of a seed answer, which is -1."""


@dataclass(frozen=True)
class RunState:
    """The part of a run that tells whether it moved. lost: its writer has died, so that it is interrupted"""

    id: int
    name: str
    status: str
    updated: float
    lost: bool = False


def run_states(store: Store, name: str) -> list[RunState]:
    """The runs of the comparison `name`, else the run of that name, oldest first; empty without either."""
    query = select(Runs.c.id, Runs.c.name, Runs.c.status, Runs.c.updated, Runs.c.owner).order_by(Runs.c.id)
    rows = store.rows(query.where(Runs.c.comparison == name)) or store.rows(query.where(Runs.c.name == name))
    lost = store.lost_runs({row.id: row.owner for row in rows if row.status == "running"})
    return [
        RunState(row.id, row.name, "interrupted" if row.id in lost else row.status, row.updated, row.id in lost)
        for row in rows
    ]


def run_details(connection: Connection, runs: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Run id -> what may change of its record; asked for runs that moved alone, since summaries and configurations of
    large runs are long."""
    columns = (Runs.c.reason, Runs.c.summary, Runs.c.config, Runs.c.created, Runs.c.updated)
    rows = connection.execute(select(Runs.c.id, *columns).where(Runs.c.id.in_(runs))) if runs else ()
    return {
        id: dict(zip(("reason", "summary", "config", "created", "updated"), rest, strict=True)) for id, *rest in rows
    }


@dataclass(frozen=True)
class SearchOverview:
    """One problem of a run. groups: committed; tokens, cost: of them; rises: (iteration, value) of each new best; best:
    the value of the fittest valid answer"""

    record: ProblemRecord
    groups: int
    tokens: int
    cost: float
    rises: tuple[tuple[int, float], ...]
    best: Value


@dataclass(frozen=True)
class RunOverview:
    """A run in one line. candidates: how many distinct answers"""

    run: RunRecord
    searches: tuple[SearchOverview, ...]
    candidates: int

    @property
    def problems(self) -> int:
        return len(self.searches)

    @property
    def groups(self) -> int:
        return sum(search.groups for search in self.searches)

    @property
    def solved(self) -> int:
        return sum(search.record.solved_sequence is not None for search in self.searches)

    @property
    def failed(self) -> int:
        return sum(search.record.status == "failed" for search in self.searches)


def overview(store: Store, *, rivals: bool = False) -> list[RunOverview]:
    """Every run, oldest first. rivals: also those that `evo verify` made"""
    g = PromptGroups.c
    sums = select(g.problem_id, func.count(), func.sum(g.tokens), func.sum(g.cost)).group_by(g.problem_id)
    better = select(g.problem_id, g.iteration, g.best_fitness, Candidates.c.own_values).where(g.best.is_not(None))
    better = better.outerjoin(Candidates, Candidates.c.id == g.best).order_by(g.sequence)
    measured = select(Problems.c.id, Candidates.c.own_values).join(Candidates, Candidates.c.id == Problems.c.best)
    of_run = select(Problems.c.run_id, func.count()).join(Candidates, Candidates.c.problem_id == Problems.c.id)
    with store.read():
        spent = {problem: (groups, int(tokens), float(cost)) for problem, groups, tokens, cost in store.rows(sums)}
        rises: dict[int, list[tuple[int, Reward, Any]]] = {}
        for problem, iteration, fitness, own in store.rows(better):
            rises.setdefault(problem, []).append((iteration + 1, fitness, own))
        own_of = {problem: own for problem, own in store.rows(measured)}
        records = [(row.run_id, problem_record(row)) for row in store.rows(select(Problems).order_by(Problems.c.index))]
        candidates = {run: count for run, count in store.rows(of_run.group_by(Problems.c.run_id))}
        runs = [run for run in store.runs() if rivals or run.verifies is None]
    searches: dict[int, list[SearchOverview]] = {}
    for run_id, record in records:
        valued = [(at, value_of(record.metrics, *rest).number) for at, *rest in rises.get(record.id, ())]
        risen = tuple((at, number) for at, number in valued if number is not None)
        best = value_of(record.metrics, record.best_fitness, own_of.get(record.id) or ())
        line = SearchOverview(record, *spent.get(record.id, (0, 0, 0.0)), risen, best)
        searches.setdefault(run_id, []).append(line)
    return [RunOverview(run, tuple(searches.get(run.id, ())), candidates.get(run.id, 0)) for run in runs]


def by_comparison(lines: Sequence[RunOverview]) -> dict[str, list[RunOverview]]:
    """The runs of each comparison, and each other run alone, by name, the newest first. lines: the oldest first"""
    found: dict[str, list[RunOverview]] = {}
    for line in reversed(lines):
        found.setdefault(line.run.listed_name, []).insert(0, line)
    return found


def best(store: Store, run_id: int) -> list[tuple[ProblemRecord, Candidate | None]]:
    """Each problem by index with its fittest valid candidate, None if it has none. Raises LookupError if a damaged
    database lacks a problem's best candidate."""
    query = select(*COLUMNS).join(Problems, Problems.c.best == Candidates.c.id).where(Problems.c.run_id == run_id)
    with store.read():
        problems, fittest = store.problems(run_id), {row.id: from_row(row) for row in store.rows(query)}
    for problem in problems:
        if problem.best is not None and problem.best not in fittest:
            raise LookupError(f"candidate {problem.best}, the best of problem {problem.name}, is missing")
    return [(p, None if p.best is None else fittest[p.best]) for p in problems]


def newest_sequence(connection: Connection, run: int) -> int:
    """The last committed group; -1 before the first."""
    newest = connection.execute(select(func.max(PromptGroups.c.sequence)).where(PromptGroups.c.run_id == run)).scalar()
    return -1 if newest is None else int(newest)


def group_count(store: Store, run_id: int, upto: int | None = None) -> tuple[int, int]:
    """How many groups a run has, up to the sequence `upto`, and the sequence of the last; (0, -1) for none."""
    query = select(func.count(), func.max(PromptGroups.c.sequence)).where(PromptGroups.c.run_id == run_id)
    if upto is not None:
        query = query.where(PromptGroups.c.sequence <= upto)
    groups, last = store.rows(query)[0]
    return int(groups), -1 if last is None else int(last)


@dataclass(frozen=True)
class Improvement:
    """A rise of a problem's best fitness. iteration and sequence are -1 and created None for the seed answer. values:
    as Candidate has them"""

    problem: int
    iteration: int
    sequence: int
    fitness: Reward
    candidate: int
    created: float | None
    values: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class RunCourse:
    """How the searches of a run went over a range of sequences, by problem id. Problems without a group, not solved, or
    without a valid answer there are left out.

    groups: committed; solved: iterations it took, 0 by a seed; improvements: of the best fitness, in order
    """

    groups: dict[int, int]
    solved: dict[int, int]
    improvements: dict[int, list[Improvement]]


def course_between(connection: Connection, run: int, after: int, upto: int) -> RunCourse:
    """A run's course over the sequences in (after, upto], with the seeds if after is BEFORE_SEEDS."""
    counted = select(PromptGroups.c.problem_id, func.count()).where(*_range(run, after, upto))
    groups = {problem: n for problem, n in connection.execute(counted.group_by(PromptGroups.c.problem_id))}
    place = (PromptGroups.c.run_id == Problems.c.run_id) & (PromptGroups.c.sequence == Problems.c.solved_sequence)
    at = select(Problems.c.id, PromptGroups.c.iteration).outerjoin(PromptGroups, place).where(
        Problems.c.run_id == run, Problems.c.solved_sequence > after, Problems.c.solved_sequence <= upto
    )  # fmt: skip
    solved = {problem: 0 if iteration is None else iteration + 1 for problem, iteration in connection.execute(at)}
    improvements: dict[int, list[Improvement]] = {}
    if after == BEFORE_SEEDS:
        seeds = (
            select(Candidates.c.problem_id, Candidates.c.id, Candidates.c.fitness, Candidates.c.own_values)
            .join(Problems, Problems.c.id == Candidates.c.problem_id)
            .where(Problems.c.run_id == run, Candidates.c.sequence == -1, Candidates.c.error.is_(None))
        )
        for problem, id, fitness, own in connection.execute(seeds.order_by(Candidates.c.id)):
            if problem not in improvements or fitness > improvements[problem][0].fitness:
                improvements[problem] = [Improvement(problem, -1, -1, fitness, id, None, tuple(own or ()))]
    rises = select(
        PromptGroups.c.problem_id, PromptGroups.c.iteration, PromptGroups.c.sequence, PromptGroups.c.best_fitness,
        PromptGroups.c.best, PromptGroups.c.created, Candidates.c.own_values,
    ).outerjoin(Candidates, Candidates.c.id == PromptGroups.c.best)  # fmt: skip
    rises = rises.where(*_range(run, after, upto), PromptGroups.c.best.is_not(None))
    for problem, iteration, sequence, fitness, id, created, own in connection.execute(
        rises.order_by(PromptGroups.c.sequence)
    ):
        rise = Improvement(problem, iteration, sequence, fitness, id, created, tuple(own or ()))
        improvements.setdefault(problem, []).append(rise)
    return RunCourse(groups, solved, improvements)


def course_of(store: Store, run: int) -> RunCourse:
    """A run's course as far as it is committed."""
    with store.read() as connection:
        return course_between(connection, run, BEFORE_SEEDS, newest_sequence(connection, run))


def _range(run: int, after: int, upto: int) -> list[Any]:
    return [PromptGroups.c.run_id == run, PromptGroups.c.sequence > after, PromptGroups.c.sequence <= upto]


def spending(connection: Connection, run: int, after: int, upto: int, unit: str) -> list[tuple[int, float]]:
    """(sequence, what the group took) over the sequences in (after, upto], in order. unit: answers, tokens or cost"""
    g = PromptGroups.c
    took = {"answers": g.given + g.missing, "tokens": g.tokens, "cost": g.cost}[unit]
    query = select(g.sequence, took).where(*_range(run, after, upto)).order_by(g.sequence)
    return [(sequence, float(value)) for sequence, value in connection.execute(query)]


def failed_problems(connection: Connection, runs: Sequence[int]) -> list[tuple[int, int, str]]:
    """(run id, problem id, what stopped it)."""
    query = select(Problems.c.run_id, Problems.c.id, Problems.c.message)
    found = connection.execute(query.where(Problems.c.run_id.in_(runs), Problems.c.status == "failed"))
    return [(run, problem, message) for run, problem, message in found]


@dataclass(frozen=True)
class ProblemProgress:
    """One problem: its committed groups, the iteration that comes next, and after how many iterations it was solved
    (0 for a seed that solves it, None for unsolved).

    missing: iterations before the next that are not committed, as where groups are committed as they come back
    """

    groups: int
    next_iteration: int
    solved_at: int | None
    missing: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunProgress:
    """A run: its committed groups, the sequence that comes next, and each problem by its database id."""

    groups: int
    next_sequence: int
    problems: dict[int, ProblemProgress]


def run_progress(store: Store, run_id: int) -> RunProgress:
    """Where a resume begins."""
    by_problem = (
        select(PromptGroups.c.problem_id, func.count(), func.max(PromptGroups.c.iteration))
        .where(PromptGroups.c.run_id == run_id)
        .group_by(PromptGroups.c.problem_id)
    )
    problems, solved = {}, course_of(store, run_id).solved
    counts = {problem: (n, newest) for problem, n, newest in store.rows(by_problem)}
    for problem in store.problems(run_id):
        n, newest = counts.get(problem.id, (0, -1))
        missing = set(range(newest + 1))
        if n <= newest:
            there = select(PromptGroups.c.iteration).where(PromptGroups.c.problem_id == problem.id)
            missing -= {iteration for (iteration,) in store.rows(there)}
        gaps = tuple(sorted(missing)) if n <= newest else ()
        problems[problem.id] = ProblemProgress(n, newest + 1, solved.get(problem.id), gaps)
    groups, last = group_count(store, run_id)
    return RunProgress(groups, last + 1, problems)


def repeats_by_group(store: Store, run_id: int, last: int) -> Iterator[tuple[int, int, int, ParentKind, int, int]]:
    """(sequence, problem id, operator, parent shown, answers that repeat, answers) in order of sequence: of each
    problem, operator and kind of parent the last `last` groups."""
    g = PromptGroups.c
    shown = case(
        (g.parent_id.is_(None), ParentKind.NOTHING.value),
        (Candidates.c.group_id.is_(None), ParentKind.SEED.value),
        else_=ParentKind.ANSWER.value,
    )
    place = func.row_number().over(partition_by=(g.problem_id, g.operator, shown), order_by=g.sequence.desc())
    columns = (g.sequence, g.problem_id, g.operator)
    placed = (
        select(*columns, shown.label("shown"), g.repeats, g.given, place.label("place"))
        .outerjoin(Candidates, Candidates.c.id == g.parent_id)
        .where(g.run_id == run_id)
        .subquery()
    )
    query = select(*[column for column in placed.c if column.name != "place"]).where(placed.c.place <= last)
    for sequence, problem, operator, was_shown, repeats, given in store.rows(query.order_by(placed.c.sequence)):
        yield sequence, problem, operator, ParentKind(was_shown), repeats, given


def read_totals(connection: Connection, runs: Sequence[int]) -> dict[int, Totals]:
    """Run id -> its totals, for each of these runs: of its groups, and of replies that no group holds, as the run last
    reported them."""
    found = {run: Totals() for run in runs}
    g = PromptGroups.c
    summed = (g.given, g.missing, g.repeats, g.tokens, g.prompt_tokens, g.cost, g.sampling_seconds, g.scored_seconds)
    sums = (
        select(g.run_id, func.count(), *(func.sum(each) for each in summed))
        .where(g.run_id.in_(runs))
        .group_by(g.run_id)
    )
    for run, groups, given, missing, repeats, tokens, prompts, cost, sampling, scored in connection.execute(sums):
        found[run] = Totals(
            groups=groups, answers=int(given), missing=int(missing), repeats=int(repeats), tokens=int(tokens),
            prompt_tokens=int(prompts), cost=float(cost), sampling_seconds=float(sampling),
            scoring_seconds=float(scored),
        )  # fmt: skip
    kinds = cast(g.errors, Text)
    errors = select(g.run_id, kinds, func.count()).where(g.run_id.in_(runs), g.errors.is_not(None))
    for run, of_group, groups in connection.execute(errors.group_by(g.run_id, kinds)):  # few texts differ
        for kind, count in json.loads(of_group).items():
            found[run].errors[kind] += count * groups
    copied = (
        select(Problems.c.run_id, Migrations.c.problem_id, Migrations.c.sequence)
        .join(Problems, Problems.c.id == Migrations.c.problem_id)
        .where(Problems.c.run_id.in_(runs), Migrations.c.candidate_id.is_not(None))
        .distinct()
        .subquery()
    )
    for run, migrations in connection.execute(select(copied.c.run_id, func.count()).group_by(copied.c.run_id)):
        found[run].migrations = migrations
    for run, summary in connection.execute(select(Runs.c.id, Runs.c.summary).where(Runs.c.id.in_(runs))):
        for name in ("tokens", "prompt_tokens", "cost"):
            lost = summary.get(f"lost_{name}", 0)
            vars(found[run])[name] += lost if isinstance(lost, int | float) else 0
    return found


def run_totals(store: Store, run_id: int) -> Totals:
    """Of one run."""
    with store.read() as connection:
        return read_totals(connection, [run_id])[run_id]


def current_summary(store: Store, run: RunRecord) -> dict[str, Any]:
    """What a run last reported of itself, which a kill may leave behind its groups, with the totals that are
    committed."""
    totals = run_totals(store, run.id)
    return {**run.summary, **totals.as_dict()} if totals.groups else dict(run.summary)


def format_errors(store: Store, run_id: int) -> dict[str, int]:
    """How many rollouts could not be read in full, by reason."""
    query = (
        select(Rollouts.c.format_error, func.count())
        .join(PromptGroups, PromptGroups.c.id == Rollouts.c.group_id)
        .where(PromptGroups.c.run_id == run_id, Rollouts.c.format_error.is_not(None))
        .group_by(Rollouts.c.format_error)
    )
    return {str(reason): count for reason, count in store.rows(query)}


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
Archives = dict[int, dict[tuple[int, str], int]]
"""Problem id -> (island, cell) -> candidate id."""


def read_archives(connection: Connection, archives: Archives) -> None:
    """Read the archives of these problems."""
    ids = list(archives)
    for start in range(0, len(ids), IDS_AT_ONCE):
        query = select(PromptGroups.c.problem_id, PromptGroups.c.cells).where(
            PromptGroups.c.problem_id.in_(ids[start : start + IDS_AT_ONCE]),
            PromptGroups.c.cells.is_not(None),
        )
        for problem, cells in connection.execute(query.order_by(PromptGroups.c.sequence)):
            for island, cell, candidate in cells:
                if candidate is None:
                    archives[problem].pop((island, cell), None)
                else:
                    archives[problem][island, cell] = candidate


def elites(store: Store, problems: Sequence[int]) -> Iterator[EliteRecord]:
    """The archives of these problems on every island, as of the last stored group, by problem, island and cell."""
    archives: Archives = {problem: {} for problem in problems}
    scores: dict[int, tuple[float, tuple[float, ...]]] = {}
    with store.read() as connection:
        read_archives(connection, archives)
        held = sorted({candidate for cells in archives.values() for candidate in cells.values()})
        for start in range(0, len(held), IDS_AT_ONCE):
            query = select(Candidates.c.id, Candidates.c.fitness, Candidates.c.rewards)
            for id, fitness, rewards in connection.execute(
                query.where(Candidates.c.id.in_(held[start : start + IDS_AT_ONCE]))
            ):
                scores[id] = (fitness, tuple(rewards))
    for problem in sorted(archives):
        for (island, cell), candidate in sorted(archives[problem].items()):
            yield EliteRecord(problem, island, cell, candidate, *scores[candidate])


def archived_texts(store: Store, problems: Sequence[int], most: int = 100) -> list[str]:
    """The distinct answers in the archives of these problems, the fittest first."""
    fitness = {elite.candidate: elite.fitness for elite in elites(store, problems)}
    fittest = sorted(fitness, key=lambda id: (-fitness[id], id))[:most]
    return [candidate.text for candidate in CandidateReader(store, 0).fetch(fittest)]


@dataclass(frozen=True)
class ScorerChange:
    """A scorer that had changed between a run and its resume. before: its fingerprint, None if it was not known;
    created: seconds since 1970."""

    problem: str
    before: str | None
    after: str
    created: float


def scorer_changes(store: Store, run_id: int) -> list[ScorerChange]:
    """Every change on record, oldest first."""
    c = ScorerChanges.c
    query = select(Problems.c.name, c.before, c.after, c.created).join(Problems, Problems.c.id == c.problem_id)
    return [ScorerChange(*row) for row in store.rows(query.where(Problems.c.run_id == run_id).order_by(c.id))]
