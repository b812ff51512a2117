"""What a search is worth to a user who names the weights afterwards: under each of WEIGHTINGS fixed weightings of the
objectives, w ~ Dir(1), the best stored answer counts. Searches, comparisons and evaluations use the same weightings.

Of every search, from its valid answers alone:

    E_w[best]          mean over w of the largest w . r, as a share: of the optimum under w, or of the best that any
                       search of the comparison found for w, if no optimum is known or this best is above it
    weightings solved  the share of w under which the best answer reaches the optimum; only where that is known

There are no shares if a reward is negative, if nothing was found that is worth more than 0, or if a single search would
be measured against itself. All numbers are then plain means of rewards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
import numpy.typing as npt

from islands.types import CandidateSummary
from vpo.scalarize import Floats, dirichlet_weights

Ints = npt.NDArray[np.int64]

JUDGED_WEIGHTINGS = 100
"""They are the same for every policy and problem of d objectives, so their choice cancels in a comparison."""
ANSWERS_AT_ONCE = 2000
REWARDS, OPTIMUM, OF_FOUND = "rewards", "shares of the optimum", "of the best that any search found"
BEST_FOUND = f"shares {OF_FOUND}"


@lru_cache(maxsize=256)
def judging_weights(objectives: int) -> Floats:
    """(WEIGHTINGS, d), rows summing to 1, always the same; read only."""
    weights = dirichlet_weights(JUDGED_WEIGHTINGS, objectives, sampler="sobol", seed=0)
    weights.flags.writeable = False
    return weights


@dataclass(frozen=True, eq=False)
class Rises:
    """The moments of one search at which the best answer of some weighting became better.

    sequences, iterations: (E,) rising, of the group that did it, and iterations done by then; -1 and 0 for seed answers
    best: (E, W) the best w . r of a valid answer by then
    negative: whether a reward of a valid answer is below 0
    """

    sequences: Ints
    iterations: Ints
    best: Floats
    negative: bool


def read_rises(answers: Iterable[CandidateSummary], weights: Floats) -> Rises:
    """The rises of a search. answers: its distinct ones in the order in which they were stored; weights: (W, d)"""
    held, best, negative = list[tuple[int, int, Floats]](), np.full(len(weights), -np.inf), False
    for batch in _batches(answer for answer in answers if not answer.failed):
        rewards = np.array([answer.rewards for answer in batch], dtype=np.float64)
        negative |= bool((rewards < 0).any())
        for answer, values in zip(batch, rewards @ weights.T, strict=True):
            if (values > best).any():
                best = np.maximum(best, values)
                if held and held[-1][0] == answer.sequence:
                    held.pop()
                held.append((answer.sequence, answer.iteration + 1, best))
    sequences, iterations = (np.array([rise[at] for rise in held], dtype=np.int64) for at in (0, 1))
    return Rises(sequences, iterations, np.array([rise[2] for rise in held]).reshape(-1, len(weights)), negative)


def _batches(answers: Iterator[CandidateSummary]) -> Iterator[list[CandidateSummary]]:
    while batch := list(islice(answers, ANSWERS_AT_ONCE)):
        yield batch


@dataclass(frozen=True, eq=False)
class Worth:
    """E_w[best] and weightings solved of several searches of one problem.

    start: of a search without a valid answer: no reward at all, or the worst that any search began with if that is less
    plain, shares: (E,) of each search after each of its rises; no shares if they are not defined
    solved: the same; None if the optimum is not known
    why: why there are no shares; "" if there are
    """

    start: float
    plain: Sequence[Floats]
    shares: Sequence[Floats]
    solved: Sequence[Floats] | None
    why: str = ""


def judge_worth(searches: Sequence[Rises], optimum: Floats | None) -> Worth:
    """The searches of one problem, measured alike. optimum: (W,) what solves it under each weighting, None if that is
    not known"""
    found = [search.best for search in searches if len(search.best)]
    start = min([0.0, *(float(best[0].mean()) for best in found)])
    plain = [search.best.mean(axis=1) for search in searches]
    solved = None if optimum is None else [(search.best >= optimum).mean(axis=1) for search in searches]
    known = [best[-1] for best in found] if optimum is None else [optimum, *(best[-1] for best in found)]
    why = ""
    if any(search.negative for search in searches):
        why = "a reward is negative"
    elif optimum is None and len(searches) == 1:
        why = "the optimum is not known, and there is no other search"
    elif not known or (np.max(known, axis=0) <= 0).any():
        why = "the optimum is not known, and no answer is worth more than 0"
    shares = [] if why else [(search.best / np.max(known, axis=0)).mean(axis=1) for search in searches]
    return Worth(start, plain, shares, solved, why)


def join_units(names: Sequence[str], judged: Sequence[Worth]) -> str:
    """What E_w[best] of these problems together is in: shares and of what, or rewards and why. names: of the
    problems"""
    for name, worth in zip(names, judged, strict=True):
        if worth.why:
            return f"{REWARDS}, as there are no shares of {name}: {worth.why}"
    known = {worth.solved is not None for worth in judged}
    return BEST_FOUND if known == {False} else OPTIMUM if known == {True} else f"{OPTIMUM} or, if unknown, {OF_FOUND}"


def is_share(unit: str) -> bool:
    return not unit.startswith(REWARDS)
