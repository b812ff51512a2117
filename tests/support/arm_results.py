"""Results of an arm, by the iterations at which its searches were solved."""

from typing import Any

import numpy as np

from evo.comparison.results import Results


def arm(solved_at: Any, done: Any = None, iterations: int = 10, **options: Any) -> Results:
    """solved_at, done: (problems, seeds), inf where not solved and NaN without a target; done is all by default."""
    solved_at = np.array(solved_at, dtype=float)
    done = np.full(solved_at.shape, iterations) if done is None else np.array(done)
    return Results(solved_at, done, iterations, **options)
