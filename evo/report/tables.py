"""The tables of the page, as plain values: cells with their texts and sort keys."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from evo.comparison.arms import Comparison
from evo.comparison.operators import BELOW, BINS, OperatorCounts, intervals, labels, refinement_differences, short_label
from evo.comparison.results import TIE_TOLERANCE, Standings, standings
from evo.comparison.summary import METRICS, Summary
from evo.progress.model import Progress
from evo.progress.snapshot import Snapshot, error_name
from evo.stats import Difference
from islands.browse import CandidateSummary
from islands.training import versions_used
from islands.types import QUARTERS, RunRecord
from vpo.metrics import Interval

NONE, SOLVED = "–", "✓"
KINDS_SHOWN, LISTED, HEAD_CHARS = 12, 6, 160
UNRECORDED = "not recorded"
RATES = (*(f"refined {name}" for name in (BELOW, *BINS.values())), "kept", "copies", "repeats", "alone")


@dataclass(frozen=True)
class TableCell:
    """sort: a number, or the text in lower case; None comes last in both orders. mark: a class of the style sheet;
    note: small type below the text; link: an address; arm: the place of the arm that it names."""

    text: str
    sort: float | str | None = None
    mark: str = ""
    note: str = ""
    link: str = ""
    arm: int | None = None


@dataclass(frozen=True)
class Column:
    title: str
    hint: str = ""
    number: bool = True
    arm: int | None = None


@dataclass(frozen=True)
class Table:
    """name: its id on the page. filterable: it has a field that filters rows by their text.

    flags: filters for rows, (flag, label, number of rows); flagged: the flags of each row
    totals: a last row that is not sorted; below: a text under the table
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    filterable: bool = False
    flags: tuple[tuple[str, str, int], ...] = ()
    flagged: tuple[frozenset[str], ...] = ()
    totals: tuple[TableCell, ...] = ()
    below: str = ""


TitledCell = tuple[Column, TableCell]


def titled_table(name: str, caption: str, rows: Sequence[Sequence[TitledCell]]) -> Table:
    """A table of one row or more, which all have the same columns, without the columns that hold no value."""
    kept = [at for at in range(len(rows[0])) if any(row[at][1].text != NONE for row in rows)]
    cells = tuple(tuple(row[at][1] for at in kept) for row in rows)
    return Table(name, caption, tuple(rows[0][at][0] for at in kept), cells)


def word(text: str, mark: str = "") -> TableCell:
    return TableCell(text, text.lower(), mark)


def arm_name(name: str, place: int) -> TitledCell:
    return Column("arm", number=False), TableCell(name, name.lower(), "arm", arm=place)


def number(value: float | None, form: str = ".3f", mark: str = "") -> TableCell:
    if value is None or not math.isfinite(value):
        return TableCell(NONE)
    shown = int(value) if form.endswith("d") else value + 0.0  # never -0
    return TableCell(format(shown, form), round(float(value), 9), mark)


def interval(value: Interval | None, form: str = ".3f") -> TableCell:
    if value is None:
        return TableCell(NONE)
    return TableCell(f"{value.mean:{form}}", round(value.mean, 9), note=value.ends(form).strip())


def arms_table(progress: Progress, snapshot: Snapshot, summary: Summary) -> Table:
    """One row for each arm: its metrics at the common horizon, and how far it is."""
    rows: list[list[TitledCell]] = []
    several = len(snapshot.arms) > 1
    for place, arm in enumerate(snapshot.arms):
        one, cost = summary.arms[arm.name], progress.costs[arm.name]
        statuses = ", ".join(f"{count} {status}" if arm.seeds > 1 else status for status, count in arm.statuses.items())
        done = TableCell(f"{arm.groups:,}", arm.groups, note="" if arm.groups == arm.planned else f"of {arm.planned:,}")
        rows.append(
            [
                arm_name(arm.name, place),
                (Column("runs", number=False), word(statuses)),
                (Column("solve rate", "share of searches solved by the horizon, with its 95% interval"),
                 interval(one.solved, ".2f")),
                (Column("area", "mean solve rate over all iterations up to the horizon"), interval(one.area, ".2f")),
                (Column("median time", "iteration by which half of the searches were solved"), number(one.median, "d")
                 if one.median is not None else TableCell(NONE)),
                (Column("mean best", "best fitness at the horizon; a search without a valid answer counts 0"),
                 interval(one.best)),
                (Column("archive L1", "mean L1 distance of two elites' reward vectors"),
                 interval(cost.archive_diversity, ".2f")),
                (Column("iterations", "committed, of all searches"), done),
                (Column("answers/s"), number(arm.telemetry.answers_per_second, ".3g")),
                *([(Column("only", "problems that only this arm solved, under any seed"), number(len(one.only), "d"))]
                  * several),
                (Column("policy", number=False), word(arm.policy)),
            ]
        )  # fmt: skip
    at = summary.horizon or summary.best_horizon
    return titled_table("arms", f"After {at} of {summary.iterations} iterations, with 95% intervals", rows)


