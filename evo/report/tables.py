"""Tables of the page: the arms at the horizon, their operators, costs, errors, settings and runs. Every problem:
problem_table."""

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
from evo.comparison.survival import Crossing
from evo.comparison.verdict import METRICS, Summary
from evo.report.cells import NONE, Column, Table, TableCell, arm_name, difference_cells, interval, number, word
from evo.report.load import RunReading
from evo.report.measures import ArmMeasures, seed_mean
from evo.stats import Difference, difference, mean_interval
from islands.db.address import hide_password
from islands.db.totals import OF_ROLLOUTS, sum_totals
from islands.types import QUARTERS, RunRecord
from vpo.metrics import Interval

KINDS_SHOWN = 12
RATES = (*(f"refined {name}" for name in (BELOW, *BINS.values())), "kept", "copies", "repeats", "alone")


def arms_table(
    comparison: Comparison,
    summary: Summary,
    measures: Mapping[str, ArmMeasures],
    readings: Mapping[str, Sequence[RunReading]],
) -> Table:
    """One row an arm: its metrics at the common horizon, and its cost so far."""
    rows: list[tuple[TableCell, ...]] = []
    for place, arm in enumerate(comparison.arms):
        standing, runs = summary.arms[arm.name], readings[arm.name]
        measure = measures.get(arm.name)
        totals = sum_totals(run.totals for run in runs)
        rows.append(
            (
                arm_name(arm.name, place),
                word(arm.policy),
                interval(standing.solved, ".2f"),
                interval(standing.area, ".2f"),
                _crossing(standing.median, summary.horizon),
                interval(standing.best),
                interval(None if measure is None else _mean(measure.diversity), ".2f"),
                number(None if measure is None else _average(measure.distinct), ".1f"),
                number(None if measure is None else _average(measure.cells), ".1f"),
                number(totals.answers, ",.0f"),
                number(totals.tokens, ",.0f"),
                number(totals.sampling_seconds + totals.scoring_seconds, ",.1f"),
                number(len(standing.only), ".0f"),
            )
        )
    columns: tuple[Column, ...] = (
        Column("arm", number=False),
        Column("policy", number=False),
        Column("solve rate", "share of searches solved by the horizon, with its 95% interval"),
        Column("area", "mean solve rate over all iterations up to the horizon"),
        Column("median time", "iteration by which half of the searches were solved"),
        Column("mean best", "best fitness at the horizon; a search without a valid answer counts 0"),
        Column("answer diversity", "mean L1 distance of two valid answers' reward vectors"),
        Column("vectors", "different reward vectors of valid answers, a search"),
        Column("cells", "cells of the archive that are filled, a search"),
        Column("answers", "in all"),
        Column("tokens", "generated, in all"),
        Column("seconds", "of sampling and scoring, in all"),
        Column("only", "problems that only this arm solved, under any seed"),
    )
    if len(rows) == 1:  # a single arm has no problem that only it solved
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    at = summary.horizon or summary.best_horizon
    caption = f"After {at} of {summary.iterations} iterations, with 95% intervals"
    return Table("arms", caption, columns, tuple(rows))


def _crossing(crossing: Crossing | None, horizon: int) -> TableCell:
    """When half were solved. Its interval is open if its edge has not reached half by the horizon."""
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
    titles = {**METRICS, "diversity": "answer diversity"}
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
    """One row an operator; None if no answer was counted. operators: by arm, in the comparison's order"""
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
    return Table("operators", caption, columns, tuple(rows)) if rows else None


def cost_table(comparison: Comparison, readings: Mapping[str, Sequence[RunReading]]) -> Table:
    rows = []
    for place, arm in enumerate(comparison.arms):
        runs = readings[arm.name]
        totals = sum_totals(run.totals for run in runs)
        ended = [run.run.summary for run in runs if run.run.summary]
        rows.append(
            (
                arm_name(arm.name, place),
                number(totals.groups, ",.0f"),
                number(totals.answers, ",.0f"),
                number(totals.missing, ",.0f"),
                number(totals.repeats, ",.0f"),
                number(totals.answers - totals.repeats, ",.0f"),
                number(totals.tokens, ",.0f"),
                number(totals.tokens / totals.answers if totals.answers else None, ",.1f"),
                number(totals.sampling_seconds, ",.2f"),
                number(totals.scoring_seconds, ",.2f"),
                number(_total(ended, "commit_seconds"), ",.2f"),
                number(_total(ended, "seconds"), ",.1f"),
                number(totals.migrations, ",.0f"),
            )
        )
    columns = (
        Column("arm", number=False),
        Column("iterations", "committed iterations"),
        Column("answers"),
        Column("missing", "requested answers that no rollout held"),
        Column("repeats", "answers that were stored already and are not scored again"),
        Column("scorings", "distinct answers"),
        Column("tokens"),
        Column("tokens/answer"),
        Column("sampling s", "time of the policy"),
        Column("scoring s", "summed over the scorer's workers"),
        Column("commit s", "of the runs that have ended"),
        Column("wall s", "of the runs that have ended"),
        Column("migrations", "times that candidates were copied from island to island"),
    )
    return Table("cost", "What the searches have cost so far", columns, tuple(rows))


