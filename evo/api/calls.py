"""What every public function does with its call: it refuses an unknown name with the closest one, and warnings of ours
name the line of the caller, not one of ours."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from problems.address import did_you_mean

P = ParamSpec("P")
T = TypeVar("T")
Place = tuple[str, int]
"""A file and a line of it."""

_OURS = tuple(
    f"{folder}/"
    for package in ("evo", "vpo", "islands", "problems")
    if (spec := find_spec(package)) is not None
    for folder in spec.submodule_search_locations or ()
)
_PASSED = (*_OURS, f"{Path(asyncio.__file__).parent}/", threading.__file__)
"""Files whose warnings are ours: an event loop or a thread calls ours."""
_calls: list[Place] = []
_lock = threading.Lock()


def public(name: str, keywords: type | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function that users call as evo.NAME. keywords: a TypedDict of the keywords that it takes as well"""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters = inspect.signature(function).parameters.values()
        known = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
        known |= keywords.__annotations__.keys() if keywords is not None else set()

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for given in kwargs:
                if given not in known:
                    hint = did_you_mean(given, known, most=1) or f"; help(evo.{name}) describes them"
                    raise TypeError(f"evo.{name}() has no argument {given}{hint}")
            with _warning_at(_caller()):
                return function(*args, **kwargs)

        return call

    return decorate


def _caller() -> Place:
    """The line of the user's code that called ours."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


@contextlib.contextmanager
def _warning_at(place: Place) -> Iterator[None]:
    """Warnings of ours show this place, from all threads; of several calls at the same time, the latest call's."""
    with _lock:
        _calls.append(place)
        before = warnings.showwarning

        def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
            if _calls and filename.startswith(_PASSED):
                filename, lineno = _calls[-1]
            before(message, category, filename, lineno, file, line)

        if len(_calls) == 1:
            warnings.showwarning = show
    try:
        yield
    finally:
        with _lock:
            _calls.remove(place)
            if warnings.showwarning is show:
                warnings.showwarning = before
