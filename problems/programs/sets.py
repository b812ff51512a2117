"""Programming problems by address: the shipped sets and files.

programs:FILE  programs:FILE/12  programs:FILE/3,12  rows of a file, counted from 0
programs:FILE?from=2024-08-01&to=2025-02-01          those dated from the first day on and before the second
livecodebench:FILE  livecodebench:FILE/abc387_f      LiveCodeBench's own files, by the ids of their questions
livecodebench:FOLDER                                 every .jsonl file of a folder, in the order of their names
"""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from problems.address import NAMES, parse_place, user_path
from problems.contract import BadAddress
from problems.family import ProblemFamily, ProblemSet, Sandboxes, unknown_set
from problems.fingerprint import fingerprint_of
from problems.programs.cases import Task, Unusable
from problems.programs.livecodebench import is_livecodebench, livecodebench_task
from problems.programs.problem import ProgramProblem
from problems.programs.shapes import humaneval_task, is_humaneval, is_mbpp, mbpp_task
from problems.rows import rows_of

Row = Mapping[str, Any]
SHAPES = ((is_humaneval, humaneval_task), (is_livecodebench, livecodebench_task), (is_mbpp, mbpp_task))
PRIVATE_TESTS = ((is_livecodebench, partial(livecodebench_task, private=True)),)
"""LiveCodeBench alone, judged as in the VPO paper."""
DIFFICULTIES = ("easy", "medium", "hard")
_NAMES = ("shipped", *DIFFICULTIES)
_PUBLISHED = "huggingface.co/datasets/livecodebench/code_generation_lite has test.jsonl to test6.jsonl"
SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet", ".json")


@dataclass(frozen=True)
class TaskPlace:
    """A file, folder or shipped set of tasks.

    since, until: dates as YYYY-MM-DD, or "" for no bound: rows from `since` on and before `until`
    chosen: indices or ids of rows, () for all
    """

    path: str
    since: str = ""
    until: str = ""
    chosen: tuple[str, ...] = ()

    def holds(self, row: Row, index: str, where: str) -> bool:
        """Whether the row is chosen. Raises BadAddress for a row without a date if one is needed."""
        if not (self.since or self.until) or (self.chosen and index not in self.chosen):
            return not self.chosen or index in self.chosen
        date = str(row.get("contest_date") or row.get("estimated_date") or "")[:10]
        if not date:
            raise BadAddress(f"{where}: has no contest_date or estimated_date, so that from and to leave it open")
        return self.since <= date and (not self.until or date < self.until)


def task_place(kind: str, rest: str) -> TaskPlace:
    """PATH, PATH/INDEX, PATH?OPTIONS or PATH?OPTIONS/INDEX. Raises BadAddress for unknown options."""
    path = user_path(rest)
    if not path.exists() and re.fullmatch(r"[^?]+\?[^?/]*(/[^?/]+)?", rest):
        place = parse_place(kind, rest, {"from": _date, "to": _date}, NAMES)
        return TaskPlace(place.path, place.options.get("from", ""), place.options.get("to", ""), _chosen(place.index))
    parent = path.parent
    folder = kind == "livecodebench" and parent.is_dir() and bool(_files(parent))
    if not path.exists() and parent.name and (parent.is_file() or folder):
        return TaskPlace(str(parent), chosen=_chosen(path.name))
    return TaskPlace(rest)


def _chosen(index: str) -> tuple[str, ...]:
    return tuple(filter(None, index.split(",")))


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIXES))


def _date(value: str) -> str:
    try:
        return datetime.date.fromisoformat(value).isoformat()
    except ValueError:
        raise ValueError("must be a date like 2024-08-01") from None


