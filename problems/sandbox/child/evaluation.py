"""A scorer's evaluations: each is a process tree, forked from the worker that has loaded the scorer, and ended whole.

bwrap: an evaluation is pid 1 of a pid namespace, over a scratch tmpfs. Its scorer may hold an answer in the same
process, so nothing of it may meet the next evaluation: when it ends, the kernel kills whatever it started and forgets
whatever it wrote. landlock and unisolated: it runs under a supervisor (supervision).
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import resource
import select
import signal
import struct
import sys
import time
import traceback
import types
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from . import confinement
from .channels import Channels, Feed, host_caller, send
from .program import describe
from .syscalls import Installer, evaluation_filter
from .wire import RESULT, Request, TooLarge, Unplain, decode, encode

USES = 64
"""Evaluations that one ruleset serves (Confinement)."""
_INODES = 16384


class Evaluations:
    """The worker's side of a scorer: it loads the file and forks for each evaluation.

    address_space: bytes that are mapped before any evaluation, with the spare ones; set once everything is loaded
    """

    address_space = 0

    def __init__(self, config: dict[str, Any], channels: Channels) -> None:
        """Load the scorer. Its loader keeps its rights (it forks and mounts for each evaluation), save in landlock
        mode."""
        self._config, self._channels, self._mode = config, channels, config["mode"]
        self._scorer = ChildScorer(config)
        os.environ.update({**home(config["scratch"]), **config["environment"], "PYTHONDONTWRITEBYTECODE": "1"})
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        if self._mode == "landlock" and config["uid"] is not None:
            confinement.drop_user(config["uid"], config["uid"], config["read_everywhere"])
        confinement.adopt_orphans()
        confinement.undumpable()
        self._forker = Forker(self._scorer.fork) if self._mode == "bwrap" else None
        self._confinement = None if self._mode == "none" else Confinement(config)

    def run(self, request: Request) -> tuple[int, float, bool]:
        """(wait status, CPU seconds, False) of one evaluation, when nothing of it is left."""
        if self._confinement is not None:
            self._confinement.prepare()
        work = partial(self._evaluate_alone, request)
        if self._forker is None:
            return (*run_supervised(self._channels, self._scorer.fork, request.sequence, work), False)
        return (*self._run_alone(self._forker.fork(work), request), False)

    def _run_alone(self, pid: int, request: Request) -> tuple[int, float]:
        if pid < 0:
            return BROKEN, 0.0
        ended = os.pidfd_open(pid)
        self._channels.wait(ended, request.sequence, lambda: os.kill(pid, 9))
        os.close(ended)
        _, status, used = os.wait4(pid, 0)
        return status, used.ru_utime + used.ru_stime

    # -- in the evaluation ---------------------------------------------------------------------------------------

    def _evaluate_alone(self, request: Request) -> NoReturn:
        """With no other evaluation in its namespace: confine, call, report."""
        try:
            task = Feed(self._channels.feed).read()
            scratch = task["scratch"] or self._config["scratch"]
            self._furnish(request, scratch)
        except BaseException:
            traceback.print_exc()
            os._exit(98)
        self._evaluate(request, scratch, task)

    def _furnish(self, request: Request, scratch: str) -> None:
        """Give everything up but scratch and the pipes of an evaluation."""
        channels = self._channels
        handle = self._forker.handle if self._forker is not None else -1
        for fd in (channels.requests, channels.control, handle):
            try:  # noqa: SIM105
                os.close(fd)
            except OSError:
                pass  # the supervisor had closed it
        self._confine(request, scratch)
        os.dup2(channels.output, 1)
        os.dup2(channels.output, 2)
        os.close(channels.output)

    def _confine(self, request: Request, scratch: str) -> None:
        config, shared, in_bwrap = self._config, self._confinement, self._mode == "bwrap"
        rules = None
        if in_bwrap:
            for folder in (scratch, "/dev/shm"):
                confinement.fresh_tmpfs(folder, config["scratch_size"], _INODES)
            os.chdir("/")  # the working folder was the one underneath
        if shared is not None:
            rules = shared.rules([scratch, "/dev/shm"] if in_bwrap else [scratch])
            if in_bwrap and config["uid"] is not None:
                confinement.drop_user(config["uid"], config["uid"], config["read_everywhere"])
            elif in_bwrap:
                confinement.drop_capabilities()
            confinement.no_new_privileges()
        os.chdir(scratch)
        if not in_bwrap:  # where scratch has the same name for all
            os.environ.update({k: v for k, v in home(scratch).items() if k not in config["environment"]})
        confinement.limit(resource.RLIMIT_AS, self.address_space + request.memory)
        confinement.limit(resource.RLIMIT_FSIZE, request.file)
        if shared is None:
            return
        confinement.limit(resource.RLIMIT_NPROC, config["threads"] + request.processes)
        if rules is not None:
            rules.restrict()
            os.close(rules.fd)
        shared.filter.install()

    def _evaluate(self, request: Request, scratch: str, task: dict[str, Any] | None = None) -> NoReturn:
        """Confined: call, report. task: None if it is still to be read."""
        try:
            channels = self._channels
            feed = Feed(channels.feed)
            task = task or feed.read()
            if task["calls_host"]:
                self._scorer.module.__dict__["host_call"] = host_caller(channels.results, feed, request.output)
            else:
                os.close(channels.feed)
            for name, text in task["files"].items():
                _write_new(f"{scratch}/{name}", text)
            self._scorer.call(task, scratch, channels.results, request.output)
        except BaseException:
            traceback.print_exc()
            os._exit(98)
        os._exit(0)


class Confinement:
    """What every evaluation is confined by, made once for many: each would spend most of its own time on it.

    A ruleset serves `USES` evaluations, each of which adds its own scratch to it. A rule means one inode, which it
    keeps from being used again, so that nothing is left which an earlier one's could mean: in bwrap mode scratch was
    a mount of a namespace that is gone; in landlock mode it was a folder which the parent has removed before the worker
    gets its next request, or else the worker has ended, and no process is left that could have it open. The descriptor
    of the ruleset is closed in an evaluation before anything of the scorer's runs there. Folders that hold something
    hidden are looked through once: what comes to lie in them later cannot be read.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._builds = config["builds"]
        self._abi = confinement.landlock_abi()
        in_bwrap = config["mode"] == "bwrap"
        self.filter = Installer(evaluation_filter(in_bwrap, in_bwrap or self._abi >= 6, in_bwrap))
        self._carved = confinement.carve(config["exposed"], config["hidden"])
        self._rules: confinement.Landlock | None = None
        self._uses = 0

    def prepare(self) -> None:
        """Before the fork of an evaluation."""
        if not self._abi:
            return
        if self._rules is not None and self._uses == USES:
            os.close(self._rules.fd)
            self._rules = None
        if self._rules is None:
            self._rules, self._uses = confinement.landlock(*self._carved, execute=True), 0
        self._uses += 1

    def rules(self, writable: list[str]) -> confinement.Landlock | None:
        """In the evaluation: the ruleset, with folders that only this one may write. None if the kernel has none."""
        if not self._abi:
            return None
        rules = self._rules or confinement.landlock(*self._carved, execute=True)
        rules.allow(writable, confinement.BUILD if self._builds else confinement.WRITE)
        return rules


