"""The result of a comparison, read from its database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evo.api.notebook import candidate_rows, curves_figure, data_frame, html_table
from evo.comparison.load import Arm, Comparison, gather
from evo.comparison.table import as_dict, read_arms
from evo.report.files import write_report
from islands.runs import RunCourse, course_of
from islands.store import Store
from islands.types import ProblemRecord, RunRecord

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from pandas import DataFrame

NOT_YET = "no search has come far enough yet"
ALONE = "only one arm: nothing to compare"


@dataclass(frozen=True, repr=False)
class ComparisonResult:
    """A comparison as it was when this was made; `evo.load_comparison(name)` reads it again.

    name, db: for `evo.resume`, `evo.load_comparison` and the command line
    against: the arm that the others are measured against
    verdicts: a line for every other arm, as in "vpo - grpo = +0.12 [0.03, 0.21]" (difference in the solve rate, or in
        the mean best fitness if there are no targets, with its 95% interval) or "no difference shown"
    summary: all metrics with intervals and p-values, as `evo compare --json` prints them

    Example:
        result = evo.compare("maze:hard", arms={"grpo": "embedded:grpo", "vpo": "embedded:vpo"}, limit=20, seeds=3)
        print(result.verdict)
        result.frame().groupby("arm").solved.mean()
    """

    name: str
    db: str
    against: str | None
    verdicts: list[str]
    summary: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """The verdicts, one a line."""
        return "\n".join(self.verdicts) or (ALONE if self.against is None else NOT_YET)

    def frame(self, *, candidates: bool = False) -> DataFrame:
        """A row for every search: arm, seed, problem, policy, status (of its run), iterations (done), solved, solved_at
        (iterations it took; 0 for the seed answer), best (fitness).

        candidates: a row for every candidate of all searches instead, as RunResult.frame() has them, with arm and seed

        Raises ImportError without pandas.
        """
        with Store.open(self.db, read_only=True) as store:
            comparison = gather(store, self.name, self.against)
            rows = candidate_rows(store, comparison.runs) if candidates else _search_rows(store, comparison)
        return data_frame(rows, ("arm", "seed", "problem"))

    def curves(self) -> DataFrame:
        """Best fitness so far: a row for every arm, seed, problem and iteration (0 is the seed answer) at which it
        rose, and one at the last iteration. Raises ImportError without pandas."""
        with Store.open(self.db, read_only=True) as store:
            rows = _curve_rows(store, gather(store, self.name, self.against))
        return data_frame(rows, ("arm", "seed", "problem", "iteration", "best"))

    def plot(self) -> Figure:
        """Solve rate and best fitness over iterations as a matplotlib figure, which a notebook shows; `plot().savefig`
        writes it. Raises BadInput before the first iteration."""
        return curves_figure(self.db, self.name, self.against)

    def report(self, path: str) -> Path:
        """Write the comparison as one HTML page with its plots, as `evo report` does. Raises BadInput."""
        with Store.open(self.db, read_only=True) as store:
            return write_report(store, self.name, path, against=self.against).page

    def __str__(self) -> str:
        """Name and verdict."""
        return f"{self.name}: {self.verdict}"

    def __repr__(self) -> str:
        return f"ComparisonResult({self})"

    def _repr_html_(self) -> str:
        """A notebook's view: the verdict, and one row per arm."""
        arms = self.summary["arms"]
        rows = [(name, arm["policy"], _interval(arm["solved"]), _interval(arm["best"])) for name, arm in arms.items()]
        return html_table(str(self), ("arm", "policy", "solved", "mean best"), rows)


def read_comparison(name: str, db: str, against: str | None = None) -> ComparisonResult:
    """The comparison as the database has it now. Raises UnknownRun, DatabaseUnavailable, BadInput."""
    with Store.open(db, read_only=True) as store:
        reading = read_arms(store, name, against)
    figures = as_dict(*reading)
    return ComparisonResult(name, db, reading.comparison.reference, figures["verdicts"], figures)


def _search_rows(store: Store, comparison: Comparison) -> list[dict[str, Any]]:
    rows = []
    for search, arm, run, problem, course in _searches(store, comparison):
        solved_at, rises = course.solved.get(problem.id), course.improvements.get(problem.id)
        rows.append(
            {
                **search,
                "policy": arm.policy,
                "status": run.status,
                "iterations": course.groups.get(problem.id, 0),
                "solved": solved_at is not None if problem.target is not None else None,
                "solved_at": solved_at,
                "best": rises[-1].fitness if rises else None,
            }
        )
    return rows


def _curve_rows(store: Store, comparison: Comparison) -> list[dict[str, Any]]:
    rows = []
    for search, _, _, problem, course in _searches(store, comparison):
        done, rises = course.groups.get(problem.id, 0), course.improvements.get(problem.id, [])
        steps = [(rise.iteration + 1, rise.fitness) for rise in rises]
        if steps and steps[-1][0] < done:
            steps.append((done, steps[-1][1]))
        rows += [{**search, "iteration": iteration, "best": fitness} for iteration, fitness in steps]
    return rows


def _searches(
    store: Store, comparison: Comparison
) -> Iterator[tuple[dict[str, Any], Arm, RunRecord, ProblemRecord, RunCourse]]:
    """Every search: the columns that name it, its arm and run, its problem there, and the run's course."""
    for arm in comparison.arms:
        for run in arm.runs:
            course, records = course_of(store, run.id), {record.index: record for record in store.problems(run.id)}
            for problem in comparison.problems:
                search = {"arm": arm.name, "seed": run.seed, "problem": problem.name}
                # a run that has not begun has no problems yet, and a course without any
                yield search, arm, run, records.get(problem.index, problem), course


def _interval(metric: Mapping[str, float | None] | None) -> str:
    """The mean, and its interval unless a single problem gives none."""
    if metric is None or metric["mean"] is None:
        return "-"
    band = "" if metric["low"] is None else f" [{metric['low']:.3f}, {metric['high']:.3f}]"
    return f"{metric['mean']:.3f}{band}"