def read_task(row: Row, where: str, private: bool = False) -> Task | None:
    """The task of a row; None, with a warning, for one that cannot be posed. Raises BadAddress, which begins with
    `where`. private: it is LiveCodeBench's, judged by its private tests alone"""
    shapes = PRIVATE_TESTS if private else SHAPES
    convert = next((convert for fits, convert in shapes if fits(row)), None)
    if convert is None:
        known = "LiveCodeBench (question_content, private_test_cases)"
        if not private:
            known = (
                "HumanEval (prompt, entry_point, test) nor MBPP (text, test_list) nor LiveCodeBench (question_content, "
                "public_test_cases)"
            )
        keys = f"its keys are {', '.join(sorted(map(str, row))) or 'none'}"
        hint = "" if private else "; examples/programs/convert.py makes rows of EvalPlus and LeetCodeDataset"
        raise BadAddress(f"{where}: {'not' if private else 'neither'} {known}: {keys}{hint}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # "\d" in a published test is not ours to report
            return replace(convert(row), fingerprint=fingerprint_of(row))
    except Unusable as reason:
        warnings.warn(f"{where}: skipped: {reason}", stacklevel=2)
        return None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadAddress(f"{where}: {error}") from None


def pose(
    stem: str, rows: Iterable[tuple[str, Row]], place: TaskPlace, sandbox: Sandboxes, limit: int | None
) -> list[ProgramProblem]:
    """The chosen rows as problems, or the first `limit`: STEM/INDEX, a LiveCodeBench question STEM/ID. A task has one
    name, whatever window it was chosen by.

    Raises BadAddress for a row in no known shape, and if one that was chosen is missing, or all are.
    """
    questions = stem.startswith("livecodebench:")
    posed: dict[str, ProgramProblem] = {}
    last = -1
    for last, (where, row) in enumerate(rows):
        index = str((questions and row.get("question_id")) or last)
        task = read_task(row, where, questions) if place.holds(row, index, where) else None
        if task is not None:
            posed[index] = ProgramProblem(f"{stem}/{index}", task, sandbox)
        if len(posed) == (len(place.chosen) or limit):
            break
    for index in place.chosen:
        if index not in posed:
            there = "" if questions else f"; the last index is {last}"
            raise BadAddress(f"{stem}/{index} names no problem that can be posed{there}")
    if not posed and (place.since or place.until):
        raise BadAddress(f"{stem} holds no task from {place.since or 'its first'} to {place.until or 'its last'}")
    return [posed[index] for index in place.chosen or posed][:limit]


def set_sizes() -> dict[str, int]:
    """Problems in each shipped set."""
    sizes = {level: len(_file(level).read_text(encoding="utf-8").splitlines()) for level in DIFFICULTIES}
    return {"shipped": sum(sizes.values()), **sizes}


def _file(level: str) -> Path:
    return Path(__file__).parent / "shipped" / f"{level}.jsonl"


def _rows_of(files: Iterable[Path]) -> Iterator[tuple[str, Row]]:
    for file in files:
        yield from rows_of(file)


class ProgramFamily(ProblemFamily):
    """`programs:SET`, `programs:FILE` and parts of them: SET is `shipped` (all, easiest first) or a difficulty."""

    name = "programs"
    reads_files = True

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[ProgramProblem]:
        name, _, index = rest.partition("/")
        if name in _NAMES:
            files = map(_file, DIFFICULTIES if name == "shipped" else (name,))
            return pose(f"programs:{name}", _rows_of(files), TaskPlace(name, chosen=_chosen(index)), sandbox, limit)
        place = task_place(self.name, rest)
        path = user_path(place.path)
        if path.is_file() and all(index.isdecimal() for index in place.chosen):
            return pose(f"programs:{path.resolve()}", rows_of(path.resolve()), place, sandbox, limit)
        if place.path.endswith(SUFFIXES) or any(f"{suffix}/" in rest for suffix in SUFFIXES):
            raise BadAddress(f"programs:{rest}: there is no such file")
        known = [f"programs:{name}" for name in _NAMES]
        raise unknown_set(f"programs:{rest}", known, " and programs:FILE.jsonl")

    def sets(self) -> list[ProblemSet]:
        described = []
        for name, size in set_sizes().items():
            level = "all three difficulties" if name == "shipped" else f"the {name} ones"
            text = f"Python functions and stdin programs judged by test cases, {level}"
            described.append(ProblemSet(f"programs:{name}", text, size, ("case_1", "..."), "own", "Apache-2.0"))
        return described


class LiveCodeBenchFamily(ProblemFamily):
    """`livecodebench:PATH` and `livecodebench:PATH/ID`: LiveCodeBench's files, judged as in the VPO paper: by the 16
    smallest of a question's private tests, errata left out."""

    name = "livecodebench"
    reads_files = True

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[ProgramProblem]:
        place = task_place(self.name, rest)
        path = user_path(place.path).resolve()
        stem = f"livecodebench:{path}"
        if not path.exists():
            raise BadAddress(f"{stem}: there is no such file or folder; {_PUBLISHED}")
        files = _files(path) if path.is_dir() else [path]
        if not files:
            raise BadAddress(f"{stem} holds no .jsonl files")
        return pose(stem, _rows_of(files), place, sandbox, limit)


PROGRAMS = ProgramFamily()
LIVECODEBENCH = LiveCodeBenchFamily()
