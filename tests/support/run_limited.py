"""Work in a process that the kernel ends beyond a CPU time and refuses memory beyond a limit.

Bounds on work are held this way, not by a clock: a busy machine changes nothing.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

CPU_SECONDS = 1.0  # 0.2 s on an idle core, and what a slow or a busy one makes of it
MEMORY = 200 << 20
DONE, NO_MEMORY, FAILED = 0, 1, 2


def run_limited(*works: Callable[[], object], cpu_seconds: float = CPU_SECONDS) -> int:
    """Run the works one after another in a child of this process, each with its own limit of CPU time. Returns the exit
    status of the child, or minus the signal that ended it."""
    return run_each_limited({"": works}, cpu_seconds)[""]


def run_each_limited(
    cases: Mapping[str, Sequence[Callable[[], object]]], cpu_seconds: float = CPU_SECONDS
) -> dict[str, int]:
    """What `run_limited` returns for the works of each case. One child runs all cases, since a fork of a large process
    is expensive; a case that ends its child has another one take over from the next case."""
    statuses: dict[str, int] = {}
    while len(statuses) < len(cases):
        names = list(cases)[len(statuses) :]
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                gc.freeze()  # what earlier tests left is not gone through, nor copied, in the name of this work
                for name in names:
                    status = _run_limited_here(cases[name], cpu_seconds)
                    os.write(writer, bytes([status]))
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            ended = file.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        statuses |= dict(zip(names, ended, strict=False))
        if len(ended) < len(names):
            statuses[names[len(ended)]] = status or FAILED
    return statuses


def _run_limited_here(works: Sequence[Callable[[], object]], cpu_seconds: float) -> int:
    """Run the works under the limits, which end with them unless they are broken."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    try:
        for work in works:
            signal.setitimer(signal.ITIMER_PROF, cpu_seconds)  # the default action ends the process
            work()
        status = DONE
    except MemoryError:
        status = NO_MEMORY
    except BaseException:
        status = FAILED
    signal.setitimer(signal.ITIMER_PROF, 0)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    return status
