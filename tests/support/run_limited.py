"""Work in a process that the kernel ends beyond a CPU time and refuses memory beyond a limit.

Bounds on work are held this way, not by a clock: a busy machine changes nothing.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

CPU_SECONDS = 1.0  # 0.2 s on an idle core, and what a slow or a busy one makes of it
MEMORY = 200 << 20
DONE, NO_MEMORY, FAILED = 0, 1, 2


def run_limited(*works: Callable[[], object], cpu_seconds: float = CPU_SECONDS) -> int:
    """Run the works one after another in a child of this process, each with its own limit of CPU time. Returns the exit
    status of the child, or minus the signal that ended it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = FAILED
    try:
        gc.freeze()  # what earlier tests left is not gone through, nor copied, in the name of this work
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
        for work in works:
            signal.setitimer(signal.ITIMER_PROF, cpu_seconds)  # the default action ends the process
            work()
        status = DONE
    except MemoryError:
        status = NO_MEMORY
    finally:
        os._exit(status)
