"""The report, section by section: `read` it from the database, `work_out` the values that several sections need, and
draw each section. evo.report.page lays the sections out."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.chart import chart_values
from evo.comparison.load import Comparison, gather, load_results
from evo.comparison.operators import OperatorCounts, load_operators, operator_choices, refinement_differences
from evo.comparison.results import Results
from evo.comparison.verdict import ArmSummary, Summary, farthest, interval_unit, summarise, verdicts_of
from evo.encoding import visible
from evo.errors import BadInput
from evo.monitor.arm_style import ArmStyle, style_of
from evo.report.candidates import candidate_values, tree_values
from evo.report.cells import Table
from evo.report.charts import (
    best_at_k_plot,
    diversity_plot,
    fitness_plot,
    problem_lines,
    reward_plot,
    reward_values,
    solve_plot,
    spending,
    training_plot,
)
from evo.report.details import ProblemDetail, problem_details
from evo.report.lineage import SearchLineage, find_longest, load_texts, tree_plot
from evo.report.load import RunReading, read_run
from evo.report.maps import archive_maps, archive_plot, heat_map_plot
from evo.report.measures import ArmMeasures, measured, relative_best
from evo.report.plot import Plot, styled
from evo.report.problem_table import problems_table
from evo.report.tables import (
    arms_table,
    commands,
    cost_table,
    differences,
    differences_table,
    errors_table,
    machines_table,
    operators_table,
    refinement_table,
    runs_table,
    settings_tables,
    versions_table,
)
from evo.stats import Verdict
from islands.names import format_db_option
from islands.store import Store

PICTURED = 3
"""Problems whose reward space and archive are drawn."""
MOST_CARDS = 12
"""Problems whose best answer leads the page."""


@dataclass(frozen=True, eq=False)
class ReportReading:
    """All data from the database without the texts of answers. Mappings are by arm, in the comparison's order."""

    store: Store
    comparison: Comparison
    results: Mapping[str, Results]
    runs: Mapping[str, Sequence[RunReading]]
    operators: Mapping[str, Sequence[OperatorCounts]]

    @property
    def names(self) -> list[str]:
        """The problems' names."""
        return [problem.name for problem in self.comparison.problems]


@dataclass(frozen=True, eq=False)
class Findings:
    """Values that several sections need. level: the results of the seeds in the summary; incomparable: why the arms
    do not compare, "" if they do."""

    summary: Summary
    level: Mapping[str, Results]
    incomparable: str
    measures: Mapping[str, ArmMeasures]

    @property
    def horizon(self) -> int:
        """The iteration at which metrics of whole searches are taken."""
        return self.summary.horizon or self.summary.best_horizon


@dataclass(frozen=True, eq=False)
class HeadSection:
    """remarks: unfinished work and errors."""

    state: str
    remarks: tuple[str, ...]
    verdict: tuple[Verdict, ...]
    interval_unit: str


@dataclass(frozen=True, eq=False)
class ArmsSection:
    table: Table
    differences: Table | None
    operators: Table | None
    refinement: Table | None


@dataclass(frozen=True, eq=False)
class CurvesSection:
    solve: Plot
    best_at_k: Plot | None
    diversity: Plot | None


@dataclass(frozen=True, eq=False)
class ProblemsSection:
    """lines: the data of each problem's chart."""

    table: Table
    fitness: Plot | None
    heat_map: Plot
    details: tuple[ProblemDetail, ...]
    lines: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Pictured:
    """A problem with its own picture. vectors: the data of its chart of any two objectives; None for other pictures."""

    problem: str
    plot: Plot
    vectors: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class DrawnLineage:
    """A lineage with its tree as a picture, and as data that the page draws."""

    lineage: SearchLineage
    tree: Plot
    nodes: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class BrowserSection:
    """The candidates that can be opened: `values` for the script, and the choices of the filters as (value, label)."""

    values: Mapping[str, Any]
    kinds: tuple[tuple[str, str], ...]
    operators: tuple[tuple[str, str], ...]
    problems: tuple[tuple[str, str], ...]

    @property
    def listed(self) -> int:
        return len(self.values["candidates"])


@dataclass(frozen=True, eq=False)
class TrainingSection:
    plot: Plot | None
    versions: Table | None


@dataclass(frozen=True, eq=False)
class CostSection:
    table: Table
    errors: Table | None


