"""Tables of the page: the arms at the horizon, their operators, costs, errors, settings and runs. The table of
problems is in evo.report.problem_table."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.comparison.load import Comparison
from evo.comparison.operators import BELOW, BINS, OperatorCounts, intervals, labels, short_label
from evo.comparison.survival import METRICS, Crossing
from evo.comparison.verdict import Summary
from evo.report.cells import (
    NONE,
    Column,
    Table,
    TableCell,
    TitledCell,
    arm_name,
    difference_cells,
    interval,
    number,
    titled_table,
    without_empty,
    word,
)
from evo.report.load import RunReading
from evo.report.measures import ArmMeasures, seed_mean
from evo.stats import Difference, difference, mean_interval
from islands.names import hide_password
from islands.types import OF_ROLLOUTS, QUARTERS, RunRecord, sum_totals
from vpo.metrics import Interval

KINDS_SHOWN = 12
RATES = (*(f"refined {name}" for name in (BELOW, *BINS.values())), "kept", "copies", "repeats", "alone")


def arms_table(
    comparison: Comparison,
    summary: Summary,
    measures: Mapping[str, ArmMeasures],
    readings: Mapping[str, Sequence[RunReading]],
) -> Table:
    """One row for each arm: its metrics at the common horizon, and its cost so far."""
    rows: list[list[TitledCell]] = []
    for place, arm in enumerate(comparison.arms):
        standing, measure = summary.arms[arm.name], measures.get(arm.name)
        totals = sum_totals(run.totals for run in readings[arm.name])
        diversity, distinct, cells = None, None, None
        if measure is not None:
            diversity, distinct, cells = _mean(measure.diversity), _average(measure.distinct), _average(measure.cells)
        solved = Column("solve rate", "share of searches solved by the horizon, with its 95% interval")
        area = Column("area", "mean solve rate over all iterations up to the horizon")
        half = Column("median time", "iteration by which half of the searches were solved")
        best = Column("mean best", "best fitness at the horizon; a search without a valid answer counts 0")
        spread = Column("answer diversity", "mean L1 distance of two valid answers' reward vectors")
        seconds = totals.sampling_seconds + totals.scoring_seconds
        rows.append(
            [
                (Column("arm", number=False), arm_name(arm.name, place)),
                (solved, interval(standing.solved, ".2f")),
                (area, interval(standing.area, ".2f")),
                (half, _crossing(standing.median, summary.horizon)),
                (best, interval(standing.best)),
                (spread, interval(diversity, ".2f")),
                (Column("vectors", "different reward vectors of valid answers, a search"), number(distinct, ".1f")),
                (Column("cells", "cells of the archive that are filled, a search"), number(cells, ".1f")),
                (Column("answers", "in all"), number(totals.answers, ",.0f")),
                (Column("tokens", "generated, in all"), number(totals.tokens, ",.0f")),
                (Column("seconds", "of sampling and scoring, in all"), number(seconds, ",.1f")),
            ]
        )
        if len(comparison.arms) > 1:  # a single arm has no problem that only it solved
            only = Column("only", "problems that only this arm solved, under any seed")
            rows[-1].append((only, number(len(standing.only), ".0f")))
        rows[-1].append((Column("policy", number=False), word(arm.policy)))  # long, and not a number: the last
    at = summary.horizon or summary.best_horizon
    caption = f"After {at} of {summary.iterations} iterations, with 95% intervals"
    return without_empty(titled_table("arms", caption, rows))


def _crossing(crossing: Crossing | None, horizon: int) -> TableCell:
    """The iteration by which half were solved. Its interval is open if the band's edge is below half at the horizon."""
    if crossing is None:
        return TableCell(NONE)
    if math.isnan(crossing.low):
        return TableCell(str(crossing.at), crossing.at)
    open_end = math.isinf(crossing.high)
    note = f"from {crossing.low:.0f} to beyond {horizon}" if open_end else f"[{crossing.low:.0f}, {crossing.high:.0f}]"
    return TableCell(str(crossing.at), crossing.at, note=note)


