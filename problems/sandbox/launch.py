"""How a worker process begins: its command line, the code that it is sent, what it is told."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import json
import marshal
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from problems.sandbox import mounts, scratch
from problems.sandbox.contract import EvaluatorSpec, Limits, SandboxFault

_SOURCES = (
    *("wire", "syscalls", "confinement", "channels", "judge", "program"),
    *("scorer", "supervision", "evaluation", "zygote"),
)
_BOOT = """
import marshal, os, sys, types
descriptor = int(sys.argv[1])
def take(count):
    data = b""
    while len(data) < count:
        part = os.read(descriptor, count - len(data))
        if not part: os._exit(0)
        data += part
    return data
bundle = marshal.loads(take(int.from_bytes(take(4), "little")))
package = types.ModuleType("_evo_child"); package.__path__ = []; sys.modules["_evo_child"] = package
for name, code in bundle["modules"]:
    module = types.ModuleType("_evo_child." + name); module.__package__ = "_evo_child"
    sys.modules["_evo_child." + name] = module; setattr(package, name, module)
    exec(code, module.__dict__)
sys.modules["_evo_child.zygote"].main(bundle["config"])
"""
_serial = itertools.count(1)


class _Spawner:
    """The one thread that starts workers: they die with the thread that made them, and a caller's may end early. No
    executor's, which would end before the sandbox is closed at the end of the process, and kill them."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]]
        self._asked = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="sandbox-spawner", daemon=True).start()

    def submit(self, spawn: Callable[[], subprocess.Popen[bytes]]) -> Future[subprocess.Popen[bytes]]:
        future: Future[subprocess.Popen[bytes]] = Future()
        self._asked.put((spawn, future))
        return future

    def _serve(self) -> None:
        while True:
            spawn, future = self._asked.get()
            try:
                future.set_result(spawn())
            except BaseException as error:  # noqa: BLE001 - raised where it was asked for
                future.set_exception(error)


@functools.cache
def _spawner() -> _Spawner:
    return _Spawner()


os.register_at_fork(after_in_child=_spawner.cache_clear)  # threads do not cross a fork


@functools.cache
def _modules() -> list[tuple[str, CodeType]]:
    """The worker's modules as compiled code, which Python keeps beside their sources as it does for any import: a
    worker of the same interpreter would take 40 ms to compile them."""
    folder, found = Path(__file__).parent / "child", []
    for name in _SOURCES:
        code = SourceFileLoader(name, str(folder / f"{name}.py")).get_code(name)
        assert code is not None
        found.append((name, _of_file(code, f"<sandbox {name}>")))
    return found


def _of_file(code: CodeType, file: str) -> CodeType:
    """The same code with this as its file, since the worker has none of ours."""
    parts = tuple(_of_file(part, file) if isinstance(part, CodeType) else part for part in code.co_consts)
    return code.replace(co_filename=file, co_consts=parts)


@dataclass(frozen=True)
class Plan:
    """prefix: the command line before the interpreter. folder: scratch, as the worker names it. environment: of the
    interpreter."""

    prefix: list[str]
    folder: str
    config: dict[str, Any]
    environment: dict[str, str]


def plan(
    mode: str,
    limits: Limits,
    spec: EvaluatorSpec | None,
    preload: tuple[str, ...],
    changed: dict[str, str],
) -> Plan:
    """For a worker of `mode`: a program's, or with `spec` a scorer's. Makes the scratch folder unless bwrap does.

    changed: variables of its interpreter
    """
    reach = mounts.reach((spec.path, *spec.readable) if spec else ())
    root = os.geteuid() == 0
    binary = mounts.bwrap_binary() or "bwrap"
    user_namespace = mode == "bwrap" and mounts.needs_user_namespace(binary)
    # a user id that nobody else has, so that limits and files are each worker's own
    drop = root and mode != "none" and not user_namespace
    uid = 1_800_000_000 + os.getpid() % 100_000 * 1000 + next(_serial) % 1000 if drop else None
    # another user than root could not enter a folder of root's own (mode 0700), such as a scorer's; what may be
    # read is Landlock's and the mount namespace's to say
    private = any(map(mounts.private, reach.exposed)) if mode == "landlock" else spec is not None
    read_everywhere = drop and private
    if mode == "bwrap":
        folder = "/scratch" if reach.beneath("/tmp") else "/tmp"
        prefix = mounts.bwrap_command(binary, reach, folder, limits.scratch, user_namespace, read_everywhere)
    else:
        folder, prefix = scratch.make(uid), []
    # a limit on a user counts all that the user runs, unless that user is the worker's own
    others = _user_threads() + 448 if mode == "none" or (mode == "landlock" and not root) else 0
    environment: dict[str, str] = {}
    if spec is not None:
        environment = {**(mounts.environment() if spec.isolated else os.environ), **changed, **spec.environment}
    config = {
        "mode": mode,
        "profile": "program" if spec is None else "evaluation",
        "uid": uid,
        "read_everywhere": read_everywhere,
        "exposed": reach.exposed,
        "hidden": reach.hidden,
        "site": reach.site,
        "preload": [name for name in preload if importlib.util.find_spec(name)],
        "scratch": folder,
        "scratch_size": limits.scratch,
        "threads": 64 + others,
        "path": os.path.abspath(spec.path) if spec else "",
        "environment": environment,
        "builds": spec is not None and spec.builds,
    }
    return Plan(prefix, folder, config, {**mounts.environment(), **changed})


def bundle(plan: Plan, descriptors: tuple[int, ...]) -> bytes:
    """What the worker reads first: its code and its configuration, the latter as JSON has it."""
    config = json.loads(json.dumps({**plan.config, "descriptors": descriptors}))
    data = marshal.dumps({"modules": _modules(), "config": config})
    return len(data).to_bytes(4, "little") + data


def start(plan: Plan, descriptors: tuple[int, ...], feed: int, stderr: int) -> subprocess.Popen[bytes]:
    """The process, with `descriptors` of ours, reading its bundle from `feed`. Raises SandboxFault."""
    command = [*plan.prefix, sys.executable, "-s", "-P", "-c", _BOOT, str(feed)]

    def spawn() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=descriptors,
            env=plan.environment,
            cwd="/",
            start_new_session=True,
        )

    try:
        return _spawner().submit(spawn).result()
    except OSError as error:
        raise SandboxFault(f"a worker could not start: {error}") from error


def _user_threads() -> int:
    """How many threads this user runs, by the kernel's count of a limit on them."""
    mine, count = os.getuid(), 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == mine:
                    count += len(os.listdir(entry / "task"))
    return count
