"""Pid namespaces: one for a single evaluation, or one that several evaluations of a scorer use in turn.

A single evaluation is pid 1 of its namespace. Its scorer may hold an answer in the same process, so nothing of it may
meet the next evaluation: when it ends, the kernel kills whatever it started and forgets whatever it wrote.

Where no evaluation has an answer in its own process, a PidNamespace serves several. Making the namespaces, mounting
scratch and confining itself is most of what a short evaluation costs, and it does that once: it is pid 1 of a pid
namespace, over a scratch tmpfs of its own, confined by Landlock and seccomp, without rights. Every evaluation is a
plain fork of it, and so confined by the same before its first instruction; pid 1 itself runs nothing but this file.
Why one evaluation cannot reach the next, even where a subprocess of a scorer's runs the answer:
- Its processes: whatever an evaluation leaves is adopted by pid 1. If pid 1 still has a child after an evaluation, it
  is killed, and the kernel kills all of its namespace with it. The same at a time-out.
- Its files: scratch is the one place that can be written. Pid 1 empties it; if it finds a folder, many files, or
  scratch itself changed (its mode, owner, attributes), or anything in /dev/shm, it is killed, and scratch goes with it.
- The memory of pid 1: an evaluation has a copy. Tracing and writing into other processes are refused by number, limits
  and priorities of others too, and the kernel delivers no signal from inside its namespace to a pid 1 that has no
  handler for it: the scorer's handlers are put aside here, and back in the evaluation.
- Its messages: the pipes to the zygote are closed in an evaluation before anything else; those to the parent are
  emptied after each, as they are between forks of the zygote.
The rules name scratch by the mount that pid 1 itself made.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import traceback
from _signal import signal as set_handler  # without the enumerations, which touch fifty pages
from collections.abc import Callable
from typing import Any, NoReturn

from . import confinement
from .channels import Channels

USES = 64
"""Evaluations that one namespace serves, or one ruleset (evaluation.Confinement)."""
BROKEN = 97 << 8
"""The wait status where a process could not be started or confined."""
_MOST_FILES = 64
_ENDED = struct.Struct("<id?")  # wait status, CPU seconds, whether the namespace is as it was


class Forker:
    """Forks processes of a scorer's worker into pid namespaces.

    fork: as os.fork
    returns: whether the kernel lets this process back into its own namespace (Linux 5.8), so that it can be the parent
    """

    def __init__(self, fork: Callable[[], int]) -> None:
        self._fork = fork
        self.handle = os.pidfd_open(os.getpid())  # of this process, by which it comes back
        try:
            confinement.enter(self.handle, confinement.CLONE_NEWPID)
        except OSError:
            os.close(self.handle)
            self.handle = -1

    @property
    def returns(self) -> bool:
        return self.handle >= 0

    def fork(self, work: Callable[[], NoReturn]) -> int:
        """The pid of a process that does `work` as pid 1 of a pid namespace, over its own mounts; -1 if that failed."""
        if not self.returns:
            return self._fork_through_another(work)
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

    def _fork_through_another(self, work: Callable[[], NoReturn]) -> int:
        told, tell = os.pipe()
        middle = os.fork()
        if middle == 0:
            try:
                confinement.namespaces(confinement.CLONE_NEWPID | confinement.CLONE_NEWNS)
                pid = os.fork()
                if pid == 0:
                    os.close(told)
                    os.close(tell)  # before anything hostile: what it carries names the process to be killed
                    _work_as_init(work)
                os.write(tell, struct.pack("<i", pid))
            finally:
                os._exit(97)
        os.close(tell)
        answer = os.read(told, 4)
        os.close(told)
        os.waitpid(middle, 0)
        return struct.unpack("<i", answer)[0] if len(answer) == 4 else -1  # ours by adoption


def _work_as_init(work: Callable[[], NoReturn]) -> NoReturn:
    """Only in a namespace of its own: everything here relies on its end with this process."""
    if os.getpid() != 1:
        os._exit(97)
    work()


class PidNamespace:
    """A namespace for several evaluations, as the zygote has it.

    limits: of its evaluations; another namespace is needed for others
    """

    def __init__(
        self,
        channels: Channels,
        limits: tuple[int, ...],
        start: Callable[[Callable[[], NoReturn]], int],
        serve: Callable[[int, int], NoReturn],
    ) -> None:
        """start: forks the process that does the work it is given, as pid 1. serve: that work, with the ends of two
        pipes: one that says when to begin, one that takes how each evaluation ended (`serve` below)"""
        self.limits = limits
        self._channels = channels
        self._uses, self._used = 0, 0.0
        go, self._go = os.pipe()
        self._told, tell = os.pipe()
        self.pipes: tuple[int, ...] = (self._go, self._told)

        def work() -> NoReturn:
            for fd in self.pipes:
                os.close(fd)
            serve(go, tell)

        self._pid = start(work)
        os.close(go)
        os.close(tell)

    def run(self, sequence: int) -> tuple[int, float] | None:
        """(wait status, CPU seconds) of one evaluation, when nothing of it is left. None if the namespace was gone."""
        self._uses += 1
        try:
            os.write(self._go, b"g")
        except BrokenPipeError:
            self.end()
            return None
        self._channels.wait(self._told, sequence, lambda: os.kill(self._pid, signal.SIGKILL))
        answer = os.read(self._told, _ENDED.size)
        if len(answer) != _ENDED.size:  # killed
            status, used = self.end()
            return status, max(0.0, used - self._used)
        status, used, unchanged = _ENDED.unpack(answer)
        self._used += used
        if not unchanged or self._uses == USES:
            self.end()
        return status, used

    @property
    def is_open(self) -> bool:
        return self._pid > 0

    def end(self) -> tuple[int, float]:
        """Kill it and all in it. (its wait status, CPU seconds of its whole life)"""
        os.kill(self._pid, signal.SIGKILL)
        _, status, used = os.wait4(self._pid, 0)
        self._pid = -1
        for fd in self.pipes:
            os.close(fd)
        self.pipes = ()
        return status, used.ru_utime + used.ru_stime


def serve(
    go: int,
    tell: int,
    furnish: Callable[[], None],
    fork: Callable[[], int],
    evaluate: Callable[[], NoReturn],
    folders: tuple[str, str],
) -> NoReturn:
    """In pid 1, for the rest of its life: confine itself, then fork for each evaluation. folders: scratch, /dev/shm"""
    try:
        furnish()
        handlers = _put_handlers_aside()
        before = [_state(folder) for folder in folders]
        while os.read(go, 1):
            pid = fork()
            if pid == 0:
                os.close(go)
                os.close(tell)
                for number, handler in handlers.items():
                    set_handler(number, handler)
                evaluate()
            _, status, used = os.wait4(pid, 0)
            unchanged = _is_alone() and _empty(folders[0]) and not os.listdir(folders[1])
            unchanged = unchanged and [_state(folder) for folder in folders] == before
            os.write(tell, _ENDED.pack(status, used.ru_utime + used.ru_stime, unchanged))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(97)


def _put_handlers_aside() -> dict[int, Any]:
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in signal.valid_signals()}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handlers:
        set_handler(number, int(signal.SIG_DFL))
    return handlers


def _is_alone() -> bool:
    """Whether no process but this one is left in the namespace: all others are its descendants."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
        return False
    return True


def _state(folder: str) -> tuple[object, ...]:
    status = os.stat(folder)
    return status.st_mode, status.st_uid, status.st_gid, sorted(os.listxattr(folder))


def _empty(folder: str) -> bool:
    """Remove the files in it. False if it holds a folder, or more than an evaluation leaves in passing."""
    with os.scandir(folder) as entries:
        for turn, entry in enumerate(entries):
            if turn == _MOST_FILES or entry.is_dir(follow_symlinks=False):
                return False
            os.unlink(entry.path)
    return True
