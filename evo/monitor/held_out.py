"""Answers judged by the held-out cases of a user's scorer, which steer no search."""

from __future__ import annotations

from pathlib import Path

from evo.errors import BadInput
from islands.db.store import Store
from islands.queries.candidates import CandidateReader
from islands.queries.live import course_of
from islands.types import Candidate, ProblemRecord, RunRecord
from problems.contract import BadAddress, HoldsOut, Score, ScorerFault
from problems.registry import resolve

MOST_CHOICES = 50
"""Answers that are judged to choose one: the last ones that were the best."""
_CACHE_BYTES = 1 << 24


def score_held_out(record: ProblemRecord, candidate: Candidate) -> Score | None:
    """The Score of a candidate on the held-out cases of its problem, a fault of the scorer as its error; None if the
    problem has none, or has changed since the search. Takes as long as a score."""
    try:
        problem = _holding_out(record)
        return None if problem is None else problem.score_held_out(candidate.text)
    except (BadInput, BadAddress):
        return None
    except ScorerFault as fault:
        return Score.failure(len(record.objectives), f"fault of the scorer: {fault}")


def choose_held_out(
    store: Store, run: RunRecord, record: ProblemRecord
) -> tuple[RunRecord, ProblemRecord, Candidate | None]:
    """The candidate of a problem that the held-out cases prefer, of those that were the best at some time, the later
    of equals. Raises BadInput if the problem has no such cases, ScorerFault."""
    problem = _holding_out(record)
    if problem is None:
        raise BadInput(f"--held-out: {record.name} has no held-out cases; a scorer file defines held_out(answer)")
    steps = course_of(store, run.id).rises.get(record.id, [])[-MOST_CHOICES:]
    candidates = CandidateReader(store, _CACHE_BYTES).fetch([step.candidate for step in steps])
    scored = [(problem.score_held_out(candidate.text), candidate) for candidate in candidates]
    valid = [(score.fitness, number) for number, (score, _) in enumerate(scored) if score.error is None]
    return run, record, scored[max(valid)[1]][1] if valid else None


def _holding_out(record: ProblemRecord) -> HoldsOut | None:
    file = Path(record.address)
    if not file.is_file() or b"held_out" not in file.read_bytes():
        return None  # to open a problem takes a score of its seed
    (problem,) = resolve(record.address)
    if record.fingerprint not in (None, problem.fingerprint()):
        raise BadInput(f"--held-out: {record.name} has changed since this run was searched")
    return problem if isinstance(problem, HoldsOut) and problem.holds_out else None
