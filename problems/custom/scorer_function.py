"""A scoring function from the caller, for example from a notebook; it may be a closure.

It goes to a sandbox process by cloudpickle, once; each call is a fork of that process, with the time-outs, results
and rules about faults of a scorer file (problems.custom.scorer_file). The caller's functions and modules are sent
along; installed packages are imported there. Files that it reads must be named in `readable`, unless it is trusted
with `isolated=False`.

Its address is `score:NAME`. The address alone is not enough: to resume the run, give the function again
(problems.registry.given).

The fingerprint is of the function's text, equal on every machine: its source without comments and layout if that can be
found, else (a lambda, whose source is that of the whole call) its bytecode, which another version of Python may write
otherwise. The functions and constants that it names, closes over or has as defaults count too; another value counts by
its pickle, or by its type if it has none.
"""

from __future__ import annotations

import ast
import functools
import inspect
import io
import json
import linecache
import pickle
import sys
import sysconfig
import textwrap
import threading
import types
import weakref
from collections import ChainMap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems import temp_dirs
from problems.contract import BadAddress
from problems.custom.scorer_problem import DECLARED, SCORER_OPTIONS, ScorerProblem, checked_options, python_spec
from problems.fingerprint import files_at, files_fingerprint, fingerprint_of
from problems.python_syntax import parse_source

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

KIND = "score"
_pickling = threading.Lock()


class ScorerFunctionProblem(ScorerProblem):
    """The function as a Problem. declared: DECLARED and SCORER_OPTIONS by name, as a scorer file declares them."""

    _UNSEEN = 'a scorer sees nothing of this disk: name the files that it needs, as in readable=["data.csv"]'

    def __init__(
        self,
        function: Callable[[Any], Any],
        declared: Mapping[str, Any],
        sandbox: Callable[[], Sandbox],
    ) -> None:
        """Raises BadAddress for an object that is not a function or cannot be pickled, and for invalid options."""
        if not callable(function) or isinstance(function, type):
            raise BadAddress(f"score = {function!r}: must be a function of an answer, which is text")
        self.function = function
        title = name_of(function)
        self.name = f"{KIND}:{title}"
        self._code = _code_of(function)
        file = self._code.co_filename if self._code is not None else ""
        where = f"{title} in {file}" if Path(file).is_file() else title
        given = {key: declared[key] for key in SCORER_OPTIONS if declared.get(key) is not None}
        options = checked_options(where, Path.cwd(), given)
        folder = temp_dirs.make("function")
        weakref.finalize(self, temp_dirs.release, folder)
        pickled = Path(folder, "function.pickle")
        pickled.write_bytes(_pickle(function, title))
        spec = python_spec(pickled, options, EVO_SCORER_PICKLE=str(pickled), EVO_SCORER_FILE=file)
        about = {"held_out": False, **{k: declared.get(k) for k in DECLARED}}
        super().__init__(where, spec, sandbox, options, about)

    def fingerprint(self) -> str:
        """The fingerprint of the function's code, its closure and references, its declarations, and `readable`."""
        declared = {key: self._declared[key] for key in DECLARED}
        described = describe_value(self.function), describe_value(declared)
        return files_fingerprint(Path.cwd(), files_at(self._readable), *described)

    def _at(self, line: int | None) -> str:
        """With the text of the line, which a notebook shows under a name without a place."""
        text = linecache.getline(self._code.co_filename, line).strip() if line and self._code is not None else ""
        return super()._at(line) + (f" ({text})" if text else "")


def name_of(function: Any) -> str:
    """Its name, else that of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    name = str(getattr(function, "__name__", type(function).__name__))
    return "lambda" if name == "<lambda>" else name


def _code_of(function: Any) -> types.CodeType | None:
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__wrapped__", function)
    if not hasattr(function, "__code__"):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def _pickle(function: Any, title: str) -> bytes:
    """Pickled with all of the caller's code by value: the process can import only installed packages."""
    try:
        import cloudpickle
    except ImportError as error:
        raise BadAddress("a function as scorer needs cloudpickle: pip install cloudpickle") from error
    with _pickling:
        registered = []
        try:
            for name, module in list(sys.modules.items()):
                if is_own_module(module) and module.__name__ == name:  # once each, under its own name
                    cloudpickle.register_pickle_by_value(module)
                    registered.append(module)
            pickled = _dump(function)
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise BadAddress(
                f"score = {title}: cannot be sent to its process: {reason}; make such objects inside the function"
            ) from error
        finally:
            for module in registered:
                cloudpickle.unregister_pickle_by_value(module)
    return pickled


