"""Test code in the process of the answer: it runs as Python runs it, and an answer that cheats is kept from it.

The tests have a namespace of their own, which no object of the answer leads to. Their builtins and modules are copies
from before the answer was loaded, what they do not define they find among the answer's names, and the marks that
problems.programs.tests left in them become functions of this file, as constants of their code. Every verdict begins
with a secret that the parent sent for this one run, so that nothing which an answer writes can pass for one.

An audit hook ends the process at every way into a frame of another, at ctypes, `gc`'s lists, tracing, and code that
pretends to be a library's. What this cannot keep out is listed in the guide (how it works: sandbox).
"""

from __future__ import annotations

import builtins
import gc
import importlib
import os
import signal
import sys
import time
import types
import warnings
from _json import encode_basestring_ascii
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from opcode import opmap
from os import _exit, write
from typing import Any

from .wire import FRAME, RESULT

MARK = "\u27eaevo\u27eb"
"""Before the name of a function of this file, in a constant of the tests."""
_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
_CODE = frozenset({"__code__", "__defaults__", "__kwdefaults__"})
_ENDING = frozenset(
    {
        *("gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys.settrace", "sys.setprofile"),
        *("sys.addaudithook", "sys._current_frames", "sys._current_exceptions", "sys.monitoring.register_callback"),
    }
)
_SIGNATURES = frozenset({"_has_code_flag", "_signature_from_function"})
_COUNTS = frozenset({"co_argcount", "co_kwonlyargcount", "co_posonlyargcount", "co_varnames", "co_flags", "co_name"})
"""What may be read of a test's function: how it is called, by inspect or by its code; not its constants."""
_LOAD_ATTR = opmap["LOAD_ATTR"]
_MODULES = frozenset({"ctypes", "_ctypes", "_testcapi", "_testinternalcapi", "_interpreters", "_xxsubinterpreters"})
_HOOKS = (
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__bool__", "__len__", "__contains__"),
    *("__instancecheck__", "__subclasscheck__", "__class__", "__array_priority__", "__array_ufunc__"),
    *("__array_function__", "__array__", "__req__", "__float__", "__index__"),
)
_OF_CLASS = {
    "kind": ("__class__",),
    "open": ("__getattr__", "__getattribute__"),
    "number": tuple(
        f"__{side}{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow") for side in ("", "r")
    ),
}
"""Hooks that a value may not have where the tests take its class, call a method of it, calculate with it."""
_MOVING = frozenset(
    {
        *("__warningregistry__", "_cache", "filters", "showwarning", "_showwarnmsg_impl"),
        *("argv", "path", "stdout", "stderr", "stdin", "last_type", "last_value"),
    }
)
"""What changes in modules of Python without a cheat, or with the tests' own contexts."""
_JUDGING = frozenset({"unittest", "pytest"})
"""Packages whose functions decide, and are checked where tests patch modules themselves."""
_UNCOPIED = frozenset({"sys", "os", "builtins", "warnings", "logging"})
_PLAIN = frozenset(
    {int, float, complex, bool, str, bytes, type(None), range, type, types.FunctionType, types.BuiltinFunctionType}
)
_DIRECT = frozenset({id(namedtuple.__code__)})
_TEXT = 2000


