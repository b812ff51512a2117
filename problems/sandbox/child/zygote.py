"""The warm worker: starts once, confines itself, then forks for each request and reports how each fork ended.

Runs from code sent by the parent, in a bare interpreter. Five pipes: requests in, exits out (both closed in every
fork), and for the fork of the moment a feed in, results out, output out. The zygote itself never reads what a candidate
was given nor what it wrote, so nothing of one candidate is in the memory of the next.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import random
import resource
import select
import signal
import sys
import time
import traceback
from os import _exit
from typing import Any, NoReturn

from . import confinement, evaluation, program, room, scorer
from .syscalls import Installer, candidate_filter, zygote_filter
from .wire import EXIT, KILL, REQUEST

PRELOADED = (
    *("bisect", "collections", "collections.abc", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions"),
    *("functools", "heapq", "io", "itertools", "json", "math", "operator", "queue", "random", "re", "statistics"),
    *("string", "textwrap", "threading", "time", "typing"),
)
_INODES = 2048
_SPARE = 32 << 20  # address space kept back, to report in once a candidate has used all of its own


class Zygote:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        # to the lowest numbers, and not inheritable: as they come, they have the numbers of a parent that may hold
        # hundreds of files, beyond what the limit on open files lets a candidate's own code name
        moved = [os.dup(fd) for fd in config["descriptors"]]
        for fd in config["descriptors"]:
            os.close(fd)
        self.request, self.control, self.feed, self.results, self.output = moved
        self.confined = config["mode"] != "none"
        self.poll = select.poll()
        self.poll.register(self.request, select.POLLIN)

    def start(self) -> dict[str, Any]:
        """Load, then confine. Returns what the parent is told."""
        config = self.config
        sys.dont_write_bytecode = True
        sys.path += [path for path in config["site"] if path not in sys.path]
        os.chdir(config["scratch"])
        confinement.limit(resource.RLIMIT_CORE, 0)
        if config["profile"] == "program":
            for name in [*PRELOADED, *config["preload"]]:
                importlib.import_module(name)
            random.seed(0)  # a candidate that draws at random scores the same every time
            self.runner = program.Runner(self.results, config["compiled"])
            self.runner.rehearse()
            # The C library's fork, without the interpreter's: that one renews locks which other threads might hold, of
            # which there are none here, and seeds `random` anew, over a hundred pages that every candidate would copy.
            self._fork = ctypes.PyDLL(None).fork
            self._confine_programs()
        else:
            self.scorer = scorer.Scorer(config)
            self.scorer.load()
            self._settle_evaluations()
        self.base = confinement.address_space_used() + _SPARE
        atexit._clear()
        gc.collect()
        self.plugs = plugs()
        gc.freeze()
        return {"uid": os.getuid(), "pid": os.getpid()}

    def _confine_programs(self) -> None:
        config = self.config
        os.environ.clear()
        rules = scopes = None
        if self.confined:
            if config["mode"] == "bwrap":
                self._fresh_scratch()
            abi = confinement.landlock_abi()
            if abi:
                rules = confinement.landlock(*confinement.carve(config["exposed"], config["hidden"]), execute=False)
                rules.allow([config["scratch"]], confinement.WRITE)
            if abi >= 6:
                scopes = confinement.Landlock(scopes_only=True)
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
        self.scopes = scopes
        self.candidate = Installer(candidate_filter()) if self.confined else None
        if self.confined:
            Installer(zygote_filter()).install()

    def _fresh_scratch(self) -> None:
        """The same folder with few inodes, which bwrap cannot set; without the right to mount, bwrap's own stays."""
        with contextlib.suppress(OSError):
            confinement.fresh_tmpfs(self.config["scratch"], self.config["scratch_size"], _INODES)
        os.chdir(self.config["scratch"])

    def _settle_evaluations(self) -> None:
        """The loader of a scorer keeps its rights (it forks and mounts for each evaluation), save in landlock mode."""
        config = self.config
        os.environ.update({**scorer.home(config["scratch"]), **config["environment"], "PYTHONDONTWRITEBYTECODE": "1"})
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        if config["mode"] == "landlock" and config["uid"] is not None:
            confinement.drop_user(config["uid"], config["uid"], config["read_everywhere"])
        confinement.adopt_orphans()
        confinement.undumpable()
        self.own_namespace = own_pid_namespace() if config["mode"] == "bwrap" else -1
        self.confinement = evaluation.Confinement(config) if self.confined else None
        self.room: room.Room | None = None

    def serve(self) -> NoReturn:
        program_profile = self.config["profile"] == "program"
        while True:
            request = os.read(self.request, REQUEST.size)
            if len(request) != REQUEST.size:
                os._exit(0)  # the parent closed, or died
            fields = REQUEST.unpack(request)
            if fields[0] == KILL:
                continue  # for a fork that has ended meanwhile
            for fd in (self.feed, self.results, self.output):
                fcntl.fcntl(fd, fcntl.F_SETFL, 0)  # a candidate may have made the shared pipe non-blocking
            if program_profile:
                status, cpu = self._program(fields)
                left = bool(os.listdir(self.config["scratch"]))
            else:
                status, cpu, left = *evaluation.Tree(self, fields).run(), False
            os.write(self.control, EXIT.pack(b"X", fields[1], status, cpu, left))

    def _program(self, fields: tuple[Any, ...]) -> tuple[int, float]:
        pid = self._fork()
        if pid == 0:
            try:
                self._candidate(fields)
            except BaseException:
                _exit(98)
            _exit(0)
        self.wait(pid, fields[1])
        return reap(pid)

    def wait(self, pid: int, sequence: int) -> None:
        """Until `pid` has ended, killing it when the parent says so."""
        ended = os.pidfd_open(pid)
        self.poll.register(ended, select.POLLIN)
        while True:
            ready = [fd for fd, _ in self.poll.poll()]
            if ended in ready:
                break
            request = os.read(self.request, REQUEST.size)
            if len(request) != REQUEST.size:
                os.kill(pid, signal.SIGKILL)
                os._exit(0)
            if REQUEST.unpack(request)[:2] == (KILL, sequence):
                os.kill(pid, signal.SIGKILL)
        self.poll.unregister(ended)
        os.close(ended)

    def _candidate(self, fields: tuple[Any, ...]) -> None:
        """In the fork: take the task, give everything up, run."""
        _, _, cpu, memory, _, file, _ = fields
        os.close(self.request)
        os.close(self.control)
        feed = program.Feed(self.feed)
        task = feed.read()
        kind = task["kind"]
        # Descriptor 0 is /dev/null until the case takes its place; the zygote's standard error is the parent's to read
        os.dup2(0, 2)
        if kind == "stdin":
            program.take_stdin(task["case"], self.output)
        elif kind == "session":
            os.close(self.output)
        if kind != "session":
            os.close(self.feed)
        top = self.base + memory
        resource.setrlimit(resource.RLIMIT_AS, (top - _SPARE, top))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu) if cpu else (-1, -1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (file, file))
        if self.config["mode"] != "bwrap":
            confinement.die_with_parent()
        if self.scopes is not None:
            self.scopes.restrict()
            os.close(self.scopes.fd)
        if self.candidate is not None:
            self.candidate.install(os.getpid())
        gc.enable()
        if kind == "stdin":
            program.main_program(task, self.results)
            return
        self.runner.bound(task["output"], task["cpu"], top)
        if kind == "calls":
            program.run_calls(self.runner, task, self.output)
        else:
            program.run_session(self.runner, task, feed)


