"""The best value known of a problem beside the best that a search has found, in the words of all displays."""

from __future__ import annotations

from evo.monitor.statement import problem_of
from islands.types import ProblemRecord
from problems.contract import VerifiesRecords
from problems.registry import has_best_known

EQUAL = 1e-9
"""Two polished copies of one optimum differ by less than this share of it."""


def best_known_of(record: ProblemRecord) -> float | None:
    """The fitness of the best answer known to a problem that is looked up by its address; None where nobody says."""
    if not has_best_known(record.address):
        return None
    found = problem_of(record)
    return None if found is None else found.best_known


def describe_best_known(fitness: float | None, known: float) -> str:
    """`best known 2.63598308, 97.2% reached`. Better is not called a record here: that is for verify_best."""
    told = f"best known {known:.9g}"
    if fitness is None or known <= 0:
        return told
    if fitness > known * (1 + EQUAL):
        return f"{told}, and this is above it; evo show with the candidate's number verifies it"
    if fitness >= known * (1 - EQUAL):
        return f"{told}, reached"
    return f"{told}, {min(99.9999, 100 * fitness / known):.6g}% reached"


def verify_best(record: ProblemRecord, fitness: float, answer: str) -> str:
    """The same after an answer above the best value known has been run again and measured exactly; the one place that
    calls it a record. Takes as long as a score."""
    found = problem_of(record)
    if found is None or found.best_known is None:
        return ""
    told = describe_best_known(fitness, found.best_known)
    if fitness <= found.best_known * (1 + EQUAL):
        return told
    if isinstance(found, VerifiesRecords) and found.verify_record(answer):
        return f"a record: run again and measured exactly, it is better than the best known {found.best_known:.9g}"
    return f"best known {found.best_known:.9g}; that this is better is not confirmed by running it again"
