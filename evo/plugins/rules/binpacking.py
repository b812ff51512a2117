"""Online bin packing: into which bin the next item goes, before the items after it are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evo.plugins.formulas.evaluation import Reals
from evo.plugins.rules.compiled import Integers, pack_bins
from evo.plugins.rules.simulated import Domain, Family


@dataclass(frozen=True)
class Items:
    """n instances. sizes: (n, length) of the items, in the order in which they come"""

    sizes: Integers
    capacity: int

    def costs(self, codes: Integers, numbers: Reals) -> Reals:
        bound = np.ceil(self.sizes.sum(1) / self.capacity)
        costs: Reals = 100 * (pack_bins(codes, numbers, self.sizes, self.capacity) / bound - 1)
        return costs


@dataclass(frozen=True)
class ItemFamily(Family):
    """uniform: whether sizes are uniform from 20 to 100, for bins of 150, as in Beasley's OR-Library; else by a Weibull
    distribution of scale 45 and shape 3, from 1 to 100, for bins of 100 (Romera-Paredes et al. 2024)"""

    uniform: bool
    length: int

    def draw(self, rng: np.random.Generator, count: int) -> list[Items]:
        shape = count, self.length
        if self.uniform:
            return [Items(rng.integers(20, 101, shape), 150)]
        return [Items(np.clip(np.rint(45 * rng.weibull(3, shape)), 1, 100).astype(np.int64), 100)]


def item_families(uniform: Sequence[int], weibull: Sequence[int]) -> list[ItemFamily]:
    """One for each number of items."""
    above = "bins above the lower bound (all sizes / capacity), {} items, {}, bins of {}"
    return [
        *(ItemFamily(f"uniform_{n}", "other", above.format(n, "sizes 20 to 100", 150), True, n) for n in uniform),
        *(ItemFamily(f"weibull_{n}", "other", above.format(n, "Weibull sizes", 100), False, n) for n in weibull),
    ]


BIN_PACKING = Domain(
    "Find a rule for online bin packing. Items come one by one, and each goes into the bin with the smallest value "
    "that has room for it; an empty bin is one of them.",
    {
        "room": "free space of the bin before the item goes in; an empty bin is always there too",
        "count": "open bins with that room, 0 for the empty bin",
        "after": "open bins with the room that would be left, 0 if the bin would be full",
        "item": "size of the item",
        "seen": "items packed before it",
        "capacity": "size of a bin",
    },
    "room",
    {
        "best fit": "room",
        "sum of squares": "after - count - max(0, max(1 - room + item, 1 - capacity + room)) / 2",
        "after-count": "after - count",
    },
    "own generator, after Beasley's OR-Library and Romera-Paredes et al. (2024)",
)
"""Sum of squares (Csirik et al. 2006): the place that lets the sum over rooms of the squared number of bins grow least.
Opening or filling a bin changes one number alone, hence the half. The best fit decides between equals."""
