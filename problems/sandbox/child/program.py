"""Programs: how a worker forks for one, and what the fork does, which runs its cases or its session.

What happens in the fork after the confinement is the candidate's own doing.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import ctypes
import gc
import importlib
import io
import os
import random
import resource
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from os import _exit
from typing import Any

from . import confinement, judge
from .channels import Channels, Feed, send
from .syscalls import Installer, candidate_filter, zygote_filter
from .wire import FAILED, LOADED, RESULT, Request, TooLarge, decode, encode

PRELOADED = (
    *("bisect", "collections", "collections.abc", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions"),
    *("functools", "heapq", "io", "itertools", "json", "math", "operator", "queue", "random", "re", "statistics"),
    *("string", "textwrap", "threading", "time", "typing"),
)
SPARE = 32 << 20
"""Bytes of address space kept back, to report in once a candidate has used all of its own."""
ANSWER_FILE = "<answer>"
_INODES = 2048
_MESSAGE = 2000


class Programs:
    """The worker's side of programs: it imports what they need, confines itself, and forks for each.

    address_space: bytes that are mapped before any candidate runs, with the spare ones; set once everything is loaded
    """

    address_space = 0

    def __init__(self, config: dict[str, Any], channels: Channels) -> None:
        self._config, self._channels = config, channels
        self._confined = config["mode"] != "none"
        for name in [*PRELOADED, *config["preload"]]:
            importlib.import_module(name)
        random.seed(0)  # a candidate that draws at random scores the same every time
        self._runner = ProgramRunner(channels.results)
        self._classes = judge.known_classes()
        # The C library's fork, without the interpreter's: that one renews locks which other threads might hold, of
        # which there are none here, and seeds `random` again, over a hundred pages that every candidate would copy.
        self._fork = ctypes.PyDLL(None).fork
        self._confine()

    def _confine(self) -> None:
        config = self._config
        os.environ.clear()
        rules = self._scopes = None
        if self._confined:
            if config["mode"] == "bwrap":
                self._fresh_scratch()
            abi = confinement.landlock_abi()
            if abi:
                rules = confinement.landlock(*confinement.carve(config["exposed"], config["hidden"]), execute=False)
                rules.allow([config["scratch"]], confinement.WRITE)
            if abi >= 6:
                self._scopes = confinement.Landlock(scopes_only=True)
            if config["uid"] is not None:
                confinement.drop_user(config["uid"], config["uid"], config["read_everywhere"])
            else:
                confinement.drop_capabilities()
        confinement.limit(resource.RLIMIT_NOFILE, 128)
        confinement.limit(resource.RLIMIT_NPROC, config["threads"])
        confinement.no_new_privileges()
        confinement.undumpable()
        if rules is not None:
            rules.restrict()
            os.close(rules.fd)
        self._filter = Installer(candidate_filter()) if self._confined else None
        if self._confined:
            Installer(zygote_filter()).install()

    def _fresh_scratch(self) -> None:
        """The same folder with few inodes, which bwrap cannot set; without the right to mount, bwrap's own stays."""
        with contextlib.suppress(OSError):
            confinement.fresh_tmpfs(self._config["scratch"], self._config["scratch_size"], _INODES)
        os.chdir(self._config["scratch"])

    def run(self, request: Request) -> tuple[int, float, bool]:
        """(wait status, CPU seconds, whether scratch holds anything) of the fork that ran one."""
        pid = self._fork()
        if pid == 0:
            try:
                self._candidate(request)
            except BaseException:
                _exit(98)
            _exit(0)
        ended = os.pidfd_open(pid)
        self._channels.wait(ended, request.sequence, lambda: os.kill(pid, signal.SIGKILL))
        os.close(ended)
        own = time.clock_gettime(~pid << 3 | 2)  # its own clock: rusage counts in ticks of several milliseconds
        _, status, used = os.wait4(pid, 0)
        return status, max(own, used.ru_utime + used.ru_stime), bool(os.listdir(self._config["scratch"]))

    def _candidate(self, request: Request) -> None:
        """In the fork: take the task, give everything up, run."""
        channels, runner = self._channels, self._runner
        os.close(channels.requests)
        os.close(channels.control)
        feed = Feed(channels.feed)
        task = feed.read()
        kind = task["kind"]
        # Descriptor 0 is /dev/null until the case takes its place; the zygote's standard error is the parent's to read
        os.dup2(0, 2)
        if kind == "stdin":
            take_stdin(task["case"], channels.output)
        elif kind == "session":
            os.close(channels.output)
        if kind != "session":
            os.close(channels.feed)
        top, cpu = self.address_space + request.memory, request.cpu
        resource.setrlimit(resource.RLIMIT_AS, (top - SPARE, top))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu) if cpu else (-1, -1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (request.file, request.file))
        if self._config["mode"] != "bwrap":
            confinement.die_with_parent()
        if self._scopes is not None:
            self._scopes.restrict()
            os.close(self._scopes.fd)
        if self._filter is not None:
            self._filter.install(os.getpid())
        gc.enable()
        if kind == "stdin":
            main_program(task, channels.results)
            return
        runner.bound(task["output"], task["cpu"], top)
        if kind == "calls":
            run_calls(runner, task, channels.output)
        elif kind == "tests":
            sys.stdout = os.fdopen(2, "w", closefd=False)  # /dev/null: what a test reads of it, it redirects
            judge.run_tests(task, channels.results, runner.module.__dict__, self._classes)
        else:
            run_session(runner, task, feed)


