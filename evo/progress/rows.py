"""The tables of runs, arms, problems, differences and answers as rows of cells, made once from the read model. The
terminal, the screen, the page, `evo ui` and JSON paint these cells: what a number is, how it is written, its direction
and its interval are decided here, so that two views cannot disagree. A row is cells by their titles; the words of the
page explain these (evo.glossary)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evo.comparison.results import Standings
from evo.comparison.summary import ArmSummary, Curve, Summary
from evo.evaluation.preferences import is_share
from evo.glossary import COLUMN_HINTS, WORDS
from evo.progress.model import Progress
from evo.progress.snapshot import ArmSnapshot, Snapshot, error_name
from evo.search.resources import planned_iterations
from evo.search.status import format_time
from evo.stats.differences import Difference, write_difference
from evo.stats.intervals import Interval
from evo.values import ago, digits_of, scored_value, write_number, write_signed, write_value, write_values
from islands.runs import RunOverview, SearchOverview
from islands.types import Candidate, ProblemRecord, Totals
from problems.objectives import REWARD, Measure, Objective, Value, fitness_objective, own_values, value_of

NONE = "-"
_STATES = ("running", "waiting", "done", "interrupted", "failed")
WEIGHTINGS, WORTH = "weightings solved", "E_w[best]"
PREFERENCE_TITLES = {"weightings": WEIGHTINGS, "worth": WORTH}
"""Of the metrics of searches that are judged under many weightings (evo.comparison.summary.PREFERENCES)."""
_MOMENTS = 5
"""Of a curve in a table, at most."""
_KINDS_SHOWN = 12
"""Of errors, for each arm."""


@dataclass(frozen=True)
class TableCell:
    """A number or a text of a row.

    text: as every view writes it, NONE for none; note: a remark in small type
    value: what is written, for JSON and for sorting; None: not known
    measure: what a value is of, None for counts, times and rates
    low, high: of a 95% interval
    sort: the key of the order, where that is not the value; mark: how it stands, as won, lost, level, solved, shown
    is_interval: whether the value is a mean that may have ends
    number: of a column of numbers; arm: the arm's place in the comparison; link: within a page
    """

    text: str
    value: float | str | None = None
    measure: Measure | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    sort: float | str | None = None
    mark: str = ""
    is_interval: bool = False
    number: bool = False
    arm: int | None = None
    link: str = ""

    def as_json(self) -> Any:
        """The value; of an interval `mean`, `low` and `high`."""
        if not self.is_interval or self.value is None:
            return self.value
        return {"mean": self.value, "low": self.low, "high": self.high}


TableRow = Mapping[str, TableCell]


@dataclass(frozen=True)
class TableColumn:
    """arm: whose marks its title has; kind: of a column that a viewer sorts by or names in another way"""

    title: str
    hint: str = ""
    number: bool = False
    arm: int | None = None
    kind: str = ""


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
_MEAN_BEST = "mean best"
"""In the glossary, the column of mean best values, whose title names what is measured."""


def make_table(name: str, caption: str, rows: Sequence[TableRow]) -> Table | None:
    """A table of rows that all have the same titles, without the columns that hold no value; None without a row."""
    if not rows:
        return None
    kept = [title for title in rows[0] if any(row[title].text != NONE for row in rows)]
    hints = {title: HINTS.get(title, HINTS[_MEAN_BEST] if rows[0][title].measure else "") for title in kept}
    columns = [TableColumn(title, hints[title], any(row[title].number for row in rows)) for title in kept]
    return Table(name, caption, tuple(columns), tuple(tuple(row[title] for title in kept) for row in rows))


def word_cell(text: str, mark: str = "") -> TableCell:
    return TableCell(text, text, sort=text.lower(), mark=mark)


def arm_name(name: str, place: int) -> TableCell:
    return replace(word_cell(name, "arm"), arm=place)


def number_cell(value: float | None, form: str = ".3f") -> TableCell:
    """A count, a time or a rate."""
    if value is None or not math.isfinite(value):
        return TableCell(NONE, number=True)
    plain = int(value) if form.endswith("d") else value + 0.0  # never -0
    return TableCell(format(plain, form), float(value), sort=round(float(value), 9), number=True)


def interval_cell(value: Interval | None, form: str = ".3f") -> TableCell:
    """A rate or a share with its interval."""
    if value is None:
        return TableCell(NONE, number=True)
    return TableCell(f"{value.mean:{form}}", value.mean, **_ends(value), note=value.ends(form).strip(), number=True)


def _ends(value: Interval) -> dict[str, Any]:
    return {"is_interval": True, **({"low": value.low, "high": value.high} if value.known else {})}


def value_cell(value: Value, beside: Iterable[Value] = (), *, arrow: bool = False) -> TableCell:
    """A value of a scorer. beside: the values that it is read with; arrow: whether the text tells that lower is better,
    where no title does"""
    text = write_value(value, beside, arrow=arrow)
    return TableCell(NONE if value.number is None else text, value.number, value.measure, number=True)


def mean_cell(value: Interval | None, measure: Measure, beside: Iterable[Interval | None] = ()) -> TableCell:
    """A mean of values with its interval, whose ends have as many decimals."""
    if value is None:
        return TableCell(NONE, measure=measure, number=True)
    text = write_number(value.mean, [one.mean for one in beside if one is not None])
    decimals = len(text.partition(".")[2]) if "e" not in text else None
    note = value.ends(f".{digits_of([value.mean])}g" if decimals is None else f".{decimals}f").strip()
    return TableCell(text, value.mean, measure, **_ends(value), note=note, number=True)


def change_of(value: Value, before: Value) -> TableCell:
    """A value minus an earlier or another one, marked as better or worse."""
    if value.number is None or before.number is None:
        return TableCell(NONE, number=True)
    change = value.number - before.number
    text = write_signed(change, (value.number, before.number))
    mark = "faint" if text == "0" else "above" if (change < 0) == value.measure.lower else "below"
    return TableCell(text, change, value.measure, mark=mark, number=True)


def worth_cell(value: Interval | None, summary: Summary | None, beside: Iterable[Interval | None] = ()) -> TableCell:
    """An E_w[best]: a share, or a mean of rewards."""
    shares = summary is None or is_share(summary.worth_unit)
    return interval_cell(value) if shares else mean_cell(value, REWARD, beside)


# Arms


def best_title(snapshot: Snapshot) -> str:
    """Of the column of mean best values: `mean best`, `best delay ↓` of a value to be lowered, `mean reward` where
    problems measure different things."""
    measure = snapshot.measure
    return "mean reward" if measure == REWARD else f"best {measure.title}" if measure.lower else "mean best"


def curve_title(snapshot: Snapshot) -> str:
    """Of the curve of mean best values."""
    title = best_title(snapshot)
    return "mean best fitness" if title == "mean best" else title


def solved_cell(arm: ArmSnapshot) -> TableCell:
    """12/24 searches; "-" before the first, and without a target."""
    if arm.solved is None or not arm.solved[1]:
        return TableCell(NONE, number=True)
    return TableCell(f"{arm.solved[0]}/{arm.solved[1]}", arm.solved[0], number=True)


def mean_best(snapshot: Snapshot, arm: ArmSnapshot) -> TableCell:
    """An arm's mean best value so far, beside those of the others."""
    return value_cell(arm.mean_best, [one.mean_best for one in snapshot.arms])


