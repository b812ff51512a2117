"""Sets that give a random member in constant or logarithmic time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T", bound=Hashable)

LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 1e12
"""A candidate of no fitness is still drawn now and then (OpenEvolve's floor); the cap keeps the sums finite."""


def index_below(n: int, rng: np.random.Generator) -> int:
    """A uniform integer in [0, n). One float draw costs a fifth of `rng.integers`; the bias is below n / 2^53."""
    return int(rng.random() * n)


class _Indexed(Generic[T]):
    """Members in places: O(1) to find and to draw uniformly. The order of `items` depends only on the order of the
    calls, so equal histories give equal draws."""

    __slots__ = ("items", "_places")

    def __init__(self) -> None:
        self.items: list[T] = []
        self._places: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, item: T) -> bool:
        return item in self._places

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def draw(self, rng: np.random.Generator) -> T:
        """A uniform member. Raises IndexError when empty."""
        return self.items[index_below(len(self.items), rng)]


class IndexedSet(_Indexed[T]):
    """A set with O(1) add, discard and uniform draw."""

    __slots__ = ()

    def add(self, item: T) -> None:
        if item not in self._places:
            self._places[item] = len(self.items)
            self.items.append(item)

    def discard(self, item: T) -> None:
        place = self._places.pop(item, None)
        if place is None:
            return
        last = self.items.pop()
        if place < len(self.items):  # the last one fills the gap
            self.items[place] = last
            self._places[last] = place


class WeightedSampler(_Indexed[T]):
    """A set whose members carry weights: O(log n) add, discard and draw in proportion to weight.

    The weights are in a Fenwick tree over the places of the members (1-based; node i sums the i & -i places up to i).
    """

    __slots__ = ("_weights", "_tree")

    def __init__(self) -> None:
        super().__init__()
        self._weights: list[float] = []
        self._tree: list[float] = [0.0]

    def add(self, item: T, weight: float) -> None:
        """Put in a new member. `weight` is clipped to [LEAST_WEIGHT, MOST_WEIGHT]. Raises KeyError if it is in."""
        if item in self._places:
            raise KeyError(item)
        weight = min(max(weight, LEAST_WEIGHT), MOST_WEIGHT)
        self._places[item] = len(self.items)
        self.items.append(item)
        self._weights.append(weight)
        node = len(self.items)
        total, child, stop = weight, node - 1, node - (node & -node)
        while child > stop:
            total += self._tree[child]
            child -= child & -child
        self._tree.append(total)

    def discard(self, item: T) -> None:
        place = self._places.pop(item, None)
        if place is None:
            return
        last, weight = self.items.pop(), self._weights.pop()
        self._tree.pop()
        if place < len(self.items):
            change = weight - self._weights[place]
            self.items[place], self._weights[place], self._places[last] = last, weight, place
            node = place + 1
            while node < len(self._tree):
                self._tree[node] += change
                node += node & -node

    def draw_weighted(self, rng: np.random.Generator) -> T:
        """A member in proportion to weight. Raises IndexError when empty."""
        tree, n = self._tree, len(self.items)
        total, node = 0.0, n
        while node:
            total += tree[node]
            node -= node & -node
        left, place, step = rng.random() * total, 0, 1 << n.bit_length()
        while step:
            if place + step <= n and tree[place + step] <= left:
                place += step
                left -= tree[place]
            step >>= 1
        return self.items[min(place, n - 1)]  # rounding may point one past the end