def _dump(function: Any) -> bytes:
    """cloudpickle.dumps, with the file of each code object: cloudpickle 3.1.3 and later write "<dynamic-code>" in its
    place, and a fault of the function would have no line then."""
    import cloudpickle

    reduce_code = cloudpickle.Pickler.dispatch_table[types.CodeType]

    def keep_file(code: types.CodeType) -> tuple[Any, ...]:
        rebuild, parts = reduce_code(code)
        return rebuild, tuple(code.co_filename if part == "<dynamic-code>" else part for part in parts)

    def keep_function(cached: Any) -> str | tuple[Any, ...]:
        """functools names a cached function, and the process has no module of the caller's to find it in."""
        module = sys.modules.get(cached.__module__)
        if cached.__module__ != "__main__" and not is_own_module(module):
            return str(cached.__qualname__)
        return functools.lru_cache(**cached.cache_parameters()), (cached.__wrapped__,)

    kept = {types.CodeType: keep_file, _CACHED: keep_function}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table = ChainMap(kept, cloudpickle.Pickler.dispatch_table)

    written = io.BytesIO()
    Pickler(written).dump(function)
    return written.getvalue()


_CACHED = type(functools.cache(len))


_KNOWN = {"problems", "evo", "vpo", "islands", "cloudpickle", "__main__"}


def describe_value(value: Any) -> str:
    """A text that changes with the code and the constants of a function, or with plain data."""
    seen: set[int] = set()

    def parts(value: Any) -> Any:
        """What json cannot write, as something that it can."""
        if isinstance(value, functools.partial):
            return [value.func, value.args, value.keywords]
        if isinstance(value, types.MethodType):
            return [value.__func__, vars(value.__self__) if hasattr(value.__self__, "__dict__") else repr(value)]
        if isinstance(value, _CACHED):
            return [value.__wrapped__]
        if isinstance(value, set | frozenset):
            return sorted(map(repr, value))
        if isinstance(value, types.ModuleType):
            return [value.__name__, fingerprint_of(_module_source(value)) if is_own_module(value) else ""]
        if isinstance(value, type):
            return [value.__qualname__, _source(value) if value.__module__ == "__main__" else ""]
        if not isinstance(value, types.FunctionType):
            return _pickled(value)
        if id(value) in seen:
            return value.__qualname__
        seen.add(id(value))
        code = value.__code__
        cells = dict(zip(code.co_freevars, map(_content, value.__closure__ or ()), strict=True))
        named = {name: value.__globals__[name] for name in _names(code) if name in value.__globals__}
        return [_source(value) or _bytecode(code), cells, named, value.__defaults__, value.__kwdefaults__]

    try:
        return json.dumps(value, sort_keys=True, default=parts, check_circular=False)  # `seen` ends functions
    except (TypeError, ValueError, RecursionError):  # keys of several types, a list that holds itself
        return json.dumps(_source(value) if isinstance(value, types.FunctionType) else _pickled(value))


def _pickled(value: Any) -> list[str]:
    try:
        return [type(value).__qualname__, fingerprint_of(pickle.dumps(value, protocol=5))]
    except Exception:  # a foreign object's methods may raise anything
        return [type(value).__qualname__]


def is_own_module(module: object) -> bool:
    """Whether the caller wrote it: neither installed nor this project's, and no `__main__`."""
    if not isinstance(module, types.ModuleType) or module.__name__.partition(".")[0] in _KNOWN:
        return False
    file = getattr(module, "__file__", None)
    apart = {"site-packages", "dist-packages"} & set(Path(str(file)).parts)  # a user's, or an environment's below this
    return bool(file) and not apart and not str(file).startswith(_installed())


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    places = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(f"{place}/" for place in {*places, sys.prefix, sys.base_prefix})


def _module_source(module: types.ModuleType) -> bytes:
    try:
        return Path(str(module.__file__)).read_bytes()
    except OSError:
        return b""


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _source(written: types.FunctionType | type) -> str:
    """The source as the parser sees it; "" if it is missing or not the only one."""
    if written.__name__ == "<lambda>":
        return ""
    try:
        return ast.unparse(parse_source(textwrap.dedent(inspect.getsource(written))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return ""


def _bytecode(code: types.CodeType) -> str:
    constants = [
        _bytecode(constant) if isinstance(constant, types.CodeType) else repr(constant) for constant in code.co_consts
    ]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def _names(code: types.CodeType) -> list[str]:
    """Global names and attributes of the code and of its inner definitions, sorted."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return sorted({*code.co_names, *(name for constant in inner for name in _names(constant))})
