"""Is the same answer scored the same? Ten times: in fresh processes, with other hash seeds, from another folder, on a
busy machine."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from evo.checks.subject import Finding, Level, Subject, faulty, note, ok
from problems import temp_dirs
from problems.child_process import python_path
from problems.contract import BadAddress, Score, ScorerFault
from problems.registry import resolve
from problems.sandbox.contract import SandboxUnavailable
from problems.sandbox.pool import Sandbox
from problems.scoring import cores

HERE, FOLDER, LOADED = 4, 3, 3
"""Times: ten in all."""
ANSWERS = 3
"""Mutants in addition to the seed."""
BUDGET = 90.0
"""Seconds in all; of a slow scorer only the seed is repeated."""


@dataclass
class RepeatedScores:
    """Every repeat's scores, by where it was made; memory: bytes of the largest process, 0 if not measured"""

    rows: dict[str, list[list[Any]]] = field(default_factory=dict)
    memory: int = 0
    skipped: str = ""


def repeat(subject: Subject, mode: str) -> RepeatedScores:
    """Score the seed and a few mutants again and again."""
    valid = [outcome for outcome in subject.mutants if outcome.valid][:ANSWERS] or subject.mutants[:1]
    longest = max((outcome.seconds for outcome in subject.asked), default=0.0)
    slow = longest * (HERE + FOLDER + LOADED) * (1 + len(valid)) > BUDGET
    answers = [] if slow else [outcome.answer for outcome in valid]
    repeats = RepeatedScores({"here": [_row(subject, answers) for _ in range(HERE)]})
    places = {
        "another folder and hash seed": (1, FOLDER, 0),
        "a busy machine and a third hash seed": (2, LOADED, cores()),
    }
    for where, (hash_seed, times, load) in places.items():
        try:
            with busy_machine(load):
                asked = {"name": subject.problem.name, "answers": answers, "mode": mode}
                result = score_in_fresh_process({**asked, "hash_seed": hash_seed, "times": times})
        except (OSError, BadAddress, SandboxUnavailable) as error:
            repeats.skipped = " ".join(str(error).split())
            continue
        repeats.rows[where] = result["scores"]
        repeats.memory = max(repeats.memory, result["memory"])
    return repeats


def check_determinism(subject: Subject, repeats: RepeatedScores) -> Finding:
    """One score for one answer, wherever and however often."""
    times = sum(map(len, repeats.rows.values()))
    here, elsewhere = _differences(subject, repeats.rows["here"]), list[str]()
    first = repeats.rows["here"][0]
    for where, rows in repeats.rows.items():
        for row in rows if where != "here" else ():
            elsewhere += [f"in {where}: {line}" for line in _differences(subject, [first, row])]
    if here:
        return faulty("deterministic", f"one answer gets several scores: {here[0]}", here[1:4], times=times)
    if elsewhere:
        summary = f"one answer gets another score {elsewhere[0]}"
        return faulty("deterministic", summary, elsewhere[1:4], times=times)
    if repeats.skipped:
        summary = f"the same {times} times here; elsewhere it does not open: {repeats.skipped[:200]}"
        return note("deterministic", summary, times=times)
    answers = f"{len(first)} answer{'s' * (len(first) != 1)}"
    summary = f"{answers} {times} times: fresh processes, three hash seeds, two folders, under load"
    return ok("deterministic", summary, times=times, answers=len(first))


def _row(subject: Subject, answers: Sequence[str]) -> list[Any]:
    outcomes = [subject.ask_seed(), *map(subject.ask, answers)]
    return [outcome.fault if outcome.score is None else outcome_of(outcome.score) for outcome in outcomes]


def _differences(subject: Subject, rows: Sequence[list[Any]]) -> list[str]:
    """The differences between repeats, one line per answer."""
    lines = []
    for place, scores in enumerate(zip(*rows, strict=False)):
        name = "the seed" if place == 0 else f"mutant {place}"
        if all(score == scores[0] for score in scores):
            continue
        if any(isinstance(score, str) for score in scores):
            lines.append(f"{name}: a fault of the scorer now and then")
            continue
        if len({score[2] for score in scores}) > 1:
            lines.append(f"{name}: an error now and then")
            continue
        names = (*subject.problem.objectives, "fitness")
        columns = zip(names, zip(*([*score[0], score[1]] for score in scores), strict=True), strict=True)
        spread = [f"{name} {min(values):.6g} to {max(values):.6g}" for name, values in columns if len(set(values)) > 1]
        lines.append(f"{name}: {', '.join(spread[:5])}")
    return lines


PROGRAM = "from evo.checks.determinism import score_as_asked; score_as_asked()"
LONGEST = 600.0


def score_in_fresh_process(asked: dict[str, Any]) -> dict[str, Any]:
    """{"scores": per time, per answer (the seed first) [rewards, fitness, failed] or a fault's text, "memory": bytes of
    the largest of its processes}. Raises OSError if the process fails.

    asked: "name" of the problem, "answers" next to the seed, sandbox "mode", "hash_seed", "times"
    """
    environment = {**os.environ, "PYTHONHASHSEED": str(asked["hash_seed"]), "PYTHONPATH": python_path()}
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


def score_as_asked() -> None:
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


TIGHT, LOOSE = 0.5, 200.0
"""A time-out below twice the seed's time is a finding; so is one far above the longest evaluation."""
LONG = 10.0
"""Seconds below which a loose time-out costs little."""
LARGE = 2 << 30


def check_cost(subject: Subject, repeats: RepeatedScores) -> Iterator[Finding]:
    """Seconds and memory."""
    valid = [outcome.seconds for outcome in subject.asked if outcome.score is not None and outcome.score.error is None]
    seconds = valid or [outcome.seconds for outcome in subject.asked]
    typical, longest, timeout = median(seconds), max(seconds), subject.problem.timeout
    summary = f"{_time(typical)} an answer, {_time(longest)} at most"
    level: Level = "ok"
    if timeout is None:
        summary += "; there is no time-out"
    elif typical > TIGHT * timeout:
        level, summary = "finding", f"{summary}, under a time-out of {timeout:g} s: an answer a little slower fails"
    elif timeout > LONG and timeout > LOOSE * longest:
        times = f"{timeout / longest:,.0f}"
        level, summary = "note", f"{summary}; an endless answer takes {timeout:g} s, as long as {times} others"
    else:
        summary += f"; time-out {timeout:g} s"
    yield Finding("time", level, summary, (), {"median": typical, "longest": longest, "timeout": timeout})
    if repeats.memory:
        summary = f"{repeats.memory / (1 << 20):,.0f} MiB in its largest process"
        finding = faulty if repeats.memory > LARGE else ok
        yield finding("memory", summary, bytes=repeats.memory)


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
