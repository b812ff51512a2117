"""seccomp filters, assembled here for x86_64 and aarch64: two for each kind of worker.

The first is the worker's, long, installed once and inherited, so that a run pays nothing for its length. The second is
put on top of it in every run, and takes away what forking and confining a run needed; it is short because every run
pays for the kernel's check of it.

Programs: an allow-list (what the interpreter and numpy need); then kill and tgkill pinned to the candidate's own id.
Scorers: a deny-list, for they need subprocesses, threads and odd libraries.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import json
import os
import struct

with open(os.path.join(os.path.dirname(__file__), "syscalls.json")) as _file:
    TABLES: dict[str, dict[str, list[int | None]]] = json.load(_file)
"""Groups of calls, each with its numbers in the order of MACHINES; null where that machine has none. `metadata`:
Landlock rules opening, writing and making, not changing the mode or times of a file that one may name."""
_CONFINING = ("landlock_create_ruleset", "landlock_add_rule", "unshare", "mount", "capset") + (
    *("setgroups", "setresgid", "setresuid"),
)
"""Beyond those of `zygote`, what a program's fork calls before it is a candidate."""
_CONFINING_SCORER = ("unshare", "setns", "mount", "setgroups", "setresgid", "setresuid")
"""Of `denied`, what a worker for scorers calls and its fork, before the fork is an evaluation."""
_SIGNALS = ("kill", "tkill", "tgkill", "pidfd_send_signal")

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_PID = 0xFFFFFFFE  # stands for the candidate's process id until that is known
_CLONE_THREAD, _CLONE_NEW = 0x00010000, 0x7E020080  # every namespace flag
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 1030)  # duplicates, flags and locks; not F_SETOWN and F_SETSIG, which send signals
_IOCTL = (0x541B, 0x5421, 0x5450, 0x5451, 0x5401, 0x5413)  # what reading and isatty ask; not TIOCSTI, FIOASYNC


def is_supported() -> bool:
    return os.uname().machine in MACHINES


def _numbers(*groups: str) -> dict[str, int]:
    column = MACHINES[os.uname().machine][1]
    rows = ((name, row[column]) for group in groups for name, row in TABLES[group].items())
    return {name: found for name, found in rows if found is not None}


@functools.cache
def _all_numbers() -> dict[str, int]:
    return _numbers(*TABLES)


def number(name: str) -> int:
    """Of a system call. The tables are read once: every evaluation asks for some, and pays for the time."""
    return _all_numbers()[name]