def differences_table(summary: Summary) -> Table | None:
    """One row for each arm and metric against the reference; None for none."""
    rows = [
        (arm, METRICS[metric].title, gap) for arm, metrics in summary.against.items() for metric, gap in metrics.items()
    ]
    caption = f"Differences against {summary.reference}"
    return _difference_table("differences", caption, str(summary.reference), Column("metric", number=False), rows)


def refinement_table(progress: Progress) -> Table | None:
    """One row for each arm and bin of parents; None for none."""
    comparison = progress.comparison
    gaps = refinement_differences(progress.operators, comparison.reference, crossed_seeds=comparison.crossed_seeds)
    rows = [
        (arm, "all below the target" if rate == f"refined {BELOW}" else rate.removeprefix("refined "), gap)
        for arm, rates in gaps.items()
        for rate, gap in rates.items()
    ]
    parents = Column("parents", "by their share of the target", number=False)
    caption = f"Refinement against {comparison.reference}"
    return _difference_table("refinement", caption, str(comparison.reference), parents, rows)


def _difference_table(
    name: str, caption: str, reference: str, second: Column, rows: Sequence[tuple[str, str, Difference]]
) -> Table | None:
    """rows: (arm, text of the second column, arm - reference)"""
    columns = (
        Column("pair", number=False),
        second,
        Column("difference", "mean over problems, paired, with its 95% interval, simultaneous over the arms"),
        Column("p", "two-sided, corrected for the number of arms (Bonferroni)"),
        Column("problems", "pairs"),
        Column("result", number=False),
    )
    cells = []
    for arm, what, gap in rows:
        mark = "shown" if gap.shown else ""
        text = f"{gap.interval.mean:+.3f}{gap.interval.ends('+.3f')}"
        result = word("shown", "shown") if gap.shown else word("no difference shown", "faint")
        size = TableCell(text, round(gap.interval.mean, 9), mark)
        cells.append(
            (
                word(f"{arm} − {reference}", "arm"),
                word(what),
                size,
                number(gap.p, ".2g"),
                number(gap.pairs, "d"),
                result,
            )
        )
    return Table(name, caption, columns, tuple(cells)) if cells else None


def operators_table(operators: Mapping[str, Sequence[OperatorCounts]], *, crossed_seeds: bool) -> Table | None:
    """One row for each operator; None if no answer was counted. operators: by arm, in the comparison's order"""
    columns = (
        Column("better", "share of answers that are better than the parent shown, of parents below the target"),
        *(Column(f"at {BINS[quarter]}", "of parents at this share of the target") for quarter in range(QUARTERS)),
        Column("at the target", "of parents that solve the problem"),
        Column("kept", "share of the parent: a route's beginning and end, the lines of code and text"),
        Column("copies", "answers equal to anything that their prompt showed"),
        Column("repeats", "answers that the search had before"),
        Column("alone", "answers whose prompt showed no parent"),
    )
    rows: list[list[TitledCell]] = []
    for place, (arm, counted) in enumerate(operators.items()):
        for name, operator in zip(labels(arm, counted), counted, strict=True):
            known = intervals(operator, crossed_seeds=crossed_seeds)
            answers = Column("answers"), number(float(operator.of["answers"].sum()), ",.0f")
            label = Column("operator", number=False), arm_name(short_label(name), place)[1]
            rates = [(column, interval(known.get(rate))) for column, rate in zip(columns, RATES, strict=True)]
            rows.append([label, answers, *rates])
    caption = "Answers against the parent that their prompt showed, with 95% intervals over problems"
    return titled_table("operators", caption, rows) if rows else None


def cost_table(progress: Progress) -> Table:
    rows: list[list[TitledCell]] = []
    for place, (arm, cost) in enumerate(progress.costs.items()):
        totals = cost.totals
        each = totals.tokens / totals.answers if totals.answers else None
        rows.append(
            [
                arm_name(arm, place),
                (Column("iterations", "committed iterations"), number(totals.groups, ",.0f")),
                (Column("answers"), number(totals.answers, ",.0f")),
                (Column("missing", "requested answers that no rollout held"), number(totals.missing, ",.0f")),
                (Column("repeats", "answers that were stored already and are not scored again"),
                 number(totals.repeats, ",.0f")),
                (Column("tokens", "generated"), number(totals.tokens, ",.0f")),
                (Column("tokens/answer"), number(each, ",.1f")),
                (Column("cost", "of all tokens, by the policy's price"), number(totals.cost or None, ",.4g")),
                (Column("sampling s", "time of the policy"), number(totals.sampling_seconds, ",.2f")),
                (Column("scoring s", "summed over the scorer's workers"), number(totals.scoring_seconds, ",.2f")),
                (Column("wall s", "of the searches"), number(cost.seconds or None, ",.1f")),
                (Column("migrations", "times that candidates were copied from island to island"),
                 number(totals.migrations, ",.0f")),
            ]
        )  # fmt: skip
    return titled_table("cost", "What the searches have cost so far", rows)


