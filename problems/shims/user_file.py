"""For the shims: load a user's file under a name, wait for its coroutines, describe an exception in plain data."""

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


def awaited(value: Any) -> Any:
    """The result of a coroutine, run to its end; any other value as it is."""
    if not hasattr(value, "__await__"):
        return value
    import asyncio  # not before the fork: every evaluation pays for the size of its process

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())


def defer(package: str) -> None:
    """Let modules inside a package be imported without its `__init__`, which runs once any other name of it is used.

    `from openevolve.evaluation_result import EvaluationResult`, as most evaluators begin, would import the whole search
    with its clients for language models: half a second of CPU time for a dataclass. Does nothing to a package that is
    loaded already, or is not installed.
    """
    spec: Any = importlib.util.find_spec(package) if package not in sys.modules else None
    if spec is None or spec.submodule_search_locations is None:
        return
    module: Any = importlib.util.module_from_spec(spec)

    def load(name: str) -> Any:
        del module.__getattr__
        try:
            spec.loader.exec_module(module)
        except BaseException:
            module.__getattr__ = load
            raise
        return getattr(module, name)

    module.__getattr__ = load
    sys.modules[package] = module
