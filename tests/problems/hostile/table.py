"""A hostile program and what must come of it. These are only ever run through Sandbox, in bwrap or landlock mode."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from problems.sandbox.child import syscalls
from problems.sandbox.contract import Limits, Program

REFUSED = ("PermissionError", "FileNotFoundError", "BlockingIOError", "OSError", "NotADirectoryError")

# Trusted lines before every program: `attempt` names the exception class with which the sandbox answers, `raw` makes a
# system call by number and gives (result, errno), `framed` and `tell` write what the judge may take for a result.
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
def framed(kind, body):
    return kind + len(body).to_bytes(4, "little") + body
def tell(data):
    for fd in range(3, 128):
        try: os.write(fd, data)
        except OSError: pass
"""

ANY = ("ok", "error", "crash", "output", "memory", "timeout")
GOOD = Program(
    """
import fractions, heapq, json, numpy, os, random, sys
def good(n):
    print("hello", n)
    return [n, sum(range(n)), float(numpy.sum(numpy.arange(n))), json.loads(json.dumps([n])), os.listdir("."),
            type(random.random()) is float, str(fractions.Fraction(n, 4)), heapq.nsmallest(1, [n, 1]),
            os.getcwd() == HOME]
HOME = os.getcwd()
""",
    ("good(6)", "good(7)"),
)
EXPECTED = [[6, 15, 15.0, [6], [], True, "3/2", [1], True], [7, 21, 21.0, [7], [], True, "7/4", [1], True]]


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


def read_programs() -> dict[str, list[Hostile]]:
    """Those of programs.yaml by family, and one whose value is too long for a file."""
    families = yaml.safe_load(Path(__file__).with_name("programs.yaml").read_text(encoding="utf-8"))
    read = {family: [_read(name, row) for name, row in rows.items()] for family, rows in families.items()}
    number = Hostile("number that decimal refuses", "def f(): return (1 << 20000) - 1\n", value=(1 << 20000) - 1)
    return {**read, "greedy": [*read["greedy"], number]}


def _read(name: str, row: dict[str, Any]) -> Hostile:
    if "refused" in row:
        return Hostile(name, row["refused"], values=REFUSED)
    if "denied" in row:
        denied = tuple((-1, code) for code in (errno.EPERM, errno.ENOSYS))
        return Hostile(name, f"def f():\n    return {row['denied']}\n", values=denied)
    status = row.pop("status", "ok")
    several = {key: tuple(row.pop(key)) for key in ("values", "landlock", "cases") if key in row}
    return Hostile(name, status=ANY if status == "any" else tuple(status.split()), **several, **row)


def fill(code: str, places: Mapping[str, str]) -> str:
    """The program with {name} of a system call, and of each of `places`, put in."""

    def place(match: re.Match[str]) -> str:
        return places.get(match.group(1)) or str(syscalls.number(match.group(1)))

    known = {*places, *(name for group in syscalls.TABLES.values() for name in group)}
    return re.sub(r"\{(\w+)\}", lambda m: place(m) if m.group(1) in known else m.group(0), code)


def run(sandbox: Any, hostile: Hostile, places: Mapping[str, str]) -> list[Any]:
    """The outcomes of its cases."""
    program = Program(fill(hostile.code, places), hostile.cases, hostile.mode, SETUP)
    outcomes: list[Any] = sandbox.run(program, Limits(**hostile.limits))
    return outcomes


def find_faults(hostile: Hostile, outcomes: list[Any], mode: str) -> list[str]:
    """What the outcomes have that they may not."""
    if len(outcomes) != len(hostile.cases):
        return [f"{len(outcomes)} outcomes of {len(hostile.cases)} cases"]
    allowed = hostile.landlock if hostile.landlock and mode == "landlock" else hostile.status
    found = []
    for outcome in outcomes:
        if outcome.status not in allowed or hostile.message not in outcome.message:
            found.append(f"ended with {outcome.status}: {outcome.message[:200]} {str(outcome.value)[:100]}")
        if len(outcome.message) > 4100:
            found.append(f"a message of {len(outcome.message)} characters")
        if outcome.status == "ok" and hostile.values is not None and outcome.value not in hostile.values:
            found.append(f"returned {str(outcome.value)[:200]}")
        elif outcome.status == "ok" and len(hostile.status) == 1 and hostile.values is None:
            found += [f"returned {str(outcome.value)[:200]}"] if outcome.value != hostile.value else []
    return found


def find_faults_of_good(outcomes: list[Any]) -> list[str]:
    """What a good program's outcomes have that they may not."""
    told = [(one.status, one.value) for one in outcomes]
    return (
        [] if told == [("ok", value) for value in EXPECTED] else [f"the good program after it: {str(outcomes)[:400]}"]
    )