class ArmStanding(NamedTuple):
    """What the columns of an arm are made of. place: in the comparison; diversity: of its archives, if it was read"""

    snapshot: Snapshot
    place: int
    diversity: Interval | None

    @property
    def arm(self) -> ArmSnapshot:
        return self.snapshot.arms[self.place]

    @property
    def totals(self) -> Totals:
        return self.arm.totals

    @property
    def measured(self) -> ArmSummary:
        """At the horizon; empty before a search has begun."""
        summary = self.snapshot.summary
        return ArmSummary() if summary is None else summary.arms[self.arm.name]

    @property
    def everyone(self) -> list[ArmSummary]:
        """All arms, with which it is read."""
        return [] if self.snapshot.summary is None else list(self.snapshot.summary.arms.values())


class ArmColumn(NamedTuple):
    """A column of the arms, in every view that has them: a line of ARM_COLUMNS.

    views: of `screen`, `terminal`, `page`, and `cost`, the page's table of costs; trackers have all of numbers
    key: in the JSON of a comparison and in its frame of arms; "": not there
    weight: on the screen, whose lightest columns are left out first if there is no room
    """

    title: str | Callable[[Snapshot], str]
    cell: Callable[[ArmStanding], TableCell]
    views: str
    key: str = ""
    weight: int = 0


