"""The database of a page: opened at the first request, read in short queries, and shared by all requests."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from evo.progress.model import Progress
from evo.report.page import Page, build_page
from islands.errors import DatabaseUnavailable, NoRuns
from islands.names import hide_password
from islands.runs import RunOverview, overview
from islands.store import Store

FRESH_SECONDS = 1.0
"""Requests within this time of a reading share it, so that many tabs cost as much as one."""
COST_SHARE = 0.05
"""The share of one core that reading the list of runs, or building the page of one, may take."""
READERS_KEPT = 8
DETAILS = 50
"""Problems of a page that have their own section; the best answers of all have their own pages."""


@dataclass
class _Watched:
    """A reader and its last page."""

    progress: Progress
    page: Page | None = None
    due: float = 0.0


class RunDatabase:
    """One database. All methods may be called from any thread; they raise DatabaseUnavailable."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.name = hide_password(address).removeprefix("sqlite:///")
        self._lock, self._reading = threading.Lock(), threading.Lock()  # pages are read one at a time
        self._store: Store | None = None
        self._file: tuple[int, int] | None = None
        self._watched: dict[str, _Watched] = {}
        self._overview: list[RunOverview] = []
        self._due = 0.0

    def store(self) -> Store:
        """The open database; opened again if another file has its name now."""
        with self._lock:
            if self._store is not None and self._file_now() != self._file:
                self._forget()
            if self._store is None:
                self._store = Store.open(self.address, read_only=True)
                self._file = self._file_now()
            return self._store

    def overview(self) -> list[RunOverview]:
        """Every run, oldest first, at most a few seconds old; none before the first run is stored."""
        try:
            store = self.store()
        except NoRuns:
            return []
        if time.monotonic() >= self._due:
            began = time.thread_time()
            self._overview = overview(store)
            self._due = time.monotonic() + max(FRESH_SECONDS, (time.thread_time() - began) / COST_SHARE)
        return self._overview

    def page(self, name: str, candidate: Callable[[int], str], browse_all: str) -> Page:
        """The page of a run or a comparison as it is now. Raises UnknownRun."""
        store = self.store()
        with self._reading:
            watched = self._watched.pop(name, None) or _Watched(Progress(store, name, live=True))
            self._watched[name] = watched  # at the end: the first is the one that was asked for longest ago
            while len(self._watched) > READERS_KEPT:
                self._watched.pop(next(iter(self._watched)))
            if watched.page is None or time.monotonic() >= watched.due:
                began = time.thread_time()
                watched.progress.refresh()
                watched.page = build_page(watched.progress, details=DETAILS, candidate=candidate, browse_all=browse_all)
                watched.due = time.monotonic() + max(FRESH_SECONDS, (time.thread_time() - began) / COST_SHARE)
            return watched.page

    def close(self) -> None:
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store, self._file, self._due = None, None, 0.0
        self._watched.clear()

    def _file_now(self) -> tuple[int, int] | None:
        """(device, inode) of the database's file. Raises DatabaseUnavailable if it is gone: an open file stays readable
        after its removal, but never changes."""
        url = self._store.url if self._store is not None else None
        if url is None or url.drivername != "sqlite":
            return None
        try:
            state = os.stat(str(url.database))  # noqa: PTH116
        except OSError:
            self._forget()
            raise DatabaseUnavailable(f"{self.name}: the file is gone") from None
        return state.st_dev, state.st_ino
