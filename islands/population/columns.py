"""The in-memory data of every candidate: a few dozen bytes of numbers, never its text; and a set to draw them from."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np

_T = TypeVar("_T", bound=Hashable)


class Columns:
    """Candidates of one problem, addressed by ordinal (0, 1, 2... in the order in which they were stored).

    Ordinals, not database ids, are used in memory: ids may have gaps that depend on the database, and ties broken by
    them would too.
    """

    def __init__(self, objectives: int) -> None:
        self.objectives = objectives
        self.ids = array("q")
        self.fitness = array("d")
        self.generations = array("l")
        self.valid = bytearray()
        self.successful = array("l")  # ordinals, rising
        self._rewards = array("d")
        self._measures = array("d")
        self._known: dict[bytes, int] = {}
        self.dimensions: int | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def append(
        self,
        id: int,
        identity: bytes,
        fitness: float,
        rewards: Sequence[float],
        measures: Sequence[float],
        generation: int,
        valid: bool,
    ) -> int:
        """Store one and return its ordinal. Measures must be given once dimensions are settled, for valid ones; a
        failed one's are not kept.

        It is successful if it is valid and has any other score than the zero score of a failed answer: a route that
        reaches the exit, a program that passes a test, whatever runs where fitness may be negative."""
        ordinal = len(self.ids)
        if ordinal and id <= self.ids[-1]:
            raise ValueError(f"candidate {id} does not follow {self.ids[-1]}: ids must grow in the order of storing")
        self.ids.append(id)
        self.fitness.append(fitness)
        self.generations.append(generation)
        self.valid.append(valid)
        if valid and (fitness != 0 or any(rewards)):
            self.successful.append(ordinal)
        self._rewards.extend(rewards)
        if self.dimensions is None and measures:
            self.dimensions = len(measures)
            self._measures.extend([0.0] * self.dimensions * ordinal)
        if self.dimensions is not None:
            self._measures.extend(measures if measures else [0.0] * self.dimensions)
        self._known[identity] = ordinal
        return ordinal

    def known(self, identity: bytes) -> int | None:
        """The id of the candidate with that identity."""
        ordinal = self._known.get(identity)
        return None if ordinal is None else self.ids[ordinal]

    def ordinal(self, id: int) -> int:
        """The ordinal of a candidate by its database id, O(log n). Raises KeyError if it is not here."""
        place = bisect_left(self.ids, id)
        if place == len(self.ids) or self.ids[place] != id:
            raise KeyError(id)
        return place

    def rewards(self, ordinal: int) -> tuple[float, ...]:
        """(d,)"""
        d = self.objectives
        return tuple(self._rewards[ordinal * d : ordinal * d + d])

    def measures(self, ordinal: int) -> tuple[float, ...]:
        """(f,) raw feature values; zeros for a failed candidate."""
        f = self.dimensions or 0
        return tuple(self._measures[ordinal * f : ordinal * f + f])

    def rank_key(self, ordinal: int) -> tuple[bool, float, int]:
        """Rises with worth: valid before failed, then fitness, then age (the older of two equals wins)."""
        return (bool(self.valid[ordinal]), self.fitness[ordinal], -ordinal)


def index_below(n: int, rng: np.random.Generator) -> int:
    """A uniform integer in [0, n). One float draw costs a fifth of `rng.integers`; the bias is below n / 2^53."""
    return int(rng.random() * n)


class IndexedSet(dict[_T, int]):
    """A set with O(1) add, discard and uniform draw: each item with its place in `order`. That depends only on the
    order of the calls, so equal histories give equal draws."""

    __slots__ = ("order",)

    def __init__(self) -> None:
        self.order: list[_T] = []

    def draw(self, rng: np.random.Generator) -> _T:
        """A uniform member. Raises IndexError when empty."""
        return self.order[index_below(len(self), rng)]

    def add(self, item: _T) -> None:
        if item not in self:
            self[item] = len(self)
            self.order.append(item)

    def discard(self, item: _T) -> None:
        place = self.pop(item, None)
        if place is None:
            return
        last = self.order.pop()
        if place < len(self):  # the last one fills the gap
            self.order[place] = last
            self[last] = place