def versions_table(readings: Mapping[str, Sequence[RunReading]]) -> Table | None:
    """One row for each policy version of each arm; None if no run had more than one."""
    if all(len(run.versions) < 2 for runs in readings.values() for run in runs):
        return None
    rows = []
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
                    (
                        arm_name(arm, place),
                        number(run.run.seed, ".0f"),
                        word(version),
                        number(answers, ",.0f"),
                        number(valid / answers if answers else None, ".3f"),
                        number(fitness / answers if answers else None, ".4f"),
                        number(solving / judged if judged else None, ".4f"),
                    )
                )
    columns = (
        Column("arm", number=False),
        Column("seed"),
        Column("policy version", number=False),
        Column("answers"),
        Column("valid", "share of its answers"),
        Column("mean fitness", "a failed answer counts 0"),
        Column("solving", "share of its answers that reach their problem's target"),
    )
    return Table("versions", "Policy versions", columns, tuple(rows))


def errors_table(readings: Mapping[str, Sequence[RunReading]]) -> Table | None:
    """Errors of answers and rollouts by kind, the most frequent of each arm; None for none."""
    rows = []
    for place, (arm, runs) in enumerate(readings.items()):
        failed = sum_totals(run.totals for run in runs).errors
        for kind in OF_ROLLOUTS:  # the misread ones among these are told apart by their kinds
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
        tuple((word(key), TableCell(_said(first[key]))) for key in keys if key not in differing),
    )
    if len(flat) < 2:
        return None, shared
    apart = Table(
        "settings",
        "What the arms differ in",
        (Column("setting", number=False), *(Column(name, number=False) for name in flat)),
        tuple((word(key), *(TableCell(_said(config.get(key))) for config in flat.values())) for key in differing),
    )
    return apart, shared


def runs_table(comparison: Comparison) -> Table:
    rows = tuple(
        (
            word(run.name),
            word(run.arm or NONE),
            number(run.seed, ".0f"),
            word(run.status),
            word(run.reason),
            word(run.commit),
        )
        for run in comparison.runs
    )
    columns = (
        Column("run", number=False),
        Column("arm", number=False),
        Column("seed"),
        Column("status", number=False),
        Column("reason", number=False),
        Column("commit", number=False),
    )
    return Table("runs", "Runs", columns, rows)


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


def _said(value: Any) -> str:
    if isinstance(value, list):
        text = ", ".join(str(item) for item in value[:LISTED])
        return f"{text}, … ({len(value)} in all)" if len(value) > LISTED else text
    return "default" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def machines_table(comparison: Comparison) -> Table:
    """Where and when the runs were searched, as they themselves kept it: one row for each machine and software."""
    by_machine: dict[str, tuple[Mapping[str, Any], list[RunRecord]]] = {}
    for run in comparison.runs:
        for machine in run.summary.get("machines") or [{"commit": run.commit}]:
            by_machine.setdefault(json.dumps(machine, sort_keys=True), (machine, []))[1].append(run)
    rows = []
    for machine, runs in by_machine.values():
        hardware = [str(machine[key]) for key in ("cpu",) if machine.get(key)]
        hardware += [f"{machine['cores']} cores"] if machine.get("cores") else []
        hardware += [f"{machine['memory_gib']:g} GiB"] if machine.get("memory_gib") else []
        versions = machine.get("versions") or {}
        rows.append(
            (
                number(len(runs), ".0f"),
                word(f"{_date(min(run.created for run in runs))} to {_date(max(run.updated for run in runs))}"),
                word(", ".join(hardware) or UNRECORDED),
                word(", ".join(machine.get("gpus") or ()) or ("none" if hardware else UNRECORDED)),
                word(str(machine.get("system") or UNRECORDED)),
                word(", ".join(f"{name} {version}" for name, version in versions.items()) or UNRECORDED),
                word(str(machine.get("commit") or UNRECORDED)),
            )
        )
    columns = (
        Column("runs"),
        Column("dates (UTC)", "when the first run began, and the last was written to", number=False),
        Column("machine", "processor, cores available to the search, memory", number=False),
        Column("GPU", "used by the process; a policy on a server has another", number=False),
        Column("system", number=False),
        Column("versions", "of evo, Python and the libraries that a policy ran on", number=False),
        Column("commit", "of the source; + if it had changes", number=False),
    )
    return Table("machines", "Where and when the runs were searched", columns, tuple(rows))


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
