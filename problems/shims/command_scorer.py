"""Runs in a sandbox worker: lays out a candidate's files, runs the user's command with them, reads its last line."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

TOLD = json.loads(os.environ["EVO_COMMAND"])
_LONGEST = 4000
"""Characters of what a failed command printed that go into the feedback."""
LARGE, MANY = 1 << 20, 2000
"""Files of more bytes, and those after that number, are linked instead of copied."""


def describe() -> dict[str, Any]:
    """Nothing: what a command declares is in its file."""
    return {}


def score(files: dict[str, str]) -> dict[str, Any]:
    """{"value": what the last line says}, or {"answer_error": text}."""
    _lay_out(Path(TOLD["folder"]), Path(), set(files), 0)
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    # not pipes: what keeps one open after the command's end would be waited for
    with open(".evo_stdout", "w+b") as out, open(".evo_stderr", "w+b") as err:
        ended = subprocess.run(["/bin/sh", "-c", TOLD["command"]], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        printed, complained = _tail(out), _tail(err)
    if ended.returncode != 0:
        how = f"signal {-ended.returncode}" if ended.returncode < 0 else f"status {ended.returncode}"
        return {"answer_error": f"the command ended with {how}\n{complained}\n{printed}".strip()}
    last = printed.strip().rpartition("\n")[2]
    try:
        value = json.loads(last)
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, (dict, int, float)):
        return {"answer_error": f"the command's last line is no JSON object of numbers, nor a number: {last[:200]}"}
    return {"value": value}


def _lay_out(folder: Path, below: Path, files: set[str], copied: int) -> int:
    """In the working folder, all that `folder` holds but the candidate's own files; returns how many were copied.

    Copies, because a script that is a link looks for its modules where the link leads, and would find there the files
    that the candidate replaces.
    """
    for entry in sorted((folder / below).iterdir()):
        place = below / entry.name
        if str(place) in files or entry.name == "__pycache__" or place.exists() or place.is_symlink():
            continue
        if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
            place.mkdir()
            copied = _lay_out(folder, place, files, copied)
        elif entry.is_file() and copied < MANY and entry.stat().st_size <= LARGE:
            _copy(entry, place)
            copied += 1
        else:
            place.symlink_to(entry)
    return copied


def _copy(entry: Path, place: Path) -> None:
    """With its mode, which is given as the file is made: changing one is refused where Landlock alone confines."""
    with entry.open("rb") as source, open(os.open(place, os.O_WRONLY | os.O_CREAT, entry.stat().st_mode), "wb") as copy:
        shutil.copyfileobj(source, copy)


def _tail(file: Any) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LONGEST))
    return str(file.read().decode("utf-8", "replace"))
