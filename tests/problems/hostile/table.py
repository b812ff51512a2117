"""A hostile program and what must come of it. These are only ever run through Sandbox, in bwrap or landlock mode."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

REFUSED = ("PermissionError", "FileNotFoundError", "BlockingIOError", "OSError", "NotADirectoryError")

# Trusted lines before every program: `attempt` names the exception class with which the sandbox answers, `raw` makes a
# system call by number and gives (result, errno).
SETUP = """
import ctypes, errno, os, signal, socket, subprocess, sys, threading, time
def attempt(what, *args, **kwargs):
    try:
        what(*args, **kwargs)
    except BaseException as error:
        return type(error).__name__
    return "done"
def raw(number, *args):
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return result, ctypes.get_errno()
"""


@dataclass(frozen=True)
class Hostile:
    """name, code, and the precise expectation of its last case.

    status: those allowed
    value: what it must return, or `values`: the set it must be among
    landlock: other statuses where the mode is landlock (a watch by the parent instead of a full file system)
    message: a part of the outcome's message
    """

    name: str
    code: str
    status: tuple[str, ...] = ("ok",)
    value: Any = None
    values: tuple[Any, ...] | None = None
    landlock: tuple[str, ...] | None = None
    message: str = ""
    mode: str = "calls"
    cases: tuple[str, ...] = ("f()",)
    limits: Mapping[str, Any] = field(default_factory=dict)


def refused(name: str, code: str, **options: Any) -> Hostile:
    """A program whose f() must report that the system said no."""
    return Hostile(name, code, values=REFUSED, **options)


def denied(name: str, expression: str) -> Hostile:
    """A raw system call that must fail with EPERM or be unknown; `expression` is its (result, errno)."""
    nos = tuple((-1, code) for code in (errno.EPERM, errno.ENOSYS))
    return Hostile(name, f"def f():\n    return {expression}\n", values=nos)
