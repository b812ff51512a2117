"""The content of each page of `evo ui`, from the databases: the name of a template, and its values."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np

from evo.chart import MEAN_BEST, SOLVE_RATE, Axis, Chart, Series, chart_values, series_of
from evo.comparison.load import Comparison, gather, planned
from evo.comparison.operators import operator_choices
from evo.comparison.survival import best_curve
from evo.comparison.verdict import farthest
from evo.encoding import visible
from evo.errors import BadInput
from evo.monitor.answer import NO_ORIGIN, read_answers, statement_of
from evo.monitor.arm_style import style_of
from evo.monitor.snapshot import ArmSnapshot, Snapshot
from evo.report.details import bounded
from evo.report.difference import difference, unit_of
from evo.search.status import clock
from evo.training.metrics import IN_SEARCH, SHOWN_IN_CHARTS
from evo.tui.head import mean_best
from evo.ui.databases import RunDatabase
from islands.browse import (
    MOST_COUNTED,
    CandidateDetail,
    CandidateFilter,
    ancestors,
    browse,
    count_browsed,
    misread_rollouts,
    offspring,
    run_of_candidate,
)
from islands.browse import candidate as detail_of
from islands.comparisons import runs_named
from islands.errors import DatabaseUnavailable, UnknownRun
from islands.runs import RunOverview
from islands.store import Store
from islands.types import OF_ROLLOUTS, ProblemRecord, RunRecord

ROWS = 50
"""Rows of a list on one page."""
TEXT_CHARS = 60_000
"""Characters of one text on a page; a link saves the whole text as a file."""
ANCESTORS, OFFSPRING, MISREAD = 300, 50, 50
BEST_CURVE_CELLS = 200_000
"""Searches times iterations of an arm up to which each reading computes its curve of best fitness."""
STATES = ("running", "waiting", "done", "interrupted", "failed")


@dataclass(frozen=True)
class UiPage:
    """A page. live: whether its content may still change."""

    template: str
    values: Mapping[str, Any]
    live: bool = False


@dataclass(frozen=True)
class RunEntry:
    """A run, or the runs of a comparison, in the list. database: its place on the command line"""

    database: int
    name: str
    runs: tuple[RunOverview, ...]

    @property
    def states(self) -> dict[str, int]:
        counts = Counter(line.run.status for line in self.runs)
        return {state: counts[state] for state in STATES if counts[state]}

    @property
    def policies(self) -> str:
        if self.runs[0].run.comparison is None:
            return str(self.runs[0].run.config.get("policy") or "")
        arms = list(dict.fromkeys(str(line.run.arm) for line in self.runs))
        return f"{len(arms)} arms: {', '.join(arms)}"

    @property
    def groups(self) -> int:
        return sum(line.groups for line in self.runs)

    @property
    def planned(self) -> int:
        return sum(planned(line.run) * line.problems for line in self.runs)

    @property
    def searches(self) -> int:
        return sum(line.problems for line in self.runs)

    @property
    def solved(self) -> int:
        return sum(line.solved for line in self.runs)

    @property
    def best(self) -> float | None:
        known = [line.best for line in self.runs if line.best is not None]
        return sum(known) / len(known) if known else None

    @property
    def created(self) -> float:
        return min(line.run.created for line in self.runs)

    @property
    def reason(self) -> str:
        return next((line.run.reason for line in self.runs if line.run.status == "failed" and line.run.reason), "")

    def matches(self, words: str, state: str) -> bool:
        text = f"{self.name} {self.policies} {self.runs[0].run.command}".lower()
        return all(word in text for word in words.lower().split()) and (not state or state in self.states)


def run_path(database: int, name: str, *parts: object, **query: object) -> str:
    """The address of a page of a run. Query values that are None or "" are left out."""
    path = "/".join(quote(str(part), safe="") for part in ("", "run", database, name, *parts))
    chosen = {key: value for key, value in query.items() if value not in (None, "")}
    return path + (f"?{urlencode(chosen)}" if chosen else "")


def list_runs(databases: Sequence[RunDatabase], query: Mapping[str, str]) -> UiPage:
    """The runs, running ones and new ones first; without any, commands to start from."""
    entries: list[RunEntry] = []
    faults = []
    for place, database in enumerate(databases):
        by_name: dict[str, list[RunOverview]] = {}
        try:
            for line in database.overview():
                by_name.setdefault(line.run.comparison or line.run.name, []).append(line)
        except DatabaseUnavailable as error:
            faults.append(str(error))
        entries += [RunEntry(place, name, tuple(lines)) for name, lines in by_name.items()]
    entries.sort(key=lambda entry: ("running" not in entry.states, -entry.created))
    chosen = {key: query.get(key, "") for key in ("q", "state", "db")}
    shown = [
        entry
        for entry in entries
        if entry.matches(chosen["q"], chosen["state"]) and chosen["db"] in ("", str(entry.database))
    ]
    page, pages = _page(query, len(shown))
    values = {
        "databases": databases,
        "entries": shown[page * ROWS : (page + 1) * ROWS],
        "count": len(shown),
        "whole": len(entries),
        "faults": faults,
        "chosen": chosen,
        "states_known": STATES,
        "turns": _turns("/", chosen, page, pages),
    }
    return UiPage("runs.html.jinja", values, live=True)


def show_run(database: RunDatabase, place: int, name: str, query: Mapping[str, str]) -> UiPage:
    """A run or a comparison: state, verdict, curves, arms, problems, errors. Raises UnknownRun."""
    snapshot, store = database.snapshot(name), database.store()
    comparison = gather(store, name)
    problems = [[store.problems(run.id) for run in arm.runs] for arm in comparison.arms]
    rows = _problem_rows(comparison, problems)
    page, pages = _page(query, len(rows))
    values = {
        "place": place,
        "database": database,
        "snapshot": snapshot,
        "comparison": comparison,
        "state": describe_state(snapshot, time.time()),
        "arms": [_arm_row(snapshot, arm) for arm in snapshot.arms],
        "chart_values": chart_data(snapshot, comparison.crossed_seeds),
        "rows": rows[page * ROWS : (page + 1) * ROWS],
        "turns": _turns(run_path(place, name), {}, page, pages),
        "errors": sum((arm.telemetry.totals.errors for arm in snapshot.arms), Counter[str]()).most_common(),
        "of_rollouts": OF_ROLLOUTS,
        "settings": sorted(comparison.runs[0].config.items()) if len(comparison.runs) == 1 else [],
    }
    return UiPage("run.html.jinja", values, live=not snapshot.ended or snapshot.loaded < snapshot.runs)


def describe_state(snapshot: Snapshot, now: float) -> str:
    """The elapsed time and the time left, as words that follow the status."""
    elapsed = clock(snapshot.elapsed(now))
    if snapshot.loaded < snapshot.runs:
        return f"reading run {snapshot.loaded + 1} of {snapshot.runs}"
    if snapshot.ended:
        return f"after {elapsed}"
    if (silent := snapshot.silent(now)) is not None:
        return f"silent for {clock(silent)}"
    left = snapshot.eta()
    return f"for {elapsed}" + ("" if left is None else f", about {clock(left)} left")


@dataclass(frozen=True)
class _ArmRow:
    arm: ArmSnapshot
    solved: str
    best: float | None


def _arm_row(snapshot: Snapshot, arm: ArmSnapshot) -> _ArmRow:
    solved = ""
    if snapshot.has_targets and arm.results is not None:
        known = arm.results.solved_at[arm.results.judged]
        solved = f"{int(np.isfinite(known).sum())}/{known.size}"
    return _ArmRow(arm, solved, mean_best(arm))


@dataclass(frozen=True)
class _ProblemRow:
    """A problem, and each arm's (fitness, run, candidate id) of its best answer over the seeds, None without one."""

    index: int
    name: str
    target: float | None
    message: str
    best: tuple[tuple[float, int] | None, ...]


