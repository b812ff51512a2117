"""Runs in a sandbox worker: loads a user's scorer file and answers the parent's questions in plain data.

It stands between the two so that a fault in the user's file comes back with its line, and so that a `Problem` object
and a `score` function look alike from outside. It imports the standard library alone.
"""

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from problems.shims import answer_apart, user_file
else:
    import answer_apart  # beside this file, which is loaded by its path
    import user_file

FILE = os.environ["EVO_SCORER_FILE"]
answer_apart.source_of(FILE)
sys.path.insert(0, os.path.dirname(FILE))
importlib.util.find_spec("problems")  # lists its folder's parent now: an evaluation may read in it, but not list it

oracle: Any = None  # set where the answer runs apart: asks it
_module: Any = None
_broken: dict[str, Any] | None = None
try:
    _module = user_file.load(FILE, "scorer_file")
except Exception as error:
    _broken = user_file.fault(error, FILE)

_target: Any = _module
if _module is not None and not any(callable(getattr(_module, name, None)) for name in ("score", "batch_scorer")):
    try:
        _made = getattr(_module, "problem", None)
        _target = _made if _made is not None else getattr(_module, "Problem", lambda: None)()
    except Exception as error:
        _target, _broken = None, user_file.fault(error, FILE)


def describe() -> dict[str, Any]:
    """What the file declares: {"fault", "line"} or its attributes as plain data."""
    if _broken is not None:
        return _broken
    batched = callable(getattr(_target, "batch_scorer", None))
    if not batched and not callable(getattr(_target, "score", None)):
        said = "no function score(answer) or batch_scorer(answers), no `problem` and no class Problem"
        return {"fault": said, "line": None}
    found: dict[str, Any] = dict(canonical=callable(getattr(_target, "canonical", None)), batched=batched)
    for name in ("statement", "seed_answer"):
        value = getattr(_target, name, None)
        try:
            found[name] = value() if callable(value) else value
        except Exception as error:
            return user_file.fault(error, FILE)
    for name in ("objectives", "target", "answer_format", "weights", "directions"):
        value = getattr(_target, name, None)
        found[name] = list(value) if name == "objectives" and value is not None else value
    return found


def score(answer: str) -> dict[str, Any]:
    """What user_file.ask gives."""
    return user_file.ask(_target.score, answer, FILE)


def score_batch(answers: list[str]) -> dict[str, Any]:
    """What user_file.ask_all gives."""
    return user_file.ask_all(_target.batch_scorer, answers, FILE)


def score_apart(answer: str, names: dict[str, Any] | None) -> dict[str, Any]:
    """As `score`, with the answer in a process of its own wherever the file would execute it. names: its own"""
    answer_apart.stand_in(oracle, FILE, text=answer, names=names)
    return score(answer)


def canonical(answer: str) -> Any:
    """The object's own canonical form."""
    return _target.canonical(answer)
