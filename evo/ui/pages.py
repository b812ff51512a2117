"""The content of each page of `evo ui`, from the database: the name of a template, and its values."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from evo.comparison.arms import gather
from evo.errors import BadInput
from evo.progress.answer import find_candidate, read_answers, statement_of
from evo.progress.rows import TableRow, run_row
from evo.report.tables import browsed_table, make_table, run_path
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
from islands.errors import DatabaseUnavailable
from islands.runs import RunOverview, by_comparison, read_totals
from islands.store import Store
from islands.types import OF_ROLLOUTS, sum_totals
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


def list_runs(database: RunDatabase) -> UiPage:
    """The runs, running ones and new ones first; without any, commands to start from."""
    by_name: dict[str, list[RunOverview]] = {}
    rows, fault = list[TableRow](), ""
    try:
        by_name = by_comparison(database.overview())
        for name, lines in list(by_name.items())[:MOST_RUNS]:
            row = run_row(name, lines)
            rows.append({**row, "run": replace(row["run"], link=run_path(name))})
    except DatabaseUnavailable as error:
        fault = str(error)
    rows.sort(key=lambda row: "running" not in row["state"].text)
    caption = "Runs" if len(by_name) <= MOST_RUNS else f"The newest {MOST_RUNS:,} of {len(by_name):,} runs"
    table = make_table("runs", caption, rows)
    runs = None if table is None else replace(table, filterable=True)
    return UiPage("runs.html.jinja", {"database": database.name, "runs": runs, "fault": fault}, live=True)


def show_run(database: RunDatabase, name: str) -> UiPage:
    """A run or a comparison: the page of evo.report. Raises UnknownRun, BadInput."""
    page = database.page(name, run_path(name))
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
        "candidates": browsed_table(comparison, problems, shown, lambda id: run_path(name, "candidate", id)),
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
