"""What the live screen costs: CPU seconds of `evo watch`, and what watching does to the run that is watched.

    python bench/watch.py make FILE.db --problems 200 --iterations 200      a synthetic comparison of 4 arms
    python bench/watch.py screen FILE.db --seconds 30                       CPU of `evo watch` on it, ended or growing
    python bench/watch.py slowdown --problems 20 --iterations 60 --turns 4  a real run, watched and unwatched in turns

`screen` opens the comparison on a pseudo-terminal of 160x50 in a process of its own, and reads that process's CPU time
from the kernel: loading first, then each second of watching. With --rate, another process commits so many prompt
groups a second meanwhile. `make` leaves the last --open iterations of every search for it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import select
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

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
ARMS = {"base": 0.010, "best-of-n": 0.008, "grpo": 0.006, "vpo": 0.014}
"""Chance of an iteration to solve, of the easiest problem."""
NAME = "synthetic"
OBJECTIVES = ("completion", "gold", "diamond", "safety")


class Writer:
    """Commits prompt groups like a search does, as far as a reader can tell, but of random answers."""

    def __init__(self, store: Any, run_id: int, problems: list[Any], chance: float, seed: int) -> None:
        self.store, self.run_id, self.problems, self.chance = store, run_id, problems, chance
        self.rng = np.random.default_rng(seed)
        self.sequence = 0
        self.best = [0.0] * len(problems)
        self.solved = [False] * len(problems)

    def commit(self, groups: int) -> None:
        """The next groups, in one transaction, over the problems in turns."""
        from sqlalchemy import func, insert, select, update

        from islands.db.schema import Answer, Candidate, Elite, Improvement, Problem, PromptGroup, Rollout, table

        rng, now = self.rng, time.time()
        with self.store.begin() as tx:
            connection = tx.connection
            policy = self.store.policy_version(self.run_id, "synthetic@1", tx)
            first = {m: (connection.execute(select(func.max(m.id))).scalar() or 0) + 1
                     for m in (PromptGroup, Rollout, Candidate)}  # fmt: skip
            rows: dict[Any, list[dict[str, Any]]] = {m: [] for m in (PromptGroup, Rollout, Candidate, Answer, Elite)}
            risen: dict[tuple[int, int], dict[str, Any]] = {}
            for n in range(groups):
                index = self.sequence % len(self.problems)
                problem, iteration = self.problems[index], self.sequence // len(self.problems)
                group, rollout = first[PromptGroup] + n, first[Rollout] + n
                rows[PromptGroup].append(dict(
                    id=group, run_id=self.run_id, problem_id=problem.id, sequence=self.sequence, iteration=iteration,
                    island=iteration % 5, parent_id=None, inspirations=[], user="x" * 600, system="", prompt_ids=b"",
                    stream=self.sequence, seed=0, temperature=1.0, policy_version_id=policy, answers=3,
                    sampling_seconds=0.01, scoring_seconds=0.001, created=now,
                ))  # fmt: skip
                rows[Rollout].append(dict(
                    id=rollout, group_id=group, position=0, text="R" * 80, token_ids=b"", logprobs=b"", finish="stop",
                    format_error=None,
                ))  # fmt: skip
                for answer in range(3):
                    candidate = first[Candidate] + 3 * n + answer
                    solves = rng.random() < self.chance * (1 - index / len(self.problems)) / 3
                    vector = rng.integers(0, 5, len(OBJECTIVES)) / 4
                    fitness = 1.0 if solves else float(min(0.99, vector.mean() * (0.9 + 0.1 * rng.random())))
                    rows[Candidate].append(dict(
                        id=candidate, problem_id=problem.id, group_id=group, sequence=self.sequence,
                        identity=rng.bytes(16), text="R" * 40, rewards=vector.tolist(), fitness=fitness,
                        features={"length": 0.5}, measures=[0.5], feedback="Reached the end in 20 of 27 steps.",
                        error=None if rng.random() < 0.9 else "invalid", generation=1, island=iteration % 5,
                        parent_id=max(1, candidate - 3), created=now,
                    ))  # fmt: skip
                    rows[Answer].append(
                        dict(rollout_id=rollout, position=answer, candidate_id=candidate, repeat=False, seconds=0.001)
                    )
                    if iteration < 15:
                        rows[Elite].append(dict(
                            problem_id=problem.id, island=iteration % 5, cell=f"{iteration}-{answer}",
                            candidate_id=candidate, sequence=self.sequence,
                        ))  # fmt: skip
                    if fitness >= 1.0 and not self.solved[index]:
                        self.solved[index] = True
                        values = {"solved_sequence": self.sequence, "status": "solved"}
                        connection.execute(update(Problem).where(Problem.id == problem.id).values(**values))
                    if fitness > self.best[index] and rows[Candidate][-1]["error"] is None:
                        self.best[index] = fitness
                        connection.execute(
                            update(Problem).where(Problem.id == problem.id).values(best=candidate, best_fitness=fitness)
                        )
                        risen[problem.id, self.sequence] = dict(
                            problem_id=problem.id, sequence=self.sequence, candidate_id=candidate, fitness=fitness
                        )
                self.sequence += 1
            rows[Improvement] = list(risen.values())
            for mapped, of in rows.items():
                if of:
                    connection.execute(insert(table(mapped)), of)


def make(path: str, problems: int, iterations: int, seeds: int, left: int) -> list[Writer]:
    """A comparison of four arms, all but the last `left` iterations of each search committed."""
    from islands.db.comparisons import PlannedRun, plan, runs_named
    from islands.db.store import Store

    config = dict(problems=[f"maze:hard/{i}" for i in range(problems)], iterations=iterations, rollouts=1, answers=3,
                  policy="synthetic", until_solved=False, max_answers=None, max_seconds=None)  # fmt: skip
    store = Store.open(path)
    planned = [PlannedRun(arm, seed, {**config, "seed": seed}) for seed in range(seeds) for arm in ARMS]
    plan(store, NAME, planned, command="bench", commit="")
    writers = []
    for run in runs_named(store, NAME):
        store.finish_run(run.id, "running" if left else "done")
        with store.begin() as tx:
            rows = [
                store.add_problem(run.id, i, f"maze:hard/{i}", f"maze:hard/{i}", OBJECTIVES, 1.0, "route", tx)
                for i in range(problems)
            ]
        writers.append(Writer(store, run.id, rows, ARMS[str(run.arm)], run.id))
    for writer in writers:
        for start in range(0, problems * (iterations - left), 5_000):
            writer.commit(min(5_000, problems * (iterations - left) - start))
    return writers


def grow(writers: list[Writer], rate: float, seconds: float) -> None:
    """Commit `rate` groups a second over all runs, with telemetry once a second, as searches do."""
    began, done, told = time.time(), 0, 0.0
    while (passed := time.time() - began) < seconds:
        due = int(passed * rate) - done
        for writer in writers:
            share = max(1, due // len(writers))
            if due > 0:
                writer.commit(share)
                done += share
        if passed - told >= 1.0:
            told = passed
            for writer in writers:
                summary = dict(answers_per_second=rate * 3 / len(writers), tokens_per_second=rate * 60, policy_busy=0.9,
                               scoring_queue=3, answers=done, tokens=done * 60, groups=done, migrations=1, repeats=2,
                               errors={"invalid": done // 10, "format": 3}, seconds=passed, at=time.time())  # fmt: skip
                writer.store.finish_run(writer.run_id, "running", summary=summary)
        time.sleep(0.1)


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
    from islands.db.store import Store
    from islands.errors import DatabaseUnavailable

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
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    db = f"sqlite:///{Path(options.file).absolute()}"
    if options.what == "slowdown":
        print(json.dumps(slowdown(options.problems, options.iterations, options.turns)))
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
    print(json.dumps(screen(db, options.seconds, options.settle)))
    if growing:
        os.waitpid(growing, 0)


if __name__ == "__main__":
    main()
