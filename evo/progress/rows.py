"""The tables of runs, arms, problems, differences and answers as rows of cells, made once from the read model. The
terminal, the screen, the page, `evo ui` and JSON paint these cells: what a number is, how it is written, its direction
and its interval are decided here, so that two views cannot disagree."""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evo.comparison.operators import refinement_differences
from evo.comparison.results import Floats, Standings
from evo.comparison.summary import ArmSummary, Curve, Summary
from evo.evaluation.preferences import is_share
from evo.progress.model import Progress
from evo.progress.snapshot import ArmSnapshot, Snapshot
from evo.search.defaults import planned_iterations
from evo.search.status import format_time
from evo.stats import Difference, write_difference
from evo.stats.intervals import Interval
from evo.values import digits_of, scored_value, write_number, write_signed, write_value, write_values
from islands.runs import RunOverview, SearchOverview
from islands.types import Candidate, ProblemRecord
from problems.objectives import REWARD, Measure, Objective, Value, own_values, value_of

NONE = "-"
STATES = ("running", "waiting", "done", "interrupted", "failed")
TREND_POINTS = 40
WEIGHTINGS, WORTH = "weightings solved", "E_w[best]"
PREFERENCE_TITLES = {"weightings": WEIGHTINGS, "worth": WORTH}
"""Of the metrics of searches that are judged under many weightings (evo.comparison.summary.PREFERENCES)."""
MOMENTS = 5
"""Of a curve in a table, at most."""


@dataclass(frozen=True)
class Cell:
    """A number or a text of a row.

    text: as every view writes it, NONE for none; note: a remark in small type
    value: what is written, for JSON and for sorting; None: not known
    measure: what a value is of, None for counts, times and rates
    low, high: of a 95% interval
    sort: the key of the order, where that is not the value; mark: how it stands, as won, lost, level, solved, shown
    number: of a column of numbers; arm: the arm's place in the comparison; link, tick: of a page
    """

    text: str
    value: float | str | None = None
    measure: Measure | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    sort: float | str | None = None
    mark: str = ""
    number: bool = False
    arm: int | None = None
    link: str = ""
    tick: str = ""


Row = Mapping[str, Cell]


def word(text: str, mark: str = "") -> Cell:
    return Cell(text, text, sort=text.lower(), mark=mark)


def arm_name(name: str, place: int) -> Cell:
    return Cell(name, name, sort=name.lower(), mark="arm", arm=place)


def number(value: float | None, form: str = ".3f", mark: str = "") -> Cell:
    """A count, a time or a rate."""
    if value is None or not math.isfinite(value):
        return Cell(NONE, number=True)
    shown = int(value) if form.endswith("d") else value + 0.0  # never -0
    return Cell(format(shown, form), float(value), sort=round(float(value), 9), mark=mark, number=True)


def interval(value: Interval | None, form: str = ".3f") -> Cell:
    """A rate or a share with its interval."""
    if value is None:
        return Cell(NONE, number=True)
    return Cell(f"{value.mean:{form}}", value.mean, **_ends(value), note=value.ends(form).strip(), number=True)


def _ends(value: Interval) -> dict[str, Any]:
    return {"low": value.low, "high": value.high} if value.known else {}


def valued(value: Value, beside: Iterable[Value] = (), *, arrow: bool = False) -> Cell:
    """A value of a scorer. beside: the values that it is read with; arrow: whether the text tells that lower is better,
    where no title does"""
    text = write_value(value, beside, arrow=arrow)
    return Cell(NONE if value.number is None else text, value.number, value.measure, number=True)


def mean_cell(value: Interval | None, measure: Measure, beside: Iterable[Interval | None] = ()) -> Cell:
    """A mean of values with its interval, whose ends have as many decimals."""
    if value is None:
        return Cell(NONE, measure=measure, number=True)
    text = write_number(value.mean, [one.mean for one in beside if one is not None])
    decimals = len(text.partition(".")[2]) if "e" not in text else None
    note = value.ends(f".{digits_of([value.mean])}g" if decimals is None else f".{decimals}f").strip()
    return Cell(text, value.mean, measure, **_ends(value), note=note, number=True)


def change_of(value: Value, before: Value) -> Cell:
    """A value minus an earlier or another one, marked as better or worse."""
    if value.number is None or before.number is None:
        return Cell(NONE, number=True)
    change = value.number - before.number
    text = write_signed(change, (value.number, before.number))
    mark = "faint" if text == "0" else "above" if (change < 0) == value.measure.lower else "below"
    return Cell(text, change, value.measure, mark=mark, number=True)


def worth_cell(value: Interval | None, summary: Summary | None, beside: Iterable[Interval | None] = ()) -> Cell:
    """An E_w[best]: a share, or a mean of rewards."""
    shares = summary is None or is_share(summary.worth_unit)
    return interval(value) if shares else mean_cell(value, REWARD, beside)


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


