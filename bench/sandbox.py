"""How many trivial candidates a second the sandbox runs, beside what forking alone costs here, and where the time goes.

    python -m bench.sandbox [--seconds 3] [--workers 2] [--evaluations 100] [--json]

Rows: a bare fork of an interpreter; the same fork running the candidate's Python with nothing around it; and
Sandbox.run in every mode that can be had, from two threads per worker. All in one process, in turns, best of the turns
(others may be using the machine). Then, for one candidate at a time, who used the CPU.

The same for one evaluation of an OpenEvolve directory with a trivial evaluator, and for one trivial program: CPU
milliseconds of this process, of the workers, and of the forks that they waited for, user and system, the least of the
turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from problems import resolve
from problems.sandbox import close_shared_sandbox, set_sandbox_mode
from problems.sandbox.contract import Limits, Program
from problems.sandbox.pool import Sandbox, cases_task, probe, read_case

TRIVIAL = Program("def f(x):\n    return x + 1\n", ("f(1)",))
LIMITS = Limits()
_FORK = """
import gc, json, os, sys, time
def candidate():
    space = {}
    exec(compile("def f(x):\\n    return x + 1\\n", "<answer>", "exec"), space)
    json.dumps(eval(compile("f(1)", "<case>", "eval"), space))
def rate(work, seconds):
    done, until = 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        pid = os.fork()
        if pid == 0:
            work()
            os._exit(0)
        os.waitpid(pid, 0)
        done += 1
    return done / seconds
candidate(); gc.collect(); gc.freeze(); gc.disable()
print(rate({"bare": lambda: None, "candidate": candidate}[sys.argv[1]], float(sys.argv[2])))
"""


def fork_rate(what: str, seconds: float, processes: int) -> float:
    """Forks a second of `processes` interpreters side by side."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([sys.executable, "-c", _FORK, what, str(seconds)], stdout=subprocess.PIPE, env=environment)
        for _ in range(processes)
    ]
    return sum(float(process.communicate()[0]) for process in running)


def sandbox_rate(sandbox: Sandbox, seconds: float, threads: int) -> float:
    """Candidates a second through Sandbox.run, called from `threads` threads."""
    counts = [0] * threads
    until = time.perf_counter() + seconds

    def call(who: int) -> None:
        while time.perf_counter() < until:
            (outcome,) = sandbox.run(TRIVIAL, LIMITS)
            assert outcome.value == 2, outcome
            counts[who] += 1

    started = time.perf_counter()
    callers = [threading.Thread(target=call, args=(who,)) for who in range(threads)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return sum(counts) / (time.perf_counter() - started)


def shares(sandbox: Sandbox, count: int) -> dict[str, float]:
    """Milliseconds per candidate, one at a time: elapsed, the parent's CPU, the fork's (and its confinement's)."""
    sandbox.run(TRIVIAL, LIMITS)
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    forks = 0.0
    with sandbox.programs.lend() as worker:
        task = cases_task(TRIVIAL, TRIVIAL.cases)
        for _ in range(count):
            with worker.run(task, LIMITS):
                assert len(list(worker.results(read_case))) == 2
            forks += worker.cpu_seconds
    elapsed = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    parent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "elapsed_ms": 1000 * elapsed / count,
        "parent_cpu_ms": 1000 * parent / count,
        "candidate_cpu_ms": 1000 * forks / count,
        "worker_and_switching_ms": 1000 * (elapsed - parent - forks) / count,
    }


EVALUATOR = """
import importlib.util
def evaluate(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return {"value": program.search(2, 5)}
"""
INITIAL = """# EVOLVE-BLOCK-START
def search(start, steps):
    return start + steps
# EVOLVE-BLOCK-END
"""


