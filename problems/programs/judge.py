"""Tests that are code of their own: they run in one sandbox session, the answer lives in another.

The judge's code calls the answer through proxies; each call is a message to the parent, which evaluates it in the
answer's session and sends back what a caller would notice: the value, the exception, and what became of the arguments.
The answer never shares a process with a test, so it cannot read one, and the judge receives plain values only, so
nothing of the answer's runs in it. Functions and iterators stay in the answer's session; the judge holds their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from problems.contract import ScorerFault
from problems.programs.cases import JudgeCase
from problems.programs.feedback import clip, show_value
from problems.sandbox.contract import CaseOutcome, Limits

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox
    from problems.sandbox.session import SandboxSession

PROXIES = """
import builtins as _evo_builtins
import sys as _evo_sys


def _evo_restore(old, new):
    if type(old) is not type(new) or old == new:
        return
    if type(old) is list:
        old[:] = new
    elif type(old) in (dict, set):
        old.clear()
        old.update(new)


def _evo_error(classes, args):
    for module, name in classes:
        homes = (globals(), vars(_evo_sys.modules.get(module) or _evo_builtins), vars(_evo_builtins))
        for kind in (home.get(name) for home in homes):
            if isinstance(kind, type) and issubclass(kind, Exception):
                error = kind.__new__(kind, *args)
                error.args = tuple(args)
                return error
    return Exception(*args)


def _evo_made(name, fields, parts):
    import collections

    if name == "array":
        import numpy

        return numpy.array(*parts)
    if fields:
        return collections.namedtuple(name, fields)(*parts)
    return getattr(collections, name)(*parts)


async def _evo_awaited(number):
    return _evo_answer(f"coroutine {number}")


def _evo_answer(target, /, *args, **kwargs):
    (kind, value, positional, named), printed = host_call(target, *args, **kwargs)
    _evo_sys.stdout.write(printed)
    for old, new in zip(args, positional):
        _evo_restore(old, new)
    for key, new in named.items():
        _evo_restore(kwargs[key], new)
    if kind == "error":
        raise _evo_error(*value)
    if kind == "argument":
        return args[value]
    if kind == "made":
        return _evo_made(*value)
    return {"function": _EvoFunction, "iterator": _EvoIterator, "coroutine": _evo_awaited}.get(
        kind, lambda plain: plain
    )(value)


class _EvoFunction:
    def __init__(self, number):
        self._number = number

    def __call__(self, *args, **kwargs):
        return _evo_answer(f"function {self._number}", *args, **kwargs)


class _EvoIterator:
    def __init__(self, number):
        self._number, self._items = number, []

    def __iter__(self):
        return self

    def __next__(self):
        if not self._items:
            self._items = _evo_answer(f"iterator {self._number}")[::-1]
        if not self._items:
            raise StopIteration
        return self._items.pop()
"""
"""Of the judge's session, before its own code: how it reaches the answer."""

_CALLS = """
_evo_held = []
_evo_sizes = {}


def _evo_made(value):
    # [name, fields, parts] of an array, a named tuple or a class of collections; None for any other value
    import collections
    import sys

    kind = type(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biufcSU":
        return ["array", [], [value.tolist(), value.dtype.str]]
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return [kind.__name__, list(kind._fields), list(value)]
    if kind in (collections.Counter, collections.OrderedDict):
        return [kind.__name__, [], [dict(value)]]
    if kind is collections.defaultdict:
        return ["defaultdict", [], [None, dict(value)]]
    if kind is collections.deque:
        return ["deque", [], [list(value), value.maxlen]]
    return None


def _evo_call(function, args, kwargs):
    try:
        value = function()(*args, **kwargs)
        for place, given in enumerate(args):
            if value is given and isinstance(value, (list, dict, set)):
                return "argument", place, args, kwargs
        made = _evo_made(value)
        if made is not None:
            return "made", made, args, kwargs
        if hasattr(type(value), "__await__"):
            _evo_held.append(value)
            return "coroutine", len(_evo_held) - 1, args, kwargs
        if hasattr(value, "__next__") and not isinstance(value, type):
            _evo_held.append(value)
            return "iterator", len(_evo_held) - 1, args, kwargs
        if callable(value) and not isinstance(value, type):
            _evo_held.append(value)
            return "function", len(_evo_held) - 1, args, kwargs
        return "value", value, args, kwargs
    except MemoryError:
        raise
    except Exception as error:
        classes = [(kind.__module__, kind.__name__) for kind in type(error).__mro__]
        plain = all(isinstance(part, (str, int, float, bool, type(None))) for part in error.args)
        return "error", [classes, list(error.args) if plain else [str(error)]], args, kwargs


def _evo_items(number):
    # the next ones: one at first, since a test may want no more, and up to 32 later
    items = []
    most = _evo_sizes[number] = min(2 * _evo_sizes.get(number, 1), 64)
    try:
        for item in _evo_held[number]:
            items.append(item)
            if len(items) >= most // 2:
                break
    except Exception as error:
        if not items:
            raise
        _evo_held[number] = _evo_failing(error)
    return items


def _evo_failing(error):
    raise error
    yield


def _evo_wait(number):
    import asyncio

    async def waiting():
        return await _evo_held[number]

    return asyncio.run(waiting())
"""
"""Of the answer's session, before the answer, which may replace it: it can only return other plain values by that."""
_KINDS = ("value", "error", "argument", "made", "function", "iterator", "coroutine")
_FAR = ("function", "iterator", "coroutine")
_MADE = {"array": 2, "Counter": 1, "OrderedDict": 1, "defaultdict": 2, "deque": 2}
"""How many parts each has that the answer's process describes and the judge's makes again."""