def _problem_rows(comparison: Comparison, problems: Sequence[Sequence[Sequence[ProblemRecord]]]) -> list[_ProblemRow]:
    records = [record for arm in problems for of_run in arm for record in of_run]
    first = {record.index: record for record in reversed(records)}
    faults = {record.index: record.message for record in records if record.status == "failed"}
    best: dict[tuple[int, int], tuple[float, int]] = {}
    for place, arm in enumerate(problems):
        for record in (record for of_run in arm for record in of_run):
            if record.best is not None and record.best_fitness is not None:
                here = (record.best_fitness, record.best)
                best[place, record.index] = max(here, best.get((place, record.index), here))
    arms = range(len(comparison.arms))
    return [
        _ProblemRow(
            index, record.name, record.target, faults.get(index, ""), tuple(best.get((arm, index)) for arm in arms)
        )
        for index, record in sorted(first.items())
    ]


def chart_data(snapshot: Snapshot, crossed_seeds: bool) -> dict[str, Any]:
    """The charts of a run, for the report's script (templates/charts.js)."""
    names = [arm.name for arm in snapshot.arms]
    charts: list[Chart] = []
    curves = {arm.name: arm.curve for arm in snapshot.arms if arm.curve is not None}
    axis = Axis(snapshot.axis_unit, zero=True)
    if curves and snapshot.has_targets:
        charts.append(Chart("solved", SOLVE_RATE, axis, Axis(SOLVE_RATE, share=True), series_of(names, curves)))
        fitness = {
            arm.name: best_curve(farthest({arm.name: arm.results})[arm.name], crossed_seeds=crossed_seeds)
            for arm in snapshot.arms
            if arm.results is not None
            and arm.results.best is not None
            and arm.results.best_horizon
            and arm.results.best.size <= BEST_CURVE_CELLS
        }
        if fitness:
            over = Axis("iterations", zero=True)
            charts.append(Chart("best", MEAN_BEST, over, Axis(MEAN_BEST), series_of(names, fitness)))
    elif curves:
        charts.append(Chart("best", MEAN_BEST, axis, Axis(MEAN_BEST), series_of(names, curves)))
    trained = [(place, arm.name, arm.training) for place, arm in enumerate(snapshot.arms) if arm.training is not None]
    for metric in [name for name in IN_SEARCH if any(name in curve.metrics for *_, curve in trained)][:SHOWN_IN_CHARTS]:
        series = tuple(
            Series(place, name, np.asarray(curve.steps, dtype=np.float64), np.asarray(curve.metrics[metric]))
            for place, name, curve in trained
            if metric in curve.metrics
        )
        charts.append(Chart(f"training-{metric}", metric, Axis("step"), Axis(metric), series))
    return script_values(names, charts)


