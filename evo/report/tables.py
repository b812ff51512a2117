"""The tables of the page and of the terminal, as plain values: cells with their texts and sort keys. A row is cells by
their titles, of which a table shows some; the words of the page explain them (evo.glossary)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import numpy as np

from evo.comparison.arms import Comparison
from evo.comparison.operators import RATE_TITLES, OperatorCounts, intervals, refinement_differences, short_label
from evo.comparison.results import Standings, standings
from evo.comparison.summary import METRICS, ArmSummary, Summary, describe_horizon
from evo.glossary import COLUMNS, WORDS
from evo.progress.answer_set import AnswerSet
from evo.progress.model import Progress
from evo.progress.snapshot import Snapshot, error_name
from evo.values import digits_of, mark, write_fitness, write_number
from islands.browse import CandidateSummary
from islands.types import ProblemRecord, RunRecord
from problems.objectives import HasValues, is_lower, own_fitness, own_values
from vpo.metrics import Interval

NONE, SOLVED = "–", "✓"
KINDS_SHOWN, LISTED, HEAD_CHARS, MOST_DIGITS = 12, 6, 160, 8
UNRECORDED = "not recorded"


@dataclass(frozen=True)
class TableCell:
    """sort: a number, or the text in lower case; None comes last in both orders. mark: a class of the style sheet;
    note: small type below the text; link: an address; arm: the place of the arm that it names; number: of a column of
    numbers; tick: the value of a box to tick before the text, "" for none"""

    text: str
    sort: float | str | None = None
    mark: str = ""
    note: str = ""
    link: str = ""
    arm: int | None = None
    number: bool = False
    tick: str = ""


@dataclass(frozen=True)
class Column:
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
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    filterable: bool = False
    below: str = ""


Row = Mapping[str, TableCell]
HINTS: Mapping[str, str] = {
    **{title: meaning for titles, meaning in WORDS.items() for title in titles.split(", ")},
    **{title: "of parents at this share of the target" for title in RATE_TITLES.values() if title.startswith("<")},
    **COLUMNS,
}


def make_table(name: str, caption: str, rows: Sequence[Row], titles: Sequence[str] = ()) -> Table | None:
    """A table of rows that all have the same titles, without the columns that hold no value; None without a row.
    titles: those to show, by default all"""
    if not rows:
        return None
    kept = [title for title in titles or rows[0] if any(row[title].text != NONE for row in rows)]
    columns = [Column(title, HINTS.get(title, ""), any(row[title].number for row in rows)) for title in kept]
    return Table(name, caption, tuple(columns), tuple(tuple(row[title] for title in kept) for row in rows))


def run_path(name: str, *parts: object) -> str:
    """The address of a page of a run on the server of `evo ui`."""
    return "/".join(quote(str(part), safe="") for part in ("", "run", name, *parts))


def word(text: str, mark: str = "") -> TableCell:
    return TableCell(text, text.lower(), mark)


def arm_name(name: str, place: int) -> TableCell:
    return TableCell(name, name.lower(), "arm", arm=place)


def number(value: float | None, form: str = ".3f", mark: str = "") -> TableCell:
    if value is None or not math.isfinite(value):
        return TableCell(NONE, number=True)
    shown = int(value) if form.endswith("d") else value + 0.0  # never -0
    return TableCell(format(shown, form), round(float(value), 9), mark, number=True)


def interval(value: Interval | None, form: str = ".3f") -> TableCell:
    if value is None:
        return TableCell(NONE, number=True)
    return TableCell(f"{value.mean:{form}}", round(value.mean, 9), note=value.ends(form).strip(), number=True)


MEASURED = ("solve rate", "area", "median time", "set value", "mean best", "archive L1")
ARMS = ("arm", "runs", *MEASURED, "iterations", "answers/s", "only", "policy")
COSTS = (
    *("arm", "iterations", "answers", "missing", "repeats", "tokens", "tokens/answer", "cost"),
    *("sampling s", "scoring s", "wall s", "migrations"),
)
STANDING = ("arm", *MEASURED, "answers", "tokens", "cost", "wall s")
"""Of a terminal: how good the arms are, and at what cost."""


def arms_table(progress: Progress, snapshot: Snapshot, titles: Sequence[str] = ARMS) -> Table | None:
    """One row for each arm: its metrics at the common horizon, and how far it is."""
    found = progress.summary
    at = "" if found is None else f" {describe_horizon(found, progress.comparison.ended_by_budget)}"
    return make_table("arms", f"Metrics{at}, with 95% intervals", _arm_rows(progress, snapshot), titles)


def cost_table(progress: Progress, snapshot: Snapshot) -> Table | None:
    return make_table("cost", "What the searches have cost so far", _arm_rows(progress, snapshot), COSTS)


def _arm_rows(progress: Progress, snapshot: Snapshot) -> list[Row]:
    """All that tables tell of an arm; nothing is measured before a search has begun."""
    rows, summary = list[Row](), progress.summary
    for place, arm in enumerate(snapshot.arms):
        one, diversity = ArmSummary(), None
        if summary is not None:
            one, diversity = summary.arms[arm.name], progress.diversity[arm.name]
        totals, planned = arm.totals, "" if arm.groups == arm.planned else f"of {arm.planned:,}"
        statuses = ", ".join(f"{count} {status}" if arm.seeds > 1 else status for status, count in arm.statuses.items())
        row = {
            "arm": arm_name(arm.name, place) if len(snapshot.arms) > 1 else TableCell(NONE),
            "runs": word(statuses),
            "solve rate": interval(one.solved, ".2f"),
            "area": interval(one.area, ".2f"),
            "median time": number(one.median, ",.10g"),
            "set value": interval(one.sets),
            "mean best": interval(one.best),
            "archive L1": interval(diversity, ".2f"),
            "iterations": replace(number(arm.groups, ",d"), note=planned),
            "answers/s": number(arm.rate("answers"), ".3g"),
            "only": number(len(one.only) if len(snapshot.arms) > 1 else None, "d"),
            "policy": word(arm.policy),
            "answers": number(totals.answers, ",d"),
            "missing": number(totals.missing, ",d"),
            "repeats": number(totals.repeats, ",d"),
            "tokens": number(totals.tokens, ",d"),
            "tokens/answer": number(totals.tokens / totals.answers if totals.answers else None, ",.1f"),
            "cost": number(totals.cost or None, ",.4g"),
            "sampling s": number(totals.sampling_seconds, ",.2f"),
            "scoring s": number(totals.scoring_seconds, ",.2f"),
            "wall s": number(arm.seconds or None, ",.1f"),
            "migrations": number(totals.migrations, ",d"),
        }
        rows.append(row)
    return rows


def differences_table(progress: Progress, summary: Summary) -> Table | None:
    """One row for each arm and metric against the reference, refinement rates too; None for none."""
    crossed = progress.comparison.crossed_seeds
    refined = refinement_differences(progress.operators, summary.reference, crossed_seeds=crossed)
    rows = list[Row]()
    for arm, metrics in summary.against.items():
        named = [(METRICS[metric].title, gap) for metric, gap in metrics.items()]
        named += [(rate.replace("refined", "refined, parents"), gap) for rate, gap in refined.get(arm, {}).items()]
        for what, gap in named:
            size = f"{gap.interval.mean:+.3f}{gap.interval.ends('+.3f')}"
            row = {
                "pair": word(f"{arm} − {summary.reference}", "arm"),
                "metric": word(what),
                "difference": TableCell(size, round(gap.interval.mean, 9), "shown" * gap.shown, number=True),
                "p": number(gap.p, ".2g"),
                "problems": number(gap.pairs, "d"),
                "result": word("shown", "shown") if gap.shown else word("no difference shown", "faint"),
            }
            rows.append(row)
    return make_table("differences", f"Differences against {summary.reference}", rows)


def operators_table(
    operators: Mapping[str, Sequence[OperatorCounts]], titles: Sequence[str] = (), *, crossed_seeds: bool
) -> Table | None:
    """One row for each operator; None if no answer was counted. operators: by arm, in the comparison's order"""
    rows = list[Row]()
    for place, counted in enumerate(operators.values()):
        for operator in counted:
            known = intervals(operator, crossed_seeds=crossed_seeds)
            rates = {title: interval(known.get(rate)) for rate, title in RATE_TITLES.items()}
            answers = number(operator.answers, ",d")
            rows.append({"operator": arm_name(short_label(operator.label), place), "answers": answers, **rates})
    caption = "Answers against the parent that their prompt showed"
    return make_table("operators", caption, rows, titles)