def errors_table(progress: Progress) -> Table | None:
    """Errors of answers and replies by kind, the most frequent of each arm; None for none."""
    rows: list[list[TitledCell]] = []
    for place, (arm, cost) in enumerate(progress.costs.items()):
        for kind, count in cost.totals.errors.most_common(KINDS_SHOWN):
            rows.append(
                [
                    arm_name(arm, place),
                    (Column("kind", number=False), word(error_name(kind))),
                    (Column("times"), number(count, ",d")),
                ]
            )
    return titled_table("errors", "Errors by kind (of answers, the distinct ones)", rows) if rows else None


def versions_table(progress: Progress) -> Table | None:
    """One row for each policy version of each run; None if no run had more than one."""
    rows: list[list[TitledCell]] = []
    for place, arm in enumerate(progress.comparison.arms):
        for run in arm.runs:
            used = versions_used(progress.store, run.id)
            for version in used if len(used) > 1 else ():
                rows.append(
                    [
                        arm_name(arm.name, place),
                        (Column("seed"), number(run.seed, "d")),
                        (Column("policy version", number=False), word(version.version)),
                        (Column("iterations"), number(version.groups, ",d")),
                        (Column("mean fitness", "of its answers"), number(version.fitness, ".4f")),
                    ]
                )
    return titled_table("versions", "Policy versions", rows) if rows else None


