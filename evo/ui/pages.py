"""The content of each page of `evo ui`, from the database: the name of a template, and its values."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from evo.comparison.arms import gather
from evo.errors import BadInput
from evo.progress.answer import find_candidate, read_answers, statement_of
from evo.report.tables import Row, TableCell, candidates_table, make_table, number, word
from evo.search.defaults import planned_iterations
from evo.search.status import format_time
from evo.ui.databases import RunDatabase
from islands.browse import (
    MOST_COUNTED,
    CandidateFilter,
    browse,
    count_browsed,
    misread_rollouts,
    offspring,
)
from islands.errors import DatabaseUnavailable
from islands.runs import RunOverview, read_totals
from islands.store import Store
from islands.types import OF_ROLLOUTS, sum_totals

ROWS, MOST_RUNS = 50, 1_000
"""Candidates on one page, and runs of the list at most."""
TEXT_CHARS = 60_000
"""Characters of one text on a page; a link saves the whole text as a file."""
ANCESTORS, OFFSPRING, MISREAD = 300, 50, 50
STATES = ("running", "waiting", "done", "interrupted", "failed")


@dataclass(frozen=True)
class UiPage:
    """A page. live: whether its content may still change."""

    template: str
    values: Mapping[str, Any]
    live: bool = False


def _standing(store: Store, lines: Sequence[RunOverview]) -> tuple[int, int, float | None]:
    """(solved searches, searches, mean best fitness). Problems that a scorer's fault stopped in any of the runs count
    in none."""
    if not any(line.failed for line in lines):
        best = [line.best for line in lines if line.best is not None]
        mean = sum(best) / len(best) if best else None
        return sum(line.solved for line in lines), sum(line.problems for line in lines), mean
    records = [record for line in lines for record in store.problems(line.run.id)]
    left_out = {record.index for record in records if record.status == "failed"}
    counted = [record for record in records if record.index not in left_out]
    best = [record.best_fitness for record in counted if record.best_fitness is not None]
    solved = sum(record.status == "solved" for record in counted)
    return solved, len(counted), sum(best) / len(best) if best else None


def run_path(name: str, *parts: object) -> str:
    """The address of a page of a run."""
    return "/".join(quote(str(part), safe="") for part in ("", "run", name, *parts))


def _run_row(store: Store, name: str, lines: Sequence[RunOverview]) -> Row:
    runs = [line.run for line in lines]
    counts = Counter(run.status for run in runs)
    states = ", ".join(f"{counts[state]} {state}" if len(runs) > 1 else state for state in STATES if counts[state])
    arms = list(dict.fromkeys(str(run.arm) for run in runs))
    policies = f"{len(arms)} arms: {', '.join(arms)}" if runs[0].comparison else str(runs[0].config.get("policy") or "")
    solved, searches, best = _standing(store, lines)
    created = min(run.created for run in runs)
    whole = sum(planned_iterations(line.run.config) * line.problems for line in lines)
    fault = next((run.reason[:200] for run in runs if run.status == "failed"), "")
    return {
        "run": TableCell(name, name.lower(), link=run_path(name)),
        "state": TableCell(states, states, note=fault),
        "iterations": replace(number(sum(line.groups for line in lines), ",d"), note=f"of {whole:,}"),
        "solved": TableCell(f"{solved}/{searches}", solved, number=True),
        "mean best": number(best, ".4g"),
        "started": TableCell(format_time(created), created),
        "policy": word(policies[:200], "wide"),
    }


def list_runs(database: RunDatabase) -> UiPage:
    """The runs, running ones and new ones first; without any, commands to start from."""
    by_name: dict[str, list[RunOverview]] = {}
    rows, fault = list[Row](), ""
    try:
        for line in reversed(database.overview()):
            by_name.setdefault(line.run.comparison or line.run.name, []).insert(0, line)
        newest = list(by_name.items())[:MOST_RUNS]
        rows += [_run_row(database.store(), name, lines) for name, lines in newest]
    except DatabaseUnavailable as error:
        fault = str(error)
    rows.sort(key=lambda row: "running" not in row["state"].text)
    caption = "Runs" if len(by_name) <= MOST_RUNS else f"The newest {MOST_RUNS:,} of {len(by_name):,} runs"
    table = make_table("runs", caption, rows)
    shown = None if table is None else replace(table, filterable=True)
    return UiPage("runs.html.jinja", {"database": database.name, "runs": shown, "fault": fault}, live=True)


def show_run(database: RunDatabase, name: str) -> UiPage:
    """A run or a comparison: the page of evo.report. Raises UnknownRun."""
    page = database.page(name, run_path(name))
    values = {"page": page, "state": page.snapshot.state(time.time())[0]}
    return UiPage("page.html.jinja", values, live=not page.snapshot.ended)


def list_candidates(database: RunDatabase, name: str, query: Mapping[str, str]) -> UiPage:
    """A page of candidates by filters. Raises UnknownRun, BadInput."""
    store = database.store()
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
    names = {record.index: record.name for record in store.problems(comparison.runs[0].id)}
    with store.read() as connection:
        errors = sum_totals(read_totals(connection, picked.runs).values()).errors
    misread = misread_rollouts(store, picked.runs, MISREAD) if chosen["show"] == "failed" else []
    shown = browse(store, picked, (page - 1) * ROWS, ROWS)
    values = {
        "name": name,
        "count": f"more than {MOST_COUNTED:,}" if count > MOST_COUNTED else f"{count:,}",
        "candidates": candidates_table(comparison, names, shown, lambda id: run_path(name, "candidate", id)),
        "kinds": [(kind, kind) for kind in sorted(set(errors) - set(OF_ROLLOUTS))],
        "problems": sorted(names.items()),
        "misread": [(one, names.get(one.problem, str(one.problem))) for one in misread],
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
    run, found = find_candidate(store, name, candidate_id)
    problem = found.problem
    stored = read_answers(store, {candidate_id: problem}, lineage=ANCESTORS, room=TEXT_CHARS)[candidate_id]
    values = {
        "name": name,
        "run": run,
        "found": found,
        "stored": stored,
        "stated": statement_of(problem, stored.candidate.text),
        "offspring": offspring(store, candidate_id, problem.id, OFFSPRING),
    }
    return UiPage("candidate.html.jinja", values)


def _whole(text: str, what: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise BadInput(f"{what}: {text[:40]!r} is not a number of at most 9 digits")
    return int(text)