def differences(summary: Summary, measures: Mapping[str, ArmMeasures]) -> dict[str, dict[str, Difference]]:
    """arm -> figure -> arm - reference: those of the summary, and diversity, each corrected over the arms."""
    gaps = {arm: dict(metrics) for arm, metrics in summary.against.items()}
    reference = summary.reference
    if reference in measures:
        for arm, metrics in gaps.items():
            ours, theirs = (_by_problem(measures[name].diversity) for name in (arm, str(reference)))
            if (np.isfinite(ours).all(axis=1) & np.isfinite(theirs).all(axis=1)).any():
                metrics["diversity"] = difference(ours, theirs, comparisons=len(gaps))
    return gaps


def differences_table(reference: str, gaps: Mapping[str, Mapping[str, Difference]]) -> Table | None:
    """One row for each arm and metric; None for none."""
    titles = {**{name: metric.title for name, metric in METRICS.items()}, "diversity": "answer diversity"}
    rows = [(arm, titles[metric], gap) for arm, metrics in gaps.items() for metric, gap in metrics.items()]
    hint = "mean over problems, paired, with its 95% interval, simultaneous over the arms"
    caption = f"Differences against {reference}"
    return _difference_table("differences", caption, reference, Column("figure", number=False), hint, rows)


def refinement_table(reference: str, gaps: Mapping[str, Mapping[str, Difference]]) -> Table | None:
    """One row for each arm and bin of parents; None for none."""
    rows = [
        (arm, "all below the target" if rate == f"refined {BELOW}" else rate.removeprefix("refined "), gap)
        for arm, rates in gaps.items()
        for rate, gap in rates.items()
    ]
    parents = Column("parents", "by their share of the target", number=False)
    hint = "in the share of better answers, paired over problems, with its 95% interval"
    return _difference_table("refinement", f"Refinement against {reference}", reference, parents, hint, rows)


def _difference_table(
    name: str, caption: str, reference: str, second: Column, hint: str, rows: Sequence[tuple[str, str, Difference]]
) -> Table | None:
    """rows: (arm, text of the second column, arm - reference)"""
    columns = (
        Column("pair", number=False),
        second,
        Column("difference", hint),
        Column("p", "two-sided, corrected for the number of arms (Bonferroni)"),
        Column("problems", "pairs"),
        Column("result", number=False),
    )
    cells = tuple((word(f"{arm} − {reference}", "arm"), word(what), *difference_cells(gap)) for arm, what, gap in rows)
    return Table(name, caption, columns, cells) if cells else None


def operators_table(operators: Mapping[str, Sequence[OperatorCounts]], *, crossed_seeds: bool) -> Table | None:
    """One row for each operator; None if no answer was counted. operators: by arm, in the comparison's order"""
    rows = []
    for place, (arm, counted) in enumerate(operators.items()):
        for name, operator in zip(labels(arm, counted), counted, strict=True):
            known = intervals(operator, crossed_seeds=crossed_seeds)
            rates: list[TableCell] = [
                interval(known[rate], ".3f") if rate in known else TableCell(NONE) for rate in RATES
            ]
            rows.append(
                (arm_name(short_label(name), place), number(float(operator.of["answers"].sum()), ",.0f"), *rates)
            )
    columns = (
        Column("operator", number=False),
        Column("answers"),
        Column("better", "share of answers that are better than the parent shown, of parents below the target"),
        *(Column(f"at {BINS[quarter]}", "of parents at this share of the target") for quarter in range(QUARTERS)),
        Column("at the target", "of parents that solve the problem"),
        Column("kept", "share of the parent: a route's beginning and end, the lines of code and text"),
        Column("copies", "answers equal to anything that their prompt showed"),
        Column("repeats", "answers that the search had before"),
        Column("alone", "answers whose prompt showed no parent"),
    )
    caption = "Answers against the parent that their prompt showed, with 95% intervals over problems"
    return without_empty(Table("operators", caption, columns, tuple(rows))) if rows else None


