"""The content of each page of `evo ui`, from the database: the name of a template, and its values."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from evo.comparison.arms import gather
from evo.errors import BadInput
from evo.progress.answer import find_candidate, read_answers, statement_of
from evo.progress.rows import NONE, Cell, Row, mean_trend, run_row, searches_that_count
from evo.report.page import build_training_page
from evo.report.plots import sparkline
from evo.report.tables import candidates_table, make_table, run_path
from evo.search.status import format_time
from evo.ui.databases import RunDatabase
from islands.browse import (
    MOST_COUNTED,
    CandidateFilter,
    browse,
    count_browsed,
    misread_rollouts,
    neighbours,
    offspring,
)
from islands.errors import DatabaseUnavailable, UnknownRun
from islands.runs import RunOverview, by_comparison, read_totals
from islands.store import Store
from islands.types import OF_ROLLOUTS, sum_totals
from problems.entry_points import find_entry_points, load_entry_point
from problems.objectives import value_of

ROWS, MOST_RUNS = 50, 1_000
"""Candidates on one page, and runs of the list at most."""
TEXT_CHARS = 60_000
"""Characters of one text on a page; a link saves the whole text as a file."""
ANCESTORS, OFFSPRING, MISREAD = 300, 50, 50


@dataclass(frozen=True)
class UiPage:
    """A page. live: whether its content may still change."""

    template: str
    values: Mapping[str, Any]
    live: bool = False


def _run_row(name: str, lines: Sequence[RunOverview]) -> Row:
    """The row of a run with a link, a box to tick, and how its mean best value rose, sorted by its gain."""
    row, trend = run_row(name, lines), mean_trend(searches_that_count(lines))
    drawn = Cell(NONE) if trend is None else Cell(sparkline(trend), sort=abs(float(trend[-1] - trend[0])))
    linked = replace(row["run"], link=run_path(name), tick=name)
    shown = ("problem", "state", "iterations", "solved", "best")
    rest = ("tokens", "cost", "started", "policy")
    return {"run": linked, **{title: row[title] for title in shown}, "trend": drawn, **{t: row[t] for t in rest}}


def list_runs(database: RunDatabase) -> UiPage:
    """The runs, running ones and new ones first; without any, commands to start from."""
    by_name: dict[str, list[RunOverview]] = {}
    rows, fault = list[Row](), ""
    try:
        by_name = by_comparison(database.overview())
        newest = list(by_name.items())[:MOST_RUNS]
        rows += [_run_row(name, lines) for name, lines in newest]
    except DatabaseUnavailable as error:
        fault = str(error)
    rows.sort(key=lambda row: "running" not in row["state"].text)
    caption = "Runs" if len(by_name) <= MOST_RUNS else f"The newest {MOST_RUNS:,} of {len(by_name):,} runs"
    table = make_table("runs", caption, rows)
    values = {
        "database": database.name,
        "runs": None if table is None else replace(table, filterable=True),
        "fault": fault,
        "trainings": [
            (one.folder, one.standing, one.title, one.gain, format_time(one.updated)) for one in database.trainings()
        ],
        "listings": [  # what plug-ins keep in this folder, as `evo fit` its fits
            (name, *load_entry_point(point, name)()) for name, point in find_entry_points("evo.listings").items()
        ],
    }
    return UiPage("runs.html.jinja", values, live=True)


def show_training(database: RunDatabase, folder: str) -> UiPage:
    """The page of a training that the list has. Raises UnknownRun for any other folder."""
    for one in database.trainings():
        if one.folder == folder:
            return UiPage("training.html.jinja", build_training_page(one), live=one.state == "running")
    raise UnknownRun(f"there is no training in {folder}")


def show_runs(database: RunDatabase, *names: str) -> UiPage:
    """A run or a comparison, or several of the same problems on the same charts: the page of evo.report. Raises
    UnknownRun, BadInput."""
    if not names:
        raise BadInput("tick two runs of the same problem in the list")
    page = database.page(names, run_path(*names) if len(names) == 1 else "")
    values = {"page": page, "state": page.snapshot.state(time.time())[0]}
    return UiPage("page.html.jinja", values, live=not page.snapshot.ended)


def list_candidates(database: RunDatabase, name: str, query: Mapping[str, str]) -> UiPage:
    """A page of candidates by filters. Raises UnknownRun, BadInput."""
    store = database.store()
    with store.read():
        return _list_candidates(store, name, query)


def _list_candidates(store: Store, name: str, query: Mapping[str, str]) -> UiPage:
    comparison = gather(store, name)
    chosen = {key: query.get(key, "") for key in ("show", "kind", "problem", "sort")}
    picked = CandidateFilter(
        runs=[run.id for run in comparison.runs],
        problem=_whole(chosen["problem"], "problem"),
        failed={"failed": True, "valid": False}.get(chosen["show"]),
        kind=chosen["kind"],
        by_fitness=chosen["sort"] == "fitness",
    )
    count = count_browsed(store, picked)
    pages = max(1, -(-count // ROWS))
    page = min(pages, max(1, _whole(query.get("page", ""), "page") or 1))
    path = f"{run_path(name, 'candidates')}?{urlencode({key: value for key, value in chosen.items() if value})}&page="
    problems = {record.index: record for record in store.problems(comparison.runs[0].id)}
    with store.read() as connection:
        errors = sum_totals(read_totals(connection, picked.runs).values()).errors
    misread = misread_rollouts(store, picked.runs, MISREAD) if chosen["show"] == "failed" else []
    shown = browse(store, picked, (page - 1) * ROWS, ROWS)
    values = {
        "name": name,
        "count": f"more than {MOST_COUNTED:,}" if count > MOST_COUNTED else f"{count:,}",
        "candidates": candidates_table(comparison, problems, shown, lambda id: run_path(name, "candidate", id)),
        "kinds": [(kind, kind) for kind in sorted(set(errors) - set(OF_ROLLOUTS))],
        "problems": [(index, problem.name) for index, problem in problems.items()],
        "misread": [(one, problems[one.problem].name) for one in misread],
        "chosen": chosen,
        "page": page,
        "pages": pages,
        "path": path,
    }
    return UiPage("candidates.html.jinja", values)


def show_candidate(database: RunDatabase, name: str, candidate_id: int) -> UiPage:
    """One candidate with its prompt, answer, scores, feedback, difference to its parent and lineage. Raises
    UnknownRun."""
    store = database.store()
    with store.read():
        run, found = find_candidate(store, name, candidate_id)
        problem = found.problem
        stored = read_answers(store, {candidate_id: problem}, lineage=ANCESTORS, room=TEXT_CHARS)[candidate_id]
        children, around = (
            offspring(store, candidate_id, problem.id, OFFSPRING),
            neighbours(store, candidate_id, problem.id),
        )
    values = {
        "name": name,
        "run": run,
        "found": found,
        "stored": stored,
        "stated": statement_of(problem, stored.candidate.text),
        "offspring": [
            (one.id, None if one.failed else value_of(problem.metrics, one.fitness, one.values)) for one in children
        ],
        "around": around,
        "written": format_time(found.created),
    }
    return UiPage("candidate.html.jinja", values)


def _whole(text: str, what: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise BadInput(f"{what}: {text[:40]!r} is not a number of at most 9 digits")
    return int(text)
