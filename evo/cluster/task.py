"""The tasks of a cluster. Each is found by its name in the database, so that any node can continue it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ClusterTask:
    """A run, a shard of one, or a command.

    lost: how often its process was lost; fruitless: how often in a row without progress
    groups: the groups in the database at the last loss, or another measure of progress
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

    arguments: of `evo`; settings: those of a --config file that is written on the node
    command: the user's command, which is recorded instead of this one
    database: the value of EVO_DB
    witness: a file of the driver that the node must see too
    """

    arguments: tuple[str, ...]
    witness: str
    settings: Mapping[str, Any] | None = None
    command: str = ""
    database: str | None = None


@dataclass(frozen=True)
class CommandOutcome:
    """How a command ended: its exit code (negative: the signal that killed it) and its last line on stderr."""

    code: int
    last_line: str = ""
