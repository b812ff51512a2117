"""The work of a cluster in pieces: each is found by name in the database, so that any node can go on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ClusterTask:
    """A run, a shard of one, or a command.

    lost: how often the process that had it was lost; groups: that the database held when it was lost last, or
        whatever else tells how far the work is
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
class CommandOrder:
    """An `evo` command for a node.

    arguments: of `evo`; settings: of a --config file that is written there
    said: the command that a person gave, which goes on record in its stead
    database: what EVO_DB is to say
    witness: a file that the driver sees, which the node has to see too
    """

    arguments: tuple[str, ...]
    witness: str
    settings: Mapping[str, Any] | None = None
    said: str = ""
    database: str | None = None


@dataclass(frozen=True)
class CommandOutcome:
    """How a command ended: its exit code (negative: the signal that killed it) and its last word on stderr."""

    code: int
    word: str = ""
