"""Runs in a sandbox worker: loads an OpenEvolve evaluator.py unchanged and gives its results as plain data.

The module is loaded as OpenEvolve loads it: under the name `evaluation_module`, its folder first on sys.path. Each
call works in the evaluator's folder, from where evaluators are commonly started, and finds its files next to the
program too (as links). If that folder cannot be written (sandbox.child.mounts), it works next to the program.

What few evaluators need is imported when it is needed: every evaluation is a fork of the process that this is loaded
in, and pays for the size of it.
"""

import numbers
import os
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from problems.shims import user_file
else:
    import user_file  # next to this file, which is loaded by its path

FILE = os.environ["EVO_EVALUATOR_FILE"]
FOLDER = os.path.dirname(FILE)
# under the name by which evo.call finds it: the rest of its package is not there
apart: Any = user_file.load(os.path.join(os.path.dirname(os.path.dirname(__file__)), "apart.py"), "problems.apart")
LONGEST_ARTIFACT = 20_000
STAGES = ("evaluate", "evaluate_stage1", "evaluate_stage2", "evaluate_stage3", "held_out")
COROUTINE = 0x80  # inspect.CO_COROUTINE
sys.path.insert(0, FOLDER)
user_file.defer("openevolve")


_module: Any = None
_broken: dict[str, Any] | None = None
try:
    _module = user_file.load(FILE, "evaluation_module")
except Exception as error:
    _broken = user_file.fault(error, FILE)
_package = sys.modules.get("openevolve")
if any(value is _package for value in vars(_module or apart).values()):
    getattr(_package, "__version__", None)  # loads it, once and not again in every fork
_codes = [getattr(getattr(_module, name, None), "__code__", None) for name in STAGES]
if any(code.co_flags & COROUTINE for code in _codes if code is not None):
    import asyncio  # noqa: F401  (once here, and not in every evaluation)


def describe() -> dict[str, Any]:
    """{"fault", "line"} where the file does not load, else {"stages": the evaluation functions that it defines}; and
    whether it may write in its folder, "copied"."""
    copied = {"copied": "EVO_FOLDER_COPY" in os.environ}
    if _broken is not None:
        return _broken | copied
    return copied | {"stages": [name for name in STAGES if callable(getattr(_module, name, None))]}


def run(stage: str, program: str, text: str) -> dict[str, Any]:
    """{"metrics", "flags", "texts", "artifacts"} of one stage for an answer, which becomes the file `program`; or
    {"raised", "line", "trace", "by_answer"}."""
    path = f"{os.getcwd()}/{program}"
    with open(path, "xb") as file:  # whatever is not Python's own costs a fork the copies of fewer pages
        file.write(text.encode("utf-8", "surrogatepass"))
    for name in os.listdir(FOLDER):
        if name != program:  # all else that is here
            os.symlink(f"{FOLDER}/{name}", name)
    if "EVO_FOLDER_COPY" in os.environ:
        os.chdir(FOLDER)
    try:
        result = getattr(_module, stage)(path)
        if not isinstance(result, dict) and not hasattr(result, "metrics"):
            result = user_file.awaited(result)
    except MemoryError:
        raise  # a limit of the sandbox, reported as such
    except BaseException as error:
        trace = "".join(traceback.format_exception(error)[-6:])[-LONGEST_ARTIFACT:]
        by_answer = isinstance(error, SystemExit) or _by_answer(error, path)
        return {"raised": user_file.describe(error), "line": user_file.line_in(error, FILE)} | {
            "trace": trace,
            "by_answer": by_answer,
        }
    metrics, artifacts = getattr(result, "metrics", result), getattr(result, "artifacts", None) or {}
    if not isinstance(metrics, dict):
        return {"odd": f"{type(result).__name__} {str(result)[:200]}"}
    numeric: dict[str, float] = {}
    flags: dict[str, bool] = {}
    texts: dict[str, str] = {}
    for name, value in metrics.items():
        number = _number(float(value) if name == "combined_score" and _is_numeric_text(value) else value)
        if _is_flag(value) and name != "combined_score":
            flags[str(name)] = bool(value)
        elif number is not None:
            numeric[str(name)] = number
        elif value is not None:  # as in "error": None
            texts[str(name)] = str(value)[:LONGEST_ARTIFACT]
    shown = {str(name): _text(value) for name, value in artifacts.items()}
    return {"metrics": numeric, "flags": flags, "texts": texts, "artifacts": shown}


def _is_flag(value: Any) -> bool:
    """Whether it is True or False, of Python or of NumPy: no score."""
    of_numpy = type(value).__module__ == "numpy" and getattr(value, "size", 0) == 1
    return isinstance(value, bool) or (of_numpy and value.dtype.kind == "b")


def _is_numeric_text(value: Any) -> bool:
    """Whether it is the text of a number."""
    try:
        return isinstance(value, str) and float(value) is not None
    except ValueError:
        return False


def _number(value: Any) -> float | None:
    kind = type(value).__module__
    if isinstance(value, str) or not (
        isinstance(value, numbers.Real) or kind == "decimal" or (kind == "numpy" and getattr(value, "size", 0) == 1)
    ):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else -float("inf")
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text[:LONGEST_ARTIFACT]


def _by_answer(error: BaseException, path: str) -> bool:
    """Whether the exception, or one it came from, was the answer's doing rather than the evaluator's."""
    origins = [error]
    for item in origins:  # which grow
        further = (item.__cause__, item.__context__)
        origins += [new for new in further if new is not None and all(new is not old for old in origins)]
        files = [frame.filename for frame in traceback.extract_tb(item.__traceback__)]
        if path in files or (isinstance(item, SyntaxError) and item.filename == path) or _about_answer(item, path):
            return True
    return False


def _about_answer(error: BaseException, path: str) -> bool:
    """An AnswerError; a name that the answer's module, or an object of a class of its, does not have; an import of it
    that failed; a function of its that cannot be called as the task says, for which Python blames the caller."""
    if isinstance(error, ImportError):
        stem = os.path.splitext(os.path.basename(path))[0]
        return error.path == path or (error.name or "").split(".")[0] == stem
    if isinstance(error, AttributeError):
        owner = getattr(error, "obj", None)
        codes = [getattr(item, "__code__", None) for item in vars(type(owner)).values()]
        return path in (getattr(owner, "__file__", None), *(getattr(code, "co_filename", None) for code in codes))
    called = re.match(r"([\w<>.]+)\(\) (?:missing|takes|got (?:an unexpected|multiple|some))", str(error))
    if isinstance(error, TypeError) and called is not None:
        names = "|".join(map(re.escape, called[1].split(".")))
        with open(path, encoding="utf-8", errors="replace") as stream:
            return re.search(rf"^\s*(?:async +)?(?:def|class) +(?:{names})\b", stream.read(), re.MULTILINE) is not None
    return isinstance(error, apart.AnswerError)
