"""The database of a page: opened at the first request, read for one page at a time, and shared by all requests."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from evo.errors import BadInput
from evo.progress.model import Progress
from evo.progress.training import TrainingProgress, find_trainings
from evo.report.page import build_page
from islands.errors import DatabaseUnavailable, NoRuns
from islands.names import hide_password
from islands.runs import RunOverview, overview
from islands.store import Store

FRESH_SECONDS = 1.0
"""Requests within this time of a reading share it, so that many tabs cost as much as one."""
COST_SHARE = 0.05
"""The share of one core that reading the list of runs, or building the page of one, may take."""
READERS_KEPT = 8
MOST_TRAININGS = 100
Made = TypeVar("Made")
DETAILS = 50
"""Problems of a page that have their own section; the best answers of all have their own pages."""


class RunDatabase:
    """One database. All methods may be called from any thread; they raise DatabaseUnavailable."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.name = hide_password(address).removeprefix("sqlite:///")
        self._lock, self._reading = threading.Lock(), threading.Lock()  # pages are read one at a time
        self._store: Store | None = None
        self._file: tuple[int, int] | None = None
        self._readers: dict[tuple[str, ...], Progress] = {}
        self._kept: dict[tuple[str, ...], tuple[Any, float]] = {}

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
        return self._keep((), lambda: overview(store))

    def trainings(self) -> list[TrainingProgress]:
        """Those below this folder, the newest first, as far as they can be read."""

        def read() -> list[TrainingProgress]:
            found = []
            for folder in find_trainings()[:MOST_TRAININGS]:
                with contextlib.suppress(BadInput, OSError):
                    found.append(TrainingProgress.open(folder))
            return found

        return self._keep(("", "trainings"), read)

    def page(self, names: tuple[str, ...], base: str) -> SimpleNamespace:
        """The page of runs or comparisons as they are now. base: its address. Raises UnknownRun, BadInput."""
        store = self.store()
        with self._reading:
            progress = self._readers.pop(names, None) or Progress(store, names[0], also=names[1:], live=True)
            self._readers[names] = progress  # at the end: the first is the one that was asked for longest ago
            while len(self._readers) > READERS_KEPT:
                oldest = next(iter(self._readers))
                del self._readers[oldest], self._kept[oldest]

            def build() -> SimpleNamespace:
                with store.read():
                    progress.refresh()
                    return build_page(progress, details=DETAILS, base=base)

            return self._keep(names, build)

    def _keep(self, names: tuple[str, ...], make: Callable[[], Made]) -> Made:
        """What `make` gives, made again when its turn has come."""
        known, due = self._kept.get(names, (None, 0.0))
        if time.monotonic() < due:
            found: Made = known
            return found
        began, made = time.thread_time(), make()
        self._kept[names] = made, time.monotonic() + max(FRESH_SECONDS, (time.thread_time() - began) / COST_SHARE)
        return made

    def close(self) -> None:
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store, self._file = None, None
        self._readers.clear()
        self._kept.clear()

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