def _statuses(of: ArmStanding) -> TableCell:
    statuses, several = of.arm.statuses, of.arm.seeds > 1
    return word_cell(", ".join(f"{count} {status}" if several else status for status, count in statuses.items()))


def _iterations(of: ArmStanding) -> TableCell:
    done, planned = of.arm.groups, of.arm.planned
    return replace(number_cell(done, ",d"), note="" if done == planned else f"of {planned:,}")


def _rate(value: float | None) -> TableCell:
    return number_cell(value, ",.0f" if value is not None and value >= 100 else ".3g")


def _errors(of: ArmStanding) -> TableCell:
    return number_cell(of.totals.errors.total() if of.totals.errors or of.totals.answers else None, ",d")


def _worth(of: ArmStanding) -> TableCell:
    return worth_cell(of.measured.worth, of.snapshot.summary, [arm.worth for arm in of.everyone])


def _best(of: ArmStanding) -> TableCell:
    return mean_cell(of.measured.best, of.snapshot.measure, [arm.best for arm in of.everyone])


def _tokens_per_answer(of: ArmStanding) -> TableCell:
    return number_cell(of.totals.tokens / of.totals.answers if of.totals.answers else None, ",.1f")


def _several(of: ArmStanding, cell: TableCell) -> TableCell:
    return cell if len(of.snapshot.arms) > 1 else TableCell(NONE)


ARM_COLUMNS = (
    ArmColumn("arm", lambda of: _several(of, arm_name(of.arm.name, of.place)), "terminal page cost"),
    ArmColumn("runs", _statuses, "page"),
    ArmColumn("solved", lambda of: solved_cell(of.arm), "screen", weight=9),
    ArmColumn(WEIGHTINGS, lambda of: interval_cell(of.measured.weightings), "terminal page", "weightings_solved"),
    ArmColumn(WORTH, _worth, "terminal page", "worth"),
    ArmColumn("solve rate", lambda of: interval_cell(of.measured.solved, ".2f"), "screen terminal page", "solved", 8),
    ArmColumn("area", lambda of: interval_cell(of.measured.area, ".2f"), "terminal page", "area"),
    ArmColumn("median time", lambda of: number_cell(of.measured.median, ",.10g"), "terminal page", "half_solved_at"),
    ArmColumn("set value", lambda of: interval_cell(of.measured.sets), "terminal page", "set_value"),
    ArmColumn(best_title, lambda of: mean_best(of.snapshot, of.arm), "screen", weight=7),
    ArmColumn(best_title, _best, "terminal page", "best"),
    ArmColumn("archive L1", lambda of: interval_cell(of.diversity, ".2f"), "terminal page", "archive_diversity"),
    ArmColumn("iterations", _iterations, "screen page cost", weight=2),
    ArmColumn("answers/s", lambda of: _rate(of.arm.rate("answers")), "screen page", weight=6),
    ArmColumn("tokens/s", lambda of: _rate(of.arm.rate("tokens")), "screen", weight=5),
    ArmColumn("busy", lambda of: number_cell(of.arm.policy_busy, ".0%"), "screen", weight=5),
    ArmColumn("queue", lambda of: number_cell(of.arm.waiting("scoring_queue"), ",d"), "screen", weight=4),
    ArmColumn("errors", _errors, "screen", weight=4),
    ArmColumn("only", lambda of: _several(of, number_cell(len(of.measured.only), "d")), "page"),
    ArmColumn("policy", lambda of: word_cell(of.arm.policy), "page", "policy"),
    ArmColumn("answers", lambda of: number_cell(of.totals.answers, ",d"), "screen terminal cost", weight=1),
    ArmColumn("missing", lambda of: number_cell(of.totals.missing, ",d"), "cost"),
    ArmColumn("repeats", lambda of: number_cell(of.totals.repeats, ",d"), "cost"),
    ArmColumn("tokens", lambda of: number_cell(of.totals.tokens, ",d"), "screen terminal cost", weight=1),
    ArmColumn("tokens/answer", _tokens_per_answer, "cost"),
    ArmColumn("cost", lambda of: number_cell(of.totals.cost or None, ",.4g"), "terminal cost"),
    ArmColumn("sampling s", lambda of: number_cell(of.totals.sampling_seconds, ",.2f"), "cost"),
    ArmColumn("scoring s", lambda of: number_cell(of.totals.scoring_seconds, ",.2f"), "cost"),
    ArmColumn("wall s", lambda of: number_cell(of.arm.seconds or None, ",.1f"), "terminal cost", "seconds"),
    ArmColumn("migrations", lambda of: number_cell(of.totals.migrations, ",d"), "cost"),
)
"""In the order in which every view has them."""