@dataclass(frozen=True, eq=False)
class SettingsSection:
    """differing: None for a single arm."""

    differing: Table | None
    shared: Table
    runs: Table
    machines: Table
    commands: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Report:
    """One run or comparison, ready to be laid out. suggested: the arguments of its commands: name and database."""

    name: str
    suggested: tuple[str, str]
    comparison: Comparison
    summary: Summary
    head: HeadSection
    arms: ArmsSection
    curves: CurvesSection
    problems: ProblemsSection
    rewards: tuple[Pictured, ...]
    lineages: tuple[DrawnLineage, ...]
    archives: tuple[Pictured, ...]
    browser: BrowserSection
    axes: Mapping[str, Sequence[Sequence[float]]]
    training: TrainingSection
    cost: CostSection
    settings: SettingsSection

    @property
    def arm_styles(self) -> list[ArmStyle]:
        """In the order of the arms."""
        return [style_of(place) for place in range(len(self.comparison.arms))]

    @property
    def plots(self) -> list[Plot]:
        """Every picture of the page, in its order."""
        curves, problems = self.curves, self.problems
        single = [curves.solve, curves.best_at_k, problems.heat_map, problems.fitness, curves.diversity]
        many = [pictured.plot for pictured in (*self.rewards, *self.archives)] + [drawn.tree for drawn in self.lineages]
        return [plot for plot in (*single, self.training.plot, *many) if plot is not None]

    @property
    def cards(self) -> list[ProblemDetail]:
        """The problems whose best answer leads the page."""
        return [detail for detail in self.problems.details if detail.best is not None][:MOST_CARDS]

    @property
    def next_steps(self) -> list[tuple[str, str]]:
        """(purpose, command) of what a reader may do next."""
        name, db = self.suggested
        run = f"{shlex.quote(name)}{db}"
        steps = []
        if any(run.status not in ("done", "failed") for run in self.comparison.runs):
            steps.append(("Continue", f"evo resume {run}"))
        else:
            steps.append(("Search longer", f"evo resume {run} --iterations {2 * self.comparison.iterations}"))
        if self.cards:
            target = "best_answers" if len(self.problems.table.rows) > 1 else "best_answer"
            steps.append(("Save the best answers", f"evo best {run} -o {target}"))
        return [*steps, ("Browse every candidate", f"evo ui{db}")]

    @property
    def values(self) -> dict[str, Any]:
        """The data of the page's script, for JSON."""
        arms = zip(self.comparison.arms, self.arm_styles, strict=True)
        return {
            "arms": [
                {"name": visible(arm.name), "colour": its.colour, "mark": its.mark, "shape": its.shape,
                 "hollow": its.hollow}
                for arm, its in arms
            ],
            "charts": {chart.name: chart_values(chart) for plot in self.plots for chart in plot.charts}
            | {pictured.plot.name: pictured.vectors for pictured in self.rewards},
            "axes": self.axes,
            "problems": self.problems.lines,
            "browser": {**self.browser.values, "show": self.suggested, "operators": dict(self.browser.operators)},
            "trees": [drawn.nodes for drawn in self.lineages],
        }  # fmt: skip


def report_of(store: Store, name: str, against: str | None = None) -> Report:
    """The report of the run or comparison of that name. Raises UnknownRun; BadInput if `against` is no arm, or if no
    iteration is committed yet."""
    reading = read(store, name, against)
    findings = work_out(reading)
    lineages = load_texts(store, find_longest(reading.runs))
    rows = list(dict.fromkeys(lineage.row for lineage in lineages))[:PICTURED]
    runs = reading.runs
    with styled():
        return Report(
            name,
            (name, format_db_option(store.address)),
            reading.comparison,
            findings.summary,
            head=head_of(reading, findings),
            arms=arms_of(reading, findings),
            curves=CurvesSection(
                solve_plot(reading.results, findings.level, findings.horizon, reading.comparison.crossed_seeds),
                best_at_k_plot(findings.measures),
                diversity_plot(findings.measures),
            ),
            problems=problems_of(reading),
            rewards=rewards_of(reading, rows),
            lineages=lineages_of(reading, lineages),
            archives=archives_of(reading, rows),
            browser=browser_of(reading, lineages),
            axes=spending(reading.comparison, runs),
            training=TrainingSection(training_plot(runs), versions_table(runs)),
            cost=CostSection(cost_table(reading.comparison, runs), errors_table(runs)),
            settings=settings_of(reading),
        )


def read(store: Store, name: str, against: str | None = None) -> ReportReading:
    """Raises as `report_of` does."""
    comparison = gather(store, name, against)
    results = load_results(store, comparison)
    if not results or not any(arm.done.any() for arm in results.values()):
        raise BadInput(f"{name} has nothing to report yet: no iteration is committed")
    runs = {arm.name: [read_run(store, run) for run in arm.runs] for arm in comparison.arms}
    return ReportReading(store, comparison, results, runs, load_operators(store, comparison))


def work_out(reading: ReportReading) -> Findings:
    """The findings; without a summary if the arms do not compare."""
    results, comparison = reading.results, reading.comparison
    level, incomparable = results, ""
    try:
        summary = summarise(results, comparison.reference, crossed_seeds=comparison.crossed_seeds)
        level = farthest(results)
    except ValueError as error:
        first = next(iter(results.values()))
        nothing = {name: ArmSummary() for name in results}
        summary = Summary(first.iterations, first.answers, first.solved_at.shape[1], 0, 0, None, nothing)
        incomparable = str(error)
    measures = measured(reading.runs, results, summary.best_horizon * summary.answers)
    return Findings(summary, level, incomparable, measures)


