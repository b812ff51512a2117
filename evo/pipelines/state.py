"""What is finished: a file in the pipeline's directory, written whole or not at all, and a lock on the directory.

DIR/pipeline.json        each stage: its settings, what it read, how far it is
DIR/settings/            each stage's --config file, as its command reads it
DIR/policies/ evaluations/ reports/      what the stages make
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
"""How long to wait for the directory: after a kill -9 the stage that ran takes a moment to end, too."""


class Status(StrEnum):
    """How far a stage is; DONE, INTERRUPTED and FAILED are ends of a whole pipeline too."""

    WAITING = "waiting"
    BEGUN = "begun"
    DONE = "done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class StageState(BaseModel):
    """How far a stage is.

    attempt: counts up with every --redo, and names what the stage makes, so that nothing is ever overwritten
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
    """All stages that were ever begun in a directory. name: what its runs are named after; db: the one named, without
    its password, "" for the one in the directory."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    name: str
    db: str
    stages: dict[str, StageState] = Field(default_factory=dict)


def mark(kind: str, settings: Mapping[str, Any], inputs: Mapping[str, str], attempt: int) -> str:
    """Stands for what decides a stage's outcome: its settings, those of all it reads, and which attempt it was."""
    canonical = json.dumps([kind, settings, inputs, attempt], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def load(folder: Path) -> State | None:
    """What the directory knows; None where nothing was begun in it. Raises BadInput where it is no pipeline's."""
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
    """Replace the file in one step, on disk before it is seen."""
    partial = folder / (STATE + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(state.model_dump_json(indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / STATE)


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[int]:
    """Hold the directory; the lock's descriptor, which a stage's process inherits: it is free when both are gone."""
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
