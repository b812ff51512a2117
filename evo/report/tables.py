"""The tables of the page and of the terminal, as plain values: cells with their texts and sort keys. A row is cells by
their titles, of which a table shows some; the words of the page explain them (evo.glossary). `describe_state` and
`describe_faults` write the lines above them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from evo.comparison.arms import Comparison
from evo.comparison.results import standings
from evo.comparison.summary import Summary, describe_horizon
from evo.evaluation.preferences import JUDGED_WEIGHTINGS as JUDGING
from evo.glossary import COLUMN_HINTS, WORDS
from evo.progress.answer_set import AnswerSet
from evo.progress.model import Progress
from evo.progress.rows import (
    NONE,
    WORTH,
    TableCell,
    TableRow,
    against_cell,
    arm_name,
    arm_rows,
    difference_rows,
    number_cell,
    outcome_cell,
    preference_rows,
    target_cell,
    word_cell,
)
from evo.progress.snapshot import Snapshot, error_name
from evo.values import mark, write_number
from islands.types import RunRecord
from problems.objectives import HasValues, fitness_objective, own_values
from problems.weights import describe_fitness

_MEAN_BEST = "mean best"
"""In the glossary, the column of mean best values, whose title names what is measured."""
_KINDS_SHOWN, _LISTED, _HEAD_CHARS = 12, 6, 160
_UNRECORDED = "not recorded"


@dataclass(frozen=True)
class TableColumn:
    title: str
    hint: str = ""
    number: bool = False
    arm: int | None = None


@dataclass(frozen=True)
class Table:
    """name: its id on the page. filterable: it has a field that filters rows by their text. below: a text under the
    table"""

    name: str
    caption: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    filterable: bool = False
    below: str = ""


HINTS: Mapping[str, str] = {
    **{title: meaning for titles, meaning in WORDS.items() for title in titles.split(", ")},
    **COLUMN_HINTS,
}


def make_table(name: str, caption: str, rows: Sequence[TableRow]) -> Table | None:
    """A table of rows that all have the same titles, without the columns that hold no value; None without a row."""
    if not rows:
        return None
    kept = [title for title in rows[0] if any(row[title].text != NONE for row in rows)]
    hints = {title: HINTS.get(title, HINTS[_MEAN_BEST] if rows[0][title].measure else "") for title in kept}
    columns = [TableColumn(title, hints[title], any(row[title].number for row in rows)) for title in kept]
    return Table(name, caption, tuple(columns), tuple(tuple(row[title] for title in kept) for row in rows))


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


def cost_table(snapshot: Snapshot) -> Table | None:
    return make_table("cost", "What the searches have cost so far", arm_rows(snapshot, "cost"))


def differences_table(summary: Summary) -> Table | None:
    """One row for each pair of arms and metric, None for none."""
    return make_table("differences", "Differences of every two arms", difference_rows(summary))


def errors_table(snapshot: Snapshot) -> Table | None:
    """Errors of answers and replies by kind, the most frequent of each arm; None for none."""
    rows = [
        {"arm": arm_name(arm.name, place), "kind": word_cell(error_name(kind)), "times": number_cell(count, ",d")}
        for place, arm in enumerate(snapshot.arms)
        for kind, count in arm.totals.errors.most_common(_KINDS_SHOWN)
    ]
    return make_table("errors", "Errors by kind (of answers, the distinct ones)", rows)


_SOLVED_RULE = "@12: solved at iteration 12, the median over seeds; 1/3@12: by one seed of three."
_RULE = (
    "An arm has won a problem that it solved under more seeds than {reference}; if both solved it under every seed, "
    "one that it solved sooner; else one whose best value is better by more than rounding, a share of 1e-9."
)


def problems_table(progress: Progress, link: Callable[[int], str]) -> Table:
    """One row for each problem that counts: the iteration of each arm's solution or its best fitness, and won, lost or
    level against the reference. link: the address of a problem's row, "" for none"""
    comparison = progress.comparison
    names, reference = [arm.name for arm in comparison.arms], comparison.reference
    base = None if reference is None else names.index(reference)
    standing = standings([progress.results[name] for name in names], base, len(comparison.problems))
    seeds = len(comparison.arms[0].runs)
    sets = [problem.name.rpartition("/")[0] or NONE for problem in comparison.problems]
    several = len(set(sets)) > 1
    with_targets = any(problem.target is not None for problem in comparison.problems)
    others = [place for place in range(len(names)) if base is not None and place != base]
    rows = []
    for row, problem in enumerate(comparison.problems):
        one = fitness_objective(problem.metrics)
        cells = [replace(word_cell(problem.name, "name"), link=link(row))]
        cells += [word_cell(sets[row])] * several + [target_cell(problem)] * with_targets
        cells += [replace(outcome_cell(standing, at, row, seeds, one), number=False) for at in range(len(names))]
        cells += [against_cell(standing, place, row, one) for place in others]
        rows.append(tuple(cells))
    columns = [TableColumn("problem")]
    columns += [TableColumn("set")] * several
    columns += [TableColumn("target", "the fitness that solves it", True)] * with_targets
    columns += [TableColumn(name, "", True, place) for place, name in enumerate(names)]
    columns += [TableColumn(f"{names[place]} against {reference}", "", True, place) for place in others]
    below = [_SOLVED_RULE] * with_targets + ["Other numbers are the best value so far, mean over seeds."]
    below += [_RULE.format(reference=reference)] if others else []
    judged = int((~np.isnan(standing.solved)).any(axis=0).sum())
    for place, name in enumerate(names):
        parts = [f"{int((standing.solved[place] > 0).sum())} of {judged} solved"] if judged else []
        parts += ["{} won, {} lost, {} level".format(*standing.counts(place))] if place in others else []
        below += [f"{name}: {', '.join(parts)}."] if parts else []
    return Table("problems", "Every problem", tuple(columns), tuple(rows), len(rows) > 1, " ".join(below))


