"""The pages of `evo ui`: the list of runs, the page of a run or a comparison as `evo report` writes it, with links, and
the page of a candidate. They only read the database.

The list and the page of a run have a script that asks the server for their version, and loads the page again when it is
another: also a run that has ended may be resumed or verified.
"""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from evo.progress.answer import describe_verified, read_candidate, statement_of
from evo.progress.model import Progress
from evo.progress.rows import make_table, run_row
from evo.report.page import build_page, content_policy, environment
from islands.browse import offspring
from islands.errors import NoRuns
from islands.names import format_db_option
from islands.runs import RunOverview, by_comparison, overview, run_states
from islands.store import Store
from problems.objectives import value_of
from problems.redaction import redact

_FRESH_SECONDS = 1.0
"""Requests within this time share a reading of the database, so that many tabs cost as much as one."""
_COST_SHARE = 0.05
"""Of one core, which building a page may take while its run continues."""
_PAGES_KEPT = 8
_MOST_RUNS = 1_000
"""Of the list; older ones are left out."""
_TEXT_CHARS = 200_000
"""Of a text on the page of a candidate."""
_ANCESTORS, _OFFSPRING = 100, 50
"""At most, on that page."""


@dataclass(frozen=True)
class BuiltPage:
    """A page as it is sent. version: a digest of its content; rows: the state of the runs that it was built from; due:
    when they may be read again, on the monotonic clock"""

    body: bytes
    version: str
    rows: object = None
    due: float = 0.0


class RunPages:
    """The pages of one database, which is opened for each reading: it may be away, or be another file, at any time.
    Methods may be called from any thread."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._reading = threading.Lock()  # pages are built one at a time
        self._pages: dict[str, BuiltPage] = {}

    def page(self, name: str = "") -> BuiltPage:
        """The page of a run or a comparison, "": the list of runs; as it is now, or was a few seconds ago. Raises
        UnknownRun, DatabaseUnavailable."""
        with self._reading:
            known = self._pages.pop(name, None)
            if known is None or time.monotonic() >= known.due:
                known = self._read(name, known)
            self._pages[name] = known  # at the end: the first is the one that was asked for longest ago
            while len(self._pages) > _PAGES_KEPT:
                del self._pages[next(iter(self._pages))]
        return known

    def candidate(self, name: str, candidate_id: int) -> BuiltPage:
        """What `evo show RUN ID` knows of a candidate, with its prompt and the whole reply. Raises UnknownRun,
        DatabaseUnavailable."""
        with self._reading, Store.open(self.address, read_only=True) as store, store.read():
            run, found, stored = read_candidate(store, name, candidate_id, lineage=_ANCESTORS, room=_TEXT_CHARS)
            children = offspring(store, found.problem.id, candidate_id, _OFFSPRING)
        values: dict[str, Any] = {
            "base": run_path(name),
            "name": name,
            "run": run,
            "found": found,
            "stored": stored,
            "tested": describe_verified(run, candidate_id, found.problem.metrics),
            "stated": statement_of(found.problem, stored.candidate.text),
            "offspring": [(one.id, value_of(found.problem.metrics, one.fitness, one.values)) for one in children],
        }
        return render_page("candidate.html.jinja", **values)

    def _read(self, name: str, known: BuiltPage | None) -> BuiltPage:
        began = time.thread_time()
        try:
            with Store.open(self.address, read_only=True) as store, store.read():
                rows: object = run_states(store, name) if name else store.runs()
                if known is None or known.rows != rows:
                    known = self._run(store, name) if name else self._list(overview(store))
        except NoRuns:
            if name:
                raise
            known, rows = self._list([]), None
        pause = max(_FRESH_SECONDS, (time.thread_time() - began) / _COST_SHARE)
        return replace(known, rows=rows, due=time.monotonic() + pause)

    def _run(self, store: Store, name: str) -> BuiltPage:
        """As `evo report` builds it, with links to candidates, and without scoring anything on held-out cases."""
        page = build_page(Progress.open(store, name), base=run_path(name))
        return render_page("run.html.jinja", live=True, page=page, state=page.snapshot.state(time.time())[0])

    def _list(self, lines: list[RunOverview]) -> BuiltPage:
        """The rows of `evo runs`, the newest first; without any, commands to start from."""
        listed = list(by_comparison(lines).items())
        rows = [run_row(name, runs) for name, runs in listed[:_MOST_RUNS]]
        rows = [{**row, "run": replace(row["run"], link=run_path(row["run"].text))} for row in rows]
        caption = "Runs" if len(listed) <= _MOST_RUNS else f"The newest {_MOST_RUNS:,} of {len(listed):,} runs"
        table = make_table("runs", caption, rows)
        named, suffix = redact(self.address).removeprefix("sqlite:///"), format_db_option(self.address)
        values = {
            "database": named,
            "suffix": suffix,
            "runs": None if table is None else replace(table, filterable=True),
        }
        return render_page("runs.html.jinja", live=True, **values)


def run_path(name: str) -> str:
    """The address of the page of a run or a comparison."""
    return f"/run/{quote(name, safe='')}"


def render_page(template: str, *, live: bool = False, **values: Any) -> BuiltPage:
    """live: whether the page watches for another version of itself"""
    values |= {"policy": page_policy()}
    text = _environment().get_template(template).render(**values)
    version = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]
    if live:  # the first: texts before it, as the title, are escaped
        text = text.replace("<body>", f'<body data-version="{version}">', 1)
    return BuiltPage(text.encode("utf-8", "replace"), version)


def page_policy() -> str:
    """The content policy of every page."""
    return content_policy(_live_script())


@cache
def _live_script() -> str:
    return (files("evo.ui") / "templates" / "live.js").read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    """The templates of the report's page, and those that extend them here."""
    report = environment()
    assert isinstance(report.loader, BaseLoader)
    made = report.overlay(loader=ChoiceLoader([report.loader, PackageLoader("evo.ui")]))
    made.globals = {**report.globals, "live_script": Markup(_live_script())}
    return made
