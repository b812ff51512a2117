"""The result of a comparison, read from its database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evo.api.notebook import candidate_rows, data_frame, draw_curves, html_table, retired_method
from evo.comparison.table import as_dict
from evo.progress.model import Progress, SearchRecord
from evo.report.page import write_report
from islands.store import Store

if TYPE_CHECKING:
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
            progress = Progress.open(store, self.name, self.against)
            rows = candidate_rows(store, progress.comparison.runs) if candidates else _search_rows(progress)
        return data_frame(rows, ("arm", "seed", "problem"))

    def curves(self) -> DataFrame:
        """Best fitness so far: a row for every arm, seed, problem and iteration (0 is the seed answer) at which it
        rose, and one at the last iteration. Raises ImportError without pandas."""
        with Store.open(self.db, read_only=True) as store:
            rows = _curve_rows(Progress.open(store, self.name, self.against))
        return data_frame(rows, ("arm", "seed", "problem", "iteration", "best"))

    def report(self, path: str) -> Path:
        """Write the comparison as one HTML page, as `evo report` does. Raises BadInput."""
        with Store.open(self.db, read_only=True) as store:
            write_report(store, self.name, path, self.against)
        return Path(path)

    def __getattr__(self, name: str) -> Any:
        raise retired_method(self, name)

    def __str__(self) -> str:
        """Name and verdict."""
        return f"{self.name}: {self.verdict}"

    def __repr__(self) -> str:
        return f"ComparisonResult({self})"

    def _repr_html_(self) -> str:
        """A notebook's view: the verdict, one row per arm, and the curves."""
        arms = self.summary["arms"]
        rows = [(name, arm["policy"], _interval(arm["solved"]), _interval(arm["best"])) for name, arm in arms.items()]
        table = html_table(str(self), ("arm", "policy", "solved", "mean best"), rows)
        return table + draw_curves(self.db, self.name, self.against)


def read_comparison(name: str, db: str, against: str | None = None) -> ComparisonResult:
    """The comparison as the database has it now. Raises UnknownRun, DatabaseUnavailable, BadInput."""
    with Store.open(db, read_only=True) as store:
        progress = Progress.open(store, name, against)
        figures = as_dict(progress)
    return ComparisonResult(name, db, progress.comparison.reference, figures["verdicts"], figures)


def _search_rows(progress: Progress) -> list[dict[str, Any]]:
    return [
        {
            **_named(progress, search),
            "policy": progress.comparison.arms[search.arm].policy,
            "status": search.run.status,
            "iterations": search.iterations,
            "solved": search.solved_at is not None if search.problem.target is not None else None,
            "solved_at": search.solved_at,
            "best": None if search.best is None else search.best.fitness,
        }
        for search in progress.searches()
    ]


def _curve_rows(progress: Progress) -> list[dict[str, Any]]:
    rows = []
    for search in progress.searches():
        steps = [(rise.iteration, rise.fitness) for rise in search.rises]
        if steps and steps[-1][0] < search.iterations:
            steps.append((search.iterations, steps[-1][1]))
        rows += [{**_named(progress, search), "iteration": at, "best": fitness} for at, fitness in steps]
    return rows


def _named(progress: Progress, search: SearchRecord) -> dict[str, Any]:
    """The columns that name a search."""
    arm = progress.comparison.arms[search.arm].name
    return {"arm": arm, "seed": search.run.seed, "problem": search.problem.name}


def _interval(metric: Mapping[str, float | None] | None) -> str:
    """The mean, and its interval unless a single problem gives none."""
    if metric is None or metric["mean"] is None:
        return "-"
    band = "" if metric["low"] is None else f" [{metric['low']:.3f}, {metric['high']:.3f}]"
    return f"{metric['mean']:.3f}{band}"