def _write_new(path: str, text: str) -> None:
    """A file that is not there yet. Without `open`, whose layers touch more pages than a candidate's own code does."""
    data = memoryview(text.encode("utf-8", "surrogatepass"))
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    while data:
        data = data[os.write(target, data) :]
    os.close(target)


class Forker:
    """Forks processes of a scorer's worker into pid namespaces. fork: as os.fork"""

    def __init__(self, fork: Callable[[], int]) -> None:
        """Raises OSError where the kernel does not let this process back into its own namespace (before Linux 5.8)."""
        self._fork = fork
        self.handle = os.pidfd_open(os.getpid())  # of this process, by which it comes back
        confinement.enter(self.handle, confinement.CLONE_NEWPID)

    def fork(self, work: Callable[[], NoReturn]) -> int:
        """The pid of a process that does `work` as pid 1 of a pid namespace, over its own mounts; -1 if that failed."""
        confinement.namespaces(confinement.CLONE_NEWPID)  # which begins with our next child
        pid = -1
        try:
            pid = self._fork()
            if pid == 0:
                confinement.namespaces(confinement.CLONE_NEWNS)
                _work_as_init(work)
        finally:
            if pid == 0:
                os._exit(97)
            confinement.enter(self.handle, confinement.CLONE_NEWPID)
        return pid


def _work_as_init(work: Callable[[], NoReturn]) -> NoReturn:
    """Only in a namespace of its own: everything here relies on its end with this process."""
    if os.getpid() != 1:
        os._exit(97)
    work()


def home(scratch: str) -> dict[str, str]:
    """The home and the place for temporary files of a scorer that names no others: its user has neither."""
    return {"HOME": scratch, "TMPDIR": scratch}


