"""A thread that keeps a snapshot of a run current, so that reading the database does not block painting."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from evo.monitor.poller import Poller
from islands.errors import DatabaseUnavailable
from islands.store import Store

POLL_SECONDS = 1.0
POLL_SHARE = 0.02
"""Polls that cost more than this share of a core come less often."""
LOADING_PAUSE = 0.05


class Watcher:
    """A thread that keeps a snapshot current. `changed` is called from it after every new snapshot."""

    def __init__(self, db: str, name: str, against: str | None = None, *, patience: float | None = None) -> None:
        """Opens the database for reading. patience: seconds of a database that does not answer until `failure` is
        set and the thread ends; None for ever. Raises DatabaseUnavailable, UnknownRun, BadInput."""
        self.store = Store.open(db, read_only=True)
        self.changed: Callable[[], None] = lambda: None
        self.failure: Exception | None = None
        self._patience = patience
        self._over, self._again = threading.Event(), threading.Event()
        self._looked: tuple[int, str | None] = (0, None)
        try:
            self._check_file()
            self._poller = Poller(self.store, name, against)
            self.snapshot = self._poller.poll()
        except BaseException:
            self.store.close()
            raise
        self._thread = threading.Thread(target=self._run, name=f"watching {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look(self, problem: int, arm: str | None) -> None:
        """The viewer's choices; the next snapshot comes at once."""
        if (problem, arm) != self._looked:
            self._looked = (problem, arm)
            self._again.set()

    def close(self) -> None:
        """End the thread and the connections."""
        self._over.set()
        self._again.set()
        if self._thread.is_alive():
            self._thread.join(5)
        self.store.close()

    def _run(self) -> None:
        silent_since: float | None = None
        pause = 0.0 if self.snapshot.loaded < self.snapshot.runs else POLL_SECONDS
        while not self._over.is_set():
            self._again.wait(pause)
            self._again.clear()
            if self._over.is_set():
                return
            began = time.thread_time()
            try:
                self._check_file()
                self._poller.look(*self._looked)
                self.snapshot = self._poller.poll()
                silent_since = None
            except DatabaseUnavailable as error:
                silent_since = time.monotonic() if silent_since is None else silent_since
                self.snapshot = replace(self.snapshot, fault=str(error))
                if self._patience is not None and time.monotonic() - silent_since >= self._patience:
                    self.failure = error
            except Exception as error:  # a bug, or the run was deleted: shown, and no reason to end a search
                self.snapshot = replace(self.snapshot, fault=f"{type(error).__name__}: {error}")
                self.failure = error if self._patience is not None else None
            self.changed()
            if self.failure is not None:
                return
            cost = time.thread_time() - began
            loading = self.snapshot.loaded < self.snapshot.runs
            pause = LOADING_PAUSE if loading else max(POLL_SECONDS, cost / POLL_SHARE)

    def _check_file(self) -> None:
        """An open SQLite file can be read on after it was removed, and never changes again."""
        url = self.store.url
        if url.drivername == "sqlite" and not os.path.exists(str(url.database)):  # noqa: PTH110
            raise DatabaseUnavailable(f"{self.store.address}: the file is gone")
