"""Load a comparison from the database: its arms, each a policy's searches of the same problems under several seeds, and
their results so far. A single run counts as a comparison of one arm under one seed. It only reads, and may do so while
the comparison runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evo.comparison.results import Floats, Ints, Results
from evo.config.run import RunConfig, complete_run
from evo.search.stop import StopReason, ended_by
from islands.comparisons import runs_named
from islands.runs import EliteRecord, Improvement, RunCourse, course_of
from islands.store import Store
from islands.types import ProblemRecord, RunRecord
from vpo.metrics import diversity

BASELINE = "grpo"


@dataclass(frozen=True)
class Arm:
    """One policy with its settings. runs: one for each seed, in the order of the comparison's seeds."""

    name: str
    runs: tuple[RunRecord, ...]

    @property
    def policy(self) -> str:
        return str(self.runs[0].config["policy"])

    @property
    def config(self) -> RunConfig:
        return RunConfig.model_validate(complete_run(self.runs[0].config))

    @property
    def answers(self) -> int:
        """Answers of an iteration: G rollouts of m answers."""
        return int(self.runs[0].config["rollouts"]) * int(self.runs[0].config["answers"])


@dataclass(frozen=True)
class Comparison:
    """Arms in the order in which they were named, and their problems.

    problems: of the first run that has any, in order; the other runs have the same problems under other ids
    failed: problems that a fault of their scorer stopped in some run; they are left out of all runs and of `problems`
    reference: the arm that the others are measured against; None if there is only one arm
    """

    name: str
    arms: tuple[Arm, ...]
    problems: tuple[ProblemRecord, ...]
    reference: str | None
    failed: tuple[ProblemRecord, ...] = ()

    @property
    def runs(self) -> list[RunRecord]:
        return [run for arm in self.arms for run in arm.runs]

    @property
    def crossed_seeds(self) -> bool:
        """Whether a seed acts on all problems at once (evo.stats), because some arm's policy learns while it searches.
        All intervals, bands and tests of a comparison use it."""
        return any(run.config.get("train") for run in self.runs)

    @property
    def ended_by_budget(self) -> bool:
        """Whether all runs are done, some of them by a budget before their last iteration: of tokens, cost or seconds,
        which are then what the arms have in common."""
        return budget_ended(self.runs)

    @property
    def iterations(self) -> int:
        """Planned for each problem."""
        return max(planned(run) for run in self.runs)

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)


def gather(store: Store, name: str, against: str | None = None) -> Comparison:
    """The comparison, or the run, of that name. Raises UnknownRun, and BadInput if no arm is called `against`.

    against: the reference; by default the arm called grpo, or the first
    """
    from evo.errors import BadInput

    runs = runs_named(store, name)
    by_arm: dict[str, list[RunRecord]] = {}
    for run in runs:
        by_arm.setdefault(run.arm or run.name, []).append(run)
    arms = tuple(Arm(arm, tuple(sorted(of_arm, key=lambda run: run.seed))) for arm, of_arm in by_arm.items())
    if against is not None and against not in by_arm:
        raise BadInput(f"{name} has no arm {against}; it has {', '.join(by_arm)}")
    reference = against or (BASELINE if BASELINE in by_arm else arms[0].name)
    begun = [records for records in (store.problems(run.id) for run in runs) if records]
    faulty = {record.index: record for records in begun for record in records if record.status == "failed"}
    problems = tuple(record for record in (begun[0] if begun else ()) if record.index not in faulty)
    return Comparison(
        name, arms, problems, reference if len(arms) > 1 else None, tuple(faulty[index] for index in sorted(faulty))
    )


def planned(run: RunRecord) -> int:
    """Iterations of each problem."""
    from evo.search.defaults import planned_iterations

    return planned_iterations(run.config)


def budget_ended(runs: Sequence[RunRecord]) -> bool:
    """Whether all of these are done, and some by a budget. Their results then also count for all later
    iterations."""
    return all(run.status == "done" for run in runs) and any(ended_by(run) is StopReason.BUDGET for run in runs)


@dataclass(frozen=True, eq=False)
class SearchArrays:
    """One arm's searches of P problems under S seeds as arrays, filled run by run.

    times: (K,) iterations for which `best` is kept
    done: (P, S) iterations committed; solved_at: (P, S), as in Results
    best: (P, S, K) best fitness; now: (P, S) the best fitness so far, NaN before any
    """

    times: Ints
    done: Ints
    solved_at: Floats
    best: Floats
    now: Floats

    @classmethod
    def empty(cls, targets: Sequence[float | None], seeds: int, times: Ints) -> SearchArrays:
        shape = (len(targets), seeds)
        solvable = np.array([target is not None for target in targets])[:, None]
        solved_at = np.where(solvable, np.inf, np.nan) * np.ones(shape)
        best = np.full((*shape, len(times)), np.nan)
        return cls(times, np.zeros(shape, dtype=np.int64), solved_at, best, np.full(shape, np.nan))

    def add(self, column: int, rows: Mapping[int, int], course: RunCourse) -> list[tuple[int, Improvement, float]]:
        """Add the committed groups of a seed's run. rows: problem id -> its row; other problems are left out.

        Returns (row, rise, best fitness before it, or NaN) of every rise.
        """
        for problem, count in course.groups.items():
            if problem in rows:
                self.done[rows[problem], column] += count
        for problem, took in course.solved.items():
            if problem in rows:
                self.solved_at[rows[problem], column] = took
        rises = []
        for rise in (
            rise for of_problem in course.improvements.values() for rise in of_problem if rise.problem in rows
        ):
            at = rows[rise.problem], column
            before = float(self.now[at])
            if not before >= rise.fitness:  # true for NaN too
                self.now[at] = rise.fitness
                self.best[(*at, slice(np.searchsorted(self.times, rise.iteration + 1), None))] = rise.fitness
                rises.append((rows[rise.problem], rise, before))
        return rises

    def results(self, arm: Arm, iterations: int, *, by_budget: bool) -> Results:
        """The arm's results so far; they do not change with the arrays.

        by_budget: all runs are done, and some were ended by a budget, so their results count up to the last iteration
        """
        done = np.full_like(self.done, iterations) if by_budget else self.done
        until_solved = bool(arm.runs[0].config.get("until_solved"))
        return Results(self.solved_at.copy(), done, iterations, arm.answers, self.best, until_solved, self.times)


def load_results(store: Store, comparison: Comparison) -> dict[str, Results]:
    """Each arm's searches so far, (problems, seeds), with iterations of equal cost. Empty if none has begun."""
    if not comparison.problems:
        return {}
    results = {}
    times = np.arange(1, comparison.iterations + 1)
    row_of = {problem.index: row for row, problem in enumerate(comparison.problems)}
    for arm in comparison.arms:
        arrays = SearchArrays.empty([problem.target for problem in comparison.problems], len(arm.runs), times)
        for column, run in enumerate(arm.runs):
            rows = {record.id: row_of[record.index] for record in store.problems(run.id) if record.index in row_of}
            arrays.add(column, rows, course_of(store, run.id))
        results[arm.name] = arrays.results(arm, comparison.iterations, by_budget=comparison.ended_by_budget)
    return results


def archive_diversity(archive: Iterable[EliteRecord]) -> float:
    """Mean L1 distance of two elites' reward vectors, over all islands together. An elite of several cells counts
    once."""
    vectors = {elite.candidate: elite.rewards for elite in archive}
    return diversity(np.array([vectors[candidate] for candidate in sorted(vectors)])) if vectors else 0.0
