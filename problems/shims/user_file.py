"""What the shims do with a user's code: load a file under a name, ask a scorer, tell of an exception in plain data."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any


def load(path: str, name: str) -> ModuleType:
    """The file as the module `name`. Raises whatever it raises."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def ask(score: Callable[[str], Any], answer: str, path: str) -> dict[str, Any]:
    """{"value": what score() gave, "type"}, {"answer_error": text}, or {"fault", "line"}. path: of score's own code"""
    try:
        value = score(answer)
    except MemoryError:
        raise  # a limit of the sandbox, reported as such
    except Exception as error:
        if isinstance(error, ValueError) and any(kind.__name__ == "AnswerError" for kind in type(error).__mro__):
            return {"answer_error": str(error) or "rejected by the scorer"}
        if getattr(error, "evo_of_answer", False) is True:  # problems.shims.answer_apart
            return {"answer_error": describe(error)}
        return fault(error, path)
    return {"value": plain(value), "type": type(value).__name__}


def ask_all(batch_scorer: Callable[[list[str]], Any], answers: list[str], path: str) -> dict[str, Any]:
    """{"values": what batch_scorer() gave, one of each answer}, or {"fault", "line"}. An exception is never an
    answer's: which one's would it be?"""
    try:
        values = list(batch_scorer(list(answers)))
    except MemoryError:
        raise
    except Exception as error:
        return fault(error, path)
    if len(values) != len(answers):
        told = f"batch_scorer() gave {len(values)} scores for {len(answers)} answers"
        return {"fault": told, "line": None}
    return {"values": [plain(value) for value in values]}


def plain(value: Any) -> Any:
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


def fault(error: BaseException, path: str) -> dict[str, Any]:
    """{"fault": class and text, "line": where in the file `path`, None where it is not there}."""
    return {"fault": describe(error), "line": line_in(error, path)}


def describe(error: BaseException) -> str:
    """'ValueError: text', whatever the exception's own methods do."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return type(error).__name__ + (f": {text}" if text else "")


def line_in(error: BaseException, path: str) -> int | None:
    """The line of the file at which it was last."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == path else None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == path:
            line = frame.lineno
    return line