def arm_rows(
    snapshot: Snapshot, view: str = "", diversity: Mapping[str, Interval | None] | None = None
) -> list[TableRow]:
    """The arms' columns of a view, by title; those of all views by default."""
    columns = [column for column in ARM_COLUMNS if not view or view in column.views.split()]
    titles = [column.title if isinstance(column.title, str) else column.title(snapshot) for column in columns]
    standing = [
        ArmStanding(snapshot, place, (diversity or {}).get(arm.name)) for place, arm in enumerate(snapshot.arms)
    ]
    return [{title: column.cell(of) for title, column in zip(titles, columns, strict=True)} for of in standing]


def arm_weights() -> list[int]:
    """Of the columns of the screen, in their order."""
    return [column.weight for column in ARM_COLUMNS if "screen" in column.views.split()]


def arm_dicts(snapshot: Snapshot, diversity: Mapping[str, Interval | None]) -> list[dict[str, Any]]:
    """The same for JSON, by key."""
    columns = [column for column in ARM_COLUMNS if column.key]
    standing = [ArmStanding(snapshot, place, diversity.get(arm.name)) for place, arm in enumerate(snapshot.arms)]
    return [{column.key: column.cell(of).as_json() for column in columns} for of in standing]


def preference_rows(curves: Mapping[str, Mapping[str, Curve]], arms: Sequence[str]) -> list[TableRow]:
    """The curves of searches that are judged under many weightings, a row for each metric and arm, at the last moments
    of 1, 3, 10, 30, ... and the end. curves: metric -> arm -> curve"""
    known = [curve for of in curves.values() for curve in of.values()]
    ends = [int(np.isfinite(curve.mean).sum()) for curve in known]
    if not known or not min(ends):
        return []
    at = known[0].at[: min(ends)]
    steps = [digit * 10.0**power for power in range(12) for digit in (1, 3)]
    places = sorted({int(np.searchsorted(at, step)) for step in steps if step <= at[-1]} | {len(at) - 1})[-_MOMENTS:]
    return [
        {
            "arm": arm_name(arm, place),
            "metric": word_cell(PREFERENCE_TITLES[metric]),
            **{f"after {at[k]:,.10g}": number_cell(float(of[arm].mean[k]), ".3f") for k in places},
        }
        for metric, of in curves.items()
        for place, arm in enumerate(arms)
        if arm in of
    ]


def preference_search_rows(progress: Progress) -> list[TableRow]:
    """E_w[best] and weightings solved of each search of a run, so far."""
    (of,), names = progress.preferences.values(), [problem.name for problem in progress.comparison.problems]
    assert of.worth is not None and of.weightings is not None
    return [
        {
            "problem": word_cell(name, "name"),
            WEIGHTINGS: number_cell(float(solved)),
            WORTH: number_cell(float(worth)),
        }
        for name, worth, solved in zip(names, of.worth[:, 0, -1], of.weightings[:, 0, -1], strict=True)
    ]


# Differences


def difference_cell(summary: Summary, metric: str, gap: Difference) -> TableCell:
    """`+0.12 [0.03, 0.21]` as in the verdict; of values to be lowered with an arrow and, where it is shown, whether
    that is better."""
    measure, text = summary.measure_of(metric), write_difference(gap, *summary.form(metric))
    mark = "shown" * gap.shown
    return TableCell(text, gap.interval.mean, measure, **_ends(gap.interval), mark=mark, number=True)


def differences(summary: Summary) -> list[tuple[tuple[str, str], str, str, Difference]]:
    """(pair, metric, its title, difference) of every pair and metric."""
    return [
        (pair, metric, summary.title(metric), gap)
        for pair, metrics in summary.pairs.items()
        for metric, gap in metrics.items()
    ]


