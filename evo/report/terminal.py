"""The summary of a comparison's arms, for a terminal and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rich.table
from rich.console import Console
from rich.text import Text

from evo.comparison.summary import Summary, describe_verdict, verdicts_of
from evo.progress.answer import verification_of
from evo.progress.answer_set import AnswerSet
from evo.progress.model import Progress
from evo.progress.rows import WEIGHTINGS, WORTH, arm_dicts, difference_dict, differences, preference_search_rows
from evo.report.tables import (
    Table,
    arms_table,
    describe_faults,
    describe_state,
    differences_table,
    make_table,
    preferences_table,
    set_table,
)
from evo.stats.differences import detectable
from evo.stats.intervals import Interval
from evo.tui.line import visible
from problems.address import name_few

ONLY_SHOWN = 8
_LEGEND = {
    "area": "area: under the solve curve, up to 1",
    "median time": "median time: when half were solved",
    "archive L1": "archive L1: diversity",
    "wall s": "wall: time searched",
}
"""What a column is, where its title does not say it."""


def print_comparison(console: Console, progress: Progress, *, details: bool = False) -> None:
    """Print a table of the arms, the problems that only one arm solved, and the verdict.

    details: also every difference"""
    comparison, summary = progress.comparison, progress.summary
    snapshot = progress.snapshot()

    def say(line: str, style: str = "") -> None:
        console.print(Text(visible(line), style), soft_wrap=True)

    say(f"{comparison.name}: {describe_state(comparison)}", "bold")
    for remark in describe_faults(progress, snapshot):
        say(remark, "yellow")
    if summary is None:
        return
    noted = (WEIGHTINGS, WORTH) if progress.spread else ("solve rate",)
    if arms := arms_table(progress, snapshot, "terminal"):
        paint_table(console, arms, noted=noted)
        say("; ".join(_LEGEND[column.title] for column in arms.columns if column.title in _LEGEND), "dim")
    for name, arm in summary.arms.items():
        if arm.only and len(comparison.arms) > 1:
            say(f"only {name} solved: {name_few([comparison.problems[i].name for i in arm.only], ONLY_SHOWN)}", "dim")
    if table := preferences_table(progress):
        paint_table(console, table)
        say(table.below, "dim")
    if verdicts := verdicts_of(summary):
        say(f"\n{describe_verdict(summary, progress.comparison.ended_by_budget)}:")
        for verdict in verdicts:
            say(f"  {verdict.text}", "bold")
    if details and summary.reference:
        paint_table(console, differences_table(summary))


def paint_table(console: Console, table: Table | None, noted: Sequence[str] = ()) -> None:
    """Print the table below its caption; nothing without one. noted: the columns whose intervals are shown too"""
    if table is None:
        return
    console.print(Text(f"\n{visible(table.caption)}"), soft_wrap=True)
    shown = rich.table.Table(box=None, pad_edge=False)
    for column in table.columns:
        title = Text(column.title.replace(" ", "\n"))  # narrow columns
        shown.add_column(title, justify="right" if column.number else "left", overflow="fold")
    for row in table.rows:
        notes = [cell.note * (column.title in noted) for cell, column in zip(row, table.columns, strict=True)]
        shown.add_row(*(Text(visible(f"{cell.text} {note}".rstrip())) for cell, note in zip(row, notes, strict=True)))
    console.print(shown)


def print_set(console: Console, found: AnswerSet, *, whole: bool = False) -> None:
    """Print a set's value, its table and its answers. whole: also the further lines of an answer"""
    if (table := set_table(found)) is None:
        console.print(Text(visible(f"\n{found.describe()}")), soft_wrap=True)
    else:
        paint_table(console, table)
        console.print(table.below, style="dim", soft_wrap=True)
    for member in found.members:
        first, *more = visible(member.text).strip().splitlines() or [""]
        console.print(Text(f"{member.id}: {first}{' ...' * bool(more and not whole)}"), soft_wrap=True)
        if whole and more:
            console.print(Text("\n".join(more)), soft_wrap=True)


