"""A scoring function of the caller's, such as one typed into a notebook: a closure is fine.

It goes to a sandbox process by cloudpickle, once; each call is a fork of that process, with the time-outs and the rules
about faults that a scorer file has (problems.custom.scorer_file). What it may return is the same too. Functions and
modules of the caller's own are sent along; installed packages are imported there. What it reads from the disk must be
named in `readable`, unless it is trusted with `isolated=False`.

Its address is `score:NAME`. An address names nothing by itself here: whoever resumes its run gives the function again
(problems.registry.given).
"""

from __future__ import annotations

import functools
import linecache
import sys
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems import temp_dirs
from problems.contract import BadAddress
from problems.custom.function_fingerprint import describe_value, is_own_module
from problems.custom.scorer_options import OPTIONS, checked_options
from problems.custom.scorer_problem import LIMITS, ROOT, ScorerProblem
from problems.fingerprint import files_below, files_fingerprint
from problems.isolated_answer import SHIMS
from problems.sandbox.contract import EvaluatorSpec
from problems.scorer_process import ScorerProcess

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

KIND = "score"
DECLARED = ("statement", "seed_answer", "objectives", "target", "answer_format", "weights", "directions")
_pickling = threading.Lock()


class ScorerFunctionProblem(ScorerProblem):
    """The function as a Problem. declared: DECLARED and OPTIONS by name, as a scorer file declares them."""

    _UNSEEN = 'a scorer sees nothing of this disk: name the files that it needs, as in readable=["data.csv"]'

    def __init__(
        self,
        function: Callable[[Any], Any],
        declared: Mapping[str, Any],
        sandbox: Callable[[], Sandbox],
        batched: bool = False,
    ) -> None:
        """batched: the function takes a list of answers and gives as many scores

        Raises BadAddress for what is no function, cannot be pickled, or options that cannot be.
        """
        if not callable(function) or isinstance(function, type):
            raise BadAddress(f"score = {function!r}: must be a function of an answer, which is text")
        self.function, self._given, self._batched = function, dict(declared), batched
        title = name_of(function)
        self.name = f"{KIND}:{title}"
        self._code = _code_of(function)
        file = self._code.co_filename if self._code is not None else ""
        where = f"{title} in {file}" if Path(file).is_file() else title
        options = {key: declared[key] for key in OPTIONS if declared.get(key) is not None}
        checked = checked_options(where, Path.cwd(), options)
        self._readable = checked.readable
        folder = temp_dirs.make("function")
        weakref.finalize(self, temp_dirs.release, folder)
        pickled = Path(folder, "function.pickle")
        pickled.write_bytes(_pickle(function, title))
        spec = EvaluatorSpec(
            str(SHIMS / "python_scorer.py"),
            readable=(str(pickled), str(ROOT / "problems"), str(ROOT / "evo" / "__init__.py"), *self._readable),
            isolated=checked.isolated,
            environment={
                "EVO_SCORER_PICKLE": str(pickled),
                "EVO_SCORER_FILE": file,
                "PYTHONPATH": str(ROOT),
            },
        )
        super().__init__(where, ScorerProcess(where, spec, LIMITS, sandbox), checked)

    def fingerprint(self) -> str:
        """Of the function's code, of what it closes over and refers to, of what was declared, and of `readable`."""
        files: set[Path] = set()
        for place in map(Path, self._readable):
            files.update([place] if place.is_file() else files_below(place))
        declared = {key: self._given.get(key) for key in DECLARED}
        return files_fingerprint(Path.cwd(), files, describe_value(self.function), describe_value(declared))

    def _declared(self, described: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"canonical": False, "batched": self._batched, **{key: self._given.get(key) for key in DECLARED}}

    def _at(self, line: int | None) -> str:
        """With the text of the line, which a notebook shows under no name that says where it is."""
        text = linecache.getline(self._code.co_filename, line).strip() if line and self._code is not None else ""
        return super()._at(line) + (f" ({text})" if text else "")


def name_of(function: Any) -> str:
    """What to call it: its own name, else that of its class."""
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
    """With everything that the caller wrote himself by value: the process can import installed packages alone."""
    try:
        import cloudpickle
    except ImportError as error:
        raise BadAddress("a function as scorer needs cloudpickle: pip install cloudpickle") from error
    with _pickling:
        registered = []
        try:
            for module in _own_modules():
                cloudpickle.register_pickle_by_value(module)
                registered.append(module)
            pickled: bytes = cloudpickle.dumps(function)
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise BadAddress(
                f"score = {title}: cannot be sent to its process: {reason}; make such objects inside the function"
            ) from error
        finally:
            for module in registered:
                cloudpickle.unregister_pickle_by_value(module)
    return pickled


def _own_modules() -> list[types.ModuleType]:
    """Those loaded, each once under its own name."""
    loaded = list(sys.modules.items())
    return [module for name, module in loaded if is_own_module(module) and module.__name__ == name]
