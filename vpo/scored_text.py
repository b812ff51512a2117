"""Reading and scoring a completion with a user's function, for the other trainers (vpo.trl, vpo.verl)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from problems.contract import Score, ScorerFault
from problems.identity import identity
from problems.types import ScoredAnswer


def score_answers(
    answers: Iterable[str], score: Callable[[str], Score], answer_format: str, most: int
) -> tuple[ScoredAnswer, ...]:
    """The first `most` distinct answers, scored in their order."""
    distinct: dict[bytes, str] = {}
    for answer in answers:
        distinct.setdefault(identity(answer, answer_format), answer)
    return tuple(ScoredAnswer(answer, key, score(answer)) for key, answer in list(distinct.items())[:most])


def as_score(given: Sequence[float] | Score, answer: str, scalar: npt.ArrayLike | None = None) -> Score:
    """The result of a user's scorer, as a Score. Raises ScorerFault if it is not a vector of finite numbers.

    scalar: (d,) deployment weighting, which gives a vector's fitness; the mean if None
    """
    if isinstance(given, Score):
        return given
    rewards = np.asarray(given, dtype=np.float64)
    if rewards.ndim != 1 or not np.isfinite(rewards).all():
        raise ScorerFault(f"score gave {given!r} for {answer[:60]!r}; it must be a vector of finite numbers")
    weights = np.full(len(rewards), 1.0 / len(rewards)) if scalar is None else np.asarray(scalar, dtype=np.float64)
    if weights.shape != rewards.shape:
        raise ScorerFault(f"score gave {len(rewards)} rewards where scalar weighs {len(weights)}")
    return Score(tuple(rewards.tolist()), float(rewards @ weights))