def errors_table(snapshot: Snapshot) -> Table | None:
    """Errors of answers and replies by kind, the most frequent of each arm; None for none."""
    rows = [
        {"arm": arm_name(arm.name, place), "kind": word(error_name(kind)), "times": number(count, ",d")}
        for place, arm in enumerate(snapshot.arms)
        for kind, count in arm.totals.errors.most_common(KINDS_SHOWN)
    ]
    return make_table("errors", "Errors by kind (of answers, the distinct ones)", rows)


SOLVED_RULE = f"{SOLVED} 12: solved at iteration 12, the median over seeds."
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
        cells += [word(sets[row])] * several + [_fitness(problem, problem.target)] * with_targets
        cells += [_outcome(problem, standing, place, row, seeds) for place in range(len(names))]
        cells += [_against(standing, place, row) for place in others]
        rows.append(tuple(cells))
    columns = [Column("problem")]
    columns += [Column("set")] * several
    columns += [Column("target", "the fitness that solves it", True)] * with_targets
    columns += [Column(name, "", True, place) for place, name in enumerate(names)]
    columns += [Column(f"{names[place]} against {reference}", "", True, place) for place in others]
    below = [SOLVED_RULE] * with_targets + ["Other numbers are the best fitness so far, mean over seeds."]
    below += [RULE.format(reference=reference)] if others else []
    judged = int((~np.isnan(standing.solved)).any(axis=0).sum())
    for place, name in enumerate(names):
        parts = [f"{int((standing.solved[place] > 0).sum())} of {judged} solved"] if judged else []
        parts += ["{} won, {} lost, {} level".format(*standing.counts(place))] if place in others else []
        below += [f"{name}: {', '.join(parts)}."] if parts else []
    return Table("problems", "Every problem", tuple(columns), tuple(rows), len(rows) > 1, " ".join(below))


