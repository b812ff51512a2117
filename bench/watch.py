"""What the live screen costs: CPU seconds of `evo watch`, and what watching does to the run that is watched.

    python bench/watch.py make FILE.db --problems 200 --iterations 200      a synthetic comparison of 4 arms
    python bench/watch.py screen FILE.db --seconds 30                       CPU of `evo watch` on it, ended or growing
    python bench/watch.py slowdown --problems 20 --iterations 60 --turns 4  a real run, watched and unwatched in turns

`screen` opens the comparison on a pseudo-terminal of 160x50 in a process of its own, and reads that process's CPU time
from the kernel: loading first, then each second of watching. With --rate, another process commits so many prompt
groups a second meanwhile. `make` leaves the last --open iterations of every search for it. With -o FILE.json the result
goes there too, under --as NAME, with command, commit, cores and load.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import select
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.synthetic_comparison import NAME, Writer, grow, make  # noqa: E402


class Watched:
    """`evo watch` on a pseudo-terminal, whose output is read and thrown away."""

    def __init__(self, db: str, name: str, columns: int = 160, rows: int = 50) -> None:
        master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "evo", "watch", name, "--db", db],
            stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        os.close(slave)
        self.master, self.written, self.seen = master, 0, b""

    def drain(self, seconds: float) -> None:
        """Read what it paints for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                with contextlib.suppress(OSError):
                    read = os.read(self.master, 65536)
                    self.written += len(read)
                    self.seen = (self.seen + read)[-200_000:]

    def cpu(self) -> float:
        """CPU seconds of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> int:
        os.write(self.master, b"q")
        self.drain(1.0)
        try:
            code = self.process.wait(10)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            os.close(self.master)
        return code


def screen(db: str, seconds: float, settle: float) -> dict[str, Any]:
    """CPU of loading and of every second of watching after that."""
    began = time.monotonic()
    watched = Watched(db, NAME)
    try:
        while b"iterations" not in watched.seen and time.monotonic() - began < 60:
            watched.drain(0.05)
        first = time.monotonic() - began
        watched.drain(settle)
        loading, written = watched.cpu(), watched.written
        started = time.monotonic()
        watched.drain(seconds)
        passed = time.monotonic() - started
        cpu = watched.cpu() - loading
        painted = watched.written - written
    finally:
        code = watched.end()
    return {
        "first_picture_seconds": round(first, 2),
        "cpu_seconds_until_settled": round(loading, 2),
        "watched_seconds": round(passed, 1),
        "cpu_share": round(cpu / passed, 4),
        "bytes_per_second": round(painted / passed),
        "exit": code,
    }


def slowdown(problems: int, iterations: int, turns: int) -> dict[str, Any]:
    """Wall-clock and CPU seconds of one and the same run, watched and unwatched in turns. On a busy machine the CPU
    seconds say more: they hold what waiting for locks and for pages costs the run, and not what others do."""
    wall: dict[str, list[float]] = {"unwatched": [], "watched": []}
    cpu: dict[str, list[float]] = {"unwatched": [], "watched": []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(turns):
            for kind in ("unwatched", "watched") if turn % 2 == 0 else ("watched", "unwatched"):
                db = f"sqlite:///{folder}/{kind}{turn}.db"
                command = [sys.executable, "-m", "evo", "run", "maze:hard", "--limit", str(problems), "--iterations",
                           str(iterations), "--name", NAME, "--db", db, "--plain", "--json"]  # fmt: skip
                run = subprocess.Popen(
                    command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
                )  # fmt: skip
                with _watching(db) if kind == "watched" else contextlib.nullcontext() as watched:
                    while (ended := os.wait4(run.pid, os.WNOHANG))[0] == 0:
                        watched.drain(0.2) if watched else time.sleep(0.2)
                run.returncode = os.waitstatus_to_exitcode(ended[1])
                assert run.stdout is not None
                wall[kind].append(json.loads(run.stdout.read())["seconds"])
                cpu[kind].append(ended[2].ru_utime + ended[2].ru_stime)
                print(f"turn {turn + 1} {kind}: {wall[kind][-1]:.2f} s, {cpu[kind][-1]:.2f} s of CPU", flush=True)
    found: dict[str, Any] = {}
    for name, taken in (("wall", wall), ("cpu", cpu)):
        ratios = [w / u for w, u in zip(taken["watched"], taken["unwatched"], strict=True)]
        found |= {f"{name}_{kind}": [round(s, 2) for s in of] for kind, of in taken.items()}
        found[f"{name}_median_ratio"] = round(statistics.median(ratios), 3)
    return found


@contextlib.contextmanager
def _watching(db: str) -> Iterator[Watched]:
    """A screen on the run as soon as the run is there."""
    from islands.errors import DatabaseUnavailable
    from islands.store import Store

    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(DatabaseUnavailable), Store.open(db, read_only=True) as store:
            if store.runs():
                break
        time.sleep(0.1)
    watched = Watched(db, NAME)
    try:
        yield watched
    finally:
        watched.end()


def keep(found: dict[str, Any], output: str | None, label: str) -> None:
    """Print the result; write it to the file beside those that are there."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    state = {"command": shlex.join(["python", "bench/watch.py", *sys.argv[1:]]), "commit": commit.stdout.strip(),
             "cores": os.cpu_count(), "load": [round(load, 1) for load in os.getloadavg()]}  # fmt: skip
    print(json.dumps({**found, **state}))
    if output:
        file = Path(output)
        kept = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**kept, label: {**found, **state}}, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "screen", "slowdown"])
    parser.add_argument("file", nargs="?", default="watch.db")
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--open", type=int, default=0, help="iterations left uncommitted, for --rate")
    parser.add_argument("--rate", type=float, default=0.0, help="groups a second that are committed meanwhile")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--settle", type=float, default=15.0, help="seconds of watching before it is measured")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("-o", "--output", help="a JSON file that keeps the results of several calls")
    parser.add_argument("--as", dest="label", help="its name there; default: screen, growing or slowdown")
    options = parser.parse_args()
    db = f"sqlite:///{Path(options.file).absolute()}"
    if options.what == "slowdown":
        keep(slowdown(options.problems, options.iterations, options.turns), options.output, options.label or "slowdown")
        return
    writers: list[Writer] = []
    if options.what == "make" or options.rate:
        if options.rate and Path(options.file).exists():
            parser.error(f"{options.file} is there already; --rate makes its own")
        began = time.monotonic()
        writers = make(db, options.problems, options.iterations, options.seeds, options.open)
        print(f"{options.file}: {Path(options.file).stat().st_size / 1e6:.0f} MB in {time.monotonic() - began:.0f} s")
    if options.what == "make":
        return
    growing = os.fork() if options.rate else 0
    if options.rate and growing == 0:
        for writer in writers:
            writer.store = type(writer.store).open(db)  # connections do not survive a fork
        grow(writers, options.rate, options.settle + options.seconds + 5)
        os._exit(0)
    label = options.label or ("growing" if growing else "screen")
    keep(screen(db, options.seconds, options.settle), options.output, label)
    if growing:
        os.waitpid(growing, 0)


if __name__ == "__main__":
    main()