def difference_rows(summary: Summary) -> list[TableRow]:
    """One row for each pair of arms and metric."""
    return [
        {
            "pair": word_cell(f"{pair[0]} - {pair[1]}", "arm"),
            "metric": word_cell(title),
            "difference": difference_cell(summary, metric, gap),
            "p": number_cell(gap.p, ".2g"),
            "problems": number_cell(gap.pairs, "d"),
            "result": word_cell("shown", "shown") if gap.shown else word_cell("no difference shown", "faint"),
        }
        for pair, metric, title, gap in differences(summary)
    ]


def difference_dict(gap: Difference, measure: Measure | None) -> dict[str, Any]:
    """A difference for JSON. better: whether the first arm is, None if no difference is shown"""
    lower = measure is not None and measure.lower
    return {
        **gap.interval.as_dict(),
        "p": gap.p,
        "comparisons": gap.comparisons,
        "pairs": gap.pairs,
        "shown": gap.shown,
        "direction": "min" if lower else "max",
        "better": (gap.interval.mean < 0) == lower if gap.shown else None,
    }


# Problems


def outcome_cell(standing: Standings, arm: int, row: int, seeds: int, objective: Objective) -> TableCell:
    """@12: solved after 12 iterations, the median over seeds; 1/3@12: by one seed of three; else the best value so far,
    the mean over seeds. Sort keys: seeds that solved it, iteration, value."""
    share, best = float(standing.solved[arm, row]), float(standing.best[arm, row])
    if share > 0:
        took = float(standing.took[arm, row])
        text = ("" if share == 1.0 else f"{round(share * seeds)}/{seeds}") + f"@{took:.0f}"
        return TableCell(text, took, sort=round((1 - share) * 1e6 + took, 6), mark="solved", number=True)
    if not math.isfinite(best):
        return TableCell(NONE, number=True)
    measure = objective.measure
    others = [Value(each, measure) for each in standing.best[:, row].tolist() if math.isfinite(each)]
    towards = best if objective.lower else -best
    return replace(value_cell(Value(best, measure), others, arrow=True), sort=2e6 + towards)


def against_cell(standing: Standings, arm: int, row: int, objective: Objective) -> TableCell:
    """won 12 sooner, lost 7.93, level: against the reference, in its value's unit; "-" before both have an answer."""
    sign, gap = float(standing.sign[arm, row]), float(standing.gap[arm, row])
    if math.isnan(sign):
        return TableCell(NONE)
    if sign == 0:
        return TableCell("level", 0.0, mark="faint")
    timed, result = bool(standing.timed[arm, row]), "won" if sign > 0 else "lost"
    ahead = gap if timed else -gap if objective.lower else gap
    size = ""
    if timed:
        size = f"{abs(gap):.0f} {'sooner' if gap > 0 else 'later'}"
    elif sign * ahead > 0:  # where more seeds have solved it the mean of the best values need not show it
        best = float(standing.best[arm, row])
        size = write_signed(gap, (best, best - gap))
    mark = "above" if sign > 0 else "below"
    measure = None if timed else objective.measure
    return TableCell(f"{result} {size}".rstrip(), gap, measure, sort=sign * 1e6 + (ahead if size else 0.0), mark=mark)


def target_cell(problem: ProblemRecord) -> TableCell:
    return value_cell(value_of(problem.metrics, problem.target))


_SOLVED_RULE = "@12: solved at iteration 12, the median over seeds; 1/3@12: by one seed of three."
_RULE = (
    "An arm has won a problem that it solved under more seeds than {reference}; if both solved it under every seed, "
    "one that it solved sooner; else one whose best value is better by more than rounding, a share of 1e-9."
)


