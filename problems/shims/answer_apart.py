"""Stands for the answer in its judge's process: what would import or execute it gets functions that ask the real one.

The answer runs in a sandbox process of its own (problems.apart). A judge that loads its file by importlib, by `import`
or by runpy, or that gives its text to exec, finds the same names: functions that send their arguments there and return
what comes back, and plain values. Classes, and values of other types than plain ones and numpy arrays, do not cross.
Imports the standard library alone: sandbox workers load it beside a scorer.
"""

from __future__ import annotations

import builtins
import functools
import os
import re
import runpy
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

_RAISED = (
    *("ArithmeticError", "AssertionError", "AttributeError", "IndexError", "KeyError", "LookupError", "NameError"),
    *("NotImplementedError", "OverflowError", "RecursionError", "RuntimeError", "TypeError", "ValueError"),
    *("ZeroDivisionError", "SyntaxError", "ImportError", "ModuleNotFoundError"),
)
"""Exceptions of an answer's that its judge meets as the same class; any other is a RuntimeError."""


def of_answer(error: BaseException) -> bool:
    """Whether the exception is one that the answer raised in its own process."""
    return getattr(error, "evo_of_answer", False) is True


@functools.cache
def source_of(judge: str) -> str:
    """The scorer's own text; kept, so that a worker reads it once."""
    try:
        with open(judge, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""  # which no code of its own can be part of


def stand_in(
    ask: Callable[..., Any], judge: str, path: str = "", text: str = "", names: dict[str, Any] | None = None
) -> None:
    """From now on, in this process: the file `path`, or the text `text`, is the answer.

    ask: asks its process. names: the reply to the first question, where it is known. judge: the scorer's file. Code
    beside it that would execute another text than the answer's or one that stands in that file, or load another file
    that was written here, gets an exception instead: an answer that it changes first would run in this process.
    """
    answer = _Answer(ask, names)
    if path:
        path = os.path.realpath(path)
        _hook_files(answer, path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    _hook_texts(answer, text.strip(), os.path.dirname(judge) + os.sep, source_of(judge))


class _Answer:
    def __init__(self, ask: Callable[..., Any], names: dict[str, Any] | None) -> None:
        self._ask, self._names = ask, names

    def fill(self, space: dict[str, Any]) -> None:
        """The answer's names."""
        known, self._names = self._names, None
        for name, kind in self.question("names") if known is None else self._taken(known):
            if kind == "call":
                space[name] = self._function(name)
            elif kind == "value":
                space[name] = self.question("value", name)

    def question(self, name: str, *args: Any) -> Any:
        return self._taken(self._ask(name, *args))

    def _taken(self, reply: dict[str, Any]) -> Any:
        sys.stdout.write(reply["stdout"])
        if reply["status"] == "ok":
            return _with_arrays(reply["value"])
        message = str(reply["message"])
        named = re.match(r"(\w+)(?:: | (?=\(line )|$)", message)
        kind, rest = (named[1], message[named.end() :]) if named else ("", message)
        raised = getattr(builtins, kind, RuntimeError) if kind in _RAISED else RuntimeError
        if reply["status"] == "timeout":
            raised = TimeoutError
        error: Any = raised(rest if kind in _RAISED else message or reply["status"])
        error.evo_of_answer = True
        raise error

    def _function(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.question("call", name, list(args), kwargs)

        call.__name__ = call.__qualname__ = name
        return call


def _hook_files(answer: _Answer, path: str) -> None:
    load, run_path, here = SourceFileLoader.exec_module, runpy.run_path, os.path.realpath(os.getcwd()) + os.sep

    def exec_module(self: SourceFileLoader, module: Any) -> None:
        real = os.path.realpath(self.path)
        if real == path:
            answer.fill(module.__dict__)
        elif real.startswith(here):
            raise _refusal("a file that was written beside the answer")
        else:
            load(self, module)

    def run(path_name: Any, init_globals: Any = None, run_name: Any = None) -> Any:
        if os.path.realpath(path_name) != path:
            return run_path(path_name, init_globals, run_name)
        space: dict[str, Any] = dict(init_globals or {})
        answer.fill(space)
        return space

    SourceFileLoader.exec_module = exec_module  # type: ignore[method-assign, assignment]
    runpy.run_path = run


def _hook_texts(answer: _Answer, text: str, folder: str, source_of_judge: str) -> None:
    execute, translate, evaluate = builtins.exec, builtins.compile, builtins.eval
    stands_for: list[Any] = []

    def is_answer(source: Any) -> bool:
        written = _written(source)
        return bool(text) and written is not None and written.strip() == text

    def check(source: Any) -> None:
        if not sys._getframe(2).f_code.co_filename.startswith(folder) or isinstance(source, CodeType):
            return
        written = _written(source)
        if written is None or written.strip() not in source_of_judge:
            raise _refusal("code that is neither the answer as it is nor the scorer's own")

    def compile_(source: Any, *args: Any, **kwargs: Any) -> Any:
        if is_answer(source) and "exec" in args[:2] and not args[2:]:
            stands_for.append(translate("", "<answer>", "exec"))
            return stands_for[-1]
        check(source)
        return translate(source, *args, **kwargs)

    def exec_(source: Any, globals: Any = None, locals: Any = None, /, **kwargs: Any) -> None:
        if globals is None:
            frame = sys._getframe(1)
            globals, locals = frame.f_globals, frame.f_locals
        space = globals if locals is None else locals
        if is_answer(source) or any(source is code for code in stands_for):
            answer.fill(space)
        else:
            check(source)
            execute(source, globals, space, **kwargs)

    def eval_(source: Any, globals: Any = None, locals: Any = None, /) -> Any:
        check(source)
        if globals is None:
            frame = sys._getframe(1)
            globals, locals = frame.f_globals, frame.f_locals
        return evaluate(source, globals, globals if locals is None else locals)

    builtins.exec, builtins.compile, builtins.eval = exec_, compile_, eval_


def _written(source: Any) -> str | None:
    """Code as text, None where it is an object."""
    if isinstance(source, (bytes, bytearray)):
        return bytes(source).decode("utf-8", "replace")
    return source if isinstance(source, str) else None


def _refusal(what: str) -> Exception:
    error: Any = RuntimeError(f"the scorer would execute {what}, where the answer runs apart from it")
    error.evo_of_answer = True
    refusal: Exception = error
    return refusal


def _with_arrays(value: Any) -> Any:
    """The value with numpy arrays where it had them."""
    kind = type(value)
    if kind.__name__ == "Array":
        import numpy

        return numpy.array(list(value))
    if kind in (list, tuple):
        return kind([_with_arrays(item) for item in value])
    if kind is dict:
        return {key: _with_arrays(item) for key, item in value.items()}
    return value
