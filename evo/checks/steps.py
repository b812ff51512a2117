"""Has the fitness steps between the seed and the target, or is it all or nothing?"""

from __future__ import annotations

from typing import Any

from evo.checks.finding import Finding, faulty, note, ok
from evo.checks.subject import Subject

FEW = 3
"""Levels of fitness: fewer are nothing, and everything."""
ROUGH = 9
"""Digits by which levels differ."""


def check_steps(subject: Subject) -> Finding:
    """Uses the levels of fitness among all scored answers, with answers at fault as 0."""
    levels = sorted({float(f"{outcome.fitness:.{ROUGH}g}") for outcome in subject.asked if outcome.score is not None})
    components = len({outcome.score.rewards for outcome in subject.asked if outcome.score is not None})
    target, best = subject.problem.target, levels[-1] if levels else 0.0
    figures: dict[str, Any] = {
        "levels": len(levels),
        "vectors": components,
        "best": best,
        "target": target,
        "answers": len(subject.asked),
    }
    counted = f"{len(levels)} level{'s' * (len(levels) != 1)} of fitness"
    seen = f"{counted} and {components} vectors in {len(subject.asked)} answers"
    reached = "" if target is None else f"; the best reaches {best:.4g} of {target:.4g}"
    if len(levels) >= FEW:
        return ok("steps", seen + reached, **figures)
    if components >= FEW:
        return note("steps", f"{seen}: the fitness is constant while the objectives move{reached}", **figures)
    if len(levels) == 2 and any(outcome.valid and outcome.fitness > 0 for outcome in subject.mutants):
        return faulty("steps", f"all or nothing: {seen}, so a search has nothing to climb{reached}", **figures)
    summary = f"{seen}: random changes of the seed move nothing, and only a model that reads the task can begin"
    return note("steps", summary + reached, **figures)
