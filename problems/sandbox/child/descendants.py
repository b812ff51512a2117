"""Ending a process tree without a pid namespace: only what is proved to be our own descendant is ever signalled.

A child that we have not reaped cannot lose its pid to another process. Deeper down a handle (pidfd) is taken first,
then the parent named in the process table is compared, then that parent's own handle is asked whether it is still
alive: so by induction from our children on, no number can have passed to a stranger in between.
"""

from __future__ import annotations

import os
import select
import signal
import time

_SECONDS = 18.0


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
    """One pass: everything first found, then everything killed, since what is killed one by one forks meanwhile."""
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