PYTEST = """
class raises:
    def __init__(self, kinds, *call, match=None, **named):
        self.kinds, self.match, self.value = kinds, match, None
        if call:
            with self:
                call[0](*call[1:], **named)
    def __enter__(self):
        return self
    def __exit__(self, kind, error, traceback):
        import re
        if kind is None:
            raise AssertionError(f"DID NOT RAISE {self.kinds}")
        if not issubclass(kind, self.kinds):
            return False
        self.type, self.value = kind, error
        if self.match is not None:
            assert re.search(self.match, str(error)), f"{self.match!r} does not match {str(error)!r}"
        return True
class approx:
    __array_ufunc__ = None
    def __init__(self, expected, rel=None, abs=None, nan_ok=False):
        self.expected, self.rel, self.abs, self.nan_ok = expected, rel, abs, nan_ok
    def __eq__(self, other):
        return self.near(other, self.expected)
    def near(self, got, wanted):
        if hasattr(wanted, "shape"):
            return getattr(got, "shape", None) == wanted.shape and self.near(got.tolist(), wanted.tolist())
        if isinstance(wanted, dict):
            return got.keys() == wanted.keys() and all(self.near(got[key], wanted[key]) for key in wanted)
        if isinstance(wanted, (list, tuple)):
            return len(got) == len(wanted) and all(map(self.near, got, wanted))
        if isinstance(got, approx):
            return False
        if got == wanted or isinstance(wanted, (str, bytes, bool, type(None))):
            return got == wanted
        if wanted != wanted or abs(wanted) == float("inf"):
            return self.nan_ok and got != got and wanted != wanted
        absolute = 1e-12 if self.abs is None else self.abs
        relative = (0 if self.abs is not None else 1e-6) if self.rel is None else self.rel
        return abs(got - wanted) <= max(absolute, relative * abs(wanted))
class param:
    def __init__(self, *row, **settings):
        self.row = row
class mark:
    @staticmethod
    def parametrize(names, rows, **settings):
        names = names.replace(",", " ").split() if isinstance(names, str) else names
        def add(test):
            made = [r.row if isinstance(r, param) else r if len(names) > 1 else (r,) for r in rows]
            test.rows = [(names, made), *getattr(test, "rows", [])]
            return test
        return add
def run(test, method=""):
    import itertools
    function = getattr(test, method) if method else test
    rows = [*getattr(function, "rows", []), *(getattr(test, "rows", []) if method else [])]
    for chosen in itertools.product(*(values for _, values in rows)):
        case = test() if method else None
        getattr(case, "setup_method", int)()
        given = {name: value for (names, _), row in zip(rows, chosen) for name, value in zip(names, row)}
        try:
            function(*([case] if method else []), **given)
        finally:
            getattr(case, "teardown_method", int)()
def fail(reason=""):
    raise AssertionError(reason)
class warns:
    def __init__(self, kinds, match=None):
        self.kinds, self.match = kinds, match
    def __enter__(self):
        import warnings
        self.catching = warnings.catch_warnings(record=True)
        self.caught = self.catching.__enter__()
        warnings.simplefilter("always")
        return self.caught
    def __exit__(self, kind, error, traceback):
        import re
        self.catching.__exit__(kind, error, traceback)
        if kind is None:
            texts = [str(w.message) for w in self.caught if issubclass(w.category, self.kinds)]
            assert any(re.search(self.match or "", text) for text in texts), f"DID NOT WARN {self.kinds}"
"""
"""What tests use of pytest: importing the real one would take longer than most answers."""


class AnswerCheats(Exception):
    """What the answer did to its judge; the case fails."""


def describe(error: BaseException) -> str:
    """'ValueError: text', whatever the exception's own methods do."""
    try:
        text = str(error)[:_TEXT]
    except BaseException:
        text = ""
    return type(error).__name__ + (f": {text}" if text else "")


def known_classes() -> set[int]:
    """The ids of all classes that there are; they live as long as the process."""
    found: set[int] = set()
    pending: list[Any] = [object]
    while pending:
        below: list[type] = type.__subclasses__(pending.pop())
        for class_ in below:
            if id(class_) not in found:
                found.add(id(class_))
                pending.append(class_)
    return found


class _Names(dict[str, Any]):
    """The builtins of the tests; names that are none are the answer's, as they are at that moment."""

    def __init__(self, answer: dict[str, Any], shadowed: list[str]) -> None:
        super().__init__(vars(builtins))
        for name in shadowed:
            self.pop(name, None)
        self._answer = answer

    def __missing__(self, name: str) -> Any:
        return self._answer[name] if name in self._answer else vars(builtins)[name]


def _with_marks(code: types.CodeType, functions: Mapping[str, Any], made: set[int]) -> types.CodeType:
    """The code with each constant that is a mark as the function of that name; made: gets the ids of its parts."""
    constants = []
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            value = _with_marks(value, functions, made)
        elif isinstance(value, str) and value.startswith(MARK):
            value = functions.get(value[len(MARK) :], value)
        constants.append(value)
    code = code.replace(co_consts=tuple(constants))
    made.add(id(code))
    return code


