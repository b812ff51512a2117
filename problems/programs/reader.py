"""Reading a JSONL file of programming tasks; the shape of each line is told by its keys."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from problems.contract import BadAddress
from problems.fingerprint import fingerprint_of
from problems.programs.cases import Task, Unusable
from problems.programs.humaneval import humaneval_task, is_humaneval
from problems.programs.livecodebench import is_livecodebench, livecodebench_task
from problems.programs.mbpp import is_mbpp, mbpp_task

_SHAPES = ((is_humaneval, humaneval_task), (is_livecodebench, livecodebench_task), (is_mbpp, mbpp_task))


def read_tasks(path: Path) -> Iterator[tuple[int, Task]]:
    """(index from 0, task) of every line that is not blank. Raises BadAddress naming file and line."""
    try:
        with path.open(encoding="utf-8") as stream:
            index = -1
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                index += 1
                try:
                    task = _task(line, f"{path}:{number}")
                except Unusable as reason:
                    warnings.warn(f"{path}:{number}: skipped: {reason}", stacklevel=2)
                    continue
                yield index, task
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"cannot read {path}: {error}") from None
    if index < 0:
        raise BadAddress(f"{path} holds no tasks")


def _task(line: str, where: str) -> Task:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadAddress(f"{where}: not JSON: {error}") from None
    if not isinstance(row, dict):
        raise BadAddress(f"{where}: a {type(row).__name__}, not an object with keys")
    for fits, convert in _SHAPES:
        if fits(row):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SyntaxWarning)  # "\d" in a published test is not ours to report
                    return replace(convert(row), fingerprint=fingerprint_of(row))
            except Unusable:
                raise
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise BadAddress(f"{where}: {error}") from None
    raise BadAddress(
        f"{where}: neither HumanEval (prompt, entry_point, test) nor MBPP (text, test_list) nor LiveCodeBench "
        f"(question_content, public_test_cases): its keys are {', '.join(sorted(map(str, row))) or 'none'}"
    )
