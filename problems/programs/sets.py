"""Programming problems by address: the shipped sets and files.

programs:FILE  programs:FILE/12  programs:FILE/3,12  rows of a file, counted from 0
programs:FILE?from=2024-08-01&to=2025-02-01          those dated from the first day on and before the second
livecodebench:FILE  livecodebench:FILE/abc387_f      LiveCodeBench's own files, by the ids of their questions
livecodebench:FOLDER                                 every .jsonl file of a folder, in the order of their names
livecodebench:hf                                     the same from the hub, if it can be reached
"""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems.address import NAMES, did_you_mean, parse_place, user_path
from problems.contract import BadAddress
from problems.family import ProblemFamily, ProblemSet, Sandboxes
from problems.fingerprint import fingerprint_of
from problems.programs.cases import Task, Unusable
from problems.programs.livecodebench import is_livecodebench, livecodebench_task
from problems.programs.problem import ProgramProblem
from problems.programs.shapes import humaneval_task, is_humaneval, is_mbpp, mbpp_task
from problems.rows import read_hub, rows_of

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox


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


DIFFICULTIES = ("easy", "medium", "hard")
_NAMES = ("shipped", *DIFFICULTIES)
SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet", ".json")
_HUB = ("livecodebench/code_generation_lite", "test", "refs/pr/6")
_SOURCE = ("LiveCodeBench (livecodebench/code_generation_lite)", "CC BY 4.0")


@dataclass(frozen=True)
class TaskPlace:
    """A file or folder of tasks. chosen: which of them, () for all."""

    path: str
    window: DateWindow = DateWindow()
    chosen: tuple[str, ...] = ()


def task_place(kind: str, rest: str) -> TaskPlace:
    """PATH, PATH/INDEX, PATH?OPTIONS or PATH?OPTIONS/INDEX. Raises BadAddress for unknown options."""
    path = user_path(rest)
    if not path.exists() and re.fullmatch(r"[^?]+\?[^?/]*(/[^?/]+)?", rest):
        place = parse_place(kind, rest, {"from": _date, "to": _date}, NAMES)
        window = DateWindow(place.options.get("from", ""), place.options.get("to", ""))
        return TaskPlace(place.path, window, _chosen(place.index))
    parent = path.parent
    if not path.exists() and parent.name and (parent.is_file() or kind == "livecodebench" and _holds_rows(parent)):
        return TaskPlace(str(parent), chosen=_chosen(path.name))
    return TaskPlace(rest)


def _chosen(index: str) -> tuple[str, ...]:
    return tuple(filter(None, index.split(",")))


def _holds_rows(parent: Path) -> bool:
    return str(parent) == "hf" or (parent.is_dir() and bool(_files(parent)))


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIXES))


def _date(value: str) -> str:
    try:
        return datetime.date.fromisoformat(value).isoformat()
    except ValueError:
        raise ValueError("must be a date like 2024-08-01") from None


def load_shipped(name: str, sandbox: Callable[[], Sandbox]) -> list[ProgramProblem]:
    """The set `shipped` (all, easiest first) or one difficulty, as `programs:NAME/0`, `programs:NAME/1`, ..."""
    levels = DIFFICULTIES if name == "shipped" else (name,)
    tasks = [task for level in levels for _, task in read_tasks(_file(level))]
    return [ProgramProblem(f"programs:{name}/{index}", task, sandbox) for index, task in enumerate(tasks)]


def from_file(place: TaskPlace, sandbox: Callable[[], Sandbox], limit: int | None = None) -> list[ProgramProblem]:
    """The tasks of a file as `programs:FILE/0`, ...: one of them, the first `limit`, or all. A task has one name,
    whatever window it was chosen by.

    Raises BadAddress for a file that cannot be read, a row in no known shape, or an index that names none.
    """
    path = user_path(place.path).resolve()
    found = []
    last = -1
    for last, task in read_tasks(path, place.window):
        if not place.chosen or str(last) in place.chosen:
            found.append(ProgramProblem(f"programs:{path}/{last}", task, sandbox))
        if len(found) == (len(place.chosen) or limit):
            break
    stem = f"programs:{path}"
    return _all_chosen(found, stem, place, f"is no task that can be posed; the file's last index is {last}")[:limit]