def _fitness(problem: ProblemRecord, value: float | None, beside: Sequence[float] = ()) -> TableCell:
    """As the scorer measures it, sorted by its size."""
    own = own_fitness(problem.metrics, value)
    return TableCell(NONE if own is None else write_fitness(problem.metrics, value, beside), own, number=True)


def _outcome(problem: ProblemRecord, standing: Standings, arm: int, row: int, seeds: int) -> TableCell:
    """The iteration of the solution, or the best fitness. Sort keys: seeds that solved it, iteration, fitness."""
    share, best = float(standing.solved[arm, row]), float(standing.best[arm, row])
    if share > 0:
        took = float(standing.took[arm, row])
        note = "" if share == 1.0 else f"{round(share * seeds)} of {seeds} seeds"
        return TableCell(f"{SOLVED} {took:.0f}", round((1 - share) * 1e6 + took, 6), "solved", note)
    if not math.isfinite(best):
        return TableCell(NONE)
    beside = standing.best[:, row].tolist()
    return replace(_fitness(problem, best, beside), sort=round(2e6 - best, 6), number=False)


def _against(standing: Standings, arm: int, row: int) -> TableCell:
    sign, gap = float(standing.sign[arm, row]), float(standing.gap[arm, row])
    if math.isnan(sign):
        return TableCell(NONE)
    if sign == 0:
        return TableCell("level", 0.0, "faint")
    size = f"{gap:+.4g}" if gap else ""
    if standing.timed[arm, row]:
        size = f"{abs(gap):.0f} {'sooner' if gap > 0 else 'later'}"
    result, mark = ("won", "above") if sign > 0 else ("lost", "below")
    return TableCell(result, round(sign * 1e6 + (gap if math.isfinite(gap) else 0.0), 6), mark, size)