def own_pid_namespace() -> int:
    """A handle by which this process can come back into its pid namespace; -1 where the kernel has none."""
    handle = os.pidfd_open(os.getpid())
    try:
        confinement.enter(handle, confinement.CLONE_NEWPID)
    except OSError:
        os.close(handle)
        return -1
    return handle


def plugs() -> list[Any]:
    """Objects that fill the holes in the allocator's half-used pools, until each size begins a new one.

    A fork takes its first objects from the pools with holes, which lie all over the heap, and each costs the copy of a
    page; from a fresh pool they come side by side.
    """
    made: list[Any] = []
    for size in range(32, 512 + 1, 16):
        for turn in range(20000):
            made.append((1 << 30) + turn if size == 32 else bytes(size - 33))
            if id(made[-1]) % (16 << 10) == 48:  # the first block of a pool
                break
    return made


def reap(pid: int) -> tuple[int, float]:
    """(wait status, CPU seconds) of a process that has ended; with those of the children it waited for."""
    own = time.clock_gettime(~pid << 3 | 2)  # its own clock: rusage counts in ticks of several milliseconds
    _, status, used = os.wait4(pid, 0)
    return status, max(own, used.ru_utime + used.ru_stime)


def main(config: dict[str, Any]) -> NoReturn:
    zygote = Zygote(config)
    try:
        told = {"ok": True, **zygote.start()}
    except BaseException as error:
        told = {"ok": False, "error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()[-4000:]}
    hello = json.dumps(told).encode()
    os.write(zygote.control, len(hello).to_bytes(4, "little") + hello)
    if not told["ok"]:
        os._exit(1)
    gc.disable()
    zygote.serve()
