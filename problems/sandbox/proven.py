"""Which modes of the sandbox were seen to confine on this machine, kept from one command to the next.

Trying a mode takes a worker and the time of twenty evaluations. What decides how it ends stays as it is until the
machine starts anew, and is part of what a result is kept under: the boot, the user and its rights, the namespaces, the
interpreter, bwrap, and our own code. Only that a mode confines is kept. Each worker gives everything up by itself all
the same, and fails where it cannot.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import sys
from pathlib import Path

_OF_STATUS = ("Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp:")
_OF_KERNEL = (
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/user/max_user_namespaces",
    "/sys/kernel/security/lsm",
)


def is_proven(mode: str, binary: str | None) -> bool:
    """Whether it was seen to confine, with everything as it is now. binary: bwrap's"""
    place = _folder() / _circumstances(mode, binary)
    with contextlib.suppress(OSError):
        return place.lstat().st_uid == os.geteuid()
    return False


def keep(mode: str, binary: str | None) -> None:
    """It was seen to confine just now. A folder that cannot be written is no fault."""
    with contextlib.suppress(OSError):
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        (_folder() / _circumstances(mode, binary)).touch(mode=0o600)


def forget() -> None:
    """Try every mode again."""
    shutil.rmtree(_folder(), ignore_errors=True)


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evo" / "sandbox"


@functools.cache
def _circumstances(mode: str, binary: str | None) -> str:
    """A digest of all that decides how trying a mode ends."""
    parts = [mode, sys.version, *map(_text, _OF_KERNEL)]
    parts += [line for line in _text("/proc/self/status").splitlines() if line.startswith(_OF_STATUS)]
    with contextlib.suppress(OSError):
        parts += sorted(str(one.readlink()) for one in Path("/proc/self/ns").iterdir())
    ours = sorted(map(str, Path(__file__).parent.rglob("*.py")))
    for file in (sys.executable, *([binary] if binary else []), *ours):
        with contextlib.suppress(OSError):
            found = os.stat(file)
            parts.append(f"{file} {found.st_ino} {found.st_size} {found.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _text(file: str) -> str:
    with contextlib.suppress(OSError):
        return Path(file).read_text(encoding="utf-8", errors="replace")
    return ""
