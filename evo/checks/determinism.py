"""Is the same answer scored the same? Ten times: here, and in another process and folder with another hash seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

from evo.checks.subject import Finding, Level, Outcome, Subject, faulty, note, ok
from problems import temp_dirs
from problems.child_process import python_path
from problems.contract import BadAddress, ScorerFault
from problems.registry import resolve
from problems.sandbox.contract import SandboxUnavailable
from problems.sandbox.pool import Sandbox

HERE, ELSEWHERE = 4, 6
"""Times: ten in all."""
ANSWERS = 3
"""Mutants in addition to the seed."""
BUDGET = 90.0
"""Seconds in all; of a slow scorer only the seed is repeated."""
LONGEST = 600.0
_ELSEWHERE = "in another process and folder, with another hash seed"


def check_determinism(subject: Subject, mode: str) -> Finding:
    """One score for the seed and for a few mutants, wherever and however often. mode: of the sandbox"""
    valid = [outcome for outcome in subject.mutants if outcome.valid][:ANSWERS] or subject.mutants[:1]
    longest = max((outcome.seconds for outcome in subject.asked), default=0.0)
    slow = longest * (HERE + ELSEWHERE) * (1 + len(valid)) > BUDGET
    answers = [] if slow else [outcome.answer for outcome in valid]
    once = min(outcome.seconds for outcome in subject.asked if outcome.answer == subject.seed_answer)
    repeats = max(2, min(HERE, int(BUDGET / 3 / max(once, 1e-9))))
    here, elsewhere, skipped = [_row(subject, answers) for _ in range(repeats)], list[list[Any]](), ""
    try:
        asked = {"name": subject.problem.name, "answers": answers, "mode": mode, "times": repeats * ELSEWHERE // HERE}
        elsewhere = score_in_fresh_process(asked)
    except (OSError, BadAddress, SandboxUnavailable) as error:
        skipped = " ".join(str(error).split())
    times = len(here) + len(elsewhere)
    first = {outcome.answer: _told(outcome) for outcome in reversed(subject.asked)}
    earlier = [first[answer] for answer in [subject.seed_answer, *answers]]
    for summary, rows in (
        ("one answer gets several scores", here),
        ("one answer scores otherwise once others have been scored: something is left over", [earlier, here[0]]),
        (f"one answer gets another score {_ELSEWHERE}", [here[0], *elsewhere]),
    ):
        if lines := _differences(subject, rows):
            fitness = [[row[1] for row in column if not isinstance(row, str)] for column in zip(*rows, strict=False)]
            subject.noise = max(max(of) - min(of) for of in fitness if of) if any(fitness) else 0.0
            return faulty("deterministic", f"{summary}: {lines[0]}", lines[1:4], times=times)
    if skipped:
        summary = f"the same {times} times here; elsewhere it does not open: {skipped[:200]}"
        return note("deterministic", summary, times=times)
    number = len(here[0])
    summary = f"{number} answer{'s' * (number != 1)} {times} times, some {_ELSEWHERE}"
    return ok("deterministic", summary, times=times, answers=number)


def _row(subject: Subject, answers: Sequence[str]) -> list[Any]:
    outcomes = [subject.ask_seed(), *map(subject.ask, answers)]
    return [_told(outcome) for outcome in outcomes]


def _told(outcome: Outcome) -> str | list[Any]:
    """The parts of a score that must be equal, as JSON; or the scorer's fault."""
    score = outcome.score
    return outcome.fault if score is None else [list(score.rewards), score.fitness, score.error is not None]


def _differences(subject: Subject, rows: Sequence[list[Any]]) -> list[str]:
    lines = []
    for place, scores in enumerate(zip(*rows, strict=False)):
        if all(score == scores[0] for score in scores):
            continue
        if any(isinstance(score, str) for score in scores):
            spread = ["a fault of the scorer now and then"]
        elif len({score[2] for score in scores}) > 1:
            spread = ["an error now and then"]
        else:
            names = (*subject.problem.objectives, "fitness")
            columns = zip(names, zip(*([*score[0], score[1]] for score in scores), strict=True), strict=True)
            spread = [f"{name} {min(of):.6g} to {max(of):.6g}" for name, of in columns if len(set(of)) > 1]
        lines.append(f"{f'mutant {place}' if place else 'the seed'}: {', '.join(spread[:5])}")
    return lines


def score_in_fresh_process(asked: dict[str, Any]) -> list[list[Any]]:
    """Per time, per answer (the seed first) [rewards, fitness, failed] or a fault's text. Raises OSError if the process
    fails.

    asked: "name" of the problem, "answers" next to the seed, sandbox "mode", "times"
    """
    program = f"from {__name__} import score_as_asked; score_as_asked()"
    hash_seed = {"PYTHONHASHSEED": "1", "EVO_SANDBOX_HASH_SEED": "1"}
    folder = temp_dirs.make("check")
    try:
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, **hash_seed, "PYTHONPATH": python_path()},
            timeout=LONGEST,
        )
    finally:
        temp_dirs.release(folder)
    if ended.returncode != 0:
        raise OSError(" ".join(ended.stderr.split())[-300:] or f"it ended with status {ended.returncode}")
    rows: list[list[Any]] = json.loads(ended.stdout)
    return rows


def score_as_asked() -> None:
    """The other process."""
    asked = json.load(sys.stdin)
    with Sandbox(asked["mode"], 1) as sandbox:
        try:
            (problem,) = resolve(asked["name"], None, lambda: sandbox)
            if problem.fault is not None:
                raise problem.fault
        except (BadAddress, ScorerFault, ValueError) as error:
            sys.exit(f"{asked['name']}: {error}")
        subject = Subject(problem)
        rows = [_row(subject, asked["answers"]) for _ in range(asked["times"])]
    json.dump(rows, sys.stdout)


TIGHT = 0.5
"""Share of the time-out from which on a typical answer is a finding."""


def check_cost(subject: Subject) -> Finding:
    """Seconds of an answer, and whether the time-out fits."""
    valid = [outcome.seconds for outcome in subject.asked if outcome.score is not None and outcome.score.error is None]
    seconds = valid or [outcome.seconds for outcome in subject.asked]
    typical, longest, timeout = median(seconds), max(seconds), subject.problem.timeout
    summary = f"{_time(typical)} an answer, {_time(longest)} at most"
    level: Level = "ok"
    if timeout is None:
        summary += "; there is no time-out"
    elif typical > TIGHT * timeout:
        level, summary = "finding", f"{summary}, under a time-out of {timeout:g} s: an answer a little slower fails"
    else:
        summary += f"; time-out {timeout:g} s"
    return Finding("time", level, summary, (), {"median": typical, "longest": longest, "timeout": timeout})


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
