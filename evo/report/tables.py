"""The tables of the page and of the terminal, as plain values, and the same as JSON. `describe_state` and
`describe_faults` write the lines above them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from evo.comparison.arms import Comparison
from evo.comparison.summary import Summary, describe_horizon, verdicts_of
from evo.evaluation.preferences import JUDGED_WEIGHTINGS as JUDGING
from evo.progress.answer import verification_of
from evo.progress.answer_set import AnswerSet
from evo.progress.model import Progress
from evo.progress.rows import (
    WEIGHTINGS,
    WORTH,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    arm_dicts,
    arm_rows,
    difference_dict,
    difference_rows,
    differences,
    make_table,
    number_cell,
    preference_rows,
    preference_search_rows,
    word_cell,
)
from evo.progress.snapshot import Snapshot
from evo.stats.differences import detectable
from evo.stats.intervals import Interval
from evo.values import mark, write_number
from islands.types import RunRecord
from problems.objectives import HasValues, own_values
from problems.weights import describe_fitness

_LISTED, _HEAD_CHARS = 6, 160
_UNRECORDED = "not recorded"
_T = TypeVar("_T")


def arms_table(progress: Progress, snapshot: Snapshot, view: str = "page") -> Table | None:
    """One row for each arm: its metrics at the common horizon, and how far it is. view: as evo.progress.rows has it"""
    summary = snapshot.summary
    at = "" if summary is None else f" {describe_horizon(summary, progress.comparison.ended_by_budget)}"
    rows = arm_rows(snapshot, view, None if summary is None else progress.diversity)
    return make_table("arms", f"Metrics{at}, with 95% intervals", rows)


def preferences_table(progress: Progress) -> Table | None:
    """How many weightings were solved, and E_w[best], after a few iterations; None unless that was asked for."""
    found, curves = progress.summary, progress.preference_curves
    rows = preference_rows(curves, [arm.name for arm in progress.comparison.arms])
    unit = "" if found is None or found.unit == "iterations" else f", over the {found.unit} spent"
    caption = f"Under weights named afterwards: means over {JUDGING} weightings w ~ Dir(1){unit}"
    table = make_table("preferences", caption, rows)
    told = "" if found is None else f"{WORTH}: mean over w of the best stored answer's w . r, in {found.worth_unit}"
    return None if table is None else replace(table, below=told)


def differences_table(summary: Summary) -> Table | None:
    """One row for each pair of arms and metric, None for none."""
    return make_table("differences", "Differences of every two arms", difference_rows(summary))


def set_table(found: AnswerSet) -> Table | None:
    """One row for each objective: what the scorer measured of each member, of the set and of the best single answer;
    None for a set of one answer."""
    size, alone, metrics = len(found.members), found.single, found.problem.metrics
    if size < 2 or len(found.groups) == 1:
        return None
    columns = [TableColumn("objective")]
    columns += [TableColumn(str(one.id), one.text[:_HEAD_CHARS], True) for one in found.members]
    columns += [TableColumn("set", "", True), TableColumn(f"single {alone.id}", alone.text[:_HEAD_CHARS], True)]
    columns += [TableColumn(f"held out {one}", "", True) for one in ("set", "single") if found.held_out]
    scored: list[HasValues] = [*found.members, alone, *found.held_out]

    def by_column(numbers: Sequence[Sequence[_T]]) -> list[Sequence[_T]]:
        """Of vectors of all that is scored those of the columns: the set's has of each objective the member's."""
        tested = [found.pick(numbers[size + 1 : -1]), numbers[-1]] if found.held_out else []
        return [*numbers[:size], found.pick(numbers[:size]), numbers[size], *tested]

    own, rewards = by_column([own_values(metrics, one) for one in scored]), by_column([one.rewards for one in scored])
    written = [(f"{one.name}{mark(one)}", [vector[at] for vector in own]) for at, one in enumerate(metrics)]
    if found.mean(own[0]) is not None:
        written.append(("mean ↓", list(map(found.mean, own))))
    written.append(("value", list(map(found.worth, rewards))))
    rows = [
        [word_cell(title), *(TableCell(write_number(value), value, sort=value, number=True) for value in values)]
        for title, values in written
    ]
    for row, best in zip(rows, found.chosen, strict=False):
        row[1 + best] = replace(row[1 + best], text=f"{row[1 + best].text} *", mark="above")
    counted = "*: the best for this objective, which the set counts."
    if len(found.groups) < len(found.chosen):
        kinds = [metrics[group[0]].group for group in found.groups if len(group) > 1]
        alike = ", and of ".join(filter(None, kinds))
        counted = f"*: the answer that the set counts, the same for all objectives of {alike}."
    below = f"{counted} value: the mean reward, higher is better."
    name = f"set-{found.problem.index + 1}"
    return Table(name, found.describe(), tuple(columns), tuple(map(tuple, rows)), below=below)


def settings_tables(comparison: Comparison) -> tuple[Table | None, Table]:
    """The settings in which arms differ (None for a single arm), and those that they share."""
    arms = [flattened(arm.runs[0].config) for arm in comparison.arms]
    keys = [key for key in dict.fromkeys(key for arm in arms for key in arm) if key != "seed"]
    differing = [key for key in keys if len({json.dumps(arm.get(key), sort_keys=True) for arm in arms}) > 1]

    def table(name: str, caption: str, titles: Sequence[str], kept: Sequence[str]) -> Table:
        columns = (TableColumn("setting"), *map(TableColumn, titles))
        values = [[TableCell(_format(arm.get(key))) for arm in arms[: len(titles)]] for key in kept]
        return Table(
            name, caption, columns, tuple((word_cell(key), *row) for key, row in zip(kept, values, strict=True))
        )

    caption = "Settings of every arm" if len(arms) > 1 else "Settings"
    shared = table("shared-settings", caption, ["value"], [key for key in keys if key not in differing])
    names = [arm.name for arm in comparison.arms]
    return table("settings", "What the arms differ in", names, differing) if len(arms) > 1 else None, shared


def flattened(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Sections as dotted keys: population.islands."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _format(value: Any) -> str:
    if isinstance(value, list):
        text = ", ".join(str(item) for item in value[:_LISTED])
        return f"{text}, … ({len(value)} in all)" if len(value) > _LISTED else text
    return "default" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def machines_table(comparison: Comparison) -> Table | None:
    """Place and time of the searches, as the runs recorded them: one row for each machine with its software."""
    by_machine: dict[str, tuple[Mapping[str, Any], list[RunRecord]]] = {}
    for run in comparison.runs:
        for machine in run.summary.get("machines") or [{"commit": run.commit}]:
            by_machine.setdefault(json.dumps(machine, sort_keys=True), (machine, []))[1].append(run)
    rows = list[TableRow]()
    for machine, runs in by_machine.values():
        hardware = [str(machine["cpu"])] if machine.get("cpu") else []
        hardware += [f"{machine['cores']} cores"] if machine.get("cores") else []
        hardware += [f"{machine['memory_gib']:g} GiB"] if machine.get("memory_gib") else []
        versions = ", ".join(f"{name} {version}" for name, version in (machine.get("versions") or {}).items())
        gpus = ", ".join(machine.get("gpus") or ()) or ("none" if hardware else _UNRECORDED)
        dates = f"{_date(min(run.created for run in runs))} to {_date(max(run.updated for run in runs))}"
        row = {
            "runs": number_cell(len(runs), "d"),
            "dates (UTC)": word_cell(dates),
            "machine": word_cell(", ".join(hardware) or _UNRECORDED),
            "GPU": word_cell(gpus),
            "system": word_cell(str(machine.get("system") or _UNRECORDED)),
            "versions": word_cell(versions or _UNRECORDED),
            "commit": word_cell(str(machine.get("commit") or _UNRECORDED)),
        }
        rows.append(row)
    return make_table("machines", "Where and when the runs were searched", rows)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def describe_state(comparison: Comparison) -> str:
    """What is searched."""
    seeds = max(len(arm.runs) for arm in comparison.arms)
    answers = comparison.arms[0].answers
    parts = [
        _counted(len(comparison.arms), "arm") if len(comparison.arms) > 1 else comparison.arms[0].policy,
        _counted(len(comparison.problems), "problem"),
        _counted(seeds, "seed"),
        f"{_counted(comparison.iterations, 'iteration')} of {_counted(answers, 'answer')} planned for each",
    ]
    fitness = describe_fitness(comparison.arms[0].runs[0].config.get("weights"))
    return "; ".join(filter(None, (", ".join(parts), fitness)))


def describe_faults(progress: Progress, snapshot: Snapshot) -> list[str]:
    """Warnings that a reader needs before using a metric."""
    comparison, summary = progress.comparison, progress.summary
    horizon = 0 if summary is None else summary.horizon or summary.best_horizon
    remarks = list(() if progress.store.reweighed is None else progress.store.reweighed.lines)
    remarks += [f"The arms are not comparable: {progress.incomparable}."] if progress.incomparable else []
    remarks += ["The scorer changed between these runs, so that their values may not compare."] * progress.rescored
    statuses = Counter(run.status for run in comparison.runs if run.status != "done")
    if summary is None:
        remarks += ["No iteration is committed yet."] * (not comparison.failed)
    elif statuses:
        states = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        seeds = max(len(arm.runs) for arm in comparison.arms)
        remarks.append(
            f"Unfinished: of {_counted(len(comparison.runs), 'run')}, {states}. Metrics of whole searches are taken at "
            f"the horizon, {summary.place(horizon)}"
            + (f", of {summary.seeds} of {seeds} seeds." if summary.seeds < seeds else ".")
        )
    elif comparison.budget:
        remarks.append("Metrics and curves are over {}, up to the budget of {:,.10g}.".format(*comparison.budget))
    elif comparison.ended_by_budget:
        remarks.append(
            f"Metrics are taken at the end of each run's budget. Some ended before iteration {summary.iterations:,}; "
            "in curves over iterations, their last value continues to the right."
        )
    elif horizon < summary.iterations:
        remarks.append(
            f"Metrics are taken at iteration {horizon:,} of {summary.iterations:,}, the last that every search has "
            "reached."
        )
    for problem in progress.failed:
        remarks.append(f"Left out, its scorer failed: {problem.name} ({problem.arm}): {problem.message[:300]}")
    if snapshot.statuses.get("failed") or snapshot.statuses.get("interrupted"):
        remarks += [reason[:300] for reason in snapshot.reasons]
    return remarks


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


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


def preferences_dict(progress: Progress) -> dict[str, Any] | None:
    """What searches are worth under many weightings, for JSON, of a run with each of its problems; None unless that was
    asked for."""
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
