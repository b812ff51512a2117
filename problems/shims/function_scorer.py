"""Runs in a sandbox worker: loads a pickled scoring function and answers the parent's questions in plain data."""

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from problems.shims import user_file
else:
    import user_file  # beside this file, which is loaded by its path

CODE_FILE = os.environ["EVO_SCORER_CODE_FILE"]

_score: Any = None
_broken: dict[str, Any] | None = None
try:
    _score = pickle.loads(Path(os.environ["EVO_SCORER_PICKLE"]).read_bytes())
except Exception as error:
    _broken = user_file.fault(error, CODE_FILE)


def describe() -> dict[str, Any]:
    """{"fault", "line"} where it cannot be loaded."""
    return _broken or {}


def score(answer: str) -> dict[str, Any]:
    """What user_file.ask gives."""
    return user_file.ask(_score, answer, CODE_FILE)


def score_batch(answers: list[str]) -> dict[str, Any]:
    """What user_file.ask_all gives, of a function that takes a list of answers."""
    return user_file.ask_all(_score, answers, CODE_FILE)
