"""What a worker does in a fork: run a program's cases, answer its session, or call a scorer's function.

What happens in the fork after the confinement is the candidate's own doing.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import importlib
import importlib.util
import io
import os
import resource
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from .channels import Channels, Feed, host_caller, send, write_all
from .wire import FAILED, LOADED, RESULT, TooLarge, Unplain, encode, unpack_value

STANDARD = (
    *("bisect", "collections", "collections.abc", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions"),
    *("functools", "heapq", "io", "itertools", "json", "math", "operator", "queue", "random", "re", "statistics"),
    *("string", "textwrap", "threading", "time", "typing"),
)
"""Modules that programs commonly import."""
ANSWER_FILE = "<answer>"
_LONGEST = 2000
"""Characters of an exception's text."""
_cpu, _own = time.process_time, time.thread_time


def attempt(work: Callable[[], str], results: int, kind: bytes) -> bool:
    """Do `work` and report its encoded value, or how it failed, as `kind`; FAILED is reported of failures alone.

    A report is [status, encoded value, message, CPU seconds].
    """
    cpu, own = _cpu(), _own()
    status, value, message = "ok", "null", ""
    try:
        value = work()
    except MemoryError:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)  # room to report in
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        status, message = "memory", "MemoryError: more memory than allowed"
    except TooLarge as error:
        status, message = "output", str(error)
    except BaseException as error:
        status, message = "error", describe(error)
    sys.settrace(None)
    if kind is not FAILED or status != "ok":
        # a process's clock counts ticks of milliseconds while a limit is on it, a thread's does not
        send(results, kind, [status, value, message, max(_cpu() - cpu, _own() - own)])
    return status == "ok"


def describe(error: BaseException) -> str:
    """'ValueError: text (line 3)', the line of an answer's own, whatever the exception's own methods do."""
    line, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == ANSWER_FILE:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    if isinstance(error, SyntaxError) and error.filename == ANSWER_FILE:
        line = None  # its own text names the line
    try:
        text = str(error)[:_LONGEST]
    except BaseException:
        text = ""
    return type(error).__name__ + (f": {text}" if text else "") + (f" (line {line})" if line else "")


class ProgramVerbs:
    """Hostile programs: each is loaded in a separate fork, and its cases run there."""

    def __init__(self, config: dict[str, Any], channels: Channels, scratch: str) -> None:
        """Import what they need. scratch: of each run, whose working folder it is"""
        self._channels = channels
        os.environ.clear()
        for name in ["random", *config["preload"]]:
            importlib.import_module(name)
        sys.modules["random"].seed(0)  # a candidate that draws at random scores the same every time
        sys.set_int_max_str_digits(50_000)  # as LiveCodeBench's harness has it, for every format
        sys.stdout.reconfigure(errors="surrogatepass")  # type: ignore[union-attr]
        self._module = types.ModuleType("candidate")
        self._module.__dict__["__builtins__"] = builtins
        sys.modules["candidate"] = self._module
        # The C library's fork, without the interpreter's: that one renews locks which other threads might hold, of
        # which there are none here, and seeds `random` again, over a hundred pages that every candidate would copy.
        self.fork: Callable[[], int] = ctypes.PyDLL(None).fork

    def open_streams(self, task: dict[str, Any]) -> None:
        """Before the confinement: a case as standard input, the pipe of outputs as standard output."""
        channels = self._channels
        if task["kind"] == "stdin":
            source = os.memfd_create("stdin")
            write_all(source, task["case"].encode("utf-8", "surrogatepass"))
            os.lseek(source, 0, os.SEEK_SET)
            os.dup2(source, 0)
            os.close(source)
        os.dup2(channels.output, 1)
        os.close(channels.output)
        if not task.get("stays"):
            os.close(channels.feed)

    def run(self, task: dict[str, Any], feed: Feed) -> None:
        """In the fork, confined."""
        if task["kind"] == "stdin":
            main_program(task, self._channels.results)
        else:
            self._cases(task, feed)

    def _cases(self, task: dict[str, Any], feed: Feed) -> None:
        """Load the code, say so, evaluate the cases; then, if it stays, {"expression", "bindings"} until killed."""
        results, space, limit = self._channels.results, self._module.__dict__, task["limits"]["output"]

        def load() -> str:
            if task["setup"]:
                exec(compile(task["setup"], "<setup>", "exec"), space)
            exec(compile(task["code"], ANSWER_FILE, "exec", dont_inherit=True), space)
            return "null"

        def evaluate(expression: str) -> str:
            return encode(eval(compile(expression, "<case>", "eval", dont_inherit=True), space), limit, task["stays"])

        if not attempt(load, results, FAILED):
            return
        send(results, LOADED, None)
        for expression in task["cases"]:
            attempt(partial(evaluate, expression), results, RESULT)
        while task["stays"]:
            request = feed.read()
            space.update(unpack_value(request["bindings"]))
            attempt(partial(evaluate, request["expression"]), results, RESULT)


