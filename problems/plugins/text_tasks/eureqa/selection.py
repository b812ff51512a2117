"""The VPO paper's split of EUREQA: it trains on the normal riddles and half of the hard ones, and tests on the rest."""

from __future__ import annotations

import random
from collections.abc import Sequence

from problems.plugins.text_tasks.sets import Row

SEED = 0


def mix(name: str, splits: Sequence[Sequence[Row]]) -> Sequence[Row]:
    """The rows of eureqa:`name`; of the hard riddles, the last of `splits`, the test has those in the second half of a
    shuffle (682 of 1,363). The paper does not say which generator of random numbers shuffled, so that ours need not be
    the same."""
    if name not in ("hf", "hf-train"):
        return splits[0]
    hard = list(splits[-1])
    random.Random(SEED).shuffle(hard)
    half = len(hard) // 2
    return hard[half:] if name == "hf" else [*splits[0], *hard[:half]]
