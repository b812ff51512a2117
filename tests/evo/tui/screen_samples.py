"""Boards for tests of the screen: made by formulas, so that a frame of them is the same on every machine."""

import numpy as np
from support.run_records import run_record

from evo.comparison.results import Results
from evo.comparison.summary import best_curve, solve_curve
from evo.progress.answer import StoredAnswer
from evo.progress.snapshot import ArmSnapshot, Detail, ImprovementLine, Snapshot
from evo.stats.differences import Verdict
from islands.browse import CandidateDetail
from islands.types import Candidate, CandidateSummary, ProblemRecord, Totals
from problems.objectives import Value

NOW = 1_700_000_600.0
OBJECTIVES = ("completion", "gold", "diamond", "safety")
HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]not markup[/]\u202eright to left\ud800\x00\r\n\x9b31m"


def results(problems, seeds, iterations, speed, done, targets=True):
    """Searches that solve at fixed places: problem p, seed s of an arm of that speed."""
    p, s, t = np.meshgrid(np.arange(problems), np.arange(seeds), np.arange(1, iterations + 1), indexing="ij")
    best = np.round(0.5 + 0.25 * (1 - 1 / (1 + t * speed * (1 + (p * 7 + s * 3) % 5) / 20)) + 0.02 * ((p + s) % 4), 3)
    at = np.ceil(iterations * (0.15 + ((p * 5 + s * 2) % 11) / 9) / speed)[:, :, 0]
    solved_at = np.where(at <= done, at, np.inf) if targets else np.full((problems, seeds), np.nan)
    best = np.where(t >= solved_at[:, :, None], 1.0, best) if targets else best
    best[:, :, done:] = best[:, :, [max(done, 1) - 1]]
    if not done:
        best[:] = np.nan
    return Results(solved_at, np.full((problems, seeds), done), iterations, 3, best)


def arm(name, speed, *, problems=12, seeds=2, iterations=40, done=40, status="done", reason="", targets=True, **more):
    found = results(problems, seeds, iterations, speed, done, targets)
    curve = solve_curve(found) if targets else best_curve(found)
    totals = Totals(answers=2_838 * done // 40, tokens=58_437 * done // 40, migrations=2, repeats=54, missing=42)
    totals.errors.update({"format": 12 * len(name), "timeout": 3} if done else {})
    summary = {"answers_per_second": 110.0 * speed / seeds, "tokens_per_second": 2_400.0 * speed / seeds}
    summary |= {"policy_busy": 0.97, "scoring_queue": 3, "at": NOW}
    summary |= {"active": [[NOW - 185, None if status == "running" else NOW - 60]]} if done else {}
    runs = tuple(run_record(name, status, seed, reason, summary, iterations=iterations) for seed in range(seeds))
    return ArmSnapshot(
        name, runs, problems * seeds * done, problems * seeds * iterations, totals, found, curve,
        **more,
    )  # fmt: skip


def snapshot(arms, *, problems=12, reference="grpo", targets=True, name="fair-elm", ended=True, **more):
    improvements = tuple(
        ImprovementLine(
            arms[i % len(arms)].name, i % 2, i % problems, 39 - i, 900 - i, Value(0.75), Value(0.5) if i % 3 else None,
            NOW - 5 - 7 * i * i,
        )
        for i in range(14)
    )  # fmt: skip
    records = [
        ProblemRecord(
            p, 1, p, f"maze:hard/{p}", f"maze:hard/{p}", OBJECTIVES, 1.0 if targets else None, "route", "active", "",
            None, None, 1, 0.75,
        )
        for p in range(problems)
    ]  # fmt: skip
    return Snapshot(
        name, tuple(arms), tuple(records), reference, improvements=improvements,
        remaining=None if ended else sum(a.planned - a.groups for a in arms) / 21.5,
        **more,
    )  # fmt: skip


def finished(problems=12):
    arms = [arm(name, speed, problems=problems) for name, speed in
            (("base", 1.0), ("best-of-n", 0.7), ("grpo", 1.4), ("vpo", 2.6))]  # fmt: skip
    verdict = (
        Verdict("no difference shown (base - grpo = -0.08 [-0.21, 0.04], p = 0.21)", False),
        Verdict("best-of-n - grpo = -0.17 [-0.29, -0.04]", True),
        Verdict("vpo - grpo = +0.25 [0.12, 0.38]", True),
    )
    return snapshot(arms, problems=problems, verdict=verdict)


def running():
    arms = [
        arm("base", 1.0, done=22, status="running"),
        arm("grpo", 1.4, done=21, status="running"),
        arm("vpo", 2.6, done=0, status="waiting"),
    ]
    return snapshot(arms, ended=False)


def alone(targets=True):
    return snapshot(
        [arm("fair-elm", 1.4, seeds=1, done=27, status="running", targets=targets)],
        reference=None, targets=targets, ended=False,
    )  # fmt: skip


def detailed(hostile=False):
    text = HOSTILE * 3 if hostile else "DDRRDDLLDDRRRRDDRR"
    feedback = (
        HOSTILE if hostile else "Collected 3/3 gold and 0/5 diamonds, stepped on 0/3 lava; reached E in 20 of 33."
    )
    features = {"gold": 1.0, "length": 0.6061}
    answer = Candidate(3446, text, (1.0, 1.0, 0.0, 1.0), 0.75, features, feedback, None, 2, 2, 3100)
    parent = Candidate(3100, "DDRRRDLLDDRRDDRR", (1.0, 0.5, 0.2, 1.0), 0.7, features, "", None, 1, 2, 2900)
    record = ProblemRecord(
        4, 1, 3, "maze:hard/3", "maze:hard/3", OBJECTIVES, 1.0, "route", "active", "", None, None, 1, 0.75
    )
    version = HOSTILE if hostile else "embedded:vpo@9291994f"
    shown = Detail(
        "vpo", 3, 1, CandidateDetail(answer, record, 16, 100, version, 0.0, 2, ()),
        StoredAnswer(
            answer, record, parent,
            lineage=tuple(CandidateSummary(*one) for one in ((3446, 0.75), (3100, 0.7), (2900, 0.0))),
        ),
    )  # fmt: skip
    return snapshot([arm("grpo", 1.4), arm("vpo", 2.6)], detail=shown)
