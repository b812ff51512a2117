"""Reading a file of programming tasks; the shape of each row is detected from its keys."""

from __future__ import annotations

import gzip
import json
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from problems.contract import BadAddress
from problems.fingerprint import fingerprint_of
from problems.programs.cases import Task, Unusable
from problems.programs.humaneval import humaneval_task, is_humaneval
from problems.programs.livecodebench import is_livecodebench, livecodebench_task
from problems.programs.mbpp import is_mbpp, mbpp_task
from problems.rows import read_rows

Row = Mapping[str, Any]
Shape = tuple[Callable[[Row], bool], Callable[[Row], Task]]
SHAPES: tuple[Shape, ...] = (
    (is_humaneval, humaneval_task),
    (is_livecodebench, livecodebench_task),
    (is_mbpp, mbpp_task),
)
PRIVATE_TESTS: tuple[Shape, ...] = ((is_livecodebench, lambda row: livecodebench_task(row, private=True)),)
"""LiveCodeBench alone, judged as in the VPO paper."""


@dataclass(frozen=True)
class DateWindow:
    """Dates, each as YYYY-MM-DD or "" for no bound: rows from `since` on and before `until`."""

    since: str = ""
    until: str = ""

    def holds(self, row: Row, where: str) -> bool:
        """Whether the row is dated within it. Raises BadAddress for a row without a date if one is needed."""
        if not (self.since or self.until):
            return True
        date = str(row.get("contest_date") or row.get("estimated_date") or "")[:10]
        if not date:
            raise BadAddress(f"{where}: has no contest_date or estimated_date, so that from and to leave it open")
        return self.since <= date and (not self.until or date < self.until)


def read_tasks(
    path: Path, window: DateWindow = DateWindow(), shapes: Iterable[Shape] = SHAPES
) -> Iterator[tuple[int, Task]]:
    """(index from 0, task) of every row of a file (JSON Lines, such a file packed by gzip, a JSON list, Parquet) whose
    date is in the window. Raises BadAddress naming file and line."""
    yield from tasks_of(rows_of(path), window, shapes)


def tasks_of(
    rows: Iterable[tuple[str, Row]], window: DateWindow, shapes: Iterable[Shape]
) -> Iterator[tuple[int, Task]]:
    """The same of rows, each with where it stands."""
    for index, (where, row) in enumerate(rows):
        if not window.holds(row, where):
            continue
        try:
            yield index, _task(row, where, shapes)
        except Unusable as reason:
            warnings.warn(f"{where}: skipped: {reason}", stacklevel=2)


def rows_of(path: Path) -> Iterator[tuple[str, Row]]:
    """Every row with where it stands, one at a time where the file has a line for each. Raises BadAddress."""
    if path.suffix in (".parquet", ".json"):
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(read_rows(path)))
        return
    empty = True
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    empty = False
                    yield f"{path}:{number}", _parsed(line, f"{path}:{number}")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BadAddress(f"cannot read {path}: {error}") from None
    if empty:
        raise BadAddress(f"{path} holds no tasks")


def _parsed(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadAddress(f"{where}: not JSON: {error}") from None
    if not isinstance(row, dict):
        raise BadAddress(f"{where}: a {type(row).__name__}, not an object with keys")
    return row


def _task(row: Row, where: str, shapes: Iterable[Shape]) -> Task:
    for fits, convert in shapes:
        if fits(row):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SyntaxWarning)  # "\d" in a published test is not ours to report
                    return replace(convert(row), fingerprint=fingerprint_of(row))
            except Unusable:
                raise
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise BadAddress(f"{where}: {error}") from None
    keys = f"its keys are {', '.join(sorted(map(str, row))) or 'none'}"
    if tuple(shapes) == PRIVATE_TESTS:
        raise BadAddress(f"{where}: not LiveCodeBench (question_content, private_test_cases): {keys}")
    raise BadAddress(
        f"{where}: neither HumanEval (prompt, entry_point, test) nor MBPP (text, test_list) nor LiveCodeBench "
        f"(question_content, public_test_cases): {keys}; examples/programs/convert.py makes rows of EvalPlus and "
        f"LeetCodeDataset"
    )