RULE = (
    "An arm has won a problem that it solved under more seeds than {reference}; if both solved it under every seed, "
    "one that it solved sooner; else one with a best fitness that is higher by 0.0005 or more."
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
        cells = [TableCell(problem.name, problem.name.lower(), "name", link=link(row))]
        cells += [word(sets[row])] * several + [number(problem.target, ".4g")] * with_targets
        cells += [_outcome(standing, place, row, seeds) for place in range(len(names))]
        cells += [_against(standing, place, row) for place in others]
        rows.append(tuple(cells))
    columns = [Column("problem", "a link to its statement and best answers", number=False)]
    columns += [Column("set", number=False)] * several
    columns += [Column("target", "the fitness that solves it")] * with_targets
    hint = f"{SOLVED} 12: solved at iteration 12, the median over seeds; else the best fitness so far, mean over seeds"
    columns += [Column(name, hint, arm=place) for place, name in enumerate(names)]
    columns += [Column(f"{names[place]} against {reference}", "won, lost or level", arm=place) for place in others]
    picks: list[tuple[str, str, np.ndarray]] = []
    if with_targets:
        picks.append(("unsolved", "not solved under every seed by any arm", standing.unsolved))
    if len(names) > 1:
        picks.append(("differing", "solved by some arms and not by others", standing.differing))
    for place in others:
        picks.append((f"won-{place}", f"won by {names[place]}", standing.sign[place] > 0))
        picks.append((f"lost-{place}", f"lost by {names[place]}", standing.sign[place] < 0))
    return Table(
        "problems", "Every problem", tuple(columns), tuple(rows), len(rows) > 1,
        tuple((flag, text, int(mask.sum())) for flag, text, mask in picks),
        tuple(frozenset(flag for flag, _, mask in picks if mask[row]) for row in range(len(rows))),
        _totals(standing, len(names), others, several + with_targets, with_targets),
        RULE.format(reference=reference) if others else "",
    )  # fmt: skip


def _outcome(standing: Standings, arm: int, row: int, seeds: int) -> TableCell:
    """The iteration of the solution, or the best fitness. Sort keys: seeds that solved it, iteration, fitness."""
    share, best = float(standing.solved[arm, row]), float(standing.best[arm, row])
    if share > 0:
        took = float(standing.took[arm, row])
        note = "" if share == 1.0 else f"{round(share * seeds)} of {seeds} seeds"
        return TableCell(f"{SOLVED} {took:.0f}", round((1 - share) * 1e6 + took, 6), "solved", note)
    return TableCell(f"{best:.4g}", round(2e6 - best, 6)) if math.isfinite(best) else TableCell(NONE)


def _against(standing: Standings, arm: int, row: int) -> TableCell:
    sign, gap = float(standing.sign[arm, row]), float(standing.gap[arm, row])
    if math.isnan(sign):
        return TableCell(NONE)
    if sign == 0:
        return TableCell("level", 0.0, "faint")
    size = f"{gap:+.4f}" if abs(gap) >= TIE_TOLERANCE else ""
    if standing.timed[arm, row]:
        size = f"{abs(gap):.0f} {'sooner' if gap > 0 else 'later'}"
    result, mark = ("won", "above") if sign > 0 else ("lost", "below")
    return TableCell(result, round(sign * 1e6 + (gap if math.isfinite(gap) else 0.0), 6), mark, size)


def _totals(
    standing: Standings, arms: int, others: list[int], between: int, with_targets: bool
) -> tuple[TableCell, ...]:
    judged = int((~np.isnan(standing.solved)).any(axis=0).sum())
    cells = [TableCell("all")] + [TableCell("")] * between
    for arm in range(arms):
        some = int((np.nan_to_num(standing.solved[arm]) > 0).sum())
        every = int((standing.solved[arm] == 1.0).sum())
        note = f"{every} under every seed" if every < some else ""
        cells.append(TableCell(f"{some} of {judged} solved", note=note) if with_targets else TableCell(""))
    for arm in others:
        won, lost, level = standing.counts(arm)
        cells.append(TableCell(f"{won} won, {lost} lost", note=f"{level} level"))
    return tuple(cells)


def candidates_table(
    comparison: Comparison, names: Mapping[int, str], summaries: Sequence[CandidateSummary], link: Callable[[int], str]
) -> Table | None:
    """One row for each candidate; None for none. names: of problems, by index; link: the address of a candidate"""
    arms = {run.id: (place, arm.name) for place, arm in enumerate(comparison.arms) for run in arm.runs}
    rows: list[list[TitledCell]] = []
    for one in summaries:
        place, arm = arms[one.run]
        text = one.text[:HEAD_CHARS] + "…" * (len(one.text) > HEAD_CHARS)
        at = TableCell("seed", 0) if one.iteration is None else number(one.iteration + 1, "d")
        rows.append(
            [
                (Column("candidate", number=False), TableCell(str(one.id), one.id, link=link(one.id))),
                (Column("fitness"), number(one.fitness, ".4g")),
                (Column("rewards"), TableCell(" · ".join(f"{value:.4g}" for value in one.rewards))),
                (Column("problem", number=False), word(names.get(one.problem, str(one.problem)))),
                *([arm_name(arm, place)] * (len(comparison.arms) > 1)),
                (Column("iteration"), at),
                (Column("answer", number=False),
                 TableCell(text, None, "wide", f"error: {one.error[:200]}" if one.error else "")),
            ]
        )  # fmt: skip
    return titled_table("candidates", "Candidates", rows) if rows else None


def settings_tables(comparison: Comparison) -> tuple[Table | None, Table]:
    """The settings in which arms differ (None for a single arm), and those that they share."""
    flat = {arm.name: flattened(arm.runs[0].config) for arm in comparison.arms}
    keys = [key for key in dict.fromkeys(key for config in flat.values() for key in config) if key != "seed"]
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
    columns = (Column("setting", number=False), *(Column(name, number=False) for name in flat))
    rows = tuple((word(key), *(TableCell(_format(config.get(key))) for config in flat.values())) for key in differing)
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
        text = ", ".join(str(item) for item in value[:LISTED])
        return f"{text}, … ({len(value)} in all)" if len(value) > LISTED else text
    return "default" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def runs_table(comparison: Comparison) -> Table:
    rows = [
        [
            (Column("run", number=False), word(run.name)),
            (Column("arm", number=False), word(run.arm or NONE)),
            (Column("seed"), number(run.seed, "d")),
            (Column("status", number=False), word(run.status)),
            (Column("reason", number=False), word(run.reason or NONE)),
            (Column("commit", number=False), word(run.commit or NONE)),
        ]
        for run in comparison.runs
    ]
    return titled_table("runs", "Runs", rows)


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
        rows.append(
            [
                (Column("runs"), number(len(runs), "d")),
                (Column("dates (UTC)", "when the first run began, and the last was written to", number=False),
                 word(dates)),
                (Column("machine", "processor, cores available to the search, memory", number=False),
                 word(", ".join(hardware) or UNRECORDED)),
                (Column("GPU", "used by the process; a policy on a server has another", number=False), word(gpus)),
                (Column("system", number=False), word(str(machine.get("system") or UNRECORDED))),
                (Column("versions", "of evo, Python and the libraries that a policy ran on", number=False),
                 word(versions or UNRECORDED)),
                (Column("commit", "of the source; + if it had changes", number=False),
                 word(str(machine.get("commit") or UNRECORDED))),
            ]
        )  # fmt: skip
    return titled_table("machines", "Where and when the runs were searched", rows)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
