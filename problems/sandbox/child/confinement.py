"""What a process gives up before it runs hostile code: its user, its capabilities, files, network, signals, memory.

COVERED, in both modes unless said otherwise
- Files: none but the Python installation and system libraries for reading (Landlock; in bwrap also the mount namespace,
  in which nothing else exists, and no /proc) and one scratch folder for writing; for a scorer also a /dev/shm and a
  layer over its folder (mounts.py). The project's own packages, with the expected outputs that ship in them, are left
  out of what may be read. Modes, owners and times of other files: no calls, or read-only mounts.
- Network: no socket() of any family (an evaluation in bwrap mode keeps unix sockets, inside its own namespace);
  socketpair as a stream only, since a datagram socket of a pair can be sent to any unix address.
- Processes: a program cannot fork or exec, so killing its one pid ends everything. An evaluation's whole tree dies with
  its pid namespace (bwrap) or by the worker, which adopts and kills its orphans (landlock).
- Signals, tracing, limits and priorities of others: refused by number (seccomp), by domain (Landlock, scopes since its
  ABI 6), and unseen in bwrap's pid namespace. kill() is pinned to the candidate's own pid.
- Memory, file size, open files, threads: rlimits; scratch space by a sized tmpfs with few inodes, or in landlock mode
  by the parent's watch. CPU and wall time and the size of results and output: by the parent.
- Expected outputs, other answers, the parent's environment: never in the memory of the worker, whose parent hands a
  program straight to the fork that runs it. Results are data (wire.py); whatever a candidate writes is its own outcome.
- What a run leaves: nothing. What it writes is in separate mounts, or in a folder that the parent removes.
- As root: a separate user for every worker, no capabilities but one: CAP_DAC_OVERRIDE is kept by a scorer that may
  write in its folder, whose files may be root's, and CAP_DAC_READ_SEARCH where else only root may enter what is read.
  Landlock and the mount namespace still decide which files, and opening by handle is refused.

NOT COVERED
- A scorer shares a process with the answer that it executes, which can forge the metrics of that evaluation, never of
  the next one: that is forked from a worker which no answer has touched. The same holds for a candidate and its own
  outputs: that is why expected outputs stay with the parent.
- Bugs of the kernel, side channels, timing; the total that several workers take.
- landlock mode sees more than bwrap: names, sizes and times of files that it can guess (stat is not Landlock's), the
  process table's size, the host's name; its thread limit counts the user's other processes. Where the kernel lets this
  user have no mount namespace, its scratch is a disk, and a scorer has neither /dev/shm nor a folder to write in.
- Before Landlock ABI 6 (Linux 6.12) an evaluation in landlock mode may send no signals, not to its own children.
- isolated=False evaluations and mode none: limits and the killing of process trees, nothing else.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import signal
import struct
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from .mounts import BYTES, INT, LONG, Mounts, check, libc, prepared
from .syscalls import Installer, candidate_filter, evaluation_filter, number, scorer_worker_filter, worker_filter

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_CAPBSET_DROP = 1, 4, 8, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 36, 38, 47
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_CAPABILITY_VERSION = 0x20080522

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 9
_MAKE_FIFO, _MAKE_SYM, _REFER = 1 << 10, 1 << 12, 1 << 13
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
READ = _READ_FILE | _READ_DIR
RUN = READ | _EXECUTE
WRITE = (
    READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM
) | (_REFER | _TRUNCATE)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


_prctl = prepared("prctl", INT, LONG, LONG, LONG, LONG)
_capset = prepared("capset", BYTES, BYTES)
_add_rule = partial(prepared("syscall", LONG, LONG, LONG, BYTES, LONG), number("landlock_add_rule"))
_restrict = partial(prepared("syscall", LONG, LONG, LONG), number("landlock_restrict_self"))
_CAPABILITIES = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
_CAPABILITY_SETS = {
    kept: struct.pack("<6I", *[1 << kept if kept else 0] * 3, 0, 0, 0)
    for kept in (0, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH)
}


def prctl(option: int, first: int = 0, second: int = 0) -> None:
    check(_prctl(option, first, second, 0, 0), "prctl")


def no_new_privileges() -> None:
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_user(uid: int, kept: int) -> None:
    """Become an ordinary user without groups and capabilities but `kept` (0 for none), for good."""
    if kept:
        prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    drop_capabilities(kept)
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (uid,) * 3:
        raise OSError(errno.EPERM, "the user did not change")


def drop_capabilities(kept: int = 0) -> None:
    check(_capset(_CAPABILITIES, _CAPABILITY_SETS[kept]), "capset")
    prctl(_PR_CAP_AMBIENT, 4)  # clear all
    if kept:
        prctl(_PR_CAP_AMBIENT, 2, kept)  # raise: a scorer's subprocess needs the same libraries


def landlock_abi() -> int:
    """0 where the kernel has none."""
    result: int = libc.syscall(
        ctypes.c_long(number("landlock_create_ruleset")), None, ctypes.c_size_t(0), ctypes.c_uint(1)
    )
    return max(result, 0)


class Landlock:
    """A ruleset under construction; `restrict` puts it in force for this process and all it will fork.

    Everything that this kernel can handle is refused but what `allow` lets through.
    """

    def __init__(self) -> None:
        abi = landlock_abi()
        self.handled = (1 << 13) - 1 | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
        self.handled |= _IOCTL_DEV if abi >= 5 else 0
        network = 3 if abi >= 4 else 0  # TCP bind and connect, no rule: none
        scopes = 3 if abi >= 6 else 0  # abstract unix sockets, signals
        attributes = struct.pack("<QQQ", self.handled, network, scopes)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
        call = ctypes.c_long(number("landlock_create_ruleset"))
        made = libc.syscall(call, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
        self.fd: int = check(made, "landlock_create_ruleset")
        os.set_inheritable(self.fd, False)

    def allow(self, paths: Iterable[str], rights: int) -> None:
        for path in paths:
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue  # not on this machine, or in no program's view
            try:
                granted = rights & self.handled
                if os.fstat(fd).st_mode & 0o170000 != 0o040000:  # no folder
                    granted &= _OF_FILES
                check(_add_rule(self.fd, 1, struct.pack("<Qi", granted, fd), 0), "landlock_add_rule")
            finally:
                os.close(fd)

    def restrict(self) -> None:
        check(_restrict(self.fd, 0), "landlock_restrict_self")


def carve(exposed: Sequence[str], hidden: Sequence[str]) -> tuple[list[str], list[str]]:
    """(folders to list, trees to read). Landlock cannot take away from a tree, so one that holds something hidden is
    replaced by those of its entries that do not."""
    listed: list[str] = []
    readable: list[str] = []
    pending = list(exposed)
    while pending:
        path = pending.pop()
        inside = [item for item in hidden if item == path or item.startswith(path.rstrip("/") + "/")]
        if not inside:
            readable.append(path)
        elif path not in inside:
            listed.append(path)
            try:
                pending += [os.path.join(path, name) for name in os.listdir(path)]
            except OSError:
                continue
    return listed, readable


def limit(what: int, soft: int, hard: int | None = None) -> None:
    resource.setrlimit(what, (soft, soft if hard is None else hard))


def address_space_used() -> int:
    """Bytes of address space mapped, found without /proc: the lowest limit at which a page still fits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    low, high = 0, 1 << 42
    try:
        while high - low > 1 << 16:
            middle = (low + high) // 2
            resource.setrlimit(resource.RLIMIT_AS, (middle, hard))
            try:
                mmap.mmap(-1, mmap.PAGESIZE).close()
                high = middle
            except (OSError, MemoryError, ValueError):
                low = middle
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    return high