def describe(error: BaseException) -> str:
    """'ValueError: text (line 3)', the line of an answer's own, whatever the exception's own methods do."""
    kind = type(error).__name__
    try:
        text = str(error)[:_MESSAGE]
    except BaseException:
        text = ""
    line, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == ANSWER_FILE:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    if isinstance(error, SyntaxError) and error.filename == ANSWER_FILE:
        line = None  # its own text names the line
    return kind + (f": {text}" if text else "") + (f" (line {line})" if line else "")


class Capture(io.RawIOBase):
    """Standard output as bytes held here, ending the process where it passes the bound."""

    def __init__(self, overflow: Callable[[], None]) -> None:
        self.limit, self._overflow = 1 << 20, overflow
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self.limit:
            self._overflow()
        return len(piece)

    def take(self) -> str:
        text = b"".join(self._parts).decode("utf-8", "replace")
        self._parts.clear()
        self._size = 0
        return text


class ProgramRunner:
    """Evaluates expressions beside the candidate's code and reports each with its status.

    Made in the zygote: what a fork finds ready it need not build.
    """

    def __init__(self, results: int) -> None:
        self.results = results
        self.output, self.cpu_seconds, self.top = 1 << 20, 1e6, -1
        self._kind = FAILED
        self.module = types.ModuleType("candidate")
        self.module.__dict__["__builtins__"] = builtins
        sys.modules["candidate"] = self.module
        self.capture = Capture(self._overflow)
        sys.stdout = io.TextIOWrapper(self.capture, "utf-8", "surrogatepass", write_through=True)
        self._clock, self._cpu, self._own = time.perf_counter, time.process_time, time.thread_time

    def bound(self, output: int, cpu_seconds: float, top: int) -> None:
        """For one candidate. top: the hard limit on address space, room to report in once the soft one is reached."""
        self.output = self.capture.limit = output
        self.cpu_seconds, self.top = cpu_seconds, top

    def _overflow(self) -> None:
        self._report(self._kind, "output", "null", "", f"more than {self.output} bytes of output", 0.0, 0.0)
        _exit(0)

    def _report(self, kind: bytes, status: str, value: str, stdout: str, message: str, wall: float, cpu: float) -> None:
        send(self.results, kind, [status, value, stdout, message, wall, cpu])

    def _bound_cpu(self) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        soft = int(self._cpu() + self.cpu_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (soft if hard < 0 else min(soft, hard), hard))

    def _attempt(self, work: Callable[[], Any], kind: bytes) -> bool:
        """Do `work` and report its encoded value, or how it failed, as `kind`; FAILED is reported of failures alone."""
        self._kind = kind
        wall, cpu, own = self._clock(), self._cpu(), self._own()
        status, value, message = "ok", "null", ""
        try:
            result = work()
            if kind is RESULT:
                value = encode(result, self.output)
        except MemoryError:
            if self.top > 0:
                resource.setrlimit(resource.RLIMIT_AS, (self.top, self.top))
            status, message = "memory", "MemoryError: more memory than allowed"
        except TooLarge as error:
            status, message = "output", str(error)
        except BaseException as error:
            status, message = "error", describe(error)
        sys.settrace(None)
        if kind is RESULT or status != "ok":
            # a process's clock counts ticks of milliseconds while a limit is on it, a thread's does not
            wall, cpu = self._clock() - wall, max(self._cpu() - cpu, self._own() - own)
            self._report(kind, status, value, self.capture.take(), message, wall, cpu)
        return status == "ok"

    def load(self, setup: str, code: str) -> bool:
        space = self.module.__dict__

        def work() -> None:
            if setup:
                exec(_compile(setup, "exec"), space)
            exec(compile(code, ANSWER_FILE, "exec", dont_inherit=True), space)

        self._bound_cpu()
        return self._attempt(work, FAILED)

    def case(self, expression: str, space: dict[str, Any], bound: bool = True) -> None:
        if bound:
            self._bound_cpu()
        self._attempt(lambda: eval(_compile(expression, "eval"), space), RESULT)


