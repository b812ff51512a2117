"""Runs in a sandbox worker: loads a user's scorer file, or a pickled scoring function, and answers the parent's
requests in plain data.

It is between the two so that a fault in the user's code comes back with its line, and so that a `score` function in
a file and a function of a notebook look alike from outside. It imports only the standard library.
"""

import importlib
import importlib.util
import os
import pickle
import sys
import traceback
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from problems.shims import user_file
else:
    import user_file  # next to this file, which is loaded by its path

from problems import apart  # by which evo.call finds the parent

FILE = os.environ["EVO_SCORER_FILE"]
"""The scorer's code; for a function the file that it was written in, which need not exist here."""
PICKLE = os.environ.get("EVO_SCORER_PICKLE")
ADAPTER = os.environ.get("EVO_SCORER_ADAPTER")
"""A module whose adapt(module) makes an object with the names of a scorer file, of a file of another kind."""

_TEXTS = ("<string>", "<answer>", "<candidate>", "<program>", "<solution>")
"""Names of files that code from a text has."""


def _load() -> Any:
    """An object with `score`, if the file defines one."""
    if PICKLE is not None:
        function = pickle.loads(Path(PICKLE).read_bytes())
        return SimpleNamespace(score=function)
    module: Any = user_file.load(FILE, "scorer_file")
    if ADAPTER is not None:
        return importlib.import_module(ADAPTER).adapt(module)
    return module


if PICKLE is None:
    sys.path.insert(0, os.path.dirname(FILE))
    importlib.util.find_spec("problems")  # lists its folder's parent now: an evaluation may read in it, but not list it
_target: Any = None
_broken: dict[str, Any] | None = None
try:
    _target = _load()
except Exception as error:
    _broken = user_file.fault(error, FILE)


def describe() -> dict[str, Any]:
    """{"fault", "line"}, or the file's declarations as plain data; {} for a function, which declares nothing."""
    if _broken is not None or PICKLE is not None:
        return _broken or {}
    if not callable(getattr(_target, "score", None)):
        return {"fault": "it defines no function score(answer)", "line": None}
    declared: dict[str, Any] = {"held_out": callable(getattr(_target, "held_out", None))}
    names = ("statement", "seed_answer", "objectives", "target", "answer_format", "weights", "directions")
    for name in (*names, "groups") if ADAPTER is not None else names:
        value: Any = getattr(_target, name, None)
        try:
            value = value() if callable(value) else value
            as_list = value is not None and (name == "objectives" or isinstance(value, tuple))
            declared[name] = list(value) if as_list else value
        except Exception as error:
            return user_file.fault(error, FILE)
    return declared


def _judge(function: str, answer: str) -> dict[str, Any]:
    """{"value": the score}, {"answer_error": text}, or {"fault", "line"}."""
    try:
        value = user_file.awaited(getattr(_target, function)(answer))
    except MemoryError:
        raise  # a limit of the sandbox, reported as such
    except Exception as error:
        if isinstance(error, ValueError) and any(kind.__name__ == "AnswerError" for kind in type(error).__mro__):
            return {"answer_error": str(error) or "rejected by the scorer"}
        if failure := _failure_of_answer(error, answer):
            return {"answer_error": failure}
        return user_file.fault(error, FILE) | _misfit(error)
    return {"value": _plain(value)}


score = partial(_judge, "score")
held_out = partial(_judge, "held_out")  # by the cases that steer no search


def _failure_of_answer(error: Exception, answer: str) -> str:
    """What failed at which line, if code that was executed from a text, or from a file in scratch, raised it: so is an
    answer executed. Also for a text that is no code at all, as one with half a character. Else ""."""
    unreadable = isinstance(error, UnicodeEncodeError) and error.object in answer
    if unreadable or (isinstance(error, SyntaxError) and error.filename is None):  # of a null byte
        return f"the answer fails: {user_file.describe(error)}"
    here = os.getcwd() + os.sep
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    told = user_file.describe(error)
    if isinstance(error, SyntaxError):
        places.append((error.filename or "", error.lineno))
        told = told.partition(" (<")[0]  # which repeats the line
    lines = [line for name, line in places if name in _TEXTS or name.startswith(here)]
    return f"the answer fails, line {lines[-1]}: {told}" if lines else ""


def _misfit(error: Exception) -> dict[str, str]:
    """What shows that an answer is at fault which ran, and not the scorer that failed after it: {"missing": a name that
    it lacks} or {"of_answer": its value of a wrong type}; {} for other errors, and if no answer ran."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    held = [value for frame in frames for value in frame.f_locals.values() if value is not frame.f_globals]
    # exec adds the builtins to the dict in which it runs a text
    spaces = [
        each for each in held if isinstance(each, dict) and ("__builtins__" in each or any(map(_ran, each.values())))
    ]
    if isinstance(error, KeyError):
        missing = [key for key in error.args[:1] if isinstance(key, str) and any(key not in space for space in spaces)]
        return {"missing": missing[0]} if missing else {}
    if not isinstance(error, TypeError | AttributeError) or not (spaces or apart.called or any(map(_ran, held))):
        return {}
    line = user_file.line_in(error, FILE)
    where = f" at line {line} of {os.path.basename(FILE)}" if line else ""
    return {"of_answer": f"the answer gives a value of a wrong type{where}: {user_file.describe(error)}"}


def _ran(value: Any) -> bool:
    """Whether it is a function of code that was executed from a text."""
    return getattr(getattr(value, "__code__", None), "co_filename", None) in _TEXTS


def _plain(value: Any) -> Any:
    """A problems.Score as a mapping; everything else as it is."""
    if not (hasattr(value, "rewards") and hasattr(value, "fitness")):
        return value
    return {
        "rewards": list(value.rewards),
        "fitness": value.fitness,
        "features": dict(getattr(value, "features", None) or {}),
        "feedback": getattr(value, "feedback", ""),
        "error": getattr(value, "error", None),
    }
