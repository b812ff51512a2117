"""Processes that need not import what takes seconds to import: forks of one that has imported it already.

    Forked([sys.executable, "-m", "evo", "runs"], stdout=subprocess.PIPE, text=True)

is a subprocess.Popen whose interpreter is a fork of a server of this test session. The server runs one thread and has
opened nothing, so that a fork of it is a fresh interpreter but for its modules: arguments, environment, directory,
streams, signals and the way it ends are those of a process that was started, and its parent is the test's process.
Where the start itself is the point, use subprocess. Linux alone has forks of this kind.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PR_SET_CHILD_SUBREAPER = 36
ORDER_BYTES = 1 << 18
FREE = 100
"""Descriptors from here on are nobody's in a server."""
COMMANDS = (
    *(f"evo.cli.{name}" for name in ("run", "resume", "compare", "evaluate", "pipeline", "report")),
    *("psycopg", "islands.store"),
    *("pygments.lexers.html", "pygments.lexers.python", "problems.registry", "vpo.chain.parsing", "scipy.stats"),
)
MODELS = (
    *("torch", "torch._dynamo.config", "vpo.hf.load", "transformers.models.llama.modeling_llama", "peft"),
    *("transformers.models.qwen2.modeling_qwen2", "evo.cli.train", "vpo.training.trainer"),
)


class _Server:
    """A process that has imported modules and forks when it is told to."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._orders = 0
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ORDER_BYTES)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), *modules],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C at the terminal is the tests' to answer
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        theirs.close()

    def fork(self, order: dict[str, Any], descriptors: list[int]) -> int:
        """The pid of the new child of this process."""
        prctl = ctypes.CDLL(None).prctl
        with _FORKING:
            self._orders += 1
            prctl(PR_SET_CHILD_SUBREAPER, 1)  # the child's father ends at once, and it becomes ours
            try:
                socket.send_fds(self._socket, [pickle.dumps({**order, "number": self._orders})], descriptors)
                number = -1
                while number != self._orders:  # an interrupt may have left the answer to an earlier order
                    told = self._socket.recv(64)
                    if not told:
                        raise RuntimeError(f"the server of warm processes ended with {self._process.wait()}")
                    number, pid = map(int, told.split())
            finally:
                prctl(PR_SET_CHILD_SUBREAPER, 0)
        return pid


_SERVERS: dict[tuple[str, ...], _Server] = {}
_FORKING = threading.Lock()
"""One order at a time in this process: another one's end would stop it from adopting children."""


class Forked(subprocess.Popen[Any]):
    """subprocess.Popen of `sys.executable [-P] [-m MODULE | -c CODE] ARGUMENTS...`."""

    modules: tuple[str, ...] = COMMANDS
    terminal = False
    """Whether its standard input becomes the terminal that controls its session, as a login does it."""

    def _execute_child(  # type: ignore[override]
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
        start_new_session, *others,
    ) -> None:  # fmt: skip
        server = _SERVERS.get(self.modules)
        if server is None:
            server = _SERVERS[self.modules] = _Server(self.modules)
        given = {0: p2cread, 1: c2pwrite, 2: errwrite}
        targets = {target: own if own != -1 else target for target, own in given.items()}
        targets |= {descriptor: descriptor for descriptor in pass_fds}
        order = {
            "words": list(map(str, args[1:])),
            "environment": dict(os.environ if env is None else env),
            "directory": str(cwd or Path.cwd()),
            "session": start_new_session,
            "terminal": self.terminal,
            "parent": os.getpid(),
            "targets": list(targets),
        }
        self.pid = server.fork(order, list(targets.values()))
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


class ForkedOnTerminal(Forked):
    """Has what `evo watch` and a live screen need, and a terminal of its own."""

    modules = (*COMMANDS, "evo.cli.watch", "evo.cli.live", "evo.tui.app", "evo.progress.model")
    terminal = True


class ForkedWithModels(Forked):
    """Has torch, transformers and the trainer too."""

    modules = (*COMMANDS, *MODELS)


def in_place_of_subprocess(kind: type[Forked] = Forked) -> Any:
    """The module subprocess for a module of the product, whose interpreters are then forks."""

    def popen(command: Any, *arguments: Any, **options: Any) -> subprocess.Popen[Any]:
        made = kind if command[0] == sys.executable else subprocess.Popen
        return made(command, *arguments, **options)

    return types.SimpleNamespace(**{**vars(subprocess), "Popen": popen})


# --- the server, and what becomes of a fork of it


def _serve(descriptor: int, modules: list[str]) -> Callable[[], object]:
    """Fork as told. Returns, in a fork alone, what it is to do."""
    known = [entry for entry in sys.path[1:] if entry != str(ROOT)]
    for name in modules:
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page
    with socket.socket(fileno=descriptor) as orders:
        while True:
            message, ancillary, _, _ = orders.recvmsg(ORDER_BYTES, socket.CMSG_SPACE(64 * 4))
            if not message:
                os._exit(0)
            received = array.array("i")
            for _, _, data in ancillary:
                received.frombytes(data)
            order = pickle.loads(message)
            pid = _fork_twice()
            if pid == 0:
                orders.detach()
                os.close(descriptor)
                return _become(order, list(received), known)
            for one in received:
                os.close(one)
            orders.send(f"{order['number']} {pid}".encode())


def _fork_twice() -> int:
    """0 in the grandchild, whose father is gone; its pid in the server."""
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        pid = os.fork()
        if pid:
            os.write(writer, str(pid).encode())
            os._exit(0)
        os.close(reader)
        os.close(writer)
        return 0
    os.waitpid(middle, 0)
    os.close(writer)
    pid = int(os.read(reader, 64))
    os.close(reader)
    return pid


def _become(order: dict[str, Any], received: list[int], known: list[str]) -> Callable[[], object]:
    """Make this process the one that was ordered; its work."""
    deadline = time.monotonic() + 20
    while os.getppid() != order["parent"]:
        if time.monotonic() > deadline:
            os._exit(98)
        time.sleep(0.0005)
    if order["session"]:
        os.setsid()
    os.chdir(order["directory"])
    free = [fcntl.fcntl(one, fcntl.F_DUPFD, FREE) for one in received]
    for one in received:
        os.close(one)
    for one, target in zip(free, order["targets"], strict=True):
        os.dup2(one, target)
        os.close(one)
    if order["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(order["environment"])
    now = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False))
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            os.fdopen(number, "wb", closefd=False),
            encoding=os.environ.get("PYTHONIOENCODING", "utf-8"),
            errors="backslashreplace" if number == 2 else "strict",
            line_buffering=number == 2 or "PYTHONUNBUFFERED" in os.environ,
        )
        for number in (1, 2)
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    words = order["words"]
    apart = [words.pop(0) for _ in range(len(words)) if words[0] in ("-P", "-B")]
    kind, what, *rest = words
    here = [] if "-P" in apart else [""] if kind == "-c" else [str(Path.cwd())]
    sys.path[:] = [*here, *now, *known]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # a server that was started with it blocked
    sys.argv = [kind, *rest]
    if kind == "-m":
        return lambda: runpy.run_module(what, run_name="__main__", alter_sys=True)
    return lambda: exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


def _work(work: Callable[[], object]) -> None:
    """Do it and end as an interpreter does, but for taking apart, object by object, all that was imported."""
    code = 1

    def end() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        if code < 0:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)

    atexit.register(end)  # the first is called last, after all threads have ended
    try:
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        raise
    except KeyboardInterrupt:
        code = -signal.SIGINT
        raise


if __name__ == "__main__":
    _work(_serve(int(sys.argv[1]), sys.argv[2:]))
