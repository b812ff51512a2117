"""The state of a pipeline: a file in its directory, which is replaced atomically, and a lock on the directory.

DIR/pipeline.json        each stage: its settings, inputs and status
DIR/settings/            each stage's --config file, as its command reads it
DIR/policies/ evaluations/ reports/      results of the stages
DIR/evo.db               their runs, unless another database is named
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from evo.config.parse import parse
from evo.errors import BadInput

STATE, LOCK = "pipeline.json", ".lock"
LOCK_SECONDS = 10.0
"""Seconds to wait for the lock: after a kill -9 the running stage needs a moment to end."""


class Status(StrEnum):
    """The status of a stage; DONE, INTERRUPTED and FAILED are also results of a pipeline."""

    WAITING = "waiting"
    BEGUN = "begun"
    DONE = "done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class StageState(BaseModel):
    """The state of a stage.

    attempt: rises with every --redo and is part of the result's name, so that nothing is overwritten
    inputs: the marks of the stages it read
    gives: path below the directory, or the run's name
    """

    model_config = ConfigDict(extra="forbid")

    state: Status
    kind: str
    settings: dict[str, Any]
    inputs: dict[str, str] = Field(default_factory=dict)
    attempt: int = 1
    gives: str = ""
    seconds: float = 0.0
    reason: str = ""

    @property
    def mark(self) -> str:
        return mark(self.kind, self.settings, self.inputs, self.attempt)


class State(BaseModel):
    """All stages that were begun in a directory. name: the prefix of its runs' names; db: the named database without
    its password, "" for the one in the directory."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    name: str
    db: str
    stages: dict[str, StageState] = Field(default_factory=dict)


def mark(kind: str, settings: Mapping[str, Any], inputs: Mapping[str, str], attempt: int) -> str:
    """A hash of the inputs of a stage: its settings, those of all stages it reads, and the number of its attempt."""
    canonical = json.dumps([kind, settings, inputs, attempt], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def load(folder: Path) -> State | None:
    """The state in the directory, None if nothing was begun. Raises BadInput if it holds other files."""
    path = folder / STATE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if folder.is_dir() and any(entry.name != LOCK for entry in folder.iterdir()):
            raise BadInput(f"-o {folder}: holds other files; name a new directory, or that of a pipeline") from None
        return None
    except OSError as error:
        raise BadInput(f"-o {folder}: {error.strerror or error}") from error
    try:
        return parse(State, json.loads(text), str(path))
    except ValueError as error:
        raise BadInput(f"{path}: cannot be read ({error}); name another directory") from error


def save(folder: Path, state: State) -> None:
    """Replace the file atomically, after its contents are on disk."""
    partial = folder / (STATE + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(state.model_dump_json(indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / STATE)


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[int]:
    """Lock the directory and yield the lock's descriptor. A stage's process inherits it, so both hold the lock."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise BadInput(f"-o {folder}: {error.strerror or error}") from error
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BadInput(
                        f"-o {folder}: another evo pipeline works in this directory; stop it first"
                    ) from None
                time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)
