"""A fresh process that scores answers: another interpreter, another folder, another order of sets.

Run by problems under check (evo.checks.determinism): it reads one JSON object from its standard input and writes one to
its standard output.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from problems import temp_dirs
from problems.contract import BadAddress, Score, ScorerFault
from problems.registry import resolve
from problems.sandbox.pool import Sandbox

PROGRAM = "from evo.checks.fresh_process import main; main()"
LONGEST = 600.0


def score_in_fresh_process(
    name: str, answers: Sequence[str], *, mode: str, hash_seed: int, times: int
) -> dict[str, Any]:
    """{"scores": per time, per answer (the seed first) [rewards, fitness, failed] or a fault's text, "memory": bytes of
    the largest of its processes}. Raises OSError if the process fails."""
    asked: dict[str, Any] = {"name": name, "answers": list(answers), "mode": mode}
    asked |= {"hash_seed": hash_seed, "times": times}
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    folder = temp_dirs.make("check")
    try:
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            timeout=LONGEST,
        )
    finally:
        temp_dirs.release(folder)
    if ended.returncode != 0:
        raise OSError(" ".join(ended.stderr.split())[-300:] or f"it ended with status {ended.returncode}")
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


@contextlib.contextmanager
def busy_machine(processes: int) -> Iterator[None]:
    """That many processes that only take CPU time, while the block runs."""
    code = "import os, time\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100000))"
    started = [subprocess.Popen([sys.executable, "-I", "-S", "-c", code]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def outcome_of(score: Score) -> list[Any]:
    """The parts of a score that must be equal, as JSON."""
    return [list(score.rewards), score.fitness, score.error is not None]


def main() -> None:
    """See the module."""
    asked = json.load(sys.stdin)
    changed: Mapping[str, str] = {"PYTHONHASHSEED": str(asked["hash_seed"])}
    with Sandbox.open(asked["mode"], 1, changed) as sandbox:
        try:
            (problem,) = resolve(asked["name"], None, lambda: sandbox)
            if problem.fault is not None:
                raise problem.fault
        except (BadAddress, ScorerFault, ValueError) as error:
            sys.exit(f"{asked['name']}: {error}")
        rows = []
        for _ in range(asked["times"]):
            row: list[Any] = []
            for place, answer in enumerate(["", *asked["answers"]]):
                try:
                    score = problem.score(problem.canonical(answer)) if place else problem.score_seed()
                    row.append(outcome_of(score.check(problem)))
                except ScorerFault as fault:
                    row.append(" ".join(str(fault).split()))
            rows.append(row)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    json.dump({"scores": rows, "memory": memory}, sys.stdout)