def solved_cell(arm: ArmSnapshot) -> Cell:
    """12/24 searches; "-" before the first."""
    if arm.solved is None:
        return Cell(NONE, number=True)
    return Cell(f"{arm.solved[0]}/{arm.solved[1]}", arm.solved[0], number=True)


def mean_best(snapshot: Snapshot, arm: ArmSnapshot) -> Cell:
    """An arm's mean best value so far, beside those of the others."""
    return valued(arm.mean_best, [one.mean_best for one in snapshot.arms])


def arm_rows(
    snapshot: Snapshot, summary: Summary | None = None, diversity: Mapping[str, Interval | None] | None = None
) -> list[Row]:
    """All that is known of each arm. The metrics that have an interval need the summary; without it, before a search
    has begun, nothing is measured."""
    rows = list[Row]()
    standing = {arm.name: ArmSummary() if summary is None else summary.arms[arm.name] for arm in snapshot.arms}
    means, worths = [one.best for one in standing.values()], [one.worth for one in standing.values()]
    for place, arm in enumerate(snapshot.arms):
        one, totals = standing[arm.name], arm.totals
        best = mean_best(snapshot, arm) if summary is None else mean_cell(one.best, snapshot.measure, means)
        statuses = ", ".join(f"{count} {status}" if arm.seeds > 1 else status for status, count in arm.statuses.items())
        row = {
            "arm": arm_name(arm.name, place) if len(snapshot.arms) > 1 else Cell(NONE),
            "runs": word(statuses),
            "solved": solved_cell(arm),
            "solve rate": interval(one.solved, ".2f"),
            "area": interval(one.area, ".2f"),
            "median time": number(one.median, ",.10g"),
            "set value": interval(one.sets),
            WEIGHTINGS: interval(one.weightings),
            WORTH: worth_cell(one.worth, summary, worths),
            best_title(snapshot): best,
            "archive L1": interval((diversity or {}).get(arm.name), ".2f"),
            "iterations": replace(
                number(arm.groups, ",d"), note="" if arm.groups == arm.planned else f"of {arm.planned:,}"
            ),
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


def preference_rows(curves: Mapping[str, Mapping[str, Curve]], arms: Sequence[str]) -> list[Row]:
    """The curves of searches that are judged under many weightings, a row for each metric and arm, at the last moments
    of 1, 3, 10, 30, ... and the end. curves: metric -> arm -> curve"""
    known = [curve for of in curves.values() for curve in of.values()]
    ends = [int(np.isfinite(curve.mean).sum()) for curve in known]
    if not known or not min(ends):
        return []
    at = known[0].at[: min(ends)]
    steps = [digit * 10.0**power for power in range(12) for digit in (1, 3)]
    places = sorted({int(np.searchsorted(at, step)) for step in steps if step <= at[-1]} | {len(at) - 1})[-MOMENTS:]
    return [
        {
            "arm": arm_name(arm, place),
            "metric": word(PREFERENCE_TITLES[metric]),
            **{f"after {at[k]:,.10g}": number(float(of[arm].mean[k]), ".3f") for k in places},
        }
        for metric, of in curves.items()
        for place, arm in enumerate(arms)
        if arm in of
    ]


def preference_search_rows(progress: Progress) -> list[Row]:
    """E_w[best] and weightings solved of each search of a run, so far."""
    (of,), names = progress.preferences.values(), [problem.name for problem in progress.comparison.problems]
    assert of.worth is not None and of.weightings is not None
    return [
        {
            "problem": Cell(name, name, sort=name.lower(), mark="name"),
            WEIGHTINGS: number(float(solved)),
            WORTH: number(float(worth)),
        }
        for name, worth, solved in zip(names, of.worth[:, 0, -1], of.weightings[:, 0, -1], strict=True)
    ]


# Differences


def difference_cell(summary: Summary, metric: str, gap: Difference) -> Cell:
    """`+0.12 [0.03, 0.21]` as in the verdict; of values to be lowered with an arrow and, where it is shown, whether
    that is better."""
    measure, text = summary.measure_of(metric), write_difference(gap, *summary.form(metric))
    mark = "shown" * gap.shown
    return Cell(text, gap.interval.mean, measure, **_ends(gap.interval), mark=mark, number=True)


def differences(progress: Progress, summary: Summary) -> list[tuple[tuple[str, str], str, str, Difference]]:
    """(pair, metric, its title, difference) of every pair and metric, refinement rates too."""
    crossed = progress.comparison.crossed_seeds
    refined = refinement_differences(progress.operators, summary.pairs, crossed_seeds=crossed)
    found = list[tuple[tuple[str, str], str, str, Difference]]()
    for pair, metrics in summary.pairs.items():
        found += [(pair, metric, summary.title(metric), gap) for metric, gap in metrics.items()]
        rates = refined.get(pair, {}).items()
        found += [(pair, rate, rate.replace("refined", "refined, parents"), gap) for rate, gap in rates]
    return found


def difference_rows(progress: Progress, summary: Summary) -> list[Row]:
    """One row for each pair of arms and metric."""
    return [
        {
            "pair": word(f"{pair[0]} - {pair[1]}", "arm"),
            "metric": word(title),
            "difference": difference_cell(summary, metric, gap),
            "p": number(gap.p, ".2g"),
            "problems": number(gap.pairs, "d"),
            "result": word("shown", "shown") if gap.shown else word("no difference shown", "faint"),
        }
        for pair, metric, title, gap in differences(progress, summary)
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


def outcome_cell(standing: Standings, arm: int, row: int, seeds: int, objective: Objective) -> Cell:
    """@12: solved after 12 iterations, the median over seeds; 1/3@12: by one seed of three; else the best value so far,
    the mean over seeds. Sort keys: seeds that solved it, iteration, value."""
    share, best = float(standing.solved[arm, row]), float(standing.best[arm, row])
    if share > 0:
        took = float(standing.took[arm, row])
        text = ("" if share == 1.0 else f"{round(share * seeds)}/{seeds}") + f"@{took:.0f}"
        return Cell(text, took, sort=round((1 - share) * 1e6 + took, 6), mark="solved", number=True)
    if not math.isfinite(best):
        return Cell(NONE, number=True)
    measure = objective.measure
    others = [Value(each, measure) for each in standing.best[:, row].tolist() if math.isfinite(each)]
    towards = best if objective.lower else -best
    return replace(valued(Value(best, measure), others, arrow=True), sort=2e6 + towards)


def against_cell(standing: Standings, arm: int, row: int, objective: Objective) -> Cell:
    """won 12 sooner, lost 7.93, level: against the reference, in its value's unit; "-" before both have an answer."""
    sign, gap = float(standing.sign[arm, row]), float(standing.gap[arm, row])
    if math.isnan(sign):
        return Cell(NONE)
    if sign == 0:
        return Cell("level", 0.0, mark="faint")
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
    return Cell(f"{result} {size}".rstrip(), gap, measure, sort=sign * 1e6 + (ahead if size else 0.0), mark=mark)


def target_cell(problem: ProblemRecord, beside: Iterable[Value] = ()) -> Cell:
    return valued(value_of(problem.metrics, problem.target), beside)


# Answers


def answer_row(problem: ProblemRecord, candidate: Candidate | None) -> Row:
    """The best answer to a problem, or any other: its value, the target, and all that the scorer measured."""
    best, target = answer_value(problem, candidate), value_of(problem.metrics, problem.target)
    values = "" if candidate is None else write_values(problem.metrics, own_values(problem.metrics, candidate))
    return {
        "problem": Cell(problem.name, problem.name, sort=problem.name.lower(), mark="name"),
        "best": valued(best, [target], arrow=True),
        "target": valued(target, [best]),
        "id": number(None if candidate is None else candidate.id, "d"),
        "values": Cell(values, values),
    }


def answer_value(problem: ProblemRecord, candidate: Candidate | None) -> Value:
    return value_of(problem.metrics, None) if candidate is None else scored_value(problem.metrics, candidate)


# Runs


def run_row(name: str, lines: Sequence[RunOverview], among: Sequence[RunOverview] = ()) -> Row:
    """A run, or a comparison, in a list. Problems that a scorer's fault stopped in any of its runs count neither as
    solved nor for the best. among: all runs of the comparison, if `lines` is a part of it"""
    runs = [line.run for line in lines]
    counts = Counter(run.status for run in runs)
    states = ", ".join(f"{counts[state]} {state}" if len(runs) > 1 else state for state in STATES if counts[state])
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
        "run": word(name),
        "problem": word(_name_problems(lines), "wide"),
        "state": Cell(states, states, note=fault, sort=states, mark="wide"),
        "iterations": replace(number(sum(line.groups for line in lines), ",d"), note=f"of {whole:,}"),
        "solved": Cell(f"{solved}/{len(judged)}" if judged else NONE, solved, number=True),
        "best": replace(valued(best, arrow=True), note="reward" * (best.measure == REWARD)),
        "tokens": number(sum(search.tokens for line in lines for search in line.searches), ",d"),
        "cost": number(sum(search.cost for line in lines for search in line.searches) or None, ",.4g"),
        "started": Cell(format_time(created), created, sort=created),
        "policy": word(policies[:200], "wide"),
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


def mean_trend(searches: Iterable[SearchOverview]) -> Floats | None:
    """(TREND_POINTS,) the mean best value of searches from their first new best on; None if there is none, or if their
    problems measure different things."""
    risen = [search for search in searches if search.rises]
    if len({search.best.measure for search in risen}) != 1:
        return None
    times = np.linspace(1, max(search.groups for search in risen), TREND_POINTS)
    curves = []
    for search in risen:
        at = [iteration for iteration, _ in search.rises]
        curves.append([search.rises[max(0, bisect(at, time) - 1)][1] for time in times])
    return np.asarray(np.mean(curves, axis=0), dtype=np.float64)


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