def head_of(reading: ReportReading, findings: Findings) -> HeadSection:
    remarks = [f"The arms do not compare: {findings.incomparable}."] if findings.incomparable else []
    return HeadSection(
        _state(reading.comparison),
        (*remarks, *_remarks(reading, findings)),
        tuple(verdicts_of(findings.summary)),
        interval_unit(findings.summary),
    )


def arms_of(reading: ReportReading, findings: Findings) -> ArmsSection:
    comparison, reference = reading.comparison, reading.comparison.reference
    crossed = comparison.crossed_seeds
    gaps = differences(findings.summary, findings.measures)
    refined = refinement_differences(reading.operators, reference, crossed_seeds=crossed)
    return ArmsSection(
        arms_table(comparison, findings.summary, findings.measures, reading.runs),
        differences_table(reference, gaps) if reference else None,
        operators_table(reading.operators, crossed_seeds=crossed),
        refinement_table(reference, refined) if reference else None,
    )


def problems_of(reading: ReportReading) -> ProblemsSection:
    comparison, results = reading.comparison, reading.results
    details = problem_details(reading.store, comparison, reading.runs)
    targets = [problem.target for problem in comparison.problems]
    with_target = any(target is not None and target > 0 for target in targets)
    return ProblemsSection(
        problems_table(comparison, results, len(details)),
        fitness_plot(results, reading.names),
        heat_map_plot(relative_best(results, targets), results, reading.names, with_target),
        details,
        problem_lines(comparison, results),
    )


def rewards_of(reading: ReportReading, rows: Sequence[int]) -> tuple[Pictured, ...]:
    """rows: places of problems in the comparison; one that has nothing to draw is left out"""
    plots = [(row, reward_plot(reading.runs, row, number)) for number, row in enumerate(rows, 1)]
    return tuple(
        Pictured(reading.names[row], plot, reward_values(reading.runs, row)) for row, plot in plots if plot is not None
    )


def archives_of(reading: ReportReading, rows: Sequence[int]) -> tuple[Pictured, ...]:
    """As rewards_of."""
    maps = [(row, archive_maps(reading.store, reading.runs, row)) for row in rows]
    plots = [(row, archive_plot(of_row, reading.names[row], number)) for number, (row, of_row) in enumerate(maps, 1)]
    return tuple(Pictured(reading.names[row], plot) for row, plot in plots if plot is not None)


def lineages_of(reading: ReportReading, lineages: Sequence[SearchLineage]) -> tuple[DrawnLineage, ...]:
    places = {arm.name: place for place, arm in enumerate(reading.comparison.arms)}
    return tuple(
        DrawnLineage(
            lineage, tree_plot(lineage, places[lineage.arm], number), tree_values(lineage, places[lineage.arm])
        )
        for number, lineage in enumerate(lineages, start=1)
    )


def browser_of(reading: ReportReading, lineages: Sequence[SearchLineage]) -> BrowserSection:
    values = candidate_values(reading.store, reading.comparison, reading.runs, lineages)
    kinds = sorted({entry["kind"] for entry in values["candidates"]} - {""})
    operators = [(key, visible(label)) for key, label in operator_choices(reading.comparison)]
    problems = [(str(row), problem["name"]) for row, problem in enumerate(values["problems"])]
    return BrowserSection(values, tuple((kind, kind) for kind in kinds), tuple(operators), tuple(problems))


def settings_of(reading: ReportReading) -> SettingsSection:
    comparison = reading.comparison
    differing, shared = settings_tables(comparison)
    return SettingsSection(
        differing, shared, runs_table(comparison), machines_table(comparison), tuple(commands(comparison))
    )


def _state(comparison: Comparison) -> str:
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


def _remarks(reading: ReportReading, findings: Findings) -> list[str]:
    """Warnings that a reader needs before using a metric."""
    comparison, summary, horizon = reading.comparison, findings.summary, findings.horizon
    remarks = []
    statuses = Counter(run.status for run in comparison.runs if run.status != "done")
    if statuses:
        states = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        seeds = max(len(arm.runs) for arm in comparison.arms)
        remarks.append(
            f"Unfinished: of {_counted(len(comparison.runs), 'run')}, {states}. Metrics of whole searches are taken at "
            f"the horizon, iteration {horizon} of {summary.iterations}"
            + (f", of {summary.seeds} of {seeds} seeds." if summary.seeds < seeds else ".")
        )
    elif comparison.ended_by_budget:
        remarks.append(
            f"Metrics are taken at the end of each run's budget. Some ended before iteration {summary.iterations}; in "
            "curves over iterations, their last value continues to the right."
        )
    elif horizon < summary.iterations:
        remarks.append(
            f"Metrics are taken at iteration {horizon} of {summary.iterations}, which every search has reached; some "
            "ended there, by a budget or a fault."
        )
    for arm, runs in reading.runs.items():
        for run in runs:
            faults = [search.problem for search in run.searches if search.problem.status == "failed"]
            if faults:
                remarks.append(
                    f"{arm}, seed {run.run.seed}: {_counted(len(faults), 'problem')} stopped by faults of the "
                    f"scorer, the first {faults[0].name}: {faults[0].message[:300]}"
                )
    return remarks


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
