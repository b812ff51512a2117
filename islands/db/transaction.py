"""One transaction of a store, with actions for its end."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection


class Transaction:
    """One transaction. Callbacks run once it has been committed or rolled back; they must not raise."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.committed: list[Callable[[], None]] = []
        self.rolled_back: list[Callable[[], None]] = []

    def on_end(self, committed: Callable[[], None], rolled_back: Callable[[], None]) -> None:
        """Register what to do at the end."""
        self.committed.append(committed)
        self.rolled_back.append(rolled_back)
