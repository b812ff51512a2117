"""Every hostile program through the sandbox, each followed by a good one that must be scored right.

    python -m bench.hostile [--mode bwrap|landlock] [--only WORD] [--every N] [--evaluator] [--json]

The programs are those of tests/problems/hostile: the hand-written ones and the families. They run through Sandbox.run
alone, never outside it. A program is survived where its outcome is one that it may have, the good program after it is
scored right, and none of these saw it: a file that anyone may write, a listening socket of either family, a process of
the same user, the folders for temporary files. What is left of the workers is looked for at the end.

With --evaluator each is the candidate of an OpenEvolve evaluator that imports it and gives it a function, so the two
share a process: the candidate may forge or fault its own evaluation, and may start processes there. It is survived if
the good program after it gets its metrics, nothing outside saw it, and it takes no longer than its time. A fault stops
the problem in a search: an evaluation that blames the evaluator.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from problems import ScorerFault, resolve
from problems.sandbox import close_shared_sandbox, set_sandbox_mode
from problems.sandbox.contract import Limits, Program
from problems.sandbox.pool import Sandbox, probe

ROOT = Path(__file__).resolve().parents[1]
HOSTILE = ROOT / "tests" / "problems" / "hostile"
SECRET = "secret-of-the-user"
SECONDS = 2.0
GOOD = "def run(told):\n    return told(20)\n"
EVALUATOR = """
import importlib.util

def evaluate(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return {"combined_score": 1.0 if program.run(lambda n: n + 1) == 21 else 0.0, "halves": 0.5}
"""
CONFIG = f"evaluator:\n  timeout: {SECONDS}\n  cascade_evaluation: false\n  memory_limit_mb: 512\n"
Tried = tuple[list[str], float, list[str]]
"""How a program ended, the seconds that it took, and what was wrong."""


class Witness:
    """What a program that got out would touch: it is all on this machine, and nobody else's."""

    def __init__(self, folder: Path) -> None:
        self.secret = folder / "secret.txt"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o666)
        folder.chmod(0o777)
        self.sockets = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
        self.sockets[1].bind(f"\0evo-hostile-{os.getpid()}")
        self.sockets[1].listen()
        for one in self.sockets:
            one.setblocking(False)
        self.process = subprocess.Popen(["sleep", "100000"])
        self.before = self._listed()

    def _listed(self) -> set[str]:
        places = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
        return {str(file) for place in places for file in place.iterdir() if "evil" in file.name}

    def faults(self) -> list[str]:
        found = []
        if self.secret.read_text() != SECRET or self.secret.stat().st_mode & 0o777 != 0o666:
            found.append("the secret file was changed")
        if self.process.poll() is not None:
            found.append("a process of the user's was ended")
        for one in self.sockets:
            try:
                one.accept()
                found.append(f"a connection to {one.getsockname()}")
            except BlockingIOError:
                pass
        return found + [f"left {name}" for name in self._listed() - self.before]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for one in self.sockets:
            one.close()


def load() -> tuple[Any, dict[str, list[Any]]]:
    """(the table of expectations, programs by family)."""
    sys.path.insert(0, str(HOSTILE))
    try:
        table = importlib.import_module("table")
        return table, {**table.read_programs(), "families": importlib.import_module("families").generate()}
    finally:
        sys.path.remove(str(HOSTILE))


def candidate(table: Any, hostile: Any, places: dict[str, str]) -> str:
    """The program as a module, whose `run` does what its cases do."""
    cases = [] if hostile.mode == "stdin" else hostile.cases
    lines = [f"    {case}" for case in cases] or ["    pass"]
    return "\n".join([table.SETUP, table.fill(hostile.code, places), "def run(told):", *lines, ""])


def run_programs(mode: str, table: Any, places: dict[str, str], programs: Iterator[Any]) -> Iterator[Tried]:
    """Each through Sandbox.run."""
    with Sandbox(mode, workers=1) as sandbox:  # type: ignore[arg-type]
        sandbox.run(Program("def f(x): return x\n", ("f('expected-' + 'elsewhere')", "f(['expected-elsewhere'])")))
        for hostile in programs:
            begun = time.monotonic()
            outcomes = table.run(sandbox, hostile, places)
            seconds = time.monotonic() - begun
            faults = table.find_faults(hostile, outcomes, mode)
            faults += table.find_faults_of_good(sandbox.run(table.GOOD, Limits()))
            yield [outcome.status for outcome in outcomes], seconds, faults