def comparison_dict(progress: Progress) -> dict[str, Any]:
    """All printed values, with their intervals and p-values, for JSON."""
    comparison, summary = progress.comparison, progress.summary
    shown: dict[str, Any] = {
        "comparison": comparison.name,
        "reference": comparison.reference,
        "problems": [problem.name for problem in comparison.problems],
        "failed": [problem.name for problem in comparison.failed],
        "runs": [
            {key: vars(run)[key] for key in ("name", "arm", "seed", "status", "reason")}
            | {"verification": verification_of(run)}
            for run in comparison.runs
        ],
    }
    if progress.store.reweighed is not None:
        shown["weights"] = dict(progress.store.reweighed.weights)
    if summary is None:
        return {**shown, "arms": {}, "differences": [], "against": {}, "verdicts": []}
    snapshot = progress.snapshot()
    return {
        **shown,
        "iterations": comparison.iterations,
        "answers_per_iteration": comparison.arms[0].answers,
        "seeds": summary.seeds,
        "detectable": detectable(len(comparison.problems), summary.seeds, max(1, len(summary.pairs))),
        "unit": summary.unit,
        "measure": summary.measure.name,
        "direction": "min" if summary.measure.lower else "max",
        "horizon": summary.horizon * summary.size,
        "best_horizon": summary.best_horizon * summary.size,
        "arms": {
            arm.name: {
                **columns,
                "answers_per_rollout": arm.runs[0].config["answers"],
                "rollouts": arm.runs[0].config["rollouts"],
                "only": [comparison.problems[i].name for i in summary.arms[arm.name].only],
                **arm.totals.as_dict(),
                "sampling_seconds": round(arm.totals.sampling_seconds, 3),
            }
            for arm, columns in zip(snapshot.arms, arm_dicts(snapshot, progress.diversity), strict=True)
        },
        "preferences": preferences_dict(progress),
        **_differences(summary),
        "solved_by_all": [comparison.problems[i].name for i in summary.by_all],
        "solved_by_none": [comparison.problems[i].name for i in summary.by_none],
        "verdicts": [verdict.text for verdict in verdicts_of(summary)],
    }


def print_preferences(console: Console, progress: Progress) -> None:
    """Print what a run is worth under many weightings: each problem at the end, and the curve of the means."""
    table = preferences_table(progress)
    if table is None:
        return
    if len(progress.comparison.problems) > 1:
        paint_table(console, make_table("searches", "Each problem, at the end", preference_search_rows(progress)))
    paint_table(console, table)
    console.print(Text(visible(table.below), "dim"), soft_wrap=True)


def preferences_dict(progress: Progress) -> dict[str, Any] | None:
    """The same for JSON, of a run with each of its problems; None unless it is judged under many weightings."""
    if not progress.spread or progress.summary is None:
        return None
    curves = [
        {"metric": metric, "arm": arm, "at": float(at), **Interval(*map(float, values)).as_dict()}
        for metric, of in progress.preference_curves.items()
        for arm, curve in of.items()
        for at, *values in zip(curve.at, curve.mean, curve.low, curve.high, strict=True)
        if math.isfinite(values[0])
    ]
    problems = [
        {"problem": row["problem"].value, "weightings_solved": row[WEIGHTINGS].value, "worth": row[WORTH].value}
        for row in (preference_search_rows(progress) if len(progress.comparison.runs) == 1 else ())
    ]
    return {"unit": progress.summary.worth_unit, "curves": curves, "problems": problems}


def _differences(summary: Summary) -> dict[str, Any]:
    """Every pair and metric, and those against the reference by arm."""
    every = [
        (*pair, metric, difference_dict(gap, summary.measure_of(metric)))
        for pair, metric, _, gap in differences(summary)
    ]
    against: dict[str, dict[str, Any]] = {arm: {} for arm in summary.against}
    for arm, other, metric, gap in every:
        if other == summary.reference:
            against[arm][metric] = gap
    pairs = [{"arm": arm, "against": other, "metric": metric, **gap} for arm, other, metric, gap in every]
    return {"differences": pairs, "against": against}
