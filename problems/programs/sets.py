"""Programming problems by address: the shipped sets and JSONL files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from problems.contract import BadAddress
from problems.programs.problem import ProgramProblem
from problems.programs.reader import read_tasks

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

DIFFICULTIES = ("easy", "medium", "hard")


def load_shipped(name: str, sandbox: Callable[[], Sandbox]) -> list[ProgramProblem]:
    """The set `shipped` (all, easiest first) or one difficulty, as `programs:NAME/0`, `programs:NAME/1`, ..."""
    levels = DIFFICULTIES if name == "shipped" else (name,)
    tasks = [task for level in levels for _, task in read_tasks(_file(level))]
    return [ProgramProblem(f"programs:{name}/{index}", task, sandbox) for index, task in enumerate(tasks)]


def from_file(
    path: Path, sandbox: Callable[[], Sandbox], index: int | None = None, limit: int | None = None
) -> list[ProgramProblem]:
    """The tasks of a JSONL file as `programs:FILE.jsonl/0`, ...: one of them, the first `limit`, or all.

    Raises BadAddress for a file that cannot be read, a line in no known shape, or an index out of range.
    """
    found = []
    last = -1
    for last, task in read_tasks(path):
        if index is None or last == index:
            found.append(ProgramProblem(f"programs:{path}/{last}", task, sandbox))
        if (index is not None and last >= index) or (limit is not None and len(found) == limit):
            break
    if index is not None and not found:
        raise BadAddress(f"programs:{path}/{index} is no task that can be posed; the file's last index is {last}")
    return found


def set_sizes() -> dict[str, int]:
    """Problems in each shipped set."""
    sizes = {level: len(_file(level).read_text(encoding="utf-8").splitlines()) for level in DIFFICULTIES}
    return {"shipped": sum(sizes.values()), **sizes}


def _file(level: str) -> Path:
    return Path(__file__).parent / "shipped" / f"{level}.jsonl"