def run_candidates(mode: str, table: Any, places: dict[str, str], programs: Iterator[Any]) -> Iterator[Tried]:
    """Each in the process of an evaluator."""
    set_sandbox_mode(mode)  # type: ignore[arg-type]
    place = Path(places["secret"]).parent / "problem"
    place.mkdir()
    for name, text in (("initial_program.py", GOOD), ("evaluator.py", EVALUATOR), ("config.yaml", CONFIG)):
        (place / name).write_text(text)
    try:
        problem: Any = resolve(str(place))[0]
        assert problem.execution == "shared", "the two must share a process here"
        for hostile in programs:
            begun = time.monotonic()
            try:
                score = problem.score(candidate(table, hostile, places))
                ending, faults = "scored" if score.error is None else "failed", []
            except ScorerFault as fault:
                ending, faults = "fault", [f"blamed: {str(fault)[:200]}"]
            seconds = time.monotonic() - begun
            good = problem.score_seed()
            if (good.fitness, good.features, good.error) != (1.0, {"halves": 0.5}, None):
                faults.append(f"good: {good}")
            yield [ending], seconds, faults
    finally:
        close_shared_sandbox()


def run_all(mode: str, only: str, every: int, evaluator: bool) -> dict[str, Any]:
    """Tried and survived by family, what failed, and the longest that one took. every: of each family the N-th"""
    table, families = load()
    chosen: list[tuple[str, Any]] = []
    for family, programs in families.items():
        chosen += [(family, one) for one in [one for one in programs if only in one.name][::every]]
    failed: list[tuple[str, list[str]]] = []
    endings: Counter[str] = Counter()
    longest = (0.0, "")
    os.environ["EVO_TEST_SECRET"] = SECRET
    with tempfile.TemporaryDirectory() as folder:
        witness = Witness(Path(folder))
        places = {"secret": str(witness.secret), "repository": str(ROOT), "home": str(Path.home())}
        run = run_candidates if evaluator else run_programs
        try:
            found = run(mode, table, places, (hostile for _family, hostile in chosen))
            for (_family, hostile), (ended, seconds, faults) in zip(chosen, found, strict=True):
                endings.update(ended)
                longest = max(longest, (seconds, hostile.name))
                if faults := faults + witness.faults():
                    failed.append((hostile.name, faults))
                    print(f"{mode}: {hostile.name}: {faults}", file=sys.stderr, flush=True)
        finally:
            witness.close()
    return {
        "mode": mode,
        "tried": dict(Counter(family for family, _hostile in chosen)),
        "survived": len(chosen) - len(failed),
        "failed": failed,
        "endings": dict(endings),
        "longest_seconds": longest,
        "children_left": _children(),
    }


def _children() -> list[str]:
    """Command lines of this process's children, which should be none by now."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:80] for pid in listed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", action="append", choices=["bwrap", "landlock"])
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of each family every N-th")
    parser.add_argument("--evaluator", action="store_true", help="as candidates of an evaluator")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = []
    for mode in options.mode or ["bwrap", "landlock"]:
        if (reason := probe(mode)) is not None:
            print(f"{mode} cannot be had here: {reason}")
            continue
        found.append(run_all(mode, options.only, options.every, options.evaluator))
        if not options.json:
            one = found[-1]
            print(f"{mode}: {sum(one['tried'].values())} tried, {one['survived']} survived; {one['tried']}")
            print(f"  endings {one['endings']}; longest {one['longest_seconds']}; left {one['children_left']}")
            for name, faults in one["failed"]:
                print(f"  {name}: {faults}")
    if options.json:
        print(json.dumps(found))
    sys.exit(any(one["failed"] or one["children_left"] for one in found))


if __name__ == "__main__":
    main()