class ChildScorer:
    """The user's file as a module of this worker."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Execute the file. Whatever it raises goes to the parent."""
        self._hooked = False  # whether it has functions of its own called at a fork
        self._plain_fork = ctypes.PyDLL(None).fork
        path, environment = config["path"], config["environment"]
        os.environ.clear()
        os.environ.update({**home(config["scratch"]), **environment})
        sys.path[:0] = [os.path.dirname(path), *filter(None, environment.get("PYTHONPATH", "").split(":"))]
        sys.argv = [path]
        name = os.path.splitext(os.path.basename(path))[0]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is not a Python file")
        self.module: types.ModuleType = importlib.util.module_from_spec(spec)
        sys.modules[name] = self.module
        register = os.register_at_fork
        os.register_at_fork = self._noticing(register)
        try:
            spec.loader.exec_module(self.module)
        finally:
            os.register_at_fork = register

    def _noticing(self, register: Callable[..., None]) -> Callable[..., None]:
        def register_at_fork(**hooks: Callable[[], object]) -> None:
            module = str(sys._getframe(1).f_globals.get("__name__"))
            self._hooked |= module.partition(".")[0] not in sys.stdlib_module_names
            register(**hooks)

        return register_at_fork

    def fork(self) -> int:
        """As os.fork, of the process that the scorer is loaded in; by the C library's fork if that will do.

        The interpreter's own fork renews locks that other threads might hold, over a hundred pages that every
        evaluation would copy. With one thread there are none; what is left of it is a new state for `random`.
        """
        if self._hooked or len(sys._current_frames()) > 1:
            return os.fork()
        pid: int = self._plain_fork()
        if pid < 0:
            raise OSError("no process can be started")
        if pid == 0 and "random" in sys.modules:
            sys.modules["random"].seed()
        return pid

    def call(self, task: dict[str, Any], scratch: str, results: int, limit: int) -> None:
        """In the evaluation, confined: call the function that the task names and send [status, value, message]."""
        status, value, message = "error", "null", ""
        try:
            arguments = [os.path.join(scratch, name) if file else decode(name) for file, name in task["arguments"]]
            function: Any = self.module
            for part in task["function"].split("."):
                function = getattr(function, part)
            value = encode(function(*arguments), limit, objects=True)
            status = "ok"
        except MemoryError:
            status, message = "memory", "more memory than allowed"
        except (Unplain, TooLarge) as error:
            message = f"the scorer returned {error}"
        except BaseException as error:
            message = describe(error)
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            pass  # the answer has replaced them
        send(results, RESULT, [status, value, message])


BROKEN = 97 << 8
"""The wait status where a process could not be started or confined."""
_SECONDS = 18.0
_ENDED = struct.Struct("<id")  # wait status, CPU seconds


def run_supervised(
    channels: Channels, fork: Callable[[], int], sequence: int, work: Callable[[], NoReturn]
) -> tuple[int, float]:
    """(wait status, CPU seconds) of a process that does `work`, when nothing of its tree is left."""
    told, tell = os.pipe()
    hold, held = os.pipe()  # the supervisor ends the tree when our end closes, by our will or by our death
    supervisor = fork()
    if supervisor == 0:
        os.close(told)
        os.close(held)
        status, used = BROKEN, 0.0
        try:
            status, used = _supervise(channels, fork, work, hold, tell)
        finally:
            os.write(tell, _ENDED.pack(status, used))
            os._exit(0)
    os.close(tell)
    os.close(hold)
    holding = [held]

    def let_go() -> None:
        while holding:
            os.close(holding.pop())

    channels.wait(told, sequence, let_go)
    answer = os.read(told, 64)
    os.close(told)
    let_go()
    os.waitpid(supervisor, 0)
    if len(answer) != _ENDED.size:
        return BROKEN, 0.0
    status, used = _ENDED.unpack(answer)
    return status, used


def _supervise(
    channels: Channels, fork: Callable[[], int], work: Callable[[], NoReturn], hold: int, tell: int
) -> tuple[int, float]:
    confinement.adopt_orphans()
    os.close(channels.requests)
    os.close(channels.control)
    pid = fork()
    if pid == 0:
        os.close(hold)
        os.close(tell)
        os.setsid()
        work()
    os.close(channels.feed)
    os.close(channels.results)
    os.close(channels.output)
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(hold, select.POLLIN)
    poll.poll()
    os.kill(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    end_children()
    return status, used.ru_utime + used.ru_stime


def end_children() -> None:
    """Kill and reap until this process, which adopts orphans, has no children; gives up after some seconds."""
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        _kill_all()
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        time.sleep(0.0005)


def _kill_all() -> None:
    """One pass: first everything is found, then everything is killed: what is killed one by one forks meanwhile."""
    me = os.getpid()
    handles: list[int] = []
    proved: list[int] = []
    pending = [(me, -1)]
    try:
        while pending:
            parent, parent_handle = pending.pop()
            for pid in _children(parent):
                try:
                    handle = os.pidfd_open(pid)
                except OSError:
                    continue  # gone, or no descriptors left: the next pass will find it
                handles.append(handle)
                if parent == me or (_parent(pid) == parent and not _ended(parent_handle)):
                    proved.append(handle)
                    pending.append((pid, handle))
        for handle in proved:
            try:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            except ProcessLookupError:
                continue
    finally:
        for handle in handles:
            os.close(handle)


def _ended(handle: int) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as status:
            return int(status.read().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def _children(parent: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{task}/children") as listed:
                found += [int(pid) for pid in listed.read().split()]
        return found
    except FileNotFoundError:
        if not os.path.exists(f"/proc/{parent}"):
            return []
    except OSError:
        return []
    # a kernel without that file
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(int(name)) == parent]