def opening_stdin(real: Callable[..., Any]) -> Callable[..., Any]:
    """`open` where /dev/stdin, which the sandbox does not have, is descriptor 0."""

    def open(file: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, (str, os.PathLike)) and os.fspath(file) in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
            return real(0, *args, **{**kwargs, "closefd": False})
        return real(file, *args, **kwargs)

    return open


def main_program(task: dict[str, Any], results: int) -> None:
    """Run it to its end, which is what an interpreter does at its own.

    As in LiveCodeBench's harness, `sys.exit` ends it well whatever its status: what it printed decides.
    """
    builtins.open = io.open = opening_stdin(io.open)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8", "surrogateescape")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8", "surrogateescape")
    sys.argv = ["main.py"]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    import threading  # not above: every fork of a scorer's worker would renew the state of this module

    def run() -> str:
        try:
            if task["setup"]:
                exec(compile(task["setup"], "<setup>", "exec"), module.__dict__)
            exec(compile(task["code"], ANSWER_FILE, "exec", dont_inherit=True), module.__dict__)
        except SystemExit:
            pass
        finally:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
        return "null"

    attempt(run, results, RESULT)


class ScorerVerbs:
    """A user's file as a module of this worker; each evaluation is a call of a function of it, in a fork."""

    def __init__(self, config: dict[str, Any], channels: Channels, scratch: str) -> None:
        """Execute the file. Whatever it raises goes to the parent. scratch: of each evaluation"""
        self._channels = channels
        path, environment = config["path"], config["environment"]
        os.environ.clear()
        os.environ.update({**home(config["scratch"]), **environment, "PYTHONDONTWRITEBYTECODE": "1"})
        sys.path[:0] = [os.path.dirname(path), *filter(None, environment.get("PYTHONPATH", "").split(":"))]
        sys.argv = [path]
        name = os.path.splitext(os.path.basename(path))[0]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is not a Python file")
        self._module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._module)
        if scratch != config["scratch"]:
            os.environ.update({name: place for name, place in home(scratch).items() if name not in environment})
        self.fork: Callable[[], int] = os.fork

    def open_streams(self, task: dict[str, Any]) -> None:
        """What it prints goes nowhere."""
        os.close(self._channels.output)
        if not task["calls_host"]:
            os.close(self._channels.feed)

    def run(self, task: dict[str, Any], feed: Feed) -> None:
        """In the evaluation, confined: call the function."""
        if task["calls_host"] and "problems.apart" in sys.modules:
            sys.modules["problems.apart"].__dict__["host_call"] = host_caller(
                self._channels.results, feed, task["limits"]["output"]
            )

        def call() -> str:
            function: Any = self._module
            for part in task["function"].split("."):
                function = getattr(function, part)
            value = function(*unpack_value(task["arguments"]))
            try:
                return encode(value, task["limits"]["output"])
            except (Unplain, TooLarge) as error:
                raise TypeError(f"the scorer returned {error}") from None

        attempt(call, self._channels.results, RESULT)


def home(scratch: str) -> dict[str, str]:
    """The home and the place for temporary files of a scorer that names no others: its user has neither."""
    return {"HOME": scratch, "TMPDIR": scratch}
