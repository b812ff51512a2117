"""A completion read and scored by a user's function: what the other trainers' paths (vpo.trl, vpo.verl) share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from problems.contract import Score, ScorerFault
from problems.identity import identity
from problems.types import ScoredAnswer


def score_answers(
    found: Iterable[str], score: Callable[[str], Score], answer_format: str, most: int
) -> tuple[ScoredAnswer, ...]:
    """The first `most` distinct answers, scored in their order."""
    distinct: dict[bytes, str] = {}
    for answer in found:
        distinct.setdefault(identity(answer, answer_format), answer)
    return tuple(ScoredAnswer(answer, key, score(answer)) for key, answer in list(distinct.items())[:most])


def as_score(found: Sequence[float] | Score, answer: str, scalar: npt.ArrayLike | None = None) -> Score:
    """What a user's scorer gave, as a Score. Raises ScorerFault for what is no vector of finite numbers.

    scalar: (d,) deployment weighting, which makes a vector's fitness; the mean where None
    """
    if isinstance(found, Score):
        return found
    rewards = np.asarray(found, dtype=np.float64)
    if rewards.ndim != 1 or not np.isfinite(rewards).all():
        raise ScorerFault(f"score gave {found!r} for {answer[:60]!r}; it must be a vector of finite numbers")
    weights = np.full(len(rewards), 1.0 / len(rewards)) if scalar is None else np.asarray(scalar, dtype=np.float64)
    if weights.shape != rewards.shape:
        raise ScorerFault(f"score gave {len(rewards)} rewards where scalar weighs {len(weights)}")
    return Score(tuple(rewards.tolist()), float(rewards @ weights))
