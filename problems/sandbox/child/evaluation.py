"""A scorer, loaded once, and the process tree of each evaluation, forked from it and ended as a whole.

bwrap: every evaluation is pid 1 of a pid namespace of its own, over a scratch tmpfs of its own: when it ends the kernel
kills whatever it started and forgets whatever it wrote. landlock and unisolated: a supervisor adopts the orphans of the
evaluation and kills its own children until none are left; a pid that it has not reaped yet cannot be anyone else's.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import struct
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from . import confinement
from .descendants import end_children
from .program import Feed
from .report import questions, report
from .room import Room
from .scorer import home
from .syscalls import Installer, evaluation_filter
from .wire import KILL, REQUEST, RUN_APART

if TYPE_CHECKING:
    from .zygote import Zygote

_INODES = 16384
_USES = 64


class Confinement:
    """What every evaluation is confined by, made once for many: each would spend most of its own time on it.

    A ruleset serves `_USES` evaluations, each of which adds its own scratch to it. A rule means one inode, which it
    keeps from being used anew, so that nothing is left which an earlier one's could mean: in bwrap mode scratch was
    a mount of a namespace that is gone; in landlock mode it was a folder which the parent has removed before the worker
    gets its next request, or else the worker has ended, and no process is left that could have it open. The descriptor
    of the ruleset is closed in an evaluation before anything of the scorer's runs there. Folders that hold something
    hidden are looked through once: what comes to lie in them later cannot be read.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config, self.mode = config, config["mode"]
        self.abi = confinement.landlock_abi()
        self.filter = Installer(
            evaluation_filter(self.mode == "bwrap", self.mode == "bwrap" or self.abi >= 6, self.mode == "bwrap")
        )
        self._carved = confinement.carve(config["exposed"], config["hidden"])
        self._rules: confinement.Landlock | None = None
        self._uses = 0

    def prepare(self) -> None:
        """Before the fork of an evaluation."""
        if not self.abi:
            return
        if self._rules is not None and self._uses == _USES:
            os.close(self._rules.fd)
            self._rules = None
        if self._rules is None:
            self._rules, self._uses = confinement.landlock(*self._carved, execute=True), 0
        self._uses += 1

    def rules(self, writable: list[str]) -> confinement.Landlock | None:
        """In the evaluation: the ruleset, with what it alone may write. None where the kernel has none."""
        if not self.abi:
            return None
        rules = self._rules or confinement.landlock(*self._carved, execute=True)
        rules.allow(writable, confinement.BUILD if self.config["builds"] else confinement.WRITE)
        return rules


