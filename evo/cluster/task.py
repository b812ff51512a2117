"""The work of a cluster in pieces: each is found by name in the database, so that any node can go on with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Task:
    """A run, or a shard of one.

    lost: how often the process that had it was lost; groups: that the database held when it was lost last
    """

    run: str
    shard: int | None = None
    lost: int = 0
    fruitless: int = 0
    groups: int = field(default=-1, repr=False)

    @property
    def label(self) -> str:
        return self.run if self.shard is None else f"{self.run} shard {self.shard}"


@dataclass(frozen=True)
class Answer:
    """What a worker says of an order. kind: done, fault (of a known kind, to be raised) or bug (a traceback)"""

    kind: str
    value: Any