SPARE = 32 << 20
"""Bytes of address space kept back, to report in once a run has used all of its share."""
_DAYS = 30 * 86_400
"""CPU seconds that end a run whose parent does not: the parent counts them, case by case."""
USES = 64
"""Runs that one ruleset of Landlock serves."""


class Confinement:
    """What every run of a worker gives up; what can be is made once, since a run would spend most of its time on it.

    A program may start no process; a scorer's evaluation may (`forks`), and what both run and read is wider.

    A ruleset serves `USES` runs, each of which adds its own scratch to it. A rule means one inode, which it keeps from
    being used again, so that nothing is left which an earlier one's could mean: in bwrap mode scratch was a mount of a
    namespace that is gone; in landlock mode it was a folder which the parent has removed before the worker gets its
    next request, or else the worker has ended, and no process is left that could have it open. The descriptor of the
    ruleset is closed in a run before anything hostile happens there. Folders that hold something hidden are looked
    through once: what comes into them later cannot be read.
    """

    def __init__(self, config: dict[str, Any], mounts: Mounts) -> None:
        """Confine the worker itself, as far as its forks do not need its rights. config: the worker's"""
        self._config, self._forks, self._mounts = config, config["forks"], mounts
        confined, bwrap = config["mode"] != "none", config["mode"] == "bwrap"
        # past modes, which the folder's owner need not pass: Landlock and the mounts say what is read and written
        self._kept = _CAP_DAC_OVERRIDE if mounts.folder else _CAP_DAC_READ_SEARCH if config["read_everywhere"] else 0
        self._abi = landlock_abi() if confined else 0
        self._carved = carve(config["exposed"], config["hidden"]) if self._abi else ([], [])
        self._rules: Landlock | None = None
        self._uses = 0
        self._filter: Installer | None = None
        if config["uid"] is not None and not mounts.own:
            drop_user(config["uid"], self._kept)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        prctl(_PR_SET_DUMPABLE, 0)  # no tracing and no /proc/PID/mem by processes of the same user
        if confined:
            of_run = evaluation_filter(bwrap or self._abi >= 6) if self._forks else candidate_filter()
            self._filter = Installer(of_run)
            no_new_privileges()
            Installer(scorer_worker_filter(bwrap, mounts.own) if self._forks else worker_filter()).install()
        self.address_space = address_space_used()

    def prepare(self) -> None:
        """Before the fork of a run."""
        if not self._abi:
            return
        if self._rules is not None and self._uses == USES:
            os.close(self._rules.fd)
            self._rules = None
        if self._rules is None:
            listed, readable = self._carved
            self._rules, self._uses = Landlock(), 0
            self._rules.allow(listed, _READ_DIR)
            self._rules.allow(readable, RUN if self._forks else READ)
            self._rules.allow(DEVICES, _READ_FILE | _WRITE_FILE)
        self._uses += 1

    def confine(self, limits: dict[str, int], scratch: str) -> None:
        """In the fork: give everything up but `scratch` and the pipes. limits: problems.sandbox.contract.Limits"""
        config, forks = self._config, self._forks
        writable = self._mounts.renew(limits["scratch"]) if self._mounts.own else [scratch]
        if self._rules is not None:
            # what an evaluation wrote it may start: a compiler's program, which Python could load all the same
            self._rules.allow(writable, WRITE | RUN if forks else WRITE)
        if self._mounts.own and config["uid"] is not None:
            drop_user(config["uid"], self._kept)
        elif self._mounts.own:
            drop_capabilities()
        os.chdir(scratch)
        top = self.address_space + limits["memory"]
        limit(resource.RLIMIT_AS, top, top + SPARE)
        limit(resource.RLIMIT_CPU, _DAYS)
        limit(resource.RLIMIT_FSIZE, limits["file"])
        if not forks:
            limit(resource.RLIMIT_NOFILE, 128)
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if self._filter is not None or not forks:
            limit(resource.RLIMIT_NPROC, config["threads"] + limits["processes"])
            no_new_privileges()
        if self._rules is not None:
            self._rules.restrict()
            os.close(self._rules.fd)
        if self._filter is not None:
            self._filter.install(os.getpid())
