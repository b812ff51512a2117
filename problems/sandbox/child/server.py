"""The worker: it starts once, confines itself, forks for each run, and reports how each ended.

It is a bare interpreter, and serves programs or one scorer (verbs). A run is a fork, ended whole. A program starts no
process, so its fork is all of it. An evaluation is a process tree: in bwrap mode pid 1 of a pid namespace, whose other
processes the kernel ends with it; elsewhere this process adopts and kills what is left of it. A scorer may hold an
answer in its process, so nothing of an evaluation may meet the next one.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import json
import os
import resource
import signal
import sys
import time
import traceback
from typing import Any, NoReturn

from . import confinement
from .channels import Channels, Feed
from .confinement import Confinement
from .mounts import CLONE_NEWPID, Mounts, enter, namespaces
from .verbs import ProgramVerbs, ScorerVerbs
from .wire import EXIT, KILL, RUN_FOLDER

_SECONDS = 18.0


def main(descriptors: list[int]) -> NoReturn:
    channels = Channels(descriptors)
    config = Feed(channels.feed).read()
    hello: dict[str, Any]
    try:
        server = ForkServer(config, channels)
        hello = {"mounts": server.mounts.own}
    except BaseException as error:
        hello = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()[-4000:]}
    data = json.dumps(hello).encode()
    os.write(channels.control, len(data).to_bytes(4, "little") + data)
    if "error" in hello:
        os._exit(1)
    gc.disable()
    while (request := channels.next_request()) is not None:
        operation, sequence = request
        if operation == KILL:
            continue  # for a fork that has ended meanwhile
        for fd in (channels.feed, channels.results, channels.output):
            fcntl.fcntl(fd, fcntl.F_SETFL, 0)  # a candidate may have made the shared pipe non-blocking
        os.write(channels.control, EXIT.pack(b"X", sequence, *server.run(sequence)))
    os._exit(0)


class ForkServer:
    """What all runs share, and how one is forked. config: see problems.sandbox.launch.Plan"""

    def __init__(self, config: dict[str, Any], channels: Channels) -> None:
        self._config, self._channels = config, channels
        sys.dont_write_bytecode = True
        sys.path += [path for path in config["site"] if path not in sys.path]
        os.chdir(config["scratch"])
        confinement.limit(resource.RLIMIT_CORE, 0)
        self.mounts = Mounts(config)
        self._scratch = config["scratch"] if self.mounts.own else f"{config['scratch']}/{RUN_FOLDER}"
        verbs = ScorerVerbs if config["forks"] else ProgramVerbs
        self._verbs = verbs(config, channels, self._scratch)
        self.mounts.loaded()
        self._handle = -1  # of this process, by which it comes back to its own pid namespace
        if config["forks"] and config["mode"] == "bwrap":
            self._handle = os.pidfd_open(os.getpid())
            enter(self._handle, CLONE_NEWPID)
        self._confinement = Confinement(config, self.mounts)
        atexit._clear()
        gc.collect()
        gc.freeze()

    def run(self, sequence: int) -> tuple[int, float]:
        """(wait status, CPU seconds) of one run, when nothing of it is left."""
        self._confinement.prepare()
        if self._handle >= 0:
            namespaces(CLONE_NEWPID)  # which begins with our next child
        pid = self._verbs.fork()
        if pid == 0:
            try:
                self._work()
            finally:
                os._exit(98)
        if self._handle >= 0:
            enter(self._handle, CLONE_NEWPID)
        self._channels.wait(pid, sequence)
        own = time.clock_gettime(~pid << 3 | 2)  # its own clock: rusage counts in ticks of several milliseconds
        _, status, used = os.wait4(pid, 0)
        if self._config["forks"] and self._handle < 0:
            end_children()
        return status, max(own, used.ru_utime + used.ru_stime)

    def _work(self) -> NoReturn:
        """In the fork: take the task, give everything up, run."""
        config, channels = self._config, self._channels
        os.close(channels.requests)
        os.close(channels.control)
        if self._handle >= 0:
            os.close(self._handle)
            if os.getpid() != 1:
                os._exit(97)
        if config["forks"]:
            os.setsid()
        feed = Feed(channels.feed)
        task = feed.read()
        # descriptors 0 and 1 are /dev/null until a program's input and output take their place; the worker's standard
        # error is the parent's to read
        os.dup2(0, 2)
        self._verbs.open_streams(task)
        self._confinement.confine(task["limits"], self._scratch)
        gc.enable()
        self._verbs.run(task, feed)
        os._exit(0)


def end_children() -> None:
    """Kill and reap until this process, which adopts orphans, has no children; gives up after some seconds.

    The dead are reaped once none lives: until then they count towards the limit on processes, so that no other can
    begin. Only children are killed: their numbers are given to no other process before they are reaped. The children of
    the dead become ours.
    """
    until = time.monotonic() + _SECONDS
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] or time.monotonic() < until:
            look = os.WEXITED | os.WNOHANG | os.WNOWAIT
            while living := [pid for pid in _children() if os.waitid(os.P_PID, pid, look) is None]:
                for pid in living:
                    os.kill(pid, signal.SIGKILL)
                if time.monotonic() > until:
                    break


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children") as listed:
            return [int(pid) for pid in listed.read().split()]
    except FileNotFoundError:  # a kernel without that file
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(int(name)) == me]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as status:
            return int(status.read().rpartition(")")[2].split()[1])
    except OSError:
        return -1
