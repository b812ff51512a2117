"""Runs in a sandbox worker: loads an OpenEvolve evaluator.py unchanged and gives its results as plain data.

The module is loaded as OpenEvolve loads it: under the name `evaluation_module`, its folder first on sys.path. Each
call finds the problem folder's files in the working directory too (as links), because evaluators are commonly started
from their own folder; what it writes there stays in the call's scratch folder.
"""

import ast
import asyncio
import importlib.util
import inspect
import numbers
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

FILE = os.environ["EVO_EVALUATOR_FILE"]
FOLDER = str(Path(FILE).parent)
LONGEST_ARTIFACT = 20_000
sys.path.insert(0, FOLDER)


def _describe(error):
    try:
        text = str(error)
    except Exception:
        text = ""
    return type(error).__name__ + (f": {text}" if text else "")


def _line(error):
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == FILE else None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == FILE:
            line = frame.lineno
    return line


def _load():
    spec: Any = importlib.util.spec_from_file_location("evaluation_module", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluation_module"] = module
    spec.loader.exec_module(module)
    return module


_module, _broken = None, None
try:
    _module = _load()
except Exception as error:
    _broken = {"fault": _describe(error), "line": _line(error)}


def describe():
    """{"fault", "line"} where the file does not load, else {"stages": the evaluation functions that it defines}."""
    if _broken is not None:
        return _broken
    names = ("evaluate", "evaluate_stage1", "evaluate_stage2", "evaluate_stage3")
    return {"stages": [name for name in names if callable(getattr(_module, name, None))]}


def run(stage, path):
    """{"metrics", "texts", "artifacts"} of one stage, or {"raised", "line", "trace", "by_answer"}."""
    for entry in Path(FOLDER).iterdir():
        link = Path(entry.name)
        if not link.exists() and not link.is_symlink():
            link.symlink_to(entry)
    try:
        result = getattr(_module, stage)(path)
        if inspect.isawaitable(result):
            result = asyncio.run(_awaited(result))
    except MemoryError:
        raise  # a limit of the sandbox, reported as such
    except BaseException as error:
        trace = "".join(traceback.format_exception(error)[-6:])
        raised = {"raised": _describe(error), "line": _line(error), "trace": trace[-LONGEST_ARTIFACT:]}
        return {**raised, "by_answer": isinstance(error, SystemExit) or _by_answer(error, path)}
    metrics, artifacts = getattr(result, "metrics", result), getattr(result, "artifacts", None) or {}
    if not isinstance(metrics, dict):
        return {"odd": f"{type(result).__name__} {str(result)[:200]}"}
    numeric, texts = {}, {}
    for name, value in metrics.items():
        number = _number(value)
        if number is None:
            texts[str(name)] = str(value)[:LONGEST_ARTIFACT]
        else:
            numeric[str(name)] = number
    shown = {str(name): _text(value) for name, value in artifacts.items()}
    return {"metrics": numeric, "texts": texts, "artifacts": shown}


async def _awaited(result):
    return await result


def _number(value):
    if isinstance(value, numbers.Real):
        return float(value)
    if type(value).__module__ == "numpy" and getattr(value, "size", 0) == 1 and not isinstance(value, str):
        try:
            return float(value)
        except (TypeError, ValueError):
            return None
    return None


def _text(value):
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text[:LONGEST_ARTIFACT]


def _by_answer(error, path):
    """Whether the exception, or one it came from, was the answer's doing rather than the evaluator's."""
    seen, pending = set(), [error]
    while pending:
        item = pending.pop()
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        pending += [item.__cause__, item.__context__]
        if any(frame.filename == path for frame in traceback.extract_tb(item.__traceback__)):
            return True
        if isinstance(item, SyntaxError) and item.filename == path:
            return True
        if isinstance(item, (AttributeError, ImportError)) and _about_answer(item, path):
            return True
        if isinstance(item, TypeError) and _wrong_call(item, path):
            return True
    return False


def _about_answer(error, path):
    """A name that the answer's module, or an object of a class of its, does not have; an import of it that failed."""
    if isinstance(error, ImportError):
        stem = Path(path).stem
        return error.path == path or (error.name or "").split(".")[0] == stem
    owner = getattr(error, "obj", None)
    if getattr(owner, "__file__", None) == path:
        return True
    kind = type(owner)
    return any(getattr(getattr(item, "__code__", None), "co_filename", None) == path for item in vars(kind).values())


def _wrong_call(error, path):
    """A function of the answer's that cannot be called as the task says: Python blames the caller for it."""
    match = re.match(r"([\w<>.]+)\(\) (?:missing|takes|got (?:an unexpected|multiple|some))", str(error))
    if match is None:
        return False
    try:
        with open(path, encoding="utf-8") as stream:
            tree = ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    called = match[1].split(".")
    return any(isinstance(node, kinds) and node.name in called for node in ast.walk(tree))
