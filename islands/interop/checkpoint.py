"""An OpenEvolve checkpoint on disk, as ProgramDatabase.save of OpenEvolve 0.4 lays it out:

    checkpoint_N/metadata.json            islands, cells, archive, best program, generations
    checkpoint_N/programs/ID.json         one program each
    checkpoint_N/best_program.py, best_program_info.json

Reading is stricter than OpenEvolve's, which skips unreadable files: an import that silently left out a program would be
another search. Unused data is kept unchanged, so that it can be written again.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from islands.errors import BadCheckpoint

METADATA = "metadata.json"
PROGRAMS = "programs"
MOST_ISLANDS = 1000
_NUMBERED = re.compile(r"checkpoint_(\d+)")
_NAME = re.compile(r"[^/\\\x00.][^/\\\x00]{0,199}")
"""A program's id is the name of its file, wherever the checkpoint comes from: it must not lead out of the folder."""
_SUFFIXES = {"python": ".py", "rust": ".rs", "cpp": ".cpp", "c": ".c", "javascript": ".js", "java": ".java", "r": ".r"}


@dataclass(frozen=True, eq=False)
class CheckpointProgram:
    """The parts of a program that a run needs; `raw` is the whole file.

    island: of which it is a member, else its recorded birth island
    iteration: OpenEvolve's iteration, 0 for the initial program and for copies
    """

    id: str
    code: str
    parent: str | None
    island: int
    generation: int
    created: float
    iteration: int
    metrics: Mapping[str, Any]
    metadata: Mapping[str, Any]
    raw: Mapping[str, Any]

    @property
    def migrant(self) -> bool:
        """Whether it is the copy of a program of another island."""
        return bool(self.metadata.get("migrant"))


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A checkpoint as read. record: metadata.json as it was; islands: how many there are."""

    path: Path
    record: Mapping[str, Any]
    programs: Sequence[CheckpointProgram]
    islands: int


def newest(path: Path) -> Path:
    """The checkpoint that a folder is, or the one of the highest number in an output folder. Raises BadCheckpoint."""
    if not path.is_dir():
        raise BadCheckpoint(f"{path}: there is no such folder; name a checkpoint of OpenEvolve, or its output folder")
    if (path / METADATA).is_file():
        return path
    folders = [f for folder in (path / "checkpoints", path) if folder.is_dir() for f in folder.iterdir() if f.is_dir()]
    numbered = [(int(matched[1]), f) for f in folders if (matched := _NUMBERED.fullmatch(f.name))]
    if numbered:
        return max(numbered)[1]
    if (path / PROGRAMS).is_dir():
        raise BadCheckpoint(f"{path} is no whole checkpoint: it has no {METADATA}")
    inside = sorted(f.name for f in path.iterdir() if (f / "checkpoints").is_dir())
    hint = f"; there are some in {', '.join(inside[:5])}: name one" if inside else ""
    raise BadCheckpoint(f"{path} is no checkpoint of OpenEvolve, and holds none (checkpoints/checkpoint_N){hint}")


def read_checkpoint(path: Path) -> Checkpoint:
    """All programs, in no particular order. Raises BadCheckpoint, naming the file, if a part is missing or
    unreadable."""
    try:
        return _read(newest(path))
    except OSError as error:
        raise BadCheckpoint(f"{error.filename or path}: {error.strerror or error}") from None


def _read(folder: Path) -> Checkpoint:
    record = _json(folder / METADATA)
    programs_folder = folder / PROGRAMS
    if not programs_folder.is_dir():
        raise BadCheckpoint(f"{folder} is no whole checkpoint: it has no folder {PROGRAMS}")
    members = _members(folder, record)
    home = {id: island for island, ids in reversed(list(enumerate(members))) for id in ids}
    programs: dict[str, CheckpointProgram] = {}
    for file in sorted(programs_folder.glob("*.json")):
        program = _program(file, home)
        if program.id in programs:
            raise BadCheckpoint(f"{file}: the program {program.id} is there twice")
        programs[program.id] = program
    if not programs:
        raise BadCheckpoint(f"{folder}: it holds no programs")
    best = record.get("best_program_id")
    missing = [id for id in (*home, *([best] if best else ())) if id not in programs]
    if missing:
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise BadCheckpoint(
            f"{folder} is no whole checkpoint: {METADATA} names a program whose file is missing: {missing[0]}{more}"
        )
    islands = max([len(members), 1, *(program.island + 1 for program in programs.values())])
    if islands > MOST_ISLANDS:
        raise BadCheckpoint(f"{folder}: {islands:,} islands; at most {MOST_ISLANDS:,} can be kept")
    return Checkpoint(folder, record, list(programs.values()), islands)


def write_checkpoint(
    folder: Path, record: Mapping[str, Any], programs: Iterable[Mapping[str, Any]], best: str | None
) -> int:
    """Write a new folder, which gets its final name only when it is complete; returns the number of programs. `best`
    is the id of the program written separately as the best. Raises FileExistsError for an existing folder, OSError."""
    if folder.exists():
        raise FileExistsError(17, "it is there already; name another folder", str(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".partial-{folder.name}-{os.getpid()}")
    (partial / PROGRAMS).mkdir(parents=True)
    try:
        count = 0
        for program in programs:
            id = checked_id(program["id"], folder)
            (partial / PROGRAMS / f"{id}.json").write_text(json.dumps(program), encoding="ascii")
            count += 1
            if id == best:
                _write_best(partial, program, record.get("last_iteration", 0))
        (partial / METADATA).write_text(json.dumps(record), encoding="ascii")
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return count


def _write_best(folder: Path, program: Mapping[str, Any], iteration: int) -> None:
    suffix = _SUFFIXES.get(str(program.get("language", "")).lower(), ".txt")
    code = program["code"].encode("utf-8", "backslashreplace")  # a lone surrogate has no other form in a file
    (folder / f"best_program{suffix}").write_bytes(code)
    summary = {key: program.get(key) for key in ("id", "generation", "metrics", "language", "timestamp")}
    summary |= {"iteration": program.get("iteration_found"), "current_iteration": iteration, "saved_at": time.time()}
    (folder / "best_program_info.json").write_text(json.dumps(summary, indent=2), encoding="ascii")


def checked_id(id: object, where: Path) -> str:
    """The id, if it can be a file name. Raises BadCheckpoint."""
    if not isinstance(id, str) or not _NAME.fullmatch(id):
        raise BadCheckpoint(f"{where}: {str(id)[:80]!r} cannot be the id of a program")
    return id


def _json(file: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise BadCheckpoint(f"{file}: there is no such file") from None
    except OSError as error:
        raise BadCheckpoint(f"{file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise BadCheckpoint(f"{file}: not whole, or no JSON: {' '.join(str(error).split())[:120]}") from None
    if not isinstance(loaded, dict):
        raise BadCheckpoint(f"{file}: expected keys and values, found a {type(loaded).__name__}")
    return loaded


def _members(folder: Path, record: Mapping[str, Any]) -> list[list[str]]:
    """The ids on each island."""
    islands = record.get("islands", [])
    if not isinstance(islands, list) or not all(
        isinstance(island, list) and all(isinstance(id, str) for id in island) for island in islands
    ):
        raise BadCheckpoint(f"{folder / METADATA}: its islands are no lists of program ids")
    best = record.get("best_program_id")
    if best is not None and not isinstance(best, str):
        raise BadCheckpoint(f"{folder / METADATA}: best_program_id is {best!r}, no program's id")
    for key in ("last_iteration", "last_migration_generation"):
        _whole(folder / METADATA, record, key)
    generations = _given(folder / METADATA, record, "island_generations", [], list, "a list of numbers")
    if not all(isinstance(number, int) and 0 <= number < 2**31 for number in generations):
        raise BadCheckpoint(f"{folder / METADATA}: its island_generations are no list of numbers from 0")
    _given(folder / METADATA, record, "feature_stats", {}, dict, "keys and values")
    return islands


def _program(file: Path, home: Mapping[str, int]) -> CheckpointProgram:
    raw = _json(file)
    id = checked_id(raw.get("id"), file)
    metadata = _given(file, raw, "metadata", {}, dict, "keys and values")
    born = metadata.get("island", 0)
    if id not in home and (not isinstance(born, int) or isinstance(born, bool) or not 0 <= born < MOST_ISLANDS):
        raise BadCheckpoint(f"{file}: its island is {born!r}, no number from 0")
    return CheckpointProgram(
        id=id,
        code=_given(file, raw, "code", None, str, "text"),
        parent=_given(file, raw, "parent_id", "", str, "a program's id") or None,
        island=home.get(id, born),
        generation=_whole(file, raw, "generation"),
        created=_time(file, raw),
        iteration=_whole(file, raw, "iteration_found"),
        metrics=_given(file, raw, "metrics", {}, dict, "keys and values"),
        metadata=metadata,
        raw=raw,
    )


def _given(file: Path, raw: Mapping[str, Any], key: str, default: Any, kind: type, expected: str) -> Any:
    value = raw.get(key)
    value = default if value is None else value
    if not isinstance(value, kind):
        actual = "missing" if value is None else f"a {type(value).__name__}"
        raise BadCheckpoint(f"{file}: its {key} is {actual}; it must be {expected}")
    return value


def _whole(file: Path, raw: Mapping[str, Any], key: str) -> int:
    value = _given(file, raw, key, 0, int, "a whole number")
    if not 0 <= value < 2**31:
        raise BadCheckpoint(f"{file}: its {key} is {value}; it must be a whole number from 0")
    return int(value)


def _time(file: Path, raw: Mapping[str, Any]) -> float:
    value = raw.get("timestamp", 0.0)
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise BadCheckpoint(f"{file}: its timestamp is {value!r}; it must be seconds since 1970")
    return float(value)
