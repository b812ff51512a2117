"""A Problem judged by test cases, and such problems by address: the shipped sets and files.

programs:FILE  programs:FILE/12  programs:FILE/3,12  rows of a file, counted from 0
programs:FILE?from=2024-08-01&to=2025-02-01          those dated from the first day on and before the second
livecodebench:FILE  livecodebench:FILE/abc387_f      LiveCodeBench's own files, by the ids of their questions
livecodebench:FOLDER                                 every .jsonl file of a folder, in the order of their names
"""

from __future__ import annotations

import datetime
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from problems.address import NAMES, parse_place, user_path
from problems.contract import BadAddress, Problem, Score, ScorerFault
from problems.fingerprint import fingerprint_of
from problems.programs.cases import Task, Unusable, clip_text, feedback, passes
from problems.programs.livecodebench import is_livecodebench, livecodebench_task
from problems.programs.shapes import humaneval_task, is_humaneval, is_mbpp, mbpp_task
from problems.python_syntax import code_features, strip_fence
from problems.registry import ProblemFamily, ProblemSet, Sandboxes, unknown_set
from problems.rows import rows_of
from problems.sandbox.contract import WALL_FACTOR, CaseOutcome, Limits, Program
from problems.weights import ALL_REWARDS

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

Row = Mapping[str, Any]
SHAPES = ((is_humaneval, humaneval_task), (is_livecodebench, livecodebench_task), (is_mbpp, mbpp_task))
PRIVATE_TESTS = ((is_livecodebench, partial(livecodebench_task, private=True)),)
"""LiveCodeBench alone, judged as in the VPO paper."""
DIFFICULTIES = ("easy", "medium", "hard")
_NAMES = ("shipped", *DIFFICULTIES)
_PUBLISHED = "huggingface.co/datasets/livecodebench/code_generation_lite has test.jsonl to test6.jsonl"
SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet", ".json")


class ProgramProblem(Problem):
    """A Python function, or a program that reads standard input, judged case by case in the sandbox.

    objectives: `case_1`, `case_2`, ...; where the task has more cases than components, the last component is 1 only if
        all the remaining cases pass
    fitness: mean of the components; solved is 1.0, where every case passes
    features: `code_length` in characters and `branching`, the number of branches and loops; both are exact, so an
        answer always falls into the same cell (a running time would not)
    """

    answer_format = "python"
    execution = "apart"
    target: float | None = 1.0

    def __init__(self, name: str, task: Task, sandbox: Callable[[], Sandbox]) -> None:
        self.name = name
        self.task = task
        self.objectives = tuple(f"case_{number}" for number in range(1, task.components + 1))
        self._sandbox = sandbox
        self._tests_lock = threading.Lock()
        self._tests_checked = task.reference is None
        self.timeout: float | None = task.seconds
        self._limits = Limits(cpu_seconds=task.seconds, wall_seconds=task.seconds * WALL_FACTOR)

    def __repr__(self) -> str:
        return f"ProgramProblem({self.name!r}, {len(self.objectives)} cases)"

    def known_answers(self, seed: int) -> list[str]:
        """The data set's solution, if it has one."""
        return [self.task.reference] if self.task.reference else []

    def target_under(self, weights: Sequence[float]) -> float:
        """Of an answer that passes every case."""
        return ALL_REWARDS

    def statement(self) -> str:
        """Task, signature and a public example or two; and where cases share the last component, that they do."""
        cases, components = len(self.task.cases), self.task.components
        if cases == components:
            return self.task.text
        shared = f"case_{components} is 1 only if all tests from number {components} on pass"
        return f"{self.task.text}\n\nThere are {cases} tests and {components} scores: {shared}."

    def seed_answer(self) -> str:
        """The signature with an empty body."""
        return self.task.seed

    def fingerprint(self) -> str:
        """Of the data set's line."""
        return self.task.fingerprint

    def canonical(self, answer: str) -> str:
        """The code alone: out of its fence, with newlines normalised and no space at line ends."""
        return strip_fence(answer, wanted=f"def {self.task.entry}" if self.task.entry else "")

    def score(self, answer: str) -> Score:
        """Rewards 1.0 or 0.0 per case. Raises ScorerFault if the tests fail the data set's own solution, or pass an
        answer that does nothing."""
        self._check_tests()
        code = self.canonical(answer)
        if not code.strip():
            return Score.failure(len(self.objectives), "empty answer", "The answer holds no code.")
        cases, outcomes = self.task.cases, self._run(code)
        passed = [*map(passes, cases, outcomes)]
        last = self.task.components - 1
        rewards = (*map(float, passed[:last]), float(all(passed[last:])))
        ran = any(outcome.status == "ok" for outcome in outcomes)
        error = None if ran else clip_text(outcomes[0].message or outcomes[0].status)
        return Score(rewards, sum(rewards) / len(rewards), code_features(code), feedback(cases, outcomes), error)

    def _check_tests(self) -> None:
        """Before the first answer is scored: the tests accept the data set's own solution, if there is one, and refuse
        an empty body."""
        with self._tests_lock:
            if self._tests_checked:
                return
            cases, outcomes = self.task.cases, self._run(self.canonical(self.task.reference or ""))
            failing = [pair for pair in zip(cases, outcomes, strict=True) if not passes(*pair)]
            for case, outcome in failing[:1]:
                about = feedback([case], [outcome]).splitlines()[-1].removeprefix("- ")
                self._stop(f"the data set's own solution fails {len(failing)} of {len(cases)} tests ({about})")
            if all(map(passes, cases, self._run(self.task.seed))):
                self._stop("its tests pass an answer with an empty body")
            self._tests_checked = True

    def _stop(self, why: str) -> NoReturn:
        raise ScorerFault(f"{self.name}: cannot be judged here: {why}")

    def _run(self, code: str) -> list[CaseOutcome]:
        task = self.task
        code = f"{code}\n{task.epilogue}\n" if task.epilogue else code
        cases = tuple(case.source for case in task.cases)
        program = Program(code, cases, "stdin" if task.stdin else "calls", task.setup)
        return self._sandbox().run(program, self._limits)


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