def candidates_table(
    comparison: Comparison, problems: Mapping[int, ProblemRecord], summaries: Sequence[CandidateSummary],
    link: Callable[[int], str],
) -> Table | None:  # fmt: skip
    """One row for each candidate, with its values as the scorer measured them; None for none. problems: by index; link:
    the address of a candidate"""
    arms = {run.id: arm_name(arm.name, place) for place, arm in enumerate(comparison.arms) for run in arm.runs}
    titles = dict.fromkeys(one.name + mark(one) for problem in problems.values() for one in problem.metrics)
    columns: dict[str, list[float | None]] = {title: [] for title in ("fitness", *titles)}
    for one in summaries:
        metrics = problems[one.problem].metrics
        values = dict(zip((each.name + mark(each) for each in metrics), own_values(metrics, one), strict=True))
        values |= {"fitness": None if is_lower(metrics) else one.fitness}
        for title, column in columns.items():
            column.append(None if one.error is not None else values.get(title))
    rows, forms = list[Row](), {title: f".{min(digits_of(of), MOST_DIGITS)}g" for title, of in columns.items()}
    for place, one in enumerate(summaries):
        text = one.text[:HEAD_CHARS] + "…" * (len(one.text) > HEAD_CHARS)
        seed = TableCell("seed", 0)
        row = {
            "candidate": TableCell(str(one.id), one.id, link=link(one.id)),
            **{title: number(column[place], forms[title]) for title, column in columns.items()},
            "problem": word(problems[one.problem].name) if len(problems) > 1 else TableCell(NONE),
            "arm": arms[one.run] if len(comparison.arms) > 1 else TableCell(NONE),
            "iteration": seed if one.iteration is None else number(one.iteration + 1, "d"),
            "answer": TableCell(text, None, "wide", f"error: {one.error[:200]}" if one.error else ""),
        }
        rows.append(row)
    return make_table("candidates", "Candidates", rows)


def set_table(found: AnswerSet) -> Table | None:
    """One row for each objective: what the scorer measured of each member, of the set and of the best single answer;
    None for a set of one answer."""
    size, alone, tested = len(found.members), found.single, bool(found.held_out)
    if size < 2 or len(found.groups) == 1:
        return None
    scored: list[HasValues] = [*found.members, alone, *found.held_out]
    columns = [Column("objective"), *(Column(str(each.id), each.text[:HEAD_CHARS], True) for each in found.members)]
    columns += [Column("set", "", True), Column(f"single {alone.id}", alone.text[:HEAD_CHARS], True)]
    columns += [Column("held out set", "", True), Column("held out single", "", True)] * tested

    def row(title: str, each: Sequence[float | None], of_set: float | None, held: float | None) -> list[TableCell]:
        """each: of the members, of the single answer, and of these on held-out cases"""
        shown = [*each[:size], of_set, each[size], *([held, each[-1]] * tested)]
        return [word(title), *(TableCell(write_number(value), value, number=True) for value in shown)]

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
    keys = [key for key in dict.fromkeys(key for config in flat.values() for key in config) if key != "seed"]
    differing = [
        key for key in keys if len({json.dumps(config.get(key), sort_keys=True) for config in flat.values()}) > 1
    ]
    first = next(iter(flat.values()))
    shared = Table(
        "shared-settings",
        "Settings of every arm" if len(flat) > 1 else "Settings",
        (Column("setting"), Column("value")),
        tuple((word(key), TableCell(_format(first[key]))) for key in keys if key not in differing),
    )
    if len(flat) < 2:
        return None, shared
    columns = (Column("setting"), *(Column(name) for name in flat))
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


def machines_table(comparison: Comparison) -> Table | None:
    """Place and time of the searches, as the runs recorded them: one row for each machine with its software."""
    by_machine: dict[str, tuple[Mapping[str, Any], list[RunRecord]]] = {}
    for run in comparison.runs:
        for machine in run.summary.get("machines") or [{"commit": run.commit}]:
            by_machine.setdefault(json.dumps(machine, sort_keys=True), (machine, []))[1].append(run)
    rows = list[Row]()
    for machine, runs in by_machine.values():
        hardware = [str(machine[key]) for key in ("cpu",) if machine.get(key)]
        hardware += [f"{machine['cores']} cores"] if machine.get("cores") else []
        hardware += [f"{machine['memory_gib']:g} GiB"] if machine.get("memory_gib") else []
        versions = ", ".join(f"{name} {version}" for name, version in (machine.get("versions") or {}).items())
        gpus = ", ".join(machine.get("gpus") or ()) or ("none" if hardware else UNRECORDED)
        dates = f"{_date(min(run.created for run in runs))} to {_date(max(run.updated for run in runs))}"
        row = {
            "runs": number(len(runs), "d"),
            "dates (UTC)": word(dates),
            "machine": word(", ".join(hardware) or UNRECORDED),
            "GPU": word(gpus),
            "system": word(str(machine.get("system") or UNRECORDED)),
            "versions": word(versions or UNRECORDED),
            "commit": word(str(machine.get("commit") or UNRECORDED)),
        }
        rows.append(row)
    return make_table("machines", "Where and when the runs were searched", rows)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
