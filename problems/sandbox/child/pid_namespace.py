"""Pid namespaces: each evaluation of a scorer is pid 1 of one.

Its scorer may hold an answer in the same process, so nothing of it may meet the next evaluation: when it ends, the
kernel kills whatever it started and forgets whatever it wrote.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import NoReturn

from . import confinement

USES = 64
"""Evaluations that one ruleset serves (evaluation.Confinement)."""
BROKEN = 97 << 8
"""The wait status where a process could not be started or confined."""


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
