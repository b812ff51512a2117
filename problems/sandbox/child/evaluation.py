"""A scorer, loaded once, and the process tree of each evaluation, forked from it and ended as a whole.

bwrap: every evaluation is pid 1 of a pid namespace of its own, over a scratch tmpfs of its own: when it ends the kernel
kills whatever it started and forgets whatever it wrote. landlock and unisolated: a supervisor adopts the orphans of the
evaluation and kills its own children until none are left; a pid that it has not reaped yet cannot be anyone else's.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import resource
import select
import signal
import struct
import sys
import traceback
import types
from typing import TYPE_CHECKING, Any

from . import confinement
from .descendants import end_children
from .program import Feed
from .report import questions, report
from .syscalls import Installer, evaluation_filter
from .wire import KILL, REQUEST

if TYPE_CHECKING:
    from .zygote import Zygote

_INODES = 16384
_USES = 64


def home(scratch: str) -> dict[str, str]:
    """What a scorer that names no others has as its home and for temporary files: the user it runs as has neither."""
    return {"HOME": scratch, "TMPDIR": scratch}


class Scorer:
    """The user's file as a module of this worker."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.path: str = config["path"]
        self.module = types.ModuleType("scorer")

    def load(self) -> None:
        """Execute the file. Whatever it raises goes to the parent."""
        environment = self.config["environment"]
        os.environ.clear()
        os.environ.update({**home(self.config["scratch"]), **environment})
        sys.path[:0] = [os.path.dirname(self.path), *filter(None, environment.get("PYTHONPATH", "").split(":"))]
        sys.argv = [self.path]
        name = os.path.splitext(os.path.basename(self.path))[0]
        spec = importlib.util.spec_from_file_location(name, self.path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{self.path} is not a Python file")
        self.module = importlib.util.module_from_spec(spec)
        sys.modules[name] = self.module
        spec.loader.exec_module(self.module)

    def find(self, dotted: str) -> Any:
        found: Any = self.module
        for part in dotted.split("."):
            found = getattr(found, part)
        return found


class Confinement:
    """What every evaluation is confined by, made once for many: each would spend most of its own time on it.

    In bwrap mode a ruleset serves `_USES` evaluations, each of which adds its own scratch to it: an earlier one's was a
    mount of a namespace that is gone, so that nothing is left which its rule could mean. In landlock mode scratch is a
    folder on a disk, and every evaluation has a ruleset of its own. Folders that hold something hidden are looked
    through once: what comes to lie in them later cannot be read.
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
        if self.mode != "bwrap" or not self.abi:
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
        if self.zygote.confinement is not None:
            self.zygote.confinement.prepare()
        return self._in_namespace() if self.config["mode"] == "bwrap" else self._supervised()

    def _in_namespace(self) -> tuple[int, float]:
        if self.zygote.own_namespace < 0:
            pid = self._fork_through_another()
        else:
            pid = self._fork_into_namespace()
        if pid < 0:
            return 97 << 8, 0.0
        self.zygote.wait(pid, self.fields[1])
        _, status, used = os.wait4(pid, 0)
        return status, used.ru_utime + used.ru_stime

    def _fork_into_namespace(self) -> int:
        """The evaluation's pid."""
        confinement.namespaces(confinement.CLONE_NEWPID)  # which begins with our next child
        pid = -1
        try:
            pid = os.fork()
            if pid == 0:
                confinement.namespaces(confinement.CLONE_NEWNS)
                self._evaluate()
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
        supervisor = os.fork()
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
        pid = os.fork()
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

    def _evaluate(self) -> None:
        """In the evaluation itself: confine, call, report; never returns."""
        try:
            _, _, _, memory, output, file, processes = self.fields
            zygote, config = self.zygote, self.config
            for fd in (zygote.request, zygote.control):
                with contextlib.suppress(OSError):  # the supervisor had closed it
                    os.close(fd)
            feed = Feed(zygote.feed)
            task = feed.read()
            if task["asks"]:
                zygote.scorer.module.__dict__["oracle"] = questions(zygote.results, feed, output)
            else:
                os.close(zygote.feed)
            scratch = task["scratch"] or config["scratch"]
            self._confine(scratch, zygote.base + memory, file, processes)
            os.dup2(zygote.output, 1)
            os.dup2(zygote.output, 2)
            os.close(zygote.output)
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
            for name, text in task["files"].items():
                with open(os.path.join(scratch, name), "x", encoding="utf-8", errors="surrogatepass") as target:
                    target.write(text)
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
        os.environ.update({**home(scratch), **config["environment"], "PYTHONDONTWRITEBYTECODE": "1"})
        confinement.limit(resource.RLIMIT_AS, memory)
        confinement.limit(resource.RLIMIT_FSIZE, file)
        if shared is None:
            return
        confinement.limit(resource.RLIMIT_NPROC, config["threads"] + processes)
        if rules is not None:
            rules.restrict()
            os.close(rules.fd)
        shared.filter.install()
