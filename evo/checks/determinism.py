"""Is the same answer scored the same? Ten times: in fresh processes, with other hash seeds, from another folder, on a
busy machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evo.checks.finding import Finding, faulty, note, ok
from evo.checks.fresh_process import busy_machine, outcome_of, score_in_fresh_process
from evo.checks.subject import Subject
from problems.contract import BadAddress
from problems.sandbox.contract import SandboxUnavailable
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
    slow = (
        max((outcome.seconds for outcome in subject.asked), default=0.0) * (HERE + FOLDER + LOADED) * (1 + len(valid))
        > BUDGET
    )
    answers = [] if slow else [outcome.answer for outcome in valid]
    repeats = RepeatedScores({"here": [_row(subject, answers) for _ in range(HERE)]})
    places = {
        "another folder and hash seed": (1, FOLDER, 0),
        "a busy machine and a third hash seed": (2, LOADED, cores()),
    }
    for where, (hash_seed, times, load) in places.items():
        try:
            with busy_machine(load):
                result = score_in_fresh_process(
                    subject.problem.name, answers, mode=mode, hash_seed=hash_seed, times=times
                )
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
        return note(
            "deterministic",
            f"the same {times} times here; elsewhere it does not open: {repeats.skipped[:200]}",
            times=times,
        )
    count = len(first)
    summary = (
        f"{count} answer{'s' * (count != 1)} {times} times: fresh processes, three hash seeds, two folders, under load"
    )
    return ok("deterministic", summary, times=times, answers=count)


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