def script_values(names: Sequence[str], charts: Sequence[Chart]) -> dict[str, Any]:
    """The values for templates/charts.js. names: the arms, in order."""
    styles = [style_of(place) for place in range(len(names))]
    arms = [
        {"name": visible(name), "colour": its.colour, "mark": its.mark, "shape": its.shape, "hollow": its.hollow}
        for name, its in zip(names, styles, strict=True)
    ]
    return {"arms": arms, "charts": {chart.name: chart_values(chart) for chart in charts}, "problems": None}


def list_candidates(database: RunDatabase, place: int, name: str, query: Mapping[str, str]) -> UiPage:
    """A page of candidates by filters. Raises UnknownRun, BadInput."""
    store = database.store()
    comparison = gather(store, name)
    kinds = Counter[str]()
    for arm in database.snapshot(name).arms:
        kinds += arm.telemetry.totals.errors
    chosen = {key: query.get(key, "") for key in ("show", "kind", "operator", "problem", "low", "high", "sort")}
    picked = CandidateFilter(
        runs=[run.id for run in comparison.runs],
        operators=_operator_places(comparison, chosen["operator"]),
        problem=_whole(chosen["problem"], "problem"),
        failed={"failed": True, "valid": False}.get(chosen["show"]),
        kind=chosen["kind"],
        low=_number(chosen["low"], "low"),
        high=_number(chosen["high"], "high"),
        by_fitness=chosen["sort"] == "fitness",
    )
    count = count_browsed(store, picked)
    page, pages = _page(query, count)
    problems = store.problems(comparison.runs[0].id)
    values = {
        "place": place,
        "database": database,
        "comparison": comparison,
        "count": f"more than {MOST_COUNTED:,}" if count > MOST_COUNTED else f"{count:,}",
        "candidates": browse(store, picked, page * ROWS, ROWS),
        "problems": {record.index: record for record in problems},
        "arms": {run.id: (number, arm.name) for number, arm in enumerate(comparison.arms) for run in arm.runs},
        "kinds": [(kind, kind) for kind in sorted(set(kinds) - set(OF_ROLLOUTS))],
        "operators": operator_choices(comparison),
        "by_problem": [(record.index, record.name) for record in problems],
        "misread": misread_rollouts(store, picked.runs, MISREAD) if chosen["show"] == "failed" else [],
        "chosen": chosen,
        "turns": _turns(run_path(place, name, "candidates"), chosen, page, pages),
    }
    return UiPage("candidates.html.jinja", values)