def worker_ticks() -> tuple[float, float]:
    """CPU seconds of the processes below this one, and of the children that they have waited for."""
    rows: dict[int, list[str]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                rows[int(place.name)] = (place / "stat").read_text().rpartition(")")[2].split()
    below = {os.getpid()}
    while more := {pid for pid, row in rows.items() if int(row[1]) in below and pid not in below}:
        below |= more
    below.discard(os.getpid())
    own, waited = (sum(sum(map(int, rows[pid][at : at + 2])) for pid in below) for at in (11, 13))
    return own / os.sysconf("SC_CLK_TCK"), waited / os.sysconf("SC_CLK_TCK")


def cpu_of(work: Callable[[int], None], count: int, turns: int) -> dict[str, float]:
    """CPU milliseconds of one call of `work`, which is told its number."""
    found = []
    for turn in range(turns):
        for number in range(10):
            work(turn * 100_000 + number)
        before, began = worker_ticks(), time.process_time()
        for number in range(10, 10 + count):
            work(turn * 100_000 + number)
        parent = time.process_time() - began
        workers, forks = (now - then for now, then in zip(worker_ticks(), before, strict=True))
        found.append([1000 * seconds / count for seconds in (parent + workers + forks, parent, workers, forks)])
    return dict(zip(("cpu_ms", "parent_ms", "workers_ms", "forks_ms"), min(found), strict=True))


def evaluations(mode: Any, count: int, turns: int) -> dict[str, dict[str, float]]:
    """`cpu_of` one evaluation of a directory, and of one program."""
    set_sandbox_mode(mode)
    rows = {}
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            (folder / "evaluator.py").write_text(EVALUATOR)
            (folder / "initial_program.py").write_text(INITIAL)
            (problem,) = resolve(name)
            assert problem.fault is None, problem.fault
            seed = problem.seed_answer()

            def work(number: int) -> None:
                score = problem.score(seed.replace("return", f"_ = {number}\n    return"))
                assert score.rewards == (7,), score

            rows["evaluation"] = cpu_of(work, count, turns)
        with Sandbox(mode, 1) as sandbox:
            rows["program"] = cpu_of(lambda _: (sandbox.run(TRIVIAL, LIMITS), None)[1], count, turns)
    finally:
        close_shared_sandbox()
    return rows


def measure(seconds: float, workers: int, count: int, turns: int = 3) -> dict[str, Any]:
    modes = [mode for mode in ("bwrap", "landlock", "none") if probe(mode) is None]
    sandboxes = {mode: Sandbox(mode, workers) for mode in modes}  # type: ignore[arg-type]
    rates: dict[str, list[float]] = {}
    try:
        for sandbox in sandboxes.values():
            sandbox_rate(sandbox, 0.3, 2 * workers)
        for _ in range(turns):
            for what in ("bare", "candidate"):
                rates.setdefault(f"fork, {what}", []).append(fork_rate(what, seconds / turns, workers))
            for mode, sandbox in sandboxes.items():
                rates.setdefault(f"sandbox, {mode}", []).append(sandbox_rate(sandbox, seconds / turns, 2 * workers))
        split = {mode: shares(sandbox, 200) for mode, sandbox in sandboxes.items()}
    finally:
        for sandbox in sandboxes.values():
            sandbox.close()
    used = {mode: evaluations(mode, count, turns) for mode in modes}
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "workers": workers,
        "per_second": {name: {"best": max(found), "all": found} for name, found in rates.items()},
        "one_at_a_time": split,
        "evaluations": used,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--evaluations", type=int, default=100, help="of each kind, in each of three turns")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.seconds, options.workers, options.evaluations)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{found['cpus']} CPUs, load {found['load']:.1f}, {found['workers']} workers")
    print(f"{'':24}{'a second, best':>16}{'worst':>10}")
    for name, row in found["per_second"].items():
        print(f"{name:24}{row['best']:16.0f}{min(row['all']):10.0f}")
    print("one candidate at a time, milliseconds:")
    for mode, row in found["one_at_a_time"].items():
        print(f"  {mode:10}" + "  ".join(f"{name[:-3]} {value:.2f}" for name, value in row.items()))
    print("one evaluation, CPU milliseconds:")
    for mode, kinds in found["evaluations"].items():
        for kind, row in kinds.items():
            print(f"  {mode:10}{kind:8}" + "  ".join(f"{name[:-3]} {value:.2f}" for name, value in row.items()))


if __name__ == "__main__":
    main()