class Tree:
    """One evaluation seen from the zygote: started, waited for, killed whole."""

    def __init__(self, zygote: Zygote, fields: tuple[Any, ...]) -> None:
        self.zygote, self.fields, self.config = zygote, fields, zygote.config

    def run(self) -> tuple[int, float]:
        """(wait status, CPU seconds) of the evaluation, when nothing of it is left."""
        if self.fields[0] == RUN_APART and self._has_rooms():
            return self._in_room()
        if self.zygote.confinement is not None:
            self.zygote.confinement.prepare()
        return self._in_namespace() if self.config["mode"] == "bwrap" else self._supervised()

    def _has_rooms(self) -> bool:
        return self.config["mode"] == "bwrap" and self.zygote.own_namespace >= 0

    def _in_room(self) -> tuple[int, float]:
        """As the next guest of the room that there is, or of a new one."""
        zygote = self.zygote
        for _ in range(2):
            if zygote.room is not None and zygote.room.is_open and zygote.room.limits != self.fields[3:]:
                zygote.room.end()
            if zygote.room is None or not zygote.room.is_open:
                assert zygote.confinement is not None
                zygote.confinement.prepare()
                zygote.room = Room(self)
            ended = zygote.room.run(self.fields[1])
            if ended is not None:
                return ended
        return 97 << 8, 0.0

    def _in_namespace(self) -> tuple[int, float]:
        if self.zygote.own_namespace < 0:
            pid = self._fork_through_another()
        else:
            pid = self.fork_into_namespace(self._evaluate)
        if pid < 0:
            return 97 << 8, 0.0
        self.zygote.wait(pid, self.fields[1])
        _, status, used = os.wait4(pid, 0)
        return status, used.ru_utime + used.ru_stime

    def fork_into_namespace(self, work: Callable[[], NoReturn]) -> int:
        """The pid of a process that does `work` as pid 1 of a pid namespace, over mounts of its own."""
        confinement.namespaces(confinement.CLONE_NEWPID)  # which begins with our next child
        pid = -1
        try:
            pid = self.zygote.scorer.fork()
            if pid == 0:
                confinement.namespaces(confinement.CLONE_NEWNS)
                work()
        finally:
            if pid == 0:
                os._exit(97)
            confinement.enter(self.zygote.own_namespace, confinement.CLONE_NEWPID)
        return pid

    def _fork_through_another(self) -> int:
        """The same, -1 where it failed, on a kernel that does not let a process back into its own pid namespace."""
        told, tell = os.pipe()
        middle = os.fork()
        if middle == 0:
            try:
                confinement.namespaces(confinement.CLONE_NEWPID | confinement.CLONE_NEWNS)
                pid = os.fork()
                if pid == 0:
                    os.close(told)
                    os.close(tell)  # before anything hostile: what it carries names the process to be killed
                    self._evaluate()
                os.write(tell, struct.pack("<i", pid))
            finally:
                os._exit(97)
        os.close(tell)
        answer = os.read(told, 4)
        os.close(told)
        os.waitpid(middle, 0)
        return struct.unpack("<i", answer)[0] if len(answer) == 4 else -1  # ours by adoption

    def _supervised(self) -> tuple[int, float]:
        told, tell = os.pipe()
        hold, held = os.pipe()  # the supervisor ends the tree when our end closes, by our will or by our death
        supervisor = self.zygote.scorer.fork()
        if supervisor == 0:
            os.close(told)
            os.close(held)
            status = 97 << 8
            used = 0.0
            try:
                status, used = self._supervise(hold, tell)
            finally:
                os.write(tell, struct.pack("<id", status, used))
                os._exit(0)
        os.close(tell)
        os.close(hold)
        poll = self.zygote.poll
        poll.register(told, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            if told in ready:
                break
            request = os.read(self.zygote.request, REQUEST.size)
            if len(request) != REQUEST.size:
                os._exit(0)
            if REQUEST.unpack(request)[:2] == (KILL, self.fields[1]) and held >= 0:
                os.close(held)
                held = -1
        poll.unregister(told)
        answer = os.read(told, 64)
        os.close(told)
        if held >= 0:
            os.close(held)
        os.waitpid(supervisor, 0)
        if len(answer) != 12:
            return 97 << 8, 0.0
        status, cpu = struct.unpack("<id", answer)
        return status, cpu

    def _supervise(self, hold: int, tell: int) -> tuple[int, float]:
        confinement.adopt_orphans()
        os.close(self.zygote.request)
        os.close(self.zygote.control)
        pid = self.zygote.scorer.fork()
        if pid == 0:
            os.close(hold)
            os.close(tell)
            os.setsid()
            self._evaluate()
        os.close(self.zygote.feed)
        os.close(self.zygote.results)
        os.close(self.zygote.output)
        ended = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.register(hold, select.POLLIN)
        poll.poll()
        os.kill(pid, signal.SIGKILL)
        _, status, used = os.wait4(pid, 0)
        end_children()
        return status, used.ru_utime + used.ru_stime

    def _evaluate(self) -> NoReturn:
        """In an evaluation with nobody beside it: confine, call, report."""
        try:
            task = Feed(self.zygote.feed).read()
            self.furnish(task["scratch"] or self.config["scratch"])
        except BaseException:
            traceback.print_exc()
            os._exit(98)
        self.evaluate(task["scratch"] or self.config["scratch"], task)

    def furnish(self, scratch: str) -> None:
        """Give everything up but scratch and the pipes of an evaluation."""
        _, _, _, memory, _, file, processes = self.fields
        zygote = self.zygote
        for fd in (zygote.request, zygote.control, zygote.own_namespace, *(zygote.room.pipes if zygote.room else ())):
            try:  # noqa: SIM105
                os.close(fd)
            except OSError:
                pass  # the supervisor had closed it
        self._confine(scratch, zygote.base + memory, file, processes)
        os.dup2(zygote.output, 1)
        os.dup2(zygote.output, 2)
        os.close(zygote.output)

    def evaluate(self, scratch: str, task: dict[str, Any] | None = None) -> NoReturn:
        """In the evaluation itself, confined: call, report. task: None where it is still to be read."""
        try:
            zygote, output = self.zygote, self.fields[4]
            feed = Feed(zygote.feed)
            task = task or feed.read()
            if task["asks"]:
                zygote.scorer.module.__dict__["oracle"] = questions(zygote.results, feed, output)
            else:
                os.close(zygote.feed)
            for name, text in task["files"].items():
                _write_new(f"{scratch}/{name}", text)
            report(zygote.results, zygote.scorer.find, task, scratch, output)
        except BaseException:
            traceback.print_exc()
            os._exit(98)
        os._exit(0)

    def _confine(self, scratch: str, memory: int, file: int, processes: int) -> None:
        config, shared = self.config, self.zygote.confinement
        mode = config["mode"]
        rules = None
        if mode == "bwrap":
            for folder in (scratch, "/dev/shm"):
                confinement.fresh_tmpfs(folder, config["scratch_size"], _INODES)
            os.chdir("/")  # the working folder was the one underneath
        if shared is not None:
            rules = shared.rules([scratch, "/dev/shm"] if mode == "bwrap" else [scratch])
            if mode == "bwrap" and config["uid"] is not None:
                confinement.drop_user(config["uid"], config["uid"], config["read_everywhere"])
            elif mode == "bwrap":
                confinement.drop_capabilities()
            confinement.no_new_privileges()
        os.chdir(scratch)
        if mode != "bwrap":  # where scratch has the same name for all
            os.environ.update({k: v for k, v in home(scratch).items() if k not in config["environment"]})
        confinement.limit(resource.RLIMIT_AS, memory)
        confinement.limit(resource.RLIMIT_FSIZE, file)
        if shared is None:
            return
        confinement.limit(resource.RLIMIT_NPROC, config["threads"] + processes)
        if rules is not None:
            rules.restrict()
            os.close(rules.fd)
        shared.filter.install()


def _write_new(path: str, text: str) -> None:
    """A file that is not there yet. Without `open`, whose layers touch more pages than a candidate's own code does."""
    data = memoryview(text.encode("utf-8", "surrogatepass"))
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    while data:
        data = data[os.write(target, data) :]
    os.close(target)
