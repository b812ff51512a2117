"""What a function is, as text that is equal on every machine: for its fingerprint.

By its source without comments and layout where that can be had, else (a lambda, whose source is that of the whole call)
by its bytecode, which another version of Python may write otherwise. What it closes over, its defaults and the globals
that it names count too. A value of an unknown kind counts by its pickle, or by its type where it has none.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import pickle
import sys
import sysconfig
import textwrap
import types
from pathlib import Path
from typing import Any

from problems.python_syntax import parse_source

_KNOWN = {"problems", "evo", "vpo", "islands", "cloudpickle", "__main__"}
PLAIN = (type(None), bool, int, float, complex, str, bytes)
_DEEPEST = 12


def describe_value(value: Any) -> str:
    """A text that changes when the value does."""
    return _describe(value, (), set())


def _describe(value: Any, above: tuple[int, ...], seen: set[int]) -> str:
    """above: the containers that this value is in; seen: functions and classes described already"""
    if isinstance(value, PLAIN):
        return repr(value)
    if id(value) in above or len(above) > _DEEPEST:
        return "..."
    inner = (*above, id(value))
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(_describe(one, inner, seen) for one in value)})"
    if isinstance(value, set | frozenset):
        return f"set({', '.join(sorted(_describe(one, inner, seen) for one in value))})"
    if isinstance(value, dict):
        pairs = sorted(f"{_describe(k, inner, seen)}: {_describe(v, inner, seen)}" for k, v in value.items())
        return f"dict({', '.join(pairs)})"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__} {_module_source(value) if is_own_module(value) else ''}"
    if isinstance(value, types.FunctionType | type):
        if id(value) in seen:
            return f"again {value.__qualname__}"
        seen.add(id(value))
        return _describe_function(value, seen) if isinstance(value, types.FunctionType) else _describe_class(value)
    if isinstance(value, types.MethodType):
        return f"method {_describe(value.__func__, inner, seen)} of {_describe(value.__self__, inner, seen)}"
    if isinstance(value, functools.partial):
        return f"partial {_describe((value.func, value.args, value.keywords), inner, seen)}"
    return _describe_other(value, inner, seen)


def _describe_function(function: types.FunctionType, seen: set[int]) -> str:
    code = function.__code__
    cells = dict(zip(code.co_freevars, map(_content, function.__closure__ or ()), strict=True))
    named = {name: function.__globals__[name] for name in _names(code) if name in function.__globals__}
    beside = {"closes over": cells, "names": named, "defaults": (function.__defaults__, function.__kwdefaults__)}
    return f"function {_source(function) or _bytecode(code)} {_describe(beside, (), seen)}"


def _describe_class(kind: type) -> str:
    return f"class {kind.__module__}.{kind.__qualname__} {_source(kind) if kind.__module__ == '__main__' else ''}"


def _describe_other(value: Any, above: tuple[int, ...], seen: set[int]) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if type(value).__module__ == "__main__" and hasattr(value, "__dict__"):
        return f"{_describe(type(value), above, seen)} with {_describe(vars(value), above, seen)}"
    try:
        return f"{kind} {hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()}"
    except Exception:  # whatever a foreign object's own methods raise
        return kind


def is_own_module(module: object) -> bool:
    """Whether the caller wrote it: neither installed nor this project's, and no `__main__`."""
    if not isinstance(module, types.ModuleType) or module.__name__.partition(".")[0] in _KNOWN:
        return False
    file = getattr(module, "__file__", None)
    return bool(file) and not str(file).startswith(_installed())


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    places = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(f"{place}/" for place in {*places, sys.prefix, sys.base_prefix})


def _module_source(module: types.ModuleType) -> str:
    try:
        return hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()
    except OSError:
        return ""


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _source(written: types.FunctionType | type) -> str:
    """As the parser sees it; "" where there is none, or more than it alone."""
    if written.__name__ == "<lambda>":
        return ""
    try:
        return ast.unparse(parse_source(textwrap.dedent(inspect.getsource(written))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return ""


def _bytecode(code: types.CodeType) -> str:
    constants = [_bytecode(one) if isinstance(one, types.CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def _names(code: types.CodeType) -> list[str]:
    """Global names and attributes of the code and of what is defined in it, sorted."""
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return sorted({*code.co_names, *(name for one in inner for name in _names(one))})