def problems_table(snapshot: Snapshot, link: Callable[[int], str] = lambda row: "") -> Table:
    """One row for each problem that counts: the iteration of each arm's solution or its best value, and won, lost or
    level against the reference; of a single arm its iterations. link: the address of a problem's row, "" for none"""
    arms, reference, standing = snapshot.arms, snapshot.reference, snapshot.standing
    others = [place for place, arm in enumerate(arms) if reference not in (None, arm.name)]
    columns = [TableColumn("problem", kind="problem")]
    columns += [TableColumn("target", "the fitness that solves it", True)] * snapshot.has_targets
    columns += [TableColumn(arm.name, "", True, place, "outcome") for place, arm in enumerate(arms)]
    columns += [TableColumn(f"{arms[place].name} against {reference}", "", True, place, "against") for place in others]
    columns += [TableColumn("iterations", "", True)] * (len(arms) == 1)
    rows = []
    for row, problem in enumerate(snapshot.problems):
        objective = fitness_objective(problem.metrics)
        cells = [replace(word_cell(problem.name, "name"), link=link(row))]
        cells += [target_cell(problem)] * snapshot.has_targets
        cells += [outcome_cell(standing, place, row, arm.seeds, objective) for place, arm in enumerate(arms)]
        cells += [against_cell(standing, place, row, objective) for place in others]
        if len(arms) == 1:
            done = 0 if arms[0].results is None else int(arms[0].results.done[row].sum())
            cells.append(TableCell(f"{done:,}/{snapshot.iterations * arms[0].seeds:,}", done, number=True))
        rows.append(tuple(cells))
    below = [_SOLVED_RULE] * snapshot.has_targets + ["Other numbers are the best value so far, mean over seeds."]
    below += [_RULE.format(reference=reference)] if others else []
    judged = int((~np.isnan(standing.solved)).any(axis=0).sum())
    for place, arm in enumerate(arms):
        parts = [f"{int((standing.solved[place] > 0).sum())} of {judged} solved"] if judged else []
        parts += ["{} won, {} lost, {} level".format(*standing.counts(place))] if place in others else []
        below += [f"{arm.name}: {', '.join(parts)}."] if parts else []
    return Table("problems", "Every problem", tuple(columns), tuple(rows), len(rows) > 1, " ".join(below))


# What happened


def error_rows(snapshot: Snapshot) -> list[TableRow]:
    """Errors of answers and replies by kind, the most frequent of each arm."""
    return [
        {"arm": arm_name(arm.name, place), "kind": word_cell(error_name(kind)), "times": number_cell(count, ",d")}
        for place, arm in enumerate(snapshot.arms)
        for kind, count in arm.totals.errors.most_common(_KINDS_SHOWN)
    ]


def improvement_rows(snapshot: Snapshot, now: float) -> list[TableRow]:
    """The last rises of a best value: when, where, and by how much."""
    places = {arm.name: place for place, arm in enumerate(snapshot.arms)}
    prefix = len(common_prefix([problem.name for problem in snapshot.problems]))
    several = {"arm": len(places) > 1, "problem": len(snapshot.problems) > 1, "seed": snapshot.arms[0].seeds > 1}
    rows = list[TableRow]()
    for line in snapshot.improvements:
        row = {
            "ago": TableCell(ago(now - line.created), mark="faint"),
            "arm": arm_name(line.arm, places[line.arm]),
            "problem": word_cell(snapshot.problems[line.problem].name[prefix:]),
            "seed": word_cell(f"s{line.seed}", "faint"),
            "iter.": word_cell(f"#{line.iteration}", "faint"),
            "best": value_cell(line.value, [line.before] if line.before else (), arrow=True),
            "change": TableCell("") if line.before is None else change_of(line.value, line.before),
        }
        rows.append({title: cell for title, cell in row.items() if several.get(title, True)})
    return rows


# Answers


def answer_row(problem: ProblemRecord, candidate: Candidate | None) -> TableRow:
    """The best answer to a problem, or any other: its value, the target, and all that the scorer measured."""
    best, target = answer_value(problem, candidate), value_of(problem.metrics, problem.target)
    values = "" if candidate is None else write_values(problem.metrics, own_values(problem.metrics, candidate))
    return {
        "problem": word_cell(problem.name, "name"),
        "best": value_cell(best, [target], arrow=True),
        "target": value_cell(target, [best]),
        "id": number_cell(None if candidate is None else candidate.id, "d"),
        "values": TableCell(values, values),
    }


def answer_value(problem: ProblemRecord, candidate: Candidate | None) -> Value:
    return value_of(problem.metrics, None) if candidate is None else scored_value(problem.metrics, candidate)


# Runs


