"""What is said about a comparison above its tables, on the page and in a terminal."""

from __future__ import annotations

from collections import Counter

from evo.comparison.arms import Comparison
from evo.progress.model import Progress
from evo.progress.snapshot import Snapshot
from problems.weights import describe_fitness


def describe_state(comparison: Comparison) -> str:
    """What is searched."""
    seeds = max(len(arm.runs) for arm in comparison.arms)
    answers = comparison.arms[0].answers
    parts = [
        _counted(len(comparison.arms), "arm") if len(comparison.arms) > 1 else comparison.arms[0].policy,
        _counted(len(comparison.problems), "problem"),
        _counted(seeds, "seed"),
        f"{_counted(comparison.iterations, 'iteration')} of {_counted(answers, 'answer')} planned for each",
    ]
    fitness = describe_fitness(comparison.arms[0].runs[0].config.get("weights"))
    return "; ".join(filter(None, (", ".join(parts), fitness)))


def describe_faults(progress: Progress, snapshot: Snapshot) -> list[str]:
    """Warnings that a reader needs before using a metric."""
    comparison, summary = progress.comparison, progress.summary
    horizon = 0 if summary is None else summary.horizon or summary.best_horizon
    remarks = list(() if progress.store.reweighed is None else progress.store.reweighed.lines)
    remarks += [f"The arms are not comparable: {progress.incomparable}."] if progress.incomparable else []
    remarks += ["The scorer changed between these runs, so that their values may not compare."] * progress.rescored
    statuses = Counter(run.status for run in comparison.runs if run.status != "done")
    if summary is None:
        remarks += ["No iteration is committed yet."] * (not comparison.failed)
    elif statuses:
        states = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        seeds = max(len(arm.runs) for arm in comparison.arms)
        remarks.append(
            f"Unfinished: of {_counted(len(comparison.runs), 'run')}, {states}. Metrics of whole searches are taken at "
            f"the horizon, {summary.place(horizon)}"
            + (f", of {summary.seeds} of {seeds} seeds." if summary.seeds < seeds else ".")
        )
    elif comparison.budget:
        remarks.append("Metrics and curves are over {}, up to the budget of {:,.10g}.".format(*comparison.budget))
    elif comparison.ended_by_budget:
        remarks.append(
            f"Metrics are taken at the end of each run's budget. Some ended before iteration {summary.iterations}; in "
            "curves over iterations, their last value continues to the right."
        )
    elif horizon < summary.iterations:
        remarks.append(
            f"Metrics are taken at iteration {horizon} of {summary.iterations}, the last that every search has reached."
        )
    for problem in progress.failed:
        remarks.append(f"Left out, its scorer failed: {problem.name} ({problem.arm}): {problem.message[:300]}")
    if snapshot.statuses.get("failed") or snapshot.statuses.get("interrupted"):
        remarks += [reason[:300] for reason in snapshot.reasons]
    return remarks


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
