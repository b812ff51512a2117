"""Mount namespaces: what a run may write is in a separate one, and is gone with it.

A scorer finds its folder as on the disk, and every evaluation may write in it: the writes of the scorer's import and of
the evaluation are layers over it (overlayfs), so nothing is copied before it is changed and no other run sees it.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from typing import Any

from .syscalls import number

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWPID, _CLONE_NEWUSER = 0x00020000, 0x20000000, 0x10000000
_NOSUID, _NODEV, _BIND, _RECURSIVE, _PRIVATE, _DETACH = 2, 4, 4096, 16384, 1 << 18, 2
_AT_RECURSIVE, _READ_ONLY = 0x8000, struct.pack("<4Q", 1, 0, 0, 0)
_SIZE = 1 << 32  # bytes that a scorer may write while it is loaded
_LAYERS = "layers"


def prepared(name: str, *kinds: Any) -> Callable[..., int]:
    """A function of the C library with these arguments. Made before the fork: an evaluation has little time, and each
    object that it makes or looks at costs it the copy of a page."""
    function = libc[name]
    function.argtypes = kinds
    return function


INT, LONG, BYTES = ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p
_unshare = prepared("unshare", INT)
_setns = prepared("setns", INT, INT)
_umount = prepared("umount2", BYTES, INT)
_mount = prepared("mount", BYTES, BYTES, BYTES, LONG, BYTES)


def check(result: int, what: str) -> int:
    """The result of a system call. Raises OSError if it failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def namespaces(flags: int) -> None:
    check(_unshare(flags), "unshare")


def enter(process: int, flags: int) -> None:
    """Join the namespaces of a process, by its handle (pidfd). Raises OSError where the kernel does not let this
    process back into its own (before Linux 5.8)."""
    check(_setns(process, flags), "setns")


def _bind(source: str, place: str) -> None:
    check(_mount(source.encode(), place.encode(), None, _BIND | _RECURSIVE, None), "mount")


def _tmpfs(folder: str, size: int, inodes: int) -> None:
    options = f"size={size},nr_inodes={inodes},mode=1777".encode()
    check(_mount(b"scratch", folder.encode(), b"tmpfs", _NOSUID | _NODEV, options), "mount")


def _begin(scratch: str, inodes: int) -> bool:
    """Enter a mount namespace in which all but `scratch` and /dev/shm is read-only; for an ordinary user, in a user
    namespace. False where that is refused: a child tries it first, since half of it cannot be undone."""
    child = os.fork()
    if child and os.waitpid(child, 0)[1]:
        return False
    try:
        uid, gid = os.getuid(), os.getgid()
        namespaces(CLONE_NEWNS | (_CLONE_NEWUSER if uid else 0))
        maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"} if uid else {}
        for name, line in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(line)
        check(_mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None), "mount")
        arguments = -1, b"/", _AT_RECURSIVE, _READ_ONLY, ctypes.c_size_t(32)
        check(libc.syscall(ctypes.c_long(number("mount_setattr")), *arguments), "mount_setattr")
        for folder in (scratch, "/dev/shm"):
            _tmpfs(folder, _SIZE, inodes)
        return bool(child) or os._exit(0)
    finally:
        if not child:
            os._exit(1)


class Mounts:
    """Those of a worker, and of each of its runs.

    own: whether runs have mount namespaces: in bwrap mode they do, in landlock mode a scorer's where the kernel agrees
    folder: of the scorer, if a run may write in it
    """

    def __init__(self, config: dict[str, Any]) -> None:
        """Before the scorer is loaded, which may write too. The working folder is the worker's scratch folder."""
        self._config, self.folder = config, ""
        self._lowest = f"{_LAYERS}/{'disk' if config['whole'] else 'bare'}"
        self.own = config["mode"] == "bwrap"
        if config["mode"] == "landlock" and config["forks"]:
            self.own = _begin(config["scratch"], config["inodes"])
            os.chdir(config["scratch"])
        if self.own and config["folder"] not in ("", "/"):
            self._lay_over(config["folder"])

    def _lay_over(self, folder: str) -> None:
        for place in (_LAYERS, *(f"{_LAYERS}/{name}" for name in ("loaded", "work", "run", "disk", "bare"))):
            os.mkdir(place)
        for path in self._config["inside"]:
            place = f"{_LAYERS}/bare/{os.path.relpath(path, folder)}"
            os.makedirs(place if os.path.isdir(path) else os.path.dirname(place), exist_ok=True)
            if not os.path.isdir(path):
                open(place, "x").close()
        try:
            _bind(folder, f"{_LAYERS}/disk")
            self.folder = folder
            self._overlay("loaded", "work", self._lowest)
            os.makedirs(self._config["scratch"], exist_ok=True)  # which lies in the folder if that is /tmp
            self._config["environment"]["EVO_FOLDER_COPY"] = folder
        except OSError:
            self.folder = ""  # no overlays here: the folder stays as it is, read-only

    def loaded(self) -> None:
        """The scorer is loaded: what it wrote becomes the layer under those of its evaluations."""
        if self.folder:
            check(_umount(self.folder.encode(), _DETACH), "umount")

    def _overlay(self, upper: str, work: str, lower: str) -> None:
        """Over the scorer's folder. Further mounts inside it come back on top: an overlay does not show those."""
        options = f"lowerdir={lower},upperdir={_LAYERS}/{upper},workdir={_LAYERS}/{work}"
        options += "" if self._config["uid"] else ",userxattr"  # what a user namespace may set
        check(_mount(b"folder", self.folder.encode(), b"overlay", _NOSUID | _NODEV, options.encode()), "mount")
        for path in self._config["inside"]:
            _bind(f"{_LAYERS}/disk/{os.path.relpath(path, self.folder)}", path)

    def renew(self, size: int) -> list[str]:
        """In the fork of a run: new and empty places for all that it may write, at the paths which this returns."""
        inodes = self._config["inodes"]
        writable = [self._config["scratch"], *(["/dev/shm"] if self._config["forks"] else [])]
        namespaces(CLONE_NEWNS)
        if self.folder:
            _tmpfs(f"{_LAYERS}/run", size, inodes)
            for name in ("upper", "work"):
                os.mkdir(f"{_LAYERS}/run/{name}")
            self._overlay("run/upper", "run/work", f"{_LAYERS}/loaded:{self._lowest}")
        for place in writable:
            _tmpfs(place, size, inodes)
        os.chdir("/")  # the working folder was the one underneath
        return [*writable, self.folder] if self.folder else writable
