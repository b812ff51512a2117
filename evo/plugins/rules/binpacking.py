"""Online bin packing: into which bin the next item goes, before the items after it are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from evo.plugins.formulas.grammar import Formula
from evo.plugins.rules.compiled import Floats, Ints, arrays_of, pack
from evo.plugins.rules.simulated import SimulatedProblem

FEATURES = {
    "room": "free space of the bin before the item goes in; an empty bin is always there too",
    "count": "open bins with that room, 0 for the empty bin",
    "after": "open bins with the room that would be left, 0 if the bin would be full",
    "item": "size of the item",
    "seen": "items packed before it",
    "capacity": "size of a bin",
}
Drawing = Callable[[np.random.Generator, tuple[int, int]], Ints]


def draw_uniform_items(rng: np.random.Generator, shape: tuple[int, int]) -> Ints:
    """Sizes from 20 to 100 for bins of 150, as in Beasley's OR-Library."""
    return rng.integers(20, 101, shape)


def draw_weibull_items(rng: np.random.Generator, shape: tuple[int, int]) -> Ints:
    """Sizes by the Weibull distribution of scale 45 and shape 3, from 1 to 100, for bins of 100 (Romera-Paredes et al.
    2024)."""
    return np.clip(np.rint(45 * rng.weibull(3, shape)), 1, 100).astype(np.int64)


_DRAWN: dict[str, tuple[Drawing, int, str]] = {
    "uniform": (draw_uniform_items, 150, "sizes uniform from 20 to 100, bins of 150"),
    "weibull": (draw_weibull_items, 100, "sizes by a Weibull distribution, bins of 100"),
}
"""By name: how items are drawn, the bins' capacity, and both in words."""


class BinPacking(SimulatedProblem):
    """A rule for online bin packing.

    families: names in _DRAWN with numbers of items
    """

    source, licence = "own generator, after Beasley's OR-Library and Romera-Paredes et al. (2024)", "Apache-2.0"
    seed = "room"
    textbook = {
        "best fit": "room",
        "sum of squares": "after - count - max(0, max(1 - room + item, 1 - capacity + room)) / 2",
        "after-count": "after - count",
    }
    """Sum of squares (Csirik et al. 2006): the place that lets the sum over rooms of the squared number of bins grow
    least. Opening or filling a bin changes one number alone, hence the half. The best fit decides between equals."""

    def __init__(
        self, name: str, seeds: Sequence[int], families: Sequence[tuple[str, int]], count: int, held_out: int
    ) -> None:
        task = (
            "Find a rule for online bin packing. Items come one by one, and each goes into the bin with the smallest "
            "value that has room for it; an empty bin is one of them."
        )
        excess = "bins above the lower bound (all sizes / capacity)"
        described = [
            (f"{kind}_{items}", "other", f"{excess}, {items} items, {_DRAWN[kind][2]}") for kind, items in families
        ]
        super().__init__(name, task, FEATURES, described)
        self._seeds, self._families, self._counts = tuple(seeds), tuple(families), (count, held_out)

    @cached_property
    def _items(self) -> list[list[Ints]]:
        return [
            [
                _DRAWN[kind][0](np.random.default_rng([*self._seeds, part, place]), (count, items))
                for place, (kind, items) in enumerate(self._families)
            ]
            for part, count in enumerate(self._counts)
        ]

    def instance_costs(self, rule: Formula, held_out: bool = False) -> Floats:
        arrays, rows = arrays_of(rule), []
        for (kind, _), items in zip(self._families, self._items[held_out], strict=True):
            capacity = _DRAWN[kind][1]
            bound = np.ceil(items.sum(1) / capacity)
            rows.append(100 * (pack(*arrays, items, capacity) / bound - 1))
        return np.stack(rows)
