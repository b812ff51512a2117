"""Every hostile program as the candidate of an OpenEvolve evaluator that imports it, each followed by a good one.

    python -m bench.hostile_evaluator [--mode bwrap|landlock] [--only WORD] [--every N]

The evaluator gives the candidate a function of its own, so the two share a process: the candidate may forge or fault
its own evaluation, and may start processes there. It is survived where the good program after it gets its metrics,
where nothing outside saw it (bench.hostile.Witness), and where it takes no longer than its time. A fault is what would
stop the problem in a search: an evaluation that blames the evaluator.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.hostile import ROOT, SECRET, Witness, _children, load
from problems import ScorerFault, resolve
from problems.sandbox import close_shared_sandbox, set_sandbox_mode
from problems.sandbox.isolation import probe

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


def candidate(table: Any, hostile: Any, places: dict[str, str]) -> str:
    """The program as a module, whose `run` does what its cases do."""
    cases = [] if hostile.mode == "stdin" else hostile.cases
    lines = [f"    {case}" for case in cases] or ["    pass"]
    return "\n".join([table.SETUP, table.fill(hostile.code, places), "def run(told):", *lines, ""])


def run_all(mode: str, only: str, every: int) -> dict[str, Any]:
    """Tried and survived, how they ended, and what failed."""
    table, families = load()
    tried: Counter[str] = Counter()
    endings: Counter[str] = Counter()
    failed: list[tuple[str, list[str]]] = []
    longest = (0.0, "")
    os.environ["EVO_TEST_SECRET"] = SECRET
    set_sandbox_mode(mode)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        witness = Witness(Path(folder))
        place = Path(folder) / "problem"
        place.mkdir()
        for name, text in (("initial_program.py", GOOD), ("evaluator.py", EVALUATOR), ("config.yaml", CONFIG)):
            (place / name).write_text(text)
        places = {"secret": str(witness.secret), "repository": str(ROOT), "home": str(Path.home())}
        try:
            problem: Any = resolve(str(place))[0]
            assert problem.execution == "shared", "the two must share a process here"
            for family, programs in families.items():
                for hostile in [one for one in programs if only in one.name][::every]:
                    tried[family] += 1
                    begun = time.monotonic()
                    try:
                        score = problem.score(candidate(table, hostile, places))
                        ending = "scored" if score.error is None else "failed"
                        blamed = []
                    except ScorerFault as fault:
                        ending, blamed = "fault", [f"blamed: {str(fault)[:200]}"]
                    endings[ending] += 1
                    longest = max(longest, (time.monotonic() - begun, hostile.name))
                    good = problem.score_seed()
                    faults = (
                        [] if (good.fitness, good.rewards, good.error) == (1.0, (0.5,), None) else [f"good: {good}"]
                    )
                    if faults := blamed + faults + witness.faults():
                        failed.append((hostile.name, faults))
                        print(f"{mode}: {hostile.name}: {faults}", file=sys.stderr, flush=True)
        finally:
            witness.close()
            close_shared_sandbox()
    return {
        "tried": dict(tried),
        "survived": sum(tried.values()) - len(failed),
        "endings": dict(endings),
        "longest_seconds": longest,
        "failed": failed,
        "children_left": _children(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", action="append", choices=["bwrap", "landlock"])
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of each family every N-th")
    options = parser.parse_args()
    lost = False
    for mode in options.mode or ["bwrap", "landlock"]:
        if (reason := probe(mode)) is not None:
            print(f"{mode} cannot be had here: {reason}")
            continue
        found = run_all(mode, options.only, options.every)
        print(f"{mode}: {found}", flush=True)
        lost |= bool(found["failed"] or found["children_left"])
    sys.exit(lost)


if __name__ == "__main__":
    main()
