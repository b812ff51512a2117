"""Evaluations without a pid namespace: a supervisor adopts their orphans and ends the whole tree.

Only what is proved to be our own descendant is ever signalled. A child that we have not reaped cannot lose its pid to
another process. Deeper down a handle (pidfd) is taken first, then the parent named in the process table is compared,
then that parent's own handle is asked whether it is still alive: so by induction from our children on, no number can
have passed to a stranger in between.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import time
from collections.abc import Callable
from typing import NoReturn

from . import confinement
from .channels import Channels

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