def run_row(name: str, lines: Sequence[RunOverview], among: Sequence[RunOverview] = ()) -> TableRow:
    """A run, or a comparison, in a list. Problems that a scorer's fault stopped in any of its runs count neither as
    solved nor for the best. among: all runs of the comparison, if `lines` is a part of it"""
    runs = [line.run for line in lines]
    counts = Counter(run.status for run in runs)
    states = ", ".join(f"{counts[state]} {state}" if len(runs) > 1 else state for state in _STATES if counts[state])
    arms = list(dict.fromkeys(str(run.arm) for run in runs))
    several = runs[0].comparison is not None and not among
    policies = f"{len(arms)} arms: {', '.join(arms)}" if several else str(runs[0].config.get("policy") or "")
    counted = searches_that_count(lines, among)
    judged = [search for search in counted if search.record.target is not None]
    solved = sum(search.record.solved_sequence is not None for search in judged)
    created = min(run.created for run in runs)
    whole = sum(_planned(line, max(other.problems for other in lines)) for line in lines)
    fault = next((run.reason[:200] for run in runs if run.status == "failed"), "")
    best = mean_of_best(counted)
    return {
        "run": word_cell(name),
        "problem": word_cell(_name_problems(lines), "wide"),
        "state": TableCell(states, states, note=fault, sort=states, mark="wide"),
        "iterations": replace(number_cell(sum(line.groups for line in lines), ",d"), note=f"of {whole:,}"),
        "solved": TableCell(f"{solved}/{len(judged)}" if judged else NONE, solved, number=True),
        "best": replace(value_cell(best, arrow=True), note="reward" * (best.measure == REWARD)),
        "tokens": number_cell(sum(search.tokens for line in lines for search in line.searches), ",d"),
        "cost": number_cell(sum(search.cost for line in lines for search in line.searches) or None, ",.4g"),
        "started": TableCell(format_time(created), created, sort=created),
        "policy": word_cell(policies[:200], "wide"),
    }


def searches_that_count(lines: Sequence[RunOverview], among: Sequence[RunOverview] = ()) -> list[SearchOverview]:
    """Those of problems that no scorer's fault stopped in any of the runs. among: as run_row takes it"""
    every = [search for line in among or lines for search in line.searches]
    left_out = {search.record.index for search in every if search.record.status == "failed"}
    return [search for line in lines for search in line.searches if search.record.index not in left_out]


def _name_problems(lines: Sequence[RunOverview]) -> str:
    """The problem's name; of several what their names have in common, and how many."""
    begun = next((line.searches for line in lines if line.searches), ())
    names = [search.record.name for search in begun]
    if not names:  # addresses: of a file its name
        addresses = map(str, lines[0].run.config.get("problems", ()))
        names = [address if ":" in address else Path(address).name for address in addresses]
    if len(names) < 2:
        return "".join(names)
    return f"{common_prefix(names).rstrip('/:_-') or f'{names[0]}, ...'} ({len(names)})"


def _planned(line: RunOverview, problems: int) -> int:
    """Iterations of a run, as its page counts them: of searches that go no further, those that they have done.
    problems: how many it has, if it has not begun"""
    config = line.run.config
    planned = planned_iterations(config, len(line.searches) or problems or len(config.get("problems", ())))
    if not line.searches:
        return sum(planned)
    ended = ("failed", "solved") if config.get("until_solved") else ("failed",)
    searches = zip(line.searches, planned, strict=True)
    return sum(search.groups if search.record.status in ended else iterations for search, iterations in searches)


def mean_of_best(searches: Iterable[SearchOverview]) -> Value:
    """The mean over problems of the best value that any search of a problem has found, so that a search which has just
    begun lowers nothing; of the rewards if the problems measure different things."""
    found = dict[int, SearchOverview]()
    for search in searches:
        record = search.record
        if record.best_fitness is not None and search.best.number is not None:
            held = found.setdefault(record.index, search).record.best_fitness
            if held is not None and record.best_fitness > held:
                found[record.index] = search
    measures = {search.best.measure for search in found.values()}
    if len(measures) < 2:
        numbers = [search.best.number or 0.0 for search in found.values()]
        return Value(float(np.mean(numbers)) if numbers else None, *measures)
    return Value(float(np.mean([search.record.best_fitness or 0.0 for search in found.values()])), REWARD)


def common_prefix(names: Collection[str]) -> str:
    """The common beginning of all names, up to a separator: `maze:hard/` of maze:hard/0, maze:hard/1; "" for one
    name."""
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    cut = max(first.rfind(separator, 0, same) for separator in "/:_-")
    return first[: cut + 1]