@dataclass(frozen=True)
class CaseVerdict:
    """One judged case.

    outcome: of the case as a whole; status "ok" with value True if it passed
    calls: what was asked of the answer and what came back, as a prompt may show it
    """

    outcome: CaseOutcome
    calls: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return self.outcome.status == "ok" and self.outcome.value is True


class AnswerFailed(Exception):
    """A call of the answer did not return and raised nothing that a test may expect."""


def judge_answer(
    sandbox: Sandbox, answer: str, setup: str, judge: str, cases: Sequence[JudgeCase], limits: Limits
) -> list[CaseVerdict]:
    """Every case's verdict. Raises ScorerFault if the judge's code fails by itself, before it calls the answer."""
    with (
        sandbox.session(answer, limits, setup=f"{setup}\n{_CALLS}") as beside,
        sandbox.session(judge, limits) as bench,
    ):
        return [_verdict(beside, bench, case) for case in cases]


def _verdict(beside: SandboxSession, bench: SandboxSession, case: JudgeCase) -> CaseVerdict:
    calls: list[str] = []
    raised: list[CaseOutcome] = []
    broken: list[CaseOutcome] = []  # a time limit, a crash, an object: no test can expect these

    def ask(target: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        shown = [*map(show_value, args), *(f"{name}={show_value(value)}" for name, value in kwargs.items())]
        call = f"{_shown(target)}({', '.join(shown)})"
        given = {"_evo_args": list(args), "_evo_kwargs": dict(kwargs)}
        outcome = beside.evaluate(f"_evo_call(lambda: {_source(target)}, _evo_args, _evo_kwargs)", given)
        if outcome.status == "ok" and not _is_reply(outcome.value, args, kwargs):
            outcome = CaseOutcome("error", message="the answer replaced the functions that call it")
        if outcome.status != "ok":
            broken.append(outcome)
            calls.append(f"{call} failed: {outcome.message}")
            raise AnswerFailed(outcome.message)
        kind, value, *_ = outcome.value
        if kind == "error":
            classes, parts = value
            text = f"{classes[0][1]}: {', '.join(map(str, parts))}" if parts else classes[0][1]
            raised.append(CaseOutcome("error", message=clip(text)))
            calls.append(f"{call} raised {clip(text)}")
        else:
            came = args[value] if kind == "argument" else value[2] if kind == "made" else value
            calls.append(f"{call} returned {f'a {kind}' if kind in _FAR else show_value(came)}")
        return outcome.value, outcome.stdout

    outcome = bench.evaluate(f"{case.function}()", host_call=ask)
    if outcome.status != "ok" and not calls:
        raise ScorerFault(f"the test `{clip(case.source, 120)}` failed by itself: {outcome.message}")
    if broken:
        outcome = broken[-1]
    elif outcome.status != "ok" and raised and not outcome.message.startswith("AssertionError"):
        outcome = raised[-1]  # the answer's own trouble says more than the judge's
    return CaseVerdict(outcome, tuple(calls))


def _shown(target: str) -> str:
    kind, _, number = target.partition(" ")
    return f"the returned {kind}" if number else target


def _source(target: str) -> str:
    """The function that a proxy stands for, as the answer's session names it."""
    kind, _, number = target.partition(" ")
    if not number:
        return target
    if kind == "function":
        return f"_evo_held[{int(number)}]"
    return f"(lambda: {'_evo_wait' if kind == 'coroutine' else '_evo_items'}({int(number)}))"


def _is_reply(value: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether it is what `_evo_call` returns: the session is the answer's, so that nothing in it is certain."""
    if not isinstance(value, tuple) or len(value) != 4 or value[0] not in _KINDS:
        return False
    kind, inner, positional, named = value
    if type(positional) is not list or len(positional) != len(args):
        return False
    if type(named) is not dict or named.keys() != kwargs.keys():
        return False
    if kind == "argument":
        return type(inner) is int and 0 <= inner < len(args)
    if kind == "error":
        return _is_error(inner)
    if kind == "made":
        return _is_made(inner)
    return kind == "value" or type(inner) is int


def _is_error(inner: Any) -> bool:
    if type(inner) is not list or len(inner) != 2 or type(inner[1]) is not list:
        return False
    classes = inner[0]
    return (
        type(classes) is list
        and bool(classes)
        and all(type(row) is tuple and len(row) == 2 and all(type(part) is str for part in row) for row in classes)
    )


def _is_made(inner: Any) -> bool:
    if type(inner) is not list or len(inner) != 3 or type(inner[0]) is not str or type(inner[2]) is not list:
        return False
    name, fields, parts = inner
    if not fields:
        return len(parts) == _MADE.get(name)
    named = type(fields) is list and all(type(field) is str and field.isidentifier() for field in (name, *fields))
    return named and len(parts) == len(fields)
