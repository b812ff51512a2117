"""Is there anything for a policy of many objectives to win? By the vectors of mutants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from evo.checks.subject import Finding, Level, Subject, faulty, note, ok, skipped
from problems.custom.scorer_problem import suggests_lower

FEWEST = 8
"""Distinct vectors that a statement rests on."""
COLLINEAR = 0.98
SEEN = 10
"""Values of an objective from which on its range says something."""
APART = 100.0
"""Times that one objective's range may be another's."""


def check_objectives(subject: Subject) -> Iterator[Finding]:
    """By the distinct vectors (n, d) of valid answers."""
    names = subject.problem.objectives
    distinct = {outcome.score.rewards for outcome in subject.asked if outcome.valid and outcome.score is not None}
    vectors = np.array(sorted(distinct), dtype=float).reshape(len(distinct), len(names))
    yield from _check_names(subject)
    if len(names) == 1:
        yield note("collinear", "only one objective: every weight is the same, so VPO has no advantage over GRPO")
        return
    if len(vectors) < FEWEST:
        why = f"only {len(vectors)} distinct vectors of {len(subject.asked)} answers achieve anything"
        yield skipped("objectives", f"{why}; raise --mutants, or give a seed_answer that earns something")
        return
    moving = [place for place in range(len(names)) if np.ptp(vectors[:, place]) > 0]
    still = [names[place] for place in range(len(names)) if place not in moving]
    scored = [outcome.score.rewards for outcome in subject.mutants if outcome.score is not None]
    gates = [name for name in still if len({rewards[names.index(name)] for rewards in scored}) > 1]
    if gates and len(gates) == len(still):
        yield note("constant", f"{', '.join(gates)}: the same in every answer that achieves anything, a gate")
    elif still:
        lines = [f"{name}: {vectors[0, names.index(name)]:.4g} throughout" for name in still]
        summary = f"{len(still)} of {len(names)} objectives never change in {len(vectors)} vectors"
        yield faulty("constant", summary, lines)
    else:
        yield ok("constant", f"all {len(names)} objectives change over {len(vectors)} vectors")
    if len(moving) > 1:
        yield _check_correlation([names[place] for place in moving], vectors[:, moving])
        yield _check_scale([names[place] for place in moving], vectors[:, moving])


def _check_correlation(names: Sequence[str], vectors: npt.NDArray[np.float64]) -> Finding:
    matrix: npt.NDArray[np.float64] = np.atleast_2d(np.corrcoef(vectors, rowvar=False))
    table = {name: [round(float(value), 3) for value in row] for name, row in zip(names, matrix, strict=True)}
    width = max(map(len, names))
    lines = ["", *(f"{name:<{width}} " + " ".join(f"{value:6.2f}" for value in row) for name, row in table.items())]
    lines[0] = "correlation of " + ", ".join(names)
    pairs = [(i, j) for i in range(len(names)) for j in range(i) if matrix[i, j] >= COLLINEAR]
    figures = {"objectives": list(names), "correlation": table, "vectors": len(vectors)}
    if len(pairs) == len(names) * (len(names) - 1) // 2:
        summary = f"all objectives rise and fall together over {len(vectors)} vectors: VPO has nothing to win there"
        return faulty("collinear", summary, lines, **figures)
    if pairs:
        named = ", ".join(f"{names[j]} and {names[i]} ({matrix[i, j]:.3f})" for i, j in pairs[:5])
        return note("collinear", f"objectives agree on {len(vectors)} vectors: {named}", lines, **figures)
    opposed = sum(bool(matrix[i, j] < 0) for i in range(len(names)) for j in range(i))
    conflict = "1 pair conflicts" if opposed == 1 else f"{opposed or 'no'} pairs conflict"
    return Finding("collinear", "ok", f"objectives are distinct; {conflict}", tuple(lines), figures)


def _check_scale(names: Sequence[str], vectors: npt.NDArray[np.float64]) -> Finding:
    low, high = np.percentile(vectors, [5, 95], axis=0)
    ranges = {name: float(value) for name, value in zip(names, high - low, strict=True) if value > 0}
    if len(ranges) < 2:
        return ok("scale", "only one range to compare")
    (small, least), (large, most) = (pick(ranges.items(), key=lambda item: item[1]) for pick in (min, max))
    summary = f"{large} ranges over {most:.3g}, {small} over {least:.3g}" if most > least else f"each over {most:.3g}"
    if most > APART * least:
        seen = len(np.unique(vectors[:, list(names).index(small)]))
        if seen < SEEN:
            return note("scale", f"{summary}, but only {seen} values of {small} were seen", ranges=ranges)
        return faulty("scale", f"{summary}: weights and means are decided by {large}; scale both alike", ranges=ranges)
    return ok("scale", summary, ranges=ranges)


def _check_names(subject: Subject) -> Iterator[Finding]:
    names, directions = subject.problem.objectives, subject.problem.directions
    lower = [name for name in names if name not in directions and suggests_lower(name)]
    if lower:
        declared = ", ".join(f'"{name}": "min"' for name in lower)
        summary = f"lower looks better in {', '.join(lower)}, but higher counts"
        yield faulty("direction", summary, [f"directions = {{{declared}}}"])
    else:
        declared = ", save those declared so" if directions else ""
        yield ok("direction", f"no objective's name says that lower is better{declared}")


FEW = 3
"""Levels of fitness: fewer are nothing, and everything."""
ROUGH = 9
"""Digits by which levels differ."""


def check_steps(subject: Subject) -> Finding:
    """Uses the levels of fitness among all scored answers, with answers at fault as 0."""
    levels = sorted({float(f"{outcome.fitness:.{ROUGH}g}") for outcome in subject.asked if outcome.score is not None})
    components = len({outcome.score.rewards for outcome in subject.asked if outcome.score is not None})
    target, best, count = subject.problem.target, levels[-1] if levels else 0.0, len(subject.asked)
    seen = f"{len(levels)} level{'s' * (len(levels) != 1)} of fitness and {components} vectors in {count} answers"
    level: Level = "note"
    if len(levels) >= FEW:
        level = "ok"
    elif components >= FEW:
        seen += ": the fitness is constant while the objectives move"
    elif len(levels) == 2 and any(outcome.valid and outcome.fitness > 0 for outcome in subject.mutants):
        level, seen = "finding", f"all or nothing: {seen}, so a search has nothing to climb"
    elif len(levels) == 1 and best != 0:
        level, seen = "finding", f"every answer gets the same, the broken ones too: {seen}"
    else:
        seen += ": random changes of the seed move nothing, and only a model that reads the task can begin; "
        seen += "if score() catches exceptions, score an answer that you know is right, to see that none is its own"
    reached = "" if target is None else f"; the best reaches {subject.write(best)} of {subject.write(target)}"
    figures = {"levels": len(levels), "vectors": components, "best": best, "target": target, "answers": count}
    return Finding("steps", level, seen + reached, (), figures)
