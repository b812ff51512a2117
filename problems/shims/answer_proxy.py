"""Stands for an isolated answer in the process of its scorer: code that would import or execute the answer gets
functions that call the real one.

The answer runs in a sandbox process of its own (problems.isolated_answer). A scorer that loads its file by importlib,
by `import` or by runpy, or that gives its text to exec, finds the same names: functions that send their arguments there
and return the reply, and plain values. Classes, and values other than plain ones and numpy arrays, do not cross.
It imports only the standard library: sandbox workers load it with a scorer.
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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from problems.shims import answer_values
else:
    import answer_values  # next to this file, which is loaded by its path

_RAISED = (
    *("ArithmeticError", "AssertionError", "AttributeError", "IndexError", "KeyError", "LookupError", "NameError"),
    *("NotImplementedError", "OverflowError", "RecursionError", "RuntimeError", "TypeError", "ValueError"),
    *("ZeroDivisionError", "SyntaxError", "ImportError", "ModuleNotFoundError"),
)
"""Exceptions of an answer that its scorer meets as the same class; any other is a RuntimeError."""


def of_answer(error: BaseException) -> bool:
    """Whether the exception is one that the answer raised in its own process."""
    return getattr(error, "evo_of_answer", False) is True


@functools.cache
def source_of(scorer: str) -> str:
    """The scorer's own text; kept, so that a worker reads it once."""
    try:
        with open(scorer, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""  # which no code of its own can be part of


def stand_in(
    host_call: Callable[..., Any], scorer: str, path: str = "", text: str = "", names: dict[str, Any] | None = None
) -> None:
    """From now on, in this process: the file `path`, or the text `text`, is the answer.

    host_call: calls the answer's process. names: the reply to the first call, if it is known. scorer: its file. Code in
    its folder that would execute another text than the answer's or one in that file, or load another file that was
    written here, gets an exception instead: an answer that it changes first would run in this process.
    """
    answer = _Answer(host_call, names)
    if path:
        path = os.path.realpath(path)
        _hook_files(answer, path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    _hook_texts(answer, text.strip(), os.path.dirname(scorer) + os.sep, source_of(scorer))


class _Answer:
    def __init__(self, host_call: Callable[..., Any], names: dict[str, Any] | None) -> None:
        self._host_call, self._names = host_call, names

    def fill(self, space: dict[str, Any]) -> None:
        """The answer's names."""
        known, self._names = self._names, None
        for name, kind in self.request("names") if known is None else self._taken(known):
            if kind == "call":
                space[name] = self._function(name)
            elif kind == "value":
                space[name] = self.request("value", name)

    def request(self, name: str, *args: Any) -> Any:
        return self._taken(self._host_call(name, *args))

    def _taken(self, reply: dict[str, Any]) -> Any:
        sys.stdout.write(reply["stdout"])
        if reply["status"] == "ok":
            return answer_values._evo_arrays(reply["value"])
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
            return self.request("call", name, list(args), kwargs)

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


def _hook_texts(answer: _Answer, text: str, folder: str, scorer_text: str) -> None:
    execute, translate, evaluate = builtins.exec, builtins.compile, builtins.eval
    stands_for: list[Any] = []

    def is_answer(source: Any) -> bool:
        written = _written(source)
        return bool(text) and written is not None and written.strip() == text

    def check(source: Any) -> None:
        if not sys._getframe(2).f_code.co_filename.startswith(folder) or isinstance(source, CodeType):
            return
        written = _written(source)
        if written is None or written.strip() not in scorer_text:
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