def _compile(text: str, mode: str) -> types.CodeType:
    """A setup ("exec") or a case ("eval")."""
    name = "<setup>" if mode == "exec" else "<case>"
    code: types.CodeType = compile(text, name, mode, dont_inherit=mode == "eval")
    return code


def run_calls(runner: ProgramRunner, task: dict[str, Any], output: int) -> None:
    """Load the code, say so on the pipe that the parent only reads if this ends badly, then go through the cases."""
    if not runner.load(task["setup"], task["code"]):
        return
    os.write(output, LOADED)
    os.close(output)
    # the limit that bounds the loading is good for the first case too
    for turn, expression in enumerate(task["cases"]):
        runner.case(expression, runner.module.__dict__, bound=turn > 0)


def run_session(runner: ProgramRunner, task: dict[str, Any], feed: Feed) -> None:
    """Load the code, then answer {"expression", "bindings"} requests until killed."""
    if not runner.load(task["setup"], task["code"]):
        return
    space = runner.module.__dict__
    while True:
        request = feed.read()
        space.update(decode(request["bindings"]))
        runner.case(request["expression"], space)


def take_stdin(case: str, output: int) -> None:
    """Makes `case` descriptor 0 and the pipe of outputs descriptor 1; runs before the confinement."""
    source = os.memfd_create("stdin")
    data = memoryview(case.encode("utf-8", "surrogatepass"))
    while data:
        data = data[os.write(source, data) :]
    os.lseek(source, 0, os.SEEK_SET)
    os.dup2(source, 0)
    os.dup2(output, 1)
    os.close(source)
    os.close(output)


def opening_stdin(real: Callable[..., Any]) -> Callable[..., Any]:
    """`open` where /dev/stdin, which the sandbox does not have, is descriptor 0."""

    def open(file: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, (str, os.PathLike)) and os.fspath(file) in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
            return real(0, *args, **{**kwargs, "closefd": False})
        return real(file, *args, **kwargs)

    return open


def main_program(task: dict[str, Any], results: int) -> None:
    """After the confinement is in force: run it to its end, which is what an interpreter does at its own.

    As in LiveCodeBench's harness, `sys.exit` ends it well whatever its status: what it printed decides.
    """
    builtins.open = io.open = opening_stdin(io.open)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8", "surrogateescape")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8", "surrogateescape")
    sys.argv = ["main.py"]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    soft = int(time.process_time() + task["cpu"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    status, message = "ok", ""
    try:
        if task["setup"]:
            exec(compile(task["setup"], "<setup>", "exec"), module.__dict__)
        exec(compile(task["code"], ANSWER_FILE, "exec", dont_inherit=True), module.__dict__)
    except SystemExit:
        pass
    except MemoryError:
        status, message = "memory", "MemoryError: more memory than allowed"
    except BaseException as error:
        status, message = "error", describe(error)
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException as error:
        status, message = (status, message) if status != "ok" else ("error", describe(error))
    send(results, RESULT, [status, "null", "", message, 0.0, 0.0])
