"""The answers of one evaluation, before anything is measured of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ProblemAnswers:
    """The n answers to one problem, d objectives.

    rewards: (n, d), zero rows for missing answers
    fitness: (n,), 0 for missing answers
    written: (n,) whether there is an answer at all; failed: (n,) whether it has an error
    """

    name: str
    objectives: tuple[str, ...]
    target: float | None
    rewards: Floats
    fitness: Floats
    written: Bools
    failed: Bools

    @property
    def valid(self) -> Bools:
        """(n,) answers that achieved anything: written, without an error, and not the zero vector (a maze's exit was
        reached, a test case passed). The others are all alike, and a distance from them is no diversity."""
        return self.written & ~self.failed & self.rewards.any(axis=1)

    @property
    def solved(self) -> Bools | None:
        """(n,) fitness >= target, as in a search; None if the problem has no target."""
        return None if self.target is None else self.written & ~self.failed & (self.fitness >= self.target)


@dataclass
class SampledAnswers:
    """The result of one seed.

    problems: one entry per problem that could be judged, in order
    faults: problem -> why it could not be judged (its scorer failed, its prompt is too long); its answers count nowhere
    format_errors: why answers are missing, counted by reason; answer_errors: the kinds of failed answers
    seconds: wall-clock; sampling_seconds: the part with the policy at work; scoring_seconds: summed over workers
    """

    seed: int
    answers: int
    problems: list[ProblemAnswers] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)
    rollouts: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cost: float = 0.0
    format_errors: Counter[str] = field(default_factory=Counter)
    answer_errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    sampling_seconds: float = 0.0
    scoring_seconds: float = 0.0

    @property
    def missing(self) -> int:
        """Requested answers that were not written, repeats within a chain included."""
        return sum(int((~answers.written).sum()) for answers in self.problems)