def set_table(found: AnswerSet) -> Table | None:
    """One row for each objective: what the scorer measured of each member, of the set and of the best single answer;
    None for a set of one answer."""
    size, alone, tested = len(found.members), found.single, bool(found.held_out)
    if size < 2 or len(found.groups) == 1:
        return None
    scored: list[HasValues] = [*found.members, alone, *found.held_out]
    columns = [
        TableColumn("objective"),
        *(TableColumn(str(each.id), each.text[:_HEAD_CHARS], True) for each in found.members),
    ]
    columns += [TableColumn("set", "", True), TableColumn(f"single {alone.id}", alone.text[:_HEAD_CHARS], True)]
    columns += [TableColumn("held out set", "", True), TableColumn("held out single", "", True)] * tested

    def row(title: str, each: Sequence[float | None], of_set: float | None, held: float | None) -> list[TableCell]:
        """each: of the members, of the single answer, and of these on held-out cases"""
        shown = [*each[:size], of_set, each[size], *([held, each[-1]] * tested)]
        return [word_cell(title), *(TableCell(write_number(value), value, sort=value, number=True) for value in shown)]

    def row_of_means(title: str, numbers: Sequence[Sequence[Any]], mean: Callable[[Sequence[Any]], Any]) -> None:
        held = mean(found.pick(numbers[size + 1 : -1])) if tested else None
        rows.append(row(title, [mean(each) for each in numbers], mean(found.pick(numbers[:size])), held))

    own, rows = [own_values(found.problem.metrics, one) for one in scored], list[list[TableCell]]()
    for place, (one, best) in enumerate(zip(found.problem.metrics, found.chosen, strict=True)):
        held = own[size + 1 + best][place] if tested else None
        cells = row(f"{one.name}{mark(one)}", [each[place] for each in own], own[best][place], held)
        cells[1 + best] = replace(cells[1 + best], text=f"{cells[1 + best].text} *", mark="above")
        rows.append(cells)
    if found.mean(own[0]) is not None:
        row_of_means("mean ↓", own, found.mean)
    row_of_means("value", [one.rewards for one in scored], found.worth)
    name, below = f"set-{found.problem.index + 1}", "value: the mean reward, higher is better."
    counted = "*: the best for this objective, which the set counts."
    if len(found.groups) < len(found.chosen):
        kinds = [found.problem.metrics[group[0]].group for group in found.groups if len(group) > 1]
        alike = ", and of ".join(filter(None, kinds))
        counted = f"*: the answer that the set counts, the same for all objectives of {alike}."
    below = f"{counted} {below}"
    return Table(name, found.describe(), tuple(columns), tuple(map(tuple, rows)), below=below)


def settings_tables(comparison: Comparison) -> tuple[Table | None, Table]:
    """The settings in which arms differ (None for a single arm), and those that they share."""
    flat = {arm.name: flattened(arm.runs[0].config) for arm in comparison.arms}
    every = dict.fromkeys(key for config in flat.values() for key in config)
    keys = [key for key in every if key not in ("seed", "note", "tags")]
    differing = [
        key for key in keys if len({json.dumps(config.get(key), sort_keys=True) for config in flat.values()}) > 1
    ]
    first = next(iter(flat.values()))
    shared = Table(
        "shared-settings",
        "Settings of every arm" if len(flat) > 1 else "Settings",
        (TableColumn("setting"), TableColumn("value")),
        tuple((word_cell(key), TableCell(_format(first[key]))) for key in keys if key not in differing),
    )
    if len(flat) < 2:
        return None, shared
    columns = (TableColumn("setting"), *(TableColumn(name) for name in flat))
    rows = tuple(
        (word_cell(key), *(TableCell(_format(config.get(key))) for config in flat.values())) for key in differing
    )
    return Table("settings", "What the arms differ in", columns, rows), shared


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
        hardware = [str(machine[key]) for key in ("cpu",) if machine.get(key)]
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