def _operator_places(comparison: Comparison, key: str) -> dict[int, tuple[int, ...]]:
    if not key:
        return {}
    arm, _, operator = key.partition(".")
    number, at = _whole(arm, "operator"), _whole(operator, "operator")
    if number is None or at is None or number >= len(comparison.arms):
        raise BadInput(f"there is no operator {key!r}")
    return {run.id: (at,) for run in comparison.arms[number].runs}


def show_candidate(database: RunDatabase, place: int, name: str, candidate_id: int) -> UiPage:
    """One candidate with its prompt, answer, scores, feedback, difference to its parent and lineage. Raises
    UnknownRun."""
    store = database.store()
    run, found = _find_candidate(store, name, candidate_id)
    answer, problem = found.candidate, found.problem
    line = ancestors(store, candidate_id, ANCESTORS)
    stored = read_answers(store, [candidate_id])[candidate_id]
    parent, origin = stored.parent, stored.origin or NO_ORIGIN
    before = "" if parent is None else parent.text
    unit = unit_of(problem.answer_format, before, answer.text)
    moved = [None] * len(answer.rewards) if parent is None else [
        own - other for own, other in zip(answer.rewards, parent.rewards, strict=False)
    ]  # fmt: skip
    values = {
        "place": place,
        "database": database,
        "name": name,
        "run": run,
        "found": found,
        "answer": answer,
        "problem": problem,
        "rewards": list(zip(problem.objectives, answer.rewards, moved, strict=False)),
        "parent": parent,
        "unit": unit,
        "difference": difference(before, answer.text, unit, TEXT_CHARS) if before.strip() else [],
        "line": line,
        "offspring": offspring(store, candidate_id, problem.id, OFFSPRING),
        "text": bounded(answer.text, TEXT_CHARS),
        "feedback": bounded(answer.feedback, TEXT_CHARS),
        "statement": bounded(statement_of(problem).text, TEXT_CHARS),
        "system": bounded(origin.system, TEXT_CHARS),
        "prompt": bounded(origin.user, TEXT_CHARS),
        "chain": "" if origin.chain.strip() == answer.text.strip() else bounded(origin.chain, TEXT_CHARS),
        "position": origin.place + 1,
        "chart_values": _line_chart([ancestor.fitness for ancestor in reversed(line)]),
    }
    return UiPage("candidate.html.jinja", values)


def candidate_text(database: RunDatabase, name: str, candidate_id: int) -> str:
    """The whole answer. Raises UnknownRun."""
    return _find_candidate(database.store(), name, candidate_id)[1].candidate.text


def _find_candidate(store: Store, name: str, candidate_id: int) -> tuple[RunRecord, CandidateDetail]:
    found = run_of_candidate(store, candidate_id)
    for run in runs_named(store, name):
        if run.id == found:
            return run, detail_of(store, run.id, candidate_id)
    raise UnknownRun(f"{name} has no candidate {candidate_id}")


def _line_chart(fitness: Sequence[float]) -> dict[str, Any]:
    if len(fitness) < 3:
        return script_values([""], [])
    steps = np.arange(len(fitness), dtype=np.float64)
    series = (Series(0, "", steps, np.asarray(fitness)),)
    title = "Fitness along the line of parents"
    return script_values([""], [Chart("line", title, Axis("step from the first ancestor"), Axis("fitness"), series)])


def _page(query: Mapping[str, str], count: int) -> tuple[int, int]:
    """(page from 0, pages)."""
    pages = max(1, -(-count // ROWS))
    return min(pages, max(1, _whole(query.get("page", ""), "page") or 1)) - 1, pages


def _turns(path: str, chosen: Mapping[str, str], page: int, pages: int) -> dict[str, Any]:
    """Links to the pages before and after."""

    def link(to: int) -> str:
        query = {**{key: value for key, value in chosen.items() if value}, "page": to + 1}
        return f"{path}?{urlencode(query)}"

    return {
        "page": page + 1,
        "pages": pages,
        "before": link(page - 1) if page else "",
        "after": link(page + 1) if page + 1 < pages else "",
    }


def _whole(text: str, what: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise BadInput(f"{what}: {text[:40]!r} is not a number of at most 9 digits")
    return int(text)


def _number(text: str, what: str) -> float | None:
    try:
        value = float(text) if text.strip() else None
    except ValueError:
        raise BadInput(f"{what}: {text[:40]!r} is not a number") from None
    if value is not None and not np.isfinite(value):
        raise BadInput(f"{what}: {text[:40]!r} is not a finite number")
    return value
