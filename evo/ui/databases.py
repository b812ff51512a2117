"""The database of a page: opened at the first request, read for one page at a time, and shared by all requests."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from evo.progress.model import Progress
from evo.report.page import build_page
from islands.errors import DatabaseUnavailable, NoRuns
from islands.names import hide_password
from islands.runs import RunOverview, overview
from islands.store import Store

_FRESH_SECONDS = 1.0
"""Requests within this time of a reading share it, so that many tabs cost as much as one."""
_COST_SHARE = 0.05
"""The share of one core that reading the list of runs, or building the page of one, may take."""
_READERS_KEPT = 8
_Made = TypeVar("_Made")
_DETAILS = 50
"""Problems of a page that have their own section; the best answers of all have their own pages."""


class RunDatabase:
    """One database. All methods may be called from any thread; they raise DatabaseUnavailable."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.name = hide_password(address).removeprefix("sqlite:///")
        self._lock, self._reading = threading.Lock(), threading.Lock()  # pages are read one at a time
        self._store: Store | None = None
        self._file: tuple[int, int] | None = None
        self._readers: dict[str, Progress] = {}
        self._kept: dict[str, tuple[Any, float]] = {}

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
        return self._keep("", lambda: overview(store))

    def page(self, name: str, base: str) -> SimpleNamespace:
        """The page of a run or a comparison as it is now. base: its address. Raises UnknownRun, BadInput."""
        store = self.store()
        with self._reading:
            progress = self._readers.pop(name, None) or Progress(store, name, live=True)
            self._readers[name] = progress  # at the end: the first is the one that was asked for longest ago
            while len(self._readers) > _READERS_KEPT:
                oldest = next(iter(self._readers))
                del self._readers[oldest], self._kept[oldest]

            def build() -> SimpleNamespace:
                with store.read():
                    progress.refresh()
                    return build_page(progress, details=_DETAILS, base=base)

            return self._keep(name, build)

    def _keep(self, name: str, make: Callable[[], _Made]) -> _Made:
        """What `make` gives, made again when its turn has come."""
        known, due = self._kept.get(name, (None, 0.0))
        if time.monotonic() < due:
            found: _Made = known
            return found
        began, made = time.thread_time(), make()
        self._kept[name] = made, time.monotonic() + max(_FRESH_SECONDS, (time.thread_time() - began) / _COST_SHARE)
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