def from_livecodebench(
    place: TaskPlace, sandbox: Callable[[], Sandbox], limit: int | None = None
) -> list[ProgramProblem]:
    """The questions of LiveCodeBench's files, each named by its id and judged as in the VPO paper: by the 16 smallest
    of its private tests, errata left out.

    Raises BadAddress for what cannot be read, holds anything else, or names no question.
    """
    path = user_path(place.path)
    hub = place.path == "hf"
    stem = "livecodebench:hf" if hub else f"livecodebench:{path.resolve()}"
    if not hub and not path.exists():
        raise BadAddress(f"{stem}: there is no such file or folder; livecodebench:hf takes it from the hub")
    rows = _published() if hub else _rows(path.resolve())
    if place.chosen:
        rows = (pair for pair in rows if str(pair[1].get("question_id")) in place.chosen)
    found: list[ProgramProblem] = []
    for number, task in tasks_of(rows, place.window, PRIVATE_TESTS):
        found.append(ProgramProblem(f"{stem}/{task.extra.get('id') or number}", task, sandbox))
        if hub:
            found[-1].source, found[-1].licence = _SOURCE
        if len(found) == (len(place.chosen) or limit):
            break
    return _all_chosen(found, stem, place, "is no question that can be posed")[:limit]


def _rows(path: Path) -> Iterator[tuple[str, Row]]:
    files = _files(path) if path.is_dir() else [path]
    if not files:
        raise BadAddress(f"livecodebench:{path} holds no .jsonl files")
    for file in files:
        yield from rows_of(file)


def _published() -> Iterator[tuple[str, Row]]:
    data_set, split, revision = _HUB
    instead = f"get test.jsonl to test6.jsonl of huggingface.co/datasets/{data_set} and name their folder"
    for number, row in enumerate(read_hub(data_set, split, instead, revision)):
        yield f"livecodebench:hf, row {number}", row


def _all_chosen(found: list[ProgramProblem], stem: str, place: TaskPlace, told: str) -> list[ProgramProblem]:
    """What was found, in the order in which it was chosen. Raises BadAddress if one is missing, or all are."""
    names = {problem.name: problem for problem in found}
    for index in place.chosen:
        if f"{stem}/{index}" not in names:
            raise BadAddress(f"{stem}/{index} {told}")
    if place.chosen:
        return [names[f"{stem}/{index}"] for index in place.chosen]
    window = place.window
    if not found and (window.since or window.until):
        raise BadAddress(f"{stem} holds no task from {window.since or 'its first'} to {window.until or 'its last'}")
    return found


def set_sizes() -> dict[str, int]:
    """Problems in each shipped set."""
    sizes = {level: len(_file(level).read_text(encoding="utf-8").splitlines()) for level in DIFFICULTIES}
    return {"shipped": sum(sizes.values()), **sizes}


def _file(level: str) -> Path:
    return Path(__file__).parent / "shipped" / f"{level}.jsonl"


class ProgramFamily(ProblemFamily):
    """`programs:SET`, `programs:FILE` and parts of them."""

    name = "programs"
    reads_files = True

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[ProgramProblem]:
        name, slash, index = rest.partition("/")
        if name in _NAMES:
            problems = load_shipped(name, sandbox)
            if not slash:
                return problems[:limit]
            chosen = index.split(",")
            if not all(number.isdecimal() and int(number) < len(problems) for number in chosen):
                raise BadAddress(
                    f"programs:{rest} names no problem; programs:{name}/0 to programs:{name}/{len(problems) - 1} do"
                )
            return [problems[int(number)] for number in chosen][:limit]
        place = task_place(self.name, rest)
        if user_path(place.path).is_file() and all(index.isdecimal() for index in place.chosen):
            return from_file(place, sandbox, limit)
        if place.path.endswith(SUFFIXES) or any(f"{suffix}/" in rest for suffix in SUFFIXES):
            raise BadAddress(f"programs:{rest}: there is no such file")
        known = [f"programs:{name}" for name in _NAMES]
        hint = did_you_mean(f"programs:{rest}", known)
        raise BadAddress(f"there is no set programs:{rest}{hint}; there are {', '.join(known)} and programs:FILE.jsonl")

    def sets(self) -> list[ProblemSet]:
        described = []
        for name, size in set_sizes().items():
            level = "all three difficulties" if name == "shipped" else f"the {name} ones"
            text = f"Python functions and stdin programs judged by test cases, {level}"
            described.append(ProblemSet(f"programs:{name}", text, size, ("case_1", "..."), "own", "Apache-2.0"))
        return described


class LiveCodeBenchFamily(ProblemFamily):
    """`livecodebench:PATH` and `livecodebench:PATH/ID`."""

    name = "livecodebench"
    reads_files = True

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[ProgramProblem]:
        return from_livecodebench(task_place(self.name, rest), sandbox, limit)


PROGRAMS = ProgramFamily()
LIVECODEBENCH = LiveCodeBenchFamily()
