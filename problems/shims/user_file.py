"""For the shims: load a user's file under a name, and describe an exception in plain data."""

from __future__ import annotations

import importlib.util
import sys
import traceback
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


def fault(error: BaseException, path: str) -> dict[str, Any]:
    """{"fault": class and text, "line": in the file `path`, None if it is elsewhere}."""
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