def run_tests(task: dict[str, Any], results: int, space: dict[str, Any], classes: set[int]) -> None:
    """Load the setup, the answer and the epilogue in `space`, then run the tests; one frame a case, and one at the end.

    A frame holds the secret, then [case, status, message, assertions that ran, whether a value with hooks was seen,
    CPU seconds so far];
    the case is -1 in the last one, whose status says whether all that stands between the cases went well.
    """
    # Everything that is used once the answer is there is bound here: it may change what a module holds.
    secret, encode_text, write_frame, exit_now = task.pop("secret").encode(), encode_basestring_ascii, write, _exit
    pack, kind_of_frame, text_of, refused, say = FRAME.pack, RESULT, str, AnswerCheats, describe
    class_of, identity, isinstance_, issub, len_ = type, id, isinstance, issubclass, len
    used, skipped, allowed = time.process_time, set(task["skip"]), bool(task["hooks"])
    names, exception_info = set(task["names"]), RuntimeError
    frame_of, vars_of, flags_heap = sys._getframe, vars, 1 << 9
    plain, comparing, truth, module_type = _PLAIN, _HOOKS, bool, types.ModuleType
    functional = {types.FunctionType, classmethod, staticmethod, property, type, types.BuiltinFunctionType}
    named_classes: dict[int, type] = {}  # of the tests, and of the answer where the tests name them
    originals: dict[int, types.ModuleType] = {}
    set_up: list[type] = []
    absent, library_modules = type, sys.modules
    own_code: set[int] = set()
    stops = "StopIteration" in task["tests"]
    state: dict[str, Any] = {"case": -1, "count": 0, "hooked": False, "calls": [], "refused": ""}
    state |= {"armed": False, "busy": False}

    def send(case: int, status: str, message: str) -> None:
        body = b'%s[%d,"%s",%s,%d,%s,%.3f]' % (
            secret,
            case,
            status.encode(),
            encode_text(message[:_TEXT].encode("utf-8", "replace").decode()).encode(),
            state["count"],
            b"true" if state["hooked"] else b"false",
            used(),
        )
        data = pack(kind_of_frame, len_(body)) + body
        while data:
            data = data[write_frame(results, data) :]

    # -- what the tests call, by marks -------------------------------------------------------------------------------

    def begin(case: int) -> bool:
        state["case"], state["count"], state["refused"] = case, 0, ""
        return case not in skipped

    def passed(case: int) -> None:
        try:
            check_modules()
            if state["refused"]:
                cheats(state["refused"])
        except refused as reason:
            failed(case, reason)
            return
        send(case, "ok", "")
        state["calls"] = []

    def failed(case: int, error: BaseException) -> None:
        seen_calls, state["calls"] = "; ".join(state["calls"][-2:]), []
        message = say(error)
        send(case, "error", f"{seen_calls}: {message}" if seen_calls else message)

    def ran(value: Any = None) -> Any:
        state["count"] += 1
        return value

    def asserted(value: Any) -> bool:
        state["count"] += 1
        seen(value)
        return truth(value)

    def real(value: Any) -> Any:
        return originals.get(identity(value), value)

    def own(class_: Any) -> Any:
        if not issub(class_of(class_), class_of):  # a decorator of the answer made something else of it
            return class_
        named_classes[identity(class_)] = class_
        now = vars_of(class_)
        held = {name: now.get(name, absent) for name in (*comparing, *now) if name not in ("__dict__", "__weakref__")}
        captured.append((class_, {name: value for name, value in held.items() if class_of(value) in functional}))
        return class_

    def seen(value: Any) -> Any:
        if class_of(value) not in plain:
            for part in parts_of(value):
                if has_hooks(class_of(part), comparing):
                    refuse(class_of(part))
        return originals.get(identity(value), value)

    def share(name: str, value: Any) -> None:
        """What the tests import or set and never read: plain Python has one namespace for both."""
        if class_of(value) is not module_type:
            space[name] = value
        else:
            space.setdefault(name, real(value))

    def all_names() -> dict[str, Any]:
        return {**{name: value for name, value in space.items() if not name.startswith("__")}, **scope}

    def debug(case: Any) -> None:
        """Run one method of a unittest class, with what stands around it."""
        kind, found = class_of(case), []
        outcome: Any = new_result()
        outcome.addError = outcome.addFailure = lambda test, error: found.append(error[1])
        outcome.addSubTest = lambda test, part, error: found.extend(error[1:2] if error else ())
        outcome.addUnexpectedSuccess = lambda test: found.append(AssertionError("unexpected success"))
        if kind not in set_up and not getattr(kind, "__unittest_skip__", False):
            set_up.append(kind)
            kind.setUpClass()
        case.run(outcome)
        if found:
            raise found[0]

    def checking(hooks: Any) -> Callable[[Any], Any]:
        def check(value: Any) -> Any:
            if class_of(value) not in plain and has_hooks(class_of(value), hooks):
                refuse(class_of(value))
            return value

        return check

    def refuse(class_: type) -> None:
        state["hooked"] = True
        if not allowed:
            cheats(f"the tests compare a {class_.__name__}, whose class decides itself what it is equal to")

    def cheats(what: str) -> None:
        state["refused"] = what  # for the tests may catch the exception
        raise refused(what)

    def parts_of(value: Any) -> Iterator[Any]:
        pending: list[Any] = [value]
        visited: set[int] = set()
        while pending and len_(visited) < 100_000:
            item = pending.pop()
            kind = class_of(item)
            if kind in plain or identity(item) in visited:
                continue
            visited.add(identity(item))
            yield item
            if issub(kind, dict):
                pending += dict.keys(item)
                pending += dict.values(item)
            elif issub(kind, list):
                pending += list.__iter__(item)
            elif issub(kind, tuple):
                pending += tuple.__iter__(item)
            elif issub(kind, (set, frozenset)):
                pending += (set if issub(kind, set) else frozenset).__iter__(item)
            elif array is not None and issub(kind, array) and item.dtype.hasobject:
                pending += item.ravel().tolist()

    def has_hooks(kind: type, hooks: Any) -> bool:
        if identity(kind) in classes or identity(kind) in named_classes:
            return False
        for base in class_of.__dict__["__mro__"].__get__(kind):
            if identity(base) in classes or identity(base) in named_classes:
                continue
            if not class_of.__dict__["__flags__"].__get__(base) & flags_heap:
                continue
            own = class_of.__dict__["__dict__"].__get__(base)
            if any(name in own and not of_library(own[name]) for name in hooks):
                return True
        meta = class_of(kind)
        return meta is not class_of and identity(meta) not in classes and has_hooks(meta, hooks)

    def of_library(hook: Any) -> bool:
        if hook is None or class_of(hook) is not types.FunctionType:
            return hook is None or class_of(hook) in (types.WrapperDescriptorType, types.MethodDescriptorType)
        busy, state["busy"] = state["busy"], True
        try:
            return bool(hook.__code__.co_filename.startswith(folders))
        finally:
            state["busy"] = busy

    def sizes(function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if array is not None and len_({size(part) == 0 for part in args[:2]}) > 1:
            cheats("an empty array is compared with one that is not empty")
        return function(*args, **kwargs)

    def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if identity(class_of(value)) in named_classes:  # it can pickle what it holds
                space.setdefault(class_of(value).__name__, class_of(value))
        function_name = getattr(function, "__name__", "it")
        shown = f"{function_name}({', '.join([*map(brief, args), *map(pair, kwargs.items())])})"
        try:
            value = function(*args, **kwargs)
        except (StopIteration, skip_test) as error:
            stop = class_of(error).__name__
            if isinstance_(error, StopIteration) and (stops or function_name in ("__next__", "send", "throw")):
                raise
            state["calls"].append(f"{shown} raised {stop}")
            raise exception_info(f"the answer raised {stop}") from error
        except BaseException as error:
            state["calls"].append(f"{shown} raised {class_of(error).__name__}")
            check_modules()
            raise
        state["calls"].append(f"{shown} returned {brief(value)}")
        check_modules()
        if len_(state["calls"]) > 8:
            del state["calls"][:4]
        return value

    def pair(item: tuple[str, Any]) -> str:
        return f"{item[0]}={brief(item[1])}"

    def brief(value: Any) -> str:
        kind = class_of(value)
        sized = kind in (str, bytes, list, tuple, dict, set, frozenset)
        if kind in (int, float, bool, complex, type(None)) or (sized and len_(value) <= 50):
            try:
                text = repr(value)
            except BaseException:
                text = f"a {kind.__name__}"
            return text if len_(text) <= 200 else f"{text[:97]} ... {text[-97:]}"
        return f"a {kind.__name__}"

    # -- before the answer -------------------------------------------------------------------------------------------

    functions: dict[str, Any] = {
        "ran": ran,
        "true": asserted,
        "seen": seen,
        "call": call,
        "sizes": sizes,
        "fail": failed,
    }
    functions |= {"begin": begin, "real": real, "own": own, "share": share, "globals": all_names, "debug": debug}
    functions |= {"pass": passed, **{mark: checking(hooks) for mark, hooks in _OF_CLASS.items()}}
    with warnings.catch_warnings(action="ignore"):  # a mark is a text that is called
        tests = _with_marks(compile(task["tests"], "<tests>", "exec", dont_inherit=True), functions, own_code)
    if task["setup"]:
        exec(compile(task["setup"], "<setup>", "exec"), space)
    here = os.getcwd()
    folders = tuple(
        os.path.join(path, "") for path in (os.path.dirname(os.__file__), *sys.path) if path not in ("", here)
    )
    libraries = (*folders, "<frozen ", os.path.join(os.path.dirname(__file__), ""))
    set_handler = sys.modules["_signal"].signal

    def set_handler_for_library(number: Any, handler: Any) -> Any:
        """A handler is given the frame that it interrupts, which may be the judge's."""
        state["busy"] = True
        try:
            if not (library(frame_of(1)) or identity(frame_of(1).f_code) in own_code):
                raise PermissionError("no signal handlers in the process of the tests")
        finally:
            state["busy"] = False
        return set_handler(int(number), int(handler) if isinstance_(handler, int) else handler)

    signal.signal = set_handler_for_library  # type: ignore[assignment]
    sys.modules["_signal"].signal = set_handler_for_library  # type: ignore[attr-defined]

    modules: dict[int, types.ModuleType] = {}
    captured: list[tuple[Any, dict[str, Any]]] = []
    if any(name.partition(".")[0] == "pytest" for name in task["modules"]):
        sys.modules["pytest"] = substitute = types.ModuleType("pytest")
        vars(substitute)["__builtins__"] = dict(vars(builtins))  # of before the answer
        exec(PYTEST, vars(substitute))
    for name in task["modules"]:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    for name in task["modules"]:
        for part in [name[: at or None] for at in [*(k for k, mark in enumerate(name) if mark == "."), 0]]:
            module = sys.modules.get(part)
            if module is None or id(module) in modules:
                continue
            held = dict(vars(module))
            captured.append((module, held))
            if part not in _UNCOPIED and not task["patches"] and type(module) is types.ModuleType:
                copied = types.ModuleType(part)
                vars(copied).update(held)
                modules[id(module)] = copied
                captured.append((copied, held))
                originals[id(copied)] = module
    packages = {name.partition(".")[0] for name in task["modules"]}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages and type(module) is types.ModuleType:
            behind = {key: value for key, value in vars(module).items() if type(value) in functional}
            captured.append((module, behind))
            for kind in behind.values() if name.partition(".")[0] in _JUDGING else ():
                if type(kind) is type and kind.__module__ == name:
                    captured.append((kind, {k: v for k, v in vars(kind).items() if type(v) in functional}))
    unittest: Any = sys.modules.get("unittest.case")
    judging = [c for c in captured if getattr(c[0], "__module__", c[0].__name__).partition(".")[0] in _JUDGING]
    new_result, skip_test = (unittest.result.TestResult, unittest.SkipTest) if unittest else (dict, StopIteration)
    loaded = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in packages}
    numpy: Any = sys.modules.get("numpy")
    array, size = (numpy.ndarray, numpy.size) if numpy is not None else (None, len)
    import_module = builtins.__import__

    def import_copy(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        module = import_module(name, globals, locals, fromlist, level)
        return modules.get(identity(module), module)

    def check_modules(all_of_them: bool = not task["patches"]) -> None:
        for name, module in loaded.items() if all_of_them else ():
            if library_modules.get(name) is not module:
                cheats(f"the answer changed sys.modules[{name!r}]")
        for module, held in captured if all_of_them else judging:
            now = vars_of(module)
            for name, value in held.items():
                if now.get(name, absent) is not value:
                    if value is None or name in _MOVING:
                        continue
                    if name.startswith("_") and class_of(value) not in functional:  # a counter, a cache
                        continue
                    cheats(f"the answer changed {module.__name__}.{name}")

    scope: dict[str, Any] = {"__name__": space["__name__"], "__doc__": None}
    scope["__builtins__"] = builtin_names = _Names(space, [name for name in names if name in vars(builtins)])
    builtin_names["__import__"] = import_copy
    for name, value in space.items():
        if not (name.startswith("__") and name.endswith("__")) and name not in names:
            scope[name] = modules.get(id(value), value) if isinstance(value, types.ModuleType) else value
    classes |= known_classes()
    for name in _MODULES:
        sys.modules.pop(name, None)
    gc.disable()

    def end(what: str) -> None:
        send(state["case"], "error", f"the answer used {what}, which is refused beside tests")
        send(-1, "error", f"the answer used {what}, which is refused beside tests")
        exit_now(0)

    def library(frame: Any) -> bool:
        return frame is not None and frame.f_code.co_filename.startswith(libraries)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if not state["armed"] or state["busy"]:
            return
        if event in ("object.__getattr__", "object.__setattr__"):
            if args[1] in _FRAMES:
                ask(args[1])
            elif args[1] in _CODE and class_of(args[0]) is types.FunctionType and args[0].__globals__ is scope:
                ask(args[1], reading=event == "object.__getattr__", tests_only=True)
        elif event in ("sys._getframe", "code.__new__") or event.startswith("ctypes."):
            ask(event)
        elif event in _ENDING:
            ask(event, tests_only=True)
        elif event == "import":
            if args[0] in _MODULES:
                ask(f"import {args[0]}")
        elif event == "compile":
            if isinstance_(args[1], str) and args[1].startswith(libraries):
                ask("compile with the name of a library")
        elif event == "open" and isinstance_(args[0], (str, bytes)) and "/proc" in text_of(args[0]):
            ask("/proc")

    def ask(what: str, tests_only: bool = False, reading: bool = False) -> None:
        """Refuse it, except to the tests, and to a library that works for them or for a library: those hand no frame
        to the answer. tests_only: not for a library; reading: of a test's code, which may tell how it is called"""
        state["busy"] = True
        try:
            frame = frame_of(2)
            caller = frame.f_back
            if identity(frame.f_code) in own_code:
                fine = True
            elif reading:
                fine = (library(frame) and frame.f_code.co_name in _SIGNATURES) or next_read(frame) in _COUNTS
            elif not library(frame):
                fine = False
            elif caller is not None and identity(caller.f_code) in own_code:
                fine = True
            else:
                direct = what.startswith("import") or identity(frame.f_code) in _DIRECT
                fine = not tests_only and (direct or library(caller))
        finally:
            state["busy"] = False
        if not fine:
            end(what)

    def next_read(frame: Any) -> str:
        """The attribute that the frame reads of what it is about to get."""
        code, at = frame.f_code, frame.f_lasti + 2
        if code.co_code[at - 2] != _LOAD_ATTR:
            return ""
        while code.co_code[at] == 0:  # room for the interpreter's notes
            at += 2
        number = code.co_code[at + 1] >> (sys.version_info >= (3, 12))
        return code.co_names[number] if code.co_code[at] == _LOAD_ATTR and number < len_(code.co_names) else ""

    sys.addaudithook(hook)

    # -- the answer, and its tests -----------------------------------------------------------------------------------

    state["armed"] = True
    try:
        exec(compile(task["code"], "<answer>", "exec", dont_inherit=True), space)
        check_modules(all_of_them=True)
        if task["epilogue"]:
            exec(compile(task["epilogue"], "<setup>", "exec", dont_inherit=True), space)
    except BaseException as error:
        send(-1, "error", say(error))
        return
    for name, value in list(space.items()):
        old = scope.get(name)
        if isinstance_(value, type) and (name in names or (isinstance_(old, type) and old is not value)):
            named_classes[identity(value)] = value
            if isinstance_(old, type):
                scope[name] = value  # the answer wrote a class of its own in the place of the setup's
    try:
        exec(tests, scope)
    except BaseException as error:
        send(-1, "error", say(error))
        return
    send(-1, "ok", "")
