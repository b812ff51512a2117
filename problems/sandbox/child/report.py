"""One call of a scorer's function, and what the parent is told of it. Runs in the evaluation, confined."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from .program import send
from .wire import RESULT, TooLarge, Unplain, decode, encode

_TEXT = 20000


def report(results: int, find: Callable[[str], Any], task: dict[str, Any], scratch: str, limit: int) -> None:
    """Call what the task names and send [status, value, type, exception, message, traceback, touched]."""
    reply: list[Any]
    answers = {*task["answers"], *(os.path.join(scratch, name) for name in task["files"])}
    try:
        value, kind = _call(find, task, scratch)
        reply = ["ok", encode(value, limit, objects=True), kind, "", "", "", False]
    except MemoryError as error:
        reply = [
            "memory",
            "null",
            "",
            "MemoryError",
            "more memory than allowed",
            _trace(error),
            _touched(error, answers),
        ]
    except (Unplain, TooLarge) as error:
        reply = ["error", "null", "", type(error).__name__, f"the scorer returned {error}", "", False]
    except BaseException as error:
        text = _text(error.__str__)
        reply = ["error", "null", "", type(error).__name__, text, _trace(error), _touched(error, answers)]
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        pass  # the answer has replaced them
    send(results, RESULT, reply)


def _call(find: Callable[[str], Any], task: dict[str, Any], scratch: str) -> tuple[Any, str]:
    if task["get"] is not None:
        found = {}
        for name in task["get"]:
            try:
                value = find(name)
                encode(value, objects=True)
            except (AttributeError, TypeError):
                continue  # not there, or not plain data
            found[name] = value
        return found, "dict"
    arguments = [os.path.join(scratch, name) if file else decode(name) for file, name in task["arguments"]]
    value = find(task["function"])(*arguments)
    return value, type(value).__name__


def _text(make: Callable[[], str]) -> str:
    try:
        return make()[-_TEXT:]
    except BaseException:
        return ""


def _trace(error: BaseException) -> str:
    return _text(lambda: "".join(traceback.format_exception(error)))


def _touched(error: BaseException, answers: set[str]) -> bool:
    """Whether the error, or one that it was raised from, passed through a file of the answer's."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        item = pending.pop()
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        pending += [item.__cause__, item.__context__]
        if isinstance(item, SyntaxError) and item.filename in answers:
            return True
        step = item.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename in answers:
                return True
            step = step.tb_next
    return False
