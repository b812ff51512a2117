"""The pipes of a worker, and what is sent over them.

A worker has five: requests in and ends of forks out, which are closed in every fork, and for the current fork a feed
in, results out and output out. The worker itself reads nothing that a candidate was given or wrote, so nothing of one
candidate is in the memory of the next.
"""

from __future__ import annotations

import os
import select
import signal
from _thread import allocate_lock  # without threading, which renews its state in every fork
from collections.abc import Callable, Sequence
from os import _exit
from typing import Any

from .wire import FRAME, HOST_CALL, KILL, REQUEST, encode, frame, from_json, to_json, unpack_value


class Channels:
    """The five pipes, as the worker holds them."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        # to the lowest numbers, and not inheritable: as they come, they have the numbers of a parent that may hold
        # hundreds of files, beyond what the limit on open files lets a candidate's own code name
        moved = [os.dup(fd) for fd in descriptors]
        for fd in descriptors:
            os.close(fd)
        self.requests, self.control, self.feed, self.results, self.output = moved
        self._poll = select.poll()
        self._poll.register(self.requests, select.POLLIN)

    def next_request(self) -> tuple[bytes, int] | None:
        """(operation, sequence number of the run); None once the parent has closed the pipe, or died."""
        data = os.read(self.requests, REQUEST.size)
        return REQUEST.unpack(data) if len(data) == REQUEST.size else None

    def wait(self, pid: int, sequence: int) -> None:
        """Until the fork with this number has ended. It is killed when the parent asks for it, or is gone."""
        ended = os.pidfd_open(pid)
        self._poll.register(ended, select.POLLIN)
        while ended not in [ready for ready, _ in self._poll.poll()]:
            request = self.next_request()
            if request is None or request == (KILL, sequence):
                os.kill(pid, signal.SIGKILL)
        self._poll.unregister(ended)
        os.close(ended)


class Feed:
    """The parent's messages to this fork: length-prefixed JSON."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def _exactly(self, count: int) -> bytes:
        data = os.read(self._fd, min(count, 1 << 20))
        parts, count = [data], count - len(data)
        while count and data:
            data = os.read(self._fd, min(count, 1 << 20))
            parts.append(data)
            count -= len(data)
        if count:
            _exit(0)  # the parent is gone
        return b"".join(parts)

    def read(self) -> Any:
        _, length = FRAME.unpack(self._exactly(FRAME.size))
        return from_json(self._exactly(length).decode(), 0)[0]


def write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def send(fd: int, kind: bytes, body: Any) -> None:
    write_all(fd, frame(kind, to_json(body).encode()))


def host_caller(results: int, feed: Feed, limit: int) -> Callable[..., Any]:
    """What calls a function of the parent's, from this process only and one thread at a time: (name, *args, **kwargs)
    -> its value. limit: characters of the arguments.

    An exchange that is broken off (by the exception of a signal's handler) leaves no way to tell its reply from the
    next one's, so it is the last.
    """
    lock, own, broken = allocate_lock(), os.getpid(), [False]

    def host_call(name: str, /, *args: Any, **kwargs: Any) -> Any:
        if os.getpid() != own:
            raise RuntimeError("only the process of the evaluation itself can call the host")
        body = [name, encode(list(args), limit), encode(kwargs, limit)]
        with lock:
            if broken[0]:
                raise RuntimeError("an earlier call of the host was broken off")
            broken[0] = True
            send(results, HOST_CALL, body)
            reply = feed.read()
            broken[0] = False
        if reply["error"] is not None:
            raise RuntimeError(reply["error"])
        return unpack_value(reply["value"])

    return host_call