def cost_table(comparison: Comparison, readings: Mapping[str, Sequence[RunReading]]) -> Table:
    rows: list[list[TitledCell]] = []
    for place, arm in enumerate(comparison.arms):
        runs = readings[arm.name]
        totals = sum_totals(run.totals for run in runs)
        ended = [run.run.summary for run in runs if run.run.summary]
        commit, wall = _total(ended, "commit_seconds"), _total(ended, "seconds")
        each = totals.tokens / totals.answers if totals.answers else None
        repeats = Column("repeats", "answers that were stored already and are not scored again")
        migrations = Column("migrations", "times that candidates were copied from island to island")
        rows.append(
            [
                (Column("arm", number=False), arm_name(arm.name, place)),
                (Column("iterations", "committed iterations"), number(totals.groups, ",.0f")),
                (Column("answers"), number(totals.answers, ",.0f")),
                (Column("missing", "requested answers that no rollout held"), number(totals.missing, ",.0f")),
                (repeats, number(totals.repeats, ",.0f")),
                (Column("scorings", "distinct answers"), number(totals.answers - totals.repeats, ",.0f")),
                (Column("tokens"), number(totals.tokens, ",.0f")),
                (Column("tokens/answer"), number(each, ",.1f")),
                (Column("sampling s", "time of the policy"), number(totals.sampling_seconds, ",.2f")),
                (Column("scoring s", "summed over the scorer's workers"), number(totals.scoring_seconds, ",.2f")),
                (Column("commit s", "of the runs that have ended"), number(commit, ",.2f")),
                (Column("wall s", "of the runs that have ended"), number(wall, ",.1f")),
                (migrations, number(totals.migrations, ",.0f")),
            ]
        )
    return titled_table("cost", "What the searches have cost so far", rows)


def versions_table(readings: Mapping[str, Sequence[RunReading]]) -> Table | None:
    """One row for each policy version of each arm; None if no run had more than one."""
    if all(len(run.versions) < 2 for runs in readings.values() for run in runs):
        return None
    rows: list[list[TitledCell]] = []
    solves = "share of its answers that reach their problem's target"
    for place, (arm, runs) in enumerate(readings.items()):
        for run in runs:
            for id, version in run.versions.items():
                answers = valid = solving = judged = 0
                fitness = 0.0
                for search in run.searches:
                    given = search.answered[search.version == id]
                    good = search.valid[given]
                    answers, valid = answers + len(given), valid + int(good.sum())
                    fitness += float(search.fitness[given][good].sum())
                    if search.problem.target is not None:
                        judged += len(given)
                        solving += int((search.fitness[given][good] >= search.problem.target).sum())
                rows.append(
                    [
                        (Column("arm", number=False), arm_name(arm, place)),
                        (Column("seed"), number(run.run.seed, ".0f")),
                        (Column("policy version", number=False), word(version)),
                        (Column("answers"), number(answers, ",.0f")),
                        (Column("valid", "share of its answers"), _share(valid, answers, ".3f")),
                        (Column("mean fitness", "a failed answer counts 0"), _share(fitness, answers, ".4f")),
                        (Column("solving", solves), _share(solving, judged, ".4f")),
                    ]
                )
    return titled_table("versions", "Policy versions", rows)


def _share(part: float, whole: int, form: str) -> TableCell:
    return number(part / whole if whole else None, form)


def errors_table(readings: Mapping[str, Sequence[RunReading]]) -> Table | None:
    """Errors of answers and rollouts by kind, the most frequent of each arm; None for none."""
    rows = []
    for place, (arm, runs) in enumerate(readings.items()):
        failed = sum_totals(run.totals for run in runs).errors
        for kind in OF_ROLLOUTS:  # misread rollouts are counted by their own kinds below
            del failed[kind]
        misread = sum((run.misread for run in runs), Counter[str]())
        for counted, title in ((failed, "failed answer"), (misread, "misread rollout")):
            ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
            shown = ranked[:KINDS_SHOWN]
            if len(ranked) > KINDS_SHOWN:
                rest = ranked[KINDS_SHOWN:]
                shown.append((f"{len(rest):,} other kinds", sum(count for _, count in rest)))
            rows += [(arm_name(arm, place), word(title), word(kind), number(count, ",.0f")) for kind, count in shown]
    columns = (Column("arm", number=False), Column("what", number=False), Column("kind", number=False), Column("times"))
    caption = "Errors by kind (of answers, the distinct ones)"
    return Table("errors", caption, columns, tuple(rows)) if rows else None


def _total(summaries: Sequence[Mapping[str, object]], key: str) -> float | None:
    values = [float(value) for summary in summaries if isinstance(value := summary.get(key), int | float)]
    return sum(values) if values else None


