"""A program's metrics as a Score, by the objectives of the problem that it belongs to.

Metrics are the return value of OpenEvolve's evaluator. Its marks of failure (`error`, `timeout`) make a failed
candidate; so does a metric that is not a finite number, since rewards must be finite. If the metrics lack something
that a Score needs, the program must be scored again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from islands.interop.checkpoint import CheckpointProgram
from problems.contract import Problem, Score, ScoresMetrics

OWN = "evo"
"""Key in a program's metadata where our export keeps data that metrics cannot express."""
FITNESS = "combined_score"
_LONGEST_FEEDBACK = 20_000


def own_record(program: CheckpointProgram) -> Mapping[str, Any]:
    """The data that our export added to the program; empty for a program of OpenEvolve."""
    own = program.metadata.get(OWN)
    return own if isinstance(own, dict) else {}


def feature_names(programs: Iterable[CheckpointProgram]) -> tuple[str, ...]:
    """The features among the metrics, known only for programs from our exports."""
    return tuple(sorted({str(name) for program in programs for name in _mapping(own_record(program).get("features"))}))


def score_of(program: CheckpointProgram, problem: Problem, features: tuple[str, ...] = ()) -> Score | None:
    """The Score that the stored metrics give; None if they are not enough. `features` are the metrics that a program
    must have as features, if the problem does not name its features."""
    own = _own_score(program, problem)
    if own is not None:
        return own
    numbers, strange = _numbers(program.metrics)
    count, feedback = len(problem.objectives), feedback_of(program)
    for name in (*problem.objectives, FITNESS):
        if name in strange:
            return Score.failure(count, f"{name} = {strange[name]} is no finite number", feedback)
    failed = _find_failure(program, problem)
    given = [name for name in problem.objectives if name in numbers]
    if failed and not given:
        return Score.failure(count, failed, feedback)
    measured = problem.score_of_metrics if isinstance(problem, ScoresMetrics) else None
    if measured and (given or FITNESS in numbers) and (score := measured(numbers, feedback, failed)) is not None:
        return score
    if len(given) < count or FITNESS not in numbers or any(name not in numbers for name in features):
        return None
    rewards = tuple(numbers[name] for name in problem.objectives)
    return Score(rewards, numbers[FITNESS], {name: numbers[name] for name in features}, feedback, failed)


def names_objective(program: CheckpointProgram, problem: Problem) -> bool:
    """Whether one of the metrics is an objective of the problem."""
    return any(name in program.metrics for name in problem.objectives)


def failed_elsewhere(program: CheckpointProgram, problem: Problem) -> bool:
    """Whether the program failed, so that its metrics do not show which problem it answers."""
    return not names_objective(program, problem) and _find_failure(program, problem) is not None


def feedback_of(program: CheckpointProgram) -> str:
    """Its artifacts as a prompt would show them."""
    try:
        artifacts = json.loads(program.raw.get("artifacts_json") or "{}")
    except (TypeError, ValueError, RecursionError):
        return ""
    if not isinstance(artifacts, dict):
        return ""
    if own_record(program):
        return str(artifacts.get("feedback", ""))
    texts = {key: value for key, value in artifacts.items() if not isinstance(value, dict | list)}  # bytes are a dict
    return "\n".join(f"{key}: {value}" for key, value in texts.items())[:_LONGEST_FEEDBACK]


def _own_score(program: CheckpointProgram, problem: Problem) -> Score | None:
    """As the export wrote it, unless the metrics next to it have been changed since."""
    own = own_record(program)
    rewards, fitness, features = own.get("rewards"), own.get("fitness"), _mapping(own.get("features"))
    if own.get("objectives") != list(problem.objectives) or not isinstance(rewards, list):
        return None
    if len(rewards) != len(problem.objectives) or program.metrics.get(FITNESS) != fitness:
        return None
    if not all(_finite(value) for value in (*rewards, fitness, *features.values())):
        return None
    error = own.get("error")
    values = {name: float(value) for name, value in features.items()}
    message = str(error) if error is not None else None
    return Score(tuple(map(float, rewards)), float(fitness), values, feedback_of(program), message)  # type: ignore[arg-type]


def _numbers(metrics: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, Any]]:
    """Metrics that are finite numbers, and numbers that are not finite. Flags and texts are neither."""
    numbers, strange = dict[str, float](), dict[str, Any]()
    for name, value in metrics.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if _finite(value):
            numbers[name] = float(value)
        else:
            strange[name] = value if isinstance(value, float) else "a number beyond all bounds"
    return numbers, strange


def _finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond the largest float
        return False


def _find_failure(program: CheckpointProgram, problem: Problem) -> str | None:
    """Why the evaluation failed, in one line; None if it did not. An `error` that is an objective is not a mark of
    failure."""
    mark = None if "error" in problem.objectives else program.metrics.get("error")
    if isinstance(mark, str) and mark.strip():
        return " ".join(mark.split())[:300]
    if mark is None and program.metrics.get("timeout") is not True:
        return None
    if names_objective(program, problem):
        return None  # a number of that name among others
    if program.metrics.get("timeout") is True:
        return "timeout: OpenEvolve's evaluation took too long"
    lines = [line for line in feedback_of(program).splitlines() if line.startswith(("stderr:", "error", "failure"))]
    return f"OpenEvolve's evaluation failed{': ' + ' '.join(lines[0].split())[:250] if lines else ''}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
