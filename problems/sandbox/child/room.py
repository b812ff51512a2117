"""One pid namespace for several evaluations of one scorer, where none of them has an answer in its own process.

Making the namespaces, mounting scratch and confining itself is most of what a short evaluation costs. A room does that
once: it is pid 1 of a pid namespace, over a scratch tmpfs of its own, confined by Landlock and seccomp, without rights.
Every evaluation is a plain fork of it, and so confined by the same before its first instruction; the room itself runs
nothing but this file. Why one evaluation cannot reach the next, even where a subprocess of a scorer's runs the answer:
- Its processes: whatever an evaluation leaves is adopted by pid 1. A room that still has a child after an evaluation is
  killed, and the kernel kills all of its namespace with it. The same at a time-out.
- Its files: scratch is the one place that can be written. A room empties it; one that finds a folder, many files, or
  scratch itself changed (its mode, owner, attributes), or anything in /dev/shm, is killed, and scratch goes with it.
- The room's memory: an evaluation has a copy. Tracing and writing into other processes are refused by number, limits
  and priorities of others too, and the kernel delivers no signal from inside its namespace to a pid 1 that has no
  handler for it: the scorer's handlers are put aside here, and back in the evaluation.
- Its messages: the pipes to the zygote are closed in an evaluation before anything else; those to the parent are
  emptied after each, as they are between forks of the zygote.
The rules name scratch by the mount that the room itself made. Where answers share the scorer's process, every
evaluation still has namespaces of its own (evaluation.Tree).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import traceback
from _signal import signal as set_handler  # without the enumerations, which touch fifty pages
from typing import TYPE_CHECKING, Any, NoReturn

from .wire import KILL, REQUEST

if TYPE_CHECKING:
    from .evaluation import Tree
    from .zygote import Zygote

_USES = 64
_MOST_FILES = 64
_ENDED = struct.Struct("<id?")  # wait status, CPU seconds, whether the room is as it was


class Room:
    """A room as the zygote has it."""

    def __init__(self, tree: Tree) -> None:
        self.limits = tree.fields[3:]
        self._zygote: Zygote = tree.zygote
        self._uses, self._used = 0, 0.0
        go, self._go = os.pipe()
        self._told, tell = os.pipe()
        self.pipes: tuple[int, ...] = (self._go, self._told)
        self._pid = tree.fork_into_namespace(lambda: _serve(tree, go, tell, self.pipes))
        os.close(go)
        os.close(tell)

    def run(self, sequence: int) -> tuple[int, float] | None:
        """(wait status, CPU seconds) of one evaluation, when nothing of it is left. None where the room was gone."""
        self._uses += 1
        try:
            os.write(self._go, b"g")
        except BrokenPipeError:
            self.end()
            return None
        zygote = self._zygote
        zygote.poll.register(self._told, select.POLLIN)
        while self._told not in [fd for fd, _ in zygote.poll.poll()]:
            request = os.read(zygote.request, REQUEST.size)
            if len(request) != REQUEST.size:
                os.kill(self._pid, signal.SIGKILL)
                os._exit(0)
            if REQUEST.unpack(request)[:2] == (KILL, sequence):
                os.kill(self._pid, signal.SIGKILL)
        zygote.poll.unregister(self._told)
        answer = os.read(self._told, _ENDED.size)
        if len(answer) != _ENDED.size:  # killed
            status, used = self.end()
            return status, max(0.0, used - self._used)
        status, used, unchanged = _ENDED.unpack(answer)
        self._used += used
        if not unchanged or self._uses == _USES:
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


def _serve(tree: Tree, go: int, tell: int, others: tuple[int, ...]) -> NoReturn:
    """In the room, for the rest of its life."""
    try:
        for fd in others:
            os.close(fd)
        tree.furnish(tree.config["scratch"])
        handlers = _put_handlers_aside()
        folders = (tree.config["scratch"], "/dev/shm")
        before = [_state(folder) for folder in folders]
        while os.read(go, 1):
            pid = tree.zygote.scorer.fork()
            if pid == 0:
                os.close(go)
                os.close(tell)
                for number, handler in handlers.items():
                    set_handler(number, handler)
                tree.evaluate(tree.config["scratch"])
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
    found = os.stat(folder)
    return found.st_mode, found.st_uid, found.st_gid, sorted(os.listxattr(folder))


def _empty(folder: str) -> bool:
    """Remove the files in it. False where it holds a folder, or more than an evaluation leaves in passing."""
    with os.scandir(folder) as entries:
        for turn, entry in enumerate(entries):
            if turn == _MOST_FILES or entry.is_dir(follow_symlinks=False):
                return False
            os.unlink(entry.path)
    return True