def _by_problem(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(P, S) -> (P, 1) over the seeds that are known; of one problem the seeds themselves, (1, S')."""
    known = np.isfinite(values)
    return values[known][None] if len(values) == 1 and known.any() else seed_mean(values[..., None])


def _mean(values: npt.NDArray[np.float64]) -> Interval | None:
    means = _by_problem(values)
    return mean_interval(means) if np.isfinite(means).any() else None


def _average(values: npt.NDArray[np.float64]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


LISTED = 6
UNRECORDED = "not recorded"
PER_RUN = ("seed",)


def settings_tables(comparison: Comparison) -> tuple[Table | None, Table]:
    """The settings in which arms differ (None for a single arm), and those that they share."""
    flat = {arm.name: flattened(arm.runs[0].config) for arm in comparison.arms}
    keys = [key for key in dict.fromkeys(key for config in flat.values() for key in config) if key not in PER_RUN]
    differing = [
        key for key in keys if len({json.dumps(config.get(key), sort_keys=True) for config in flat.values()}) > 1
    ]
    first = next(iter(flat.values()))
    shared = Table(
        "shared-settings",
        "Settings of every arm" if len(flat) > 1 else "Settings",
        (Column("setting", number=False), Column("value", number=False)),
        tuple((word(key), TableCell(_format(first[key]))) for key in keys if key not in differing),
    )
    if len(flat) < 2:
        return None, shared
    apart = Table(
        "settings",
        "What the arms differ in",
        (Column("setting", number=False), *(Column(name, number=False) for name in flat)),
        tuple((word(key), *(TableCell(_format(config.get(key))) for config in flat.values())) for key in differing),
    )
    return apart, shared


def runs_table(comparison: Comparison) -> Table:
    rows = [
        [
            (Column("run", number=False), word(run.name)),
            (Column("arm", number=False), word(run.arm or NONE)),
            (Column("seed"), number(run.seed, ".0f")),
            (Column("status", number=False), word(run.status)),
            (Column("reason", number=False), word(run.reason)),
            (Column("commit", number=False), word(run.commit)),
        ]
        for run in comparison.runs
    ]
    return titled_table("runs", "Runs", rows)


def commands(comparison: Comparison) -> list[str]:
    """The command lines that made the runs, each once and without a password."""
    return list(dict.fromkeys(hide_password(run.command) for run in comparison.runs))


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
        text = ", ".join(str(item) for item in value[:LISTED])
        return f"{text}, … ({len(value)} in all)" if len(value) > LISTED else text
    return "default" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def machines_table(comparison: Comparison) -> Table:
    """Place and time of the searches, as the runs recorded them: one row for each machine with its software."""
    by_machine: dict[str, tuple[Mapping[str, Any], list[RunRecord]]] = {}
    for run in comparison.runs:
        for machine in run.summary.get("machines") or [{"commit": run.commit}]:
            by_machine.setdefault(json.dumps(machine, sort_keys=True), (machine, []))[1].append(run)
    rows = []
    for machine, runs in by_machine.values():
        hardware = [str(machine[key]) for key in ("cpu",) if machine.get(key)]
        hardware += [f"{machine['cores']} cores"] if machine.get("cores") else []
        hardware += [f"{machine['memory_gib']:g} GiB"] if machine.get("memory_gib") else []
        versions = ", ".join(f"{name} {version}" for name, version in (machine.get("versions") or {}).items())
        gpus = ", ".join(machine.get("gpus") or ()) or ("none" if hardware else UNRECORDED)
        dates = f"{_date(min(run.created for run in runs))} to {_date(max(run.updated for run in runs))}"
        began = Column("dates (UTC)", "when the first run began, and the last was written to", number=False)
        cores = Column("machine", "processor, cores available to the search, memory", number=False)
        gpu = Column("GPU", "used by the process; a policy on a server has another", number=False)
        software = Column("versions", "of evo, Python and the libraries that a policy ran on", number=False)
        source = Column("commit", "of the source; + if it had changes", number=False)
        rows.append(
            [
                (Column("runs"), number(len(runs), ".0f")),
                (began, word(dates)),
                (cores, word(", ".join(hardware) or UNRECORDED)),
                (gpu, word(gpus)),
                (Column("system", number=False), word(str(machine.get("system") or UNRECORDED))),
                (software, word(versions or UNRECORDED)),
                (source, word(str(machine.get("commit") or UNRECORDED))),
            ]
        )
    return titled_table("machines", "Where and when the runs were searched", rows)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
