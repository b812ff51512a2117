"""One life of an `evo` command under bench/soak.py: begun as a fork, killed -9 with what it started, and looked after.

The process that calls this is the subreaper of all it begins: whatever outlives its parent becomes its child, so that
an orphan is found wherever it went, and is ended by its own id.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
SCORED = "EVO_SOAK_SCORED"
"""Names the file that a life adds to what it scores: problem and text of the answer, hashed."""
POLL_SECONDS = 0.004


def become_subreaper() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)


def answer_key(problem: str, text: str) -> str:
    return blake2b(f"{problem}\0{text}".encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    found = children(pid)
    for one in found:  # grows meanwhile
        found += children(one)
    return found


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return ""


def cpu_seconds(pid: int) -> float:
    """Processor time of a whole process; 0 for one that is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


class Life:
    """`evo ARGUMENTS` in a session of its own.

    folder: its working directory; what it writes is in folder/out and folder/err, its temporary files in folder/tmp
    """

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self.arguments, self.folder = list(arguments), folder
        self.code: int | None = None
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        (folder / "tmp").chmod(0o777)  # evaluations run as users of their own
        self.scored_file = folder / "scored"
        self.scored_file.write_text("")
        own = {"TMPDIR": str(folder / "tmp"), SCORED: str(self.scored_file), "OMP_NUM_THREADS": "1"}
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _live(self.arguments, folder, own)

    def poll(self) -> int | None:
        """Its exit code once it has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def wait(self, seconds: float) -> int | None:
        until = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        return self.code

    def work(self, seconds: float, patience: float) -> None:
        """Until it has used so much more processor time with all that it started, or ended, or `patience` is over. The
        processor's time, so that a kill falls into the same part of the work on a busy machine."""
        until, begun = time.monotonic() + patience, self._used()
        while self.poll() is None and time.monotonic() < until and self._used() - begun < seconds:
            time.sleep(POLL_SECONDS)

    def _used(self) -> float:
        return cpu_seconds(self.pid) + sum(map(cpu_seconds, descendants(self.pid)))

    def kill(self, pids: Sequence[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def said(self) -> str:
        return (self.folder / "err").read_text(errors="replace")

    def scored(self) -> list[str]:
        return self.scored_file.read_text().split()


def orphans_after(known: set[int], seconds: float) -> list[tuple[int, str]]:
    """What of all that was begun is still there after `seconds`, (pid, command line); it is ended. Those that ended in
    time are reaped. known: processes that are meant to be there."""
    until = time.monotonic() + seconds
    while left := _reap(known):
        if time.monotonic() > until:
            found = [(pid, words_of(pid)) for root in left for pid in [root, *descendants(root)]]
            for pid, _ in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)
            _reap(known)
            return found
        time.sleep(0.02)
    return []


def _reap(known: set[int]) -> list[int]:
    """Our children that still run, but for those that are known."""
    left = []
    for pid in children(os.getpid()):
        if pid in known:
            continue
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                left.append(pid)
    return left


def _live(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """In the fork: what `python -m evo ARGUMENTS` does, and ends as that does. Never returns."""
    code = 98
    try:
        os.setsid()
        os.chdir(folder)
        for number, name, how in ((0, os.devnull, os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
            opened = os.open(name, how | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(opened, number)
            os.close(opened)
        os.environ.update(environment)
        tempfile.tempdir = None  # found anew
        sys.argv = ["evo", *arguments]
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _log_scores()
        from evo.cli import invoke

        try:
            code = invoke(arguments)
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 1
        threading._shutdown()  # type: ignore[attr-defined]  # as an interpreter ends: threads first
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    finally:
        os._exit(code)


def _log_scores() -> None:
    """Every answer that this process scores is noted in the file that SCORED names."""
    from problems import scoring

    judge, log = scoring.checked_score, os.open(os.environ[SCORED], os.O_WRONLY | os.O_APPEND)

    def noted(problem, answer):  # noqa: ANN001, ANN202
        os.write(log, f"{answer_key(problem.name, answer)}\n".encode())
        return judge(problem, answer)

    scoring.checked_score = noted
