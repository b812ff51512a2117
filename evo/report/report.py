"""What the page says: everything read, worked out and drawn, nothing laid out yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evo.comparison.load import Comparison, gather, load_results
from evo.comparison.operators import load_operators, refinement_differences
from evo.comparison.results import Results
from evo.comparison.verdict import ArmSummary, Summary, farthest, interval_unit, summarise, verdict_lines
from evo.errors import BadInput
from evo.report.archive import archive_maps
from evo.report.cells import Table
from evo.report.lineage import Lineage, find_longest, load_texts
from evo.report.load import RunReading, read_run
from evo.report.measures import measured, relative_best
from evo.report.operators import operators_table, refinement_table
from evo.report.plots.curves import best_at_k_plot, diversity_plot, multiples_plot, solve_plot, training_plot
from evo.report.plots.maps import archive_plot, heat_map_plot
from evo.report.plots.rewards import reward_plot
from evo.report.plots.style import Look, Plot, looks, styled
from evo.report.plots.tree import tree_plot
from evo.report.settings import commands, runs_table, settings_tables
from evo.report.tables import (
    arms_table,
    cost_table,
    differences,
    differences_table,
    errors_table,
    problems_table,
    versions_table,
)
from islands.db.store import Store

PICTURED = 3
"""Problems whose reward space and archive are drawn."""
CHART_STEPS = 60
DASHES = ("", "8 3", "10 3 2 3", "3 2", "14 3", "10 2 2 2 2 2", "5 4")


@dataclass(frozen=True, eq=False)
class Pictured:
    """A problem that is drawn by itself."""

    problem: str
    plot: Plot


@dataclass(frozen=True, eq=False)
class DrawnLineage:
    """A lineage with its tree."""

    lineage: Lineage
    tree: Plot


@dataclass(frozen=True, eq=False)
class Report:
    """One run or comparison, ready to be laid out. chart: what the picked problem's plot is drawn from; remarks: what
    is not finished, or not well; None where there is nothing to say."""

    name: str
    comparison: Comparison
    summary: Summary
    state: str
    remarks: tuple[str, ...]
    verdict: tuple[str, ...]
    arms: Table
    differences: Table | None
    operators: Table | None
    refinement: Table | None
    solve: Plot
    best_at_k: Plot | None
    heat_map: Plot
    multiples: Plot | None
    chart: Mapping[str, Any]
    rewards: tuple[Pictured, ...]
    diversity: Plot | None
    lineages: tuple[DrawnLineage, ...]
    archives: tuple[Pictured, ...]
    cost: Table
    errors: Table | None
    training: Plot | None
    versions: Table | None
    problems: Table
    settings: Table | None
    shared_settings: Table
    runs: Table
    commands: tuple[str, ...]

    @property
    def interval_unit(self) -> str:
        return interval_unit(self.summary)

    @property
    def plots(self) -> list[Plot]:
        """Every picture of the page, in its order."""
        single = [self.solve, self.best_at_k, self.heat_map, self.multiples, self.diversity, self.training]
        many = [one.plot for one in (*self.rewards, *self.archives)] + [one.tree for one in self.lineages]
        return [plot for plot in (*single, *many) if plot is not None]


def report_of(store: Store, name: str, against: str | None = None) -> Report:
    """Everything about the run or comparison of that name. Raises UnknownRun; BadInput where `against` is no arm, and
    where nothing is committed yet."""
    comparison = gather(store, name, against)
    found = load_results(store, comparison)
    if not found or not any(arm.done.any() for arm in found.values()):
        raise BadInput(f"{name} has nothing to report yet: no iteration is committed")
    readings = {arm.name: [read_run(store, run) for run in arm.runs] for arm in comparison.arms}
    summary, level, apart = _summary(found, comparison.reference, comparison.crossed_seeds)
    measures = measured(readings, found, summary.best_horizon * summary.answers)
    lineages = find_longest(readings)
    pictured = list(dict.fromkeys(lineage.row for lineage in lineages))[:PICTURED]
    style = looks([arm.name for arm in comparison.arms])
    names = [problem.name for problem in comparison.problems]
    targets = [problem.target for problem in comparison.problems]
    reference = comparison.reference
    gaps = differences(summary, measures)
    apart_settings, shared_settings = settings_tables(comparison)
    operators, crossed = load_operators(store, comparison), comparison.crossed_seeds
    refinement = refinement_differences(operators, reference, crossed_seeds=crossed)
    with styled():
        return Report(
            name,
            comparison,
            summary,
            state=_state(comparison, summary),
            remarks=(*apart, *_remarks(comparison, readings, summary)),
            verdict=tuple(verdict_lines(summary)),
            arms=arms_table(comparison, summary, measures, readings),
            differences=differences_table(reference, gaps) if reference and any(gaps.values()) else None,
            operators=operators_table(operators, crossed_seeds=crossed),
            refinement=refinement_table(reference, refinement),
            solve=solve_plot(found, level, style, summary.horizon or summary.best_horizon, comparison.crossed_seeds),
            best_at_k=best_at_k_plot(measures, style),
            heat_map=heat_map_plot(
                relative_best(found, targets), found, names, any(t is not None and t > 0 for t in targets)
            ),
            multiples=multiples_plot(found, names, style),
            chart=chart_of(comparison, found, style),
            rewards=_pictured(names, pictured, lambda row, n: reward_plot(readings, row, style, n)),
            diversity=diversity_plot(measures, style),
            lineages=tuple(
                DrawnLineage(lineage, tree_plot(lineage, style[lineage.arm], number))
                for number, lineage in enumerate(load_texts(store, lineages), start=1)
            ),
            archives=_pictured(
                names, pictured, lambda row, n: archive_plot(archive_maps(store, readings, row), names[row], n)
            ),
            cost=cost_table(comparison, readings),
            errors=errors_table(readings),
            training=training_plot(readings, style),
            versions=versions_table(readings),
            problems=problems_table(comparison, found),
            settings=apart_settings,
            shared_settings=shared_settings,
            runs=runs_table(comparison),
            commands=tuple(commands(comparison)),
        )


def _pictured(names: Sequence[str], rows: Sequence[int], draw: Any) -> tuple[Pictured, ...]:
    plots = [(names[row], draw(row, number)) for number, row in enumerate(rows, start=1)]
    return tuple(Pictured(name, plot) for name, plot in plots if plot is not None)


def _summary(
    found: Mapping[str, Results], reference: str | None, crossed_seeds: bool
) -> tuple[Summary, Mapping[str, Results], tuple[str, ...]]:
    """The summary, and the results of the seeds that they are of; where arms do not compare, nothing but why."""
    try:
        return summarise(found, reference, crossed_seeds=crossed_seeds), farthest(found), ()
    except ValueError as error:
        first = next(iter(found.values()))
        bare = Summary(
            first.iterations,
            first.answers,
            first.solved_at.shape[1],
            0,
            0,
            None,
            {name: ArmSummary() for name in found},
        )
        return bare, found, (f"The arms do not compare: {error}.",)


def _state(comparison: Comparison, summary: Summary) -> str:
    seeds = max(len(arm.runs) for arm in comparison.arms)
    costs = sorted({arm.answers for arm in comparison.arms})
    parts = [
        _counted(len(comparison.arms), "arm") if len(comparison.arms) > 1 else comparison.arms[0].policy,
        _counted(len(comparison.problems), "problem"),
        _counted(seeds, "seed"),
        f"{_counted(comparison.iterations, 'iteration')} of {' or '.join(map(str, costs))} "
        f"{'answer' if costs == [1] else 'answers'} planned for each",
    ]
    return ", ".join(parts)


def _remarks(comparison: Comparison, readings: Mapping[str, Sequence[RunReading]], summary: Summary) -> list[str]:
    """What a reader must know before believing a figure."""
    remarks = []
    statuses: dict[str, int] = {}
    for run in comparison.runs:
        if run.status != "done":
            statuses[run.status] = statuses.get(run.status, 0) + 1
    horizon = summary.horizon or summary.best_horizon
    if statuses:
        states = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        seeds = max(len(arm.runs) for arm in comparison.arms)
        remarks.append(
            f"Unfinished: of {_counted(len(comparison.runs), 'run')}, {states}. Figures of whole searches are those at "
            f"the horizon, iteration {horizon} of {summary.iterations}"
            + (f", of {summary.seeds} of {seeds} seeds." if summary.seeds < seeds else ".")
        )
    elif horizon < summary.iterations:
        remarks.append(
            f"Figures are those at iteration {horizon} of {summary.iterations}, which every search has come to; some "
            "ended there, by a budget or a fault."
        )
    for arm, readings_of_arm in readings.items():
        for reading in readings_of_arm:
            faults = [search.problem for search in reading.searches if search.problem.status == "failed"]
            if faults:
                remarks.append(
                    f"{arm}, seed {reading.run.seed}: {_counted(len(faults), 'problem')} stopped by faults of the "
                    f"scorer, the first {faults[0].name}: {faults[0].message[:300]}"
                )
    return remarks


def chart_of(comparison: Comparison, found: Mapping[str, Results], style: Mapping[str, Look]) -> dict[str, Any]:
    """Best fitness of every search as its steps, small enough for a page: arms x problems x seeds."""
    arms = []
    for place, (name, result) in enumerate(found.items()):
        assert result.best is not None
        problems = [
            [_steps(result, row, column) for column in range(result.best.shape[1])] for row in range(len(result.best))
        ]
        arms.append(
            {"name": name, "colour": style[name].colour, "dash": DASHES[place % len(DASHES)], "lines": problems}
        )
    return {
        "iterations": comparison.iterations,
        "problems": [problem.name for problem in comparison.problems],
        "targets": [problem.target for problem in comparison.problems],
        "arms": arms,
    }


def _steps(result: Results, row: int, column: int) -> list[list[float]]:
    """[iteration, best fitness from there on], and the last iteration at the end."""
    assert result.best is not None
    done = int(result.done[row, column])
    best = result.best[row, column, :done]
    known = np.flatnonzero(np.isfinite(best))
    if not len(known):
        return []
    rises = [int(known[0])] + [int(t) for t in known[1:] if best[t] > best[t - 1]]
    if len(rises) > CHART_STEPS:
        rises = [rises[int(i)] for i in np.unique(np.linspace(0, len(rises) - 1, CHART_STEPS).astype(int))]
    steps = [[float(t + 1), float(f"{best[t]:.5g}")] for t in rises]
    return [*steps, [float(done), steps[-1][1]]]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
