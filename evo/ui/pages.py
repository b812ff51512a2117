"""The content of each page of `evo ui`, from the database: the name of a template, and its values."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from evo.comparison.arms import gather, planned
from evo.errors import BadInput
from evo.progress.answer import read_answers, statement_of
from evo.report.tables import candidates_table
from evo.ui.databases import RunDatabase
from islands.browse import (
    MOST_COUNTED,
    CandidateDetail,
    CandidateFilter,
    browse,
    count_browsed,
    misread_rollouts,
    offspring,
    run_of_candidate,
)
from islands.browse import candidate as detail_of
from islands.comparisons import runs_named
from islands.errors import DatabaseUnavailable, UnknownRun
from islands.runs import RunOverview, read_totals
from islands.store import Store
from islands.types import OF_ROLLOUTS, RunRecord, sum_totals

ROWS = 50
"""Rows of a list on one page."""
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


@dataclass(frozen=True)
class RunEntry:
    """A run, or the runs of a comparison, in the list. standing: solved searches, searches, and mean best fitness, of
    the problems that count"""

    name: str
    runs: tuple[RunOverview, ...]
    standing: tuple[int, int, float | None]

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
    def created(self) -> float:
        return min(line.run.created for line in self.runs)

    @property
    def reason(self) -> str:
        return next((line.run.reason for line in self.runs if line.run.status == "failed" and line.run.reason), "")

    def matches(self, words: str) -> bool:
        text = f"{self.name} {' '.join(self.states)} {self.policies} {self.runs[0].run.command}".lower()
        return all(word in text for word in words.lower().split())


def _standing(store: Store, lines: Sequence[RunOverview]) -> tuple[int, int, float | None]:
    """As RunEntry has it. Problems that a scorer's fault stopped in any of the runs count in none."""
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


def list_runs(database: RunDatabase, query: Mapping[str, str]) -> UiPage:
    """The runs, running ones and new ones first; without any, commands to start from."""
    by_name: dict[str, list[RunOverview]] = {}
    entries, fault = list[RunEntry](), ""
    try:
        for line in database.overview():
            by_name.setdefault(line.run.comparison or line.run.name, []).append(line)
        entries += [RunEntry(name, tuple(lines), _standing(database.store(), lines)) for name, lines in by_name.items()]
    except DatabaseUnavailable as error:
        fault = str(error)
    entries.sort(key=lambda entry: ("running" not in entry.states, -entry.created))
    words = query.get("q", "")
    shown = [entry for entry in entries if entry.matches(words)]
    page, pages = _page(query, len(shown))
    values = {
        "database": database.name,
        "entries": shown[page * ROWS : (page + 1) * ROWS],
        "count": len(shown),
        "whole": len(entries),
        "fault": fault,
        "words_chosen": words,
        "turns": _turns("/", {"q": words}, page, pages),
    }
    return UiPage("runs.html.jinja", values, live=True)


def show_run(database: RunDatabase, name: str) -> UiPage:
    """A run or a comparison: the page of evo.report. Raises UnknownRun."""
    page = database.page(name, lambda id: run_path(name, "candidate", id), run_path(name, "candidates"))
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
    page, pages = _page(query, count)
    names = {record.index: record.name for record in store.problems(comparison.runs[0].id)}
    with store.read() as connection:
        errors = sum_totals(read_totals(connection, picked.runs).values()).errors
    misread = misread_rollouts(store, picked.runs, MISREAD) if chosen["show"] == "failed" else []
    shown = browse(store, picked, page * ROWS, ROWS)
    values = {
        "name": name,
        "count": f"more than {MOST_COUNTED:,}" if count > MOST_COUNTED else f"{count:,}",
        "candidates": candidates_table(comparison, names, shown, lambda id: run_path(name, "candidate", id)),
        "kinds": [(kind, kind) for kind in sorted(set(errors) - set(OF_ROLLOUTS))],
        "problems": sorted(names.items()),
        "misread": [(one, names.get(one.problem, str(one.problem))) for one in misread],
        "chosen": chosen,
        "turns": _turns(run_path(name, "candidates"), chosen, page, pages),
    }
    return UiPage("candidates.html.jinja", values)


def show_candidate(database: RunDatabase, name: str, candidate_id: int) -> UiPage:
    """One candidate with its prompt, answer, scores, feedback, difference to its parent and lineage. Raises
    UnknownRun."""
    store = database.store()
    run, found = _find_candidate(store, name, candidate_id)
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


def candidate_text(database: RunDatabase, name: str, candidate_id: int) -> str:
    """The whole answer. Raises UnknownRun."""
    return _find_candidate(database.store(), name, candidate_id)[1].candidate.text


def _find_candidate(store: Store, name: str, candidate_id: int) -> tuple[RunRecord, CandidateDetail]:
    found = run_of_candidate(store, candidate_id)
    for run in runs_named(store, name):
        if run.id == found:
            return run, detail_of(store, run.id, candidate_id)
    raise UnknownRun(f"{name} has no candidate {candidate_id}")


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
