"""What the page says: everything read, worked out and drawn, nothing laid out yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.comparison.load import Comparison, gather, load_results
from evo.comparison.operators import load_operators, refinement_differences
from evo.comparison.results import Results
from evo.comparison.verdict import ArmSummary, Summary, farthest, interval_unit, summarise, verdicts_of
from evo.errors import BadInput
from evo.monitor.arm_style import ArmStyle, style_of
from evo.report.archive import archive_maps
from evo.report.cells import Table
from evo.report.charts import (
    Chart,
    measure_charts,
    problem_lines,
    reward_charts,
    solve_charts,
    training_charts,
)
from evo.report.details import ProblemDetail, problem_details
from evo.report.lineage import Lineage, find_longest, load_texts
from evo.report.load import RunReading, read_run
from evo.report.measures import measured, relative_best
from evo.report.operators import operators_table, refinement_table
from evo.report.plots.curves import best_at_k_plot, diversity_plot, multiples_plot, solve_plot, training_plot
from evo.report.plots.maps import archive_plot, heat_map_plot
from evo.report.plots.rewards import reward_plot
from evo.report.plots.style import Plot, looks, styled
from evo.report.plots.tree import tree_plot
from evo.report.problem_table import problems_table
from evo.report.settings import commands, machines_table, runs_table, settings_tables
from evo.report.tables import (
    arms_table,
    cost_table,
    differences,
    differences_table,
    errors_table,
    versions_table,
)
from evo.report.text import visible
from evo.stats import Verdict
from islands.db.store import Store

PICTURED = 3
"""Problems whose reward space and archive are drawn."""


@dataclass(frozen=True, eq=False)
class Pictured:
    """A problem that is drawn by itself. charts: the same for the page, where it draws them itself."""

    problem: str
    plot: Plot
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True, eq=False)
class DrawnLineage:
    """A lineage with its tree."""

    lineage: Lineage
    tree: Plot


@dataclass(frozen=True, eq=False)
class Report:
    """One run or comparison, ready to be laid out. charts: by the plot that they show on the page, see `values`;
    remarks: what is not finished, or not well; None where there is nothing to say."""

    name: str
    comparison: Comparison
    summary: Summary
    state: str
    remarks: tuple[str, ...]
    verdict: tuple[Verdict, ...]
    arms: Table
    differences: Table | None
    operators: Table | None
    refinement: Table | None
    solve: Plot
    best_at_k: Plot | None
    heat_map: Plot
    multiples: Plot | None
    charts: Mapping[str, tuple[Chart, ...]]
    chart: Mapping[str, Any]
    details: tuple[ProblemDetail, ...]
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
    machines: Table
    commands: tuple[str, ...]

    @property
    def arm_styles(self) -> list[ArmStyle]:
        """In the order of the arms."""
        return [style_of(place) for place in range(len(self.comparison.arms))]

    @property
    def values(self) -> dict[str, Any]:
        """What the page's script draws from, as JSON takes it."""
        charts = [chart for group in self.charts.values() for chart in group]
        charts += [chart for one in self.rewards for chart in one.charts]
        arms = zip(self.comparison.arms, self.arm_styles, strict=True)
        return {
            "arms": [
                {
                    "name": visible(arm.name),
                    "colour": its.colour,
                    "mark": its.mark,
                    "shape": its.shape,
                    "hollow": its.hollow,
                }
                for arm, its in arms
            ],
            "charts": {chart.name: {"title": visible(chart.title), **chart.values} for chart in charts},
            "problems": self.chart,
        }

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
    details = problem_details(store, comparison, readings)
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
    horizon = summary.horizon or summary.best_horizon
    at_k, diversity = measure_charts(measures, [arm.name for arm in comparison.arms])
    charts = {
        "solve-rate": solve_charts(found, level, horizon, crossed),
        "best-at-k": at_k,
        "diversity": diversity,
        "training": training_charts(readings),
    }
    with styled():
        return Report(
            name,
            comparison,
            summary,
            state=_state(comparison, summary),
            remarks=(*apart, *_remarks(comparison, readings, summary)),
            verdict=tuple(verdicts_of(summary)),
            arms=arms_table(comparison, summary, measures, readings),
            differences=differences_table(reference, gaps) if reference and any(gaps.values()) else None,
            operators=operators_table(operators, crossed_seeds=crossed),
            refinement=refinement_table(reference, refinement),
            solve=solve_plot(found, level, style, horizon, crossed),
            best_at_k=best_at_k_plot(measures, style),
            heat_map=heat_map_plot(
                relative_best(found, targets), found, names, any(t is not None and t > 0 for t in targets)
            ),
            multiples=multiples_plot(found, names, style),
            charts=charts,
            chart=problem_lines(comparison, found),
            details=details,
            rewards=_pictured(
                names,
                pictured,
                lambda row, n: reward_plot(readings, row, style, n),
                lambda row, n: reward_charts(readings, row, n),
            ),
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
            problems=problems_table(comparison, found, len(details)),
            settings=apart_settings,
            shared_settings=shared_settings,
            runs=runs_table(comparison),
            machines=machines_table(comparison),
            commands=tuple(commands(comparison)),
        )


def _pictured(names: Sequence[str], rows: Sequence[int], draw: Any, chart: Any = None) -> tuple[Pictured, ...]:
    found = []
    for number, row in enumerate(rows, start=1):
        plot = draw(row, number)
        if plot is not None:
            found.append(Pictured(names[row], plot, () if chart is None else chart(row, number)))
    return tuple(found)


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
    statuses = Counter(run.status for run in comparison.runs if run.status != "done")
    horizon = summary.horizon or summary.best_horizon
    if statuses:
        states = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        seeds = max(len(arm.runs) for arm in comparison.arms)
        remarks.append(
            f"Unfinished: of {_counted(len(comparison.runs), 'run')}, {states}. Figures of whole searches are those at "
            f"the horizon, iteration {horizon} of {summary.iterations}"
            + (f", of {summary.seeds} of {seeds} seeds." if summary.seeds < seeds else ".")
        )
    elif comparison.ended_by_budget:
        remarks.append(
            f"Figures are those at the end of each run's budget. Some ended before iteration {summary.iterations}; in "
            "curves over iterations what they had found by then goes on to the right."
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


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