class Filter:
    """A BPF program under construction: `code` is a list of (operation, if true, if false, operand)."""

    def __init__(self) -> None:
        arch = MACHINES[os.uname().machine][0]
        self.code: list[tuple[int, int, int, int]] = [
            (_LOAD, 0, 0, 4),
            (_EQUAL, 1, 0, arch),
            (_RETURN, 0, 0, _KILL),
            (_LOAD, 0, 0, 0),
        ]

    def on(self, nr: int | None, block: list[tuple[int, int, int, int]]) -> None:
        """Where the call is `nr`, run `block`, whose every path must return."""
        if nr is not None:
            self.code += [(_EQUAL, 0, len(block), nr), *block]

    def argument(
        self, nr: int, index: int, values: tuple[int, ...], refused: int = errno.EPERM, listed: bool = True
    ) -> None:
        """Where the call is `nr`, allow it if the low word of one argument is (not, if not `listed`) among `values`."""
        tests = [(_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
        ends = [_refuse(refused), (_RETURN, 0, 0, _ALLOW)]
        self.on(nr, [_argument(index), *tests, *(ends if listed else reversed(ends))])

    def otherwise(self, result: int) -> bytes:
        return b"".join(struct.pack("<HBBI", *row) for row in [*self.code, (_RETURN, 0, 0, result)])


def _argument(index: int) -> tuple[int, int, int, int]:
    return (_LOAD, 0, 0, 16 + 8 * index)


def _refuse(number: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERRNO | number)


def _arguments_checked(filter: Filter, pairs: bool = False) -> None:
    """What a program and an evaluation have in common. pairs: of any sockets"""
    if not pairs:  # a stream pair alone: a datagram socket, even one of a pair, can be sent to any unix address
        stream = [_argument(1), (_AND, 0, 0, 0xF), (_EQUAL, 1, 0, 1), _refuse(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
        filter.on(number("socketpair"), [_argument(0), (_EQUAL, 1, 0, 1), _refuse(errno.EPERM), *stream])
    filter.argument(number("prlimit64"), 0, (0,))  # itself alone: the worker may have the same user
    filter.argument(number("sched_setaffinity"), 0, (0,))


def worker_filter() -> bytes:
    """What a worker for programs keeps for the rest of its life."""
    filter = Filter()
    _arguments_checked(filter)
    filter.argument(number("fcntl"), 1, _FCNTL)
    filter.argument(number("ioctl"), 1, _IOCTL, errno.ENOTTY)
    filter.code.append((_AT_LEAST, 0, 1, 0x40000000))  # the x32 numbers
    filter.code.append(_refuse(errno.ENOSYS))
    for nr in [*_numbers("ordinary", "zygote").values(), *map(number, _CONFINING)]:
        filter.on(nr, [(_RETURN, 0, 0, _ALLOW)])
    # newer calls, clone3 first of all: "not there" makes the C library fall back to the older ones
    filter.code += [(_AT_LEAST, 0, 1, 424), _refuse(errno.ENOSYS)]
    return filter.otherwise(_ERRNO | errno.EPERM)


def candidate_filter() -> bytes:
    """What is taken from the candidate, whose process id `install` fills in."""
    calls = _numbers("zygote")
    filter = Filter()
    filter.code = [(_LOAD, 0, 0, 0)]  # the worker's filter has already checked the machine
    filter.on(
        calls["clone"],
        [_argument(0), (_ANY_BIT, 0, 1, _CLONE_THREAD), (_RETURN, 0, 0, _ALLOW), _refuse(errno.EPERM)],
    )
    filter.argument(calls["kill"], 0, (_PID,))
    filter.argument(calls["tgkill"], 0, (_PID,))
    filter.argument(calls["prctl"], 0, (3, 15, 16))  # PR_GET_DUMPABLE and a thread's name
    for name in ("fork", "vfork", "wait4", "waitid", "pidfd_open", "seccomp", "landlock_restrict_self", "memfd_create"):
        filter.on(calls.get(name), [_refuse(errno.EPERM)])
    for name in _CONFINING:
        filter.on(number(name), [_refuse(errno.EPERM)])
    return filter.otherwise(_ALLOW)


def scorer_worker_filter(unix_sockets: bool, metadata: bool) -> bytes:
    """What a worker for scorers keeps for the rest of its life.

    unix_sockets: False without a network namespace to keep them in
    metadata: False without read-only mounts to keep the mode and times of files
    """
    filter = Filter()
    if unix_sockets:
        filter.argument(number("socket"), 0, (1,))
    else:
        filter.on(number("socket"), [_refuse(errno.EPERM)])
    _arguments_checked(filter, pairs=unix_sockets)
    # FIOASYNC, FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX: signals to others, input for a terminal
    filter.argument(number("ioctl"), 1, (0x5452, 0x8901, 0x8902, 0x5412, 0x541C), listed=False)
    filter.argument(number("fcntl"), 1, (8, 10, 15), listed=False)  # F_SETOWN, F_SETSIG, F_SETOWN_EX
    namespaces = [_argument(0), (_ANY_BIT, 0, 1, _CLONE_NEW), _refuse(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    filter.on(number("clone"), namespaces)
    filter.on(number("clone3"), [_refuse(errno.ENOSYS)])  # its flags lie in memory, where a filter cannot look
    filter.code += [(_AT_LEAST, 0, 1, 0x40000000), _refuse(errno.ENOSYS)]
    refused = _numbers("denied") if metadata else _numbers("denied", "metadata")
    for nr in [nr for name, nr in refused.items() if name not in _CONFINING_SCORER]:
        filter.on(nr, [_refuse(errno.EPERM)])
    return filter.otherwise(_ALLOW)


def evaluation_filter(signals: bool) -> bytes:
    """What is taken from a scorer and the answer it runs. signals: False if the kernel cannot confine them to the
    evaluation"""
    filter = Filter()
    filter.code = [(_LOAD, 0, 0, 0)]  # the worker's filter has already checked the machine
    for name in (*_CONFINING_SCORER, *(() if signals else _SIGNALS)):
        filter.on(number(name), [_refuse(errno.EPERM)])
    return filter.otherwise(_ALLOW)


class Installer:
    """A program ready to be put in force: its buffer is made once, before the fork; `install` is one system call."""

    def __init__(self, program: bytes) -> None:
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_void_p)
        self._number = number("seccomp")
        self._buffer = ctypes.create_string_buffer(program, len(program))
        place = struct.pack("<I", _PID)
        self._offsets = [at + 4 for at in range(0, len(program), 8) if program[at + 4 : at + 8] == place]
        header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(self._buffer))
        self._header = ctypes.create_string_buffer(header, len(header))
        self._address = ctypes.addressof(self._header)

    def install(self, pid: int = 0) -> None:
        for at in self._offsets:
            struct.pack_into("<I", self._buffer, at, pid)
        if self._call(self._number, 1, 0, self._address):
            code = ctypes.get_errno()
            raise OSError(code, f"seccomp: {os.strerror(code)}")
