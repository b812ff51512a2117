"""A problem of mathematics: its construction, its measure, and the best known value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal


class Unfit(Exception):
    """A construction without value; one line with the reason, for the next prompt."""


@dataclass(frozen=True)
class Best:
    """The best value known of one instance, and who found it.

    decimals: to which it is rounded, as it was published; None if it is known to full precision
    """

    value: float
    source: str
    decimals: int | None = None

    def rounding(self) -> Fraction:
        """How far the true value may be from the published one."""
        return Fraction(0) if self.decimals is None else Fraction(1, 2 * 10**self.decimals)


@dataclass(frozen=True)
class Measured:
    """The value of a construction.

    value: of the construction made feasible at tolerance 0, exact or rounded to the worse side
    raw: of the returned construction, before any repair
    repair: a sentence on the repair, "" if none
    """

    value: Fraction
    raw: float
    repair: str = ""


@dataclass(frozen=True)
class MathsTask:
    """One problem: a row of tasks.yaml, which says what its fields hold, and its measure.

    instances: the best value known of each size
    better: whether a large or a small value is better
    measure: (the returned construction, size) -> Measured; raises Unfit
    """

    name: str
    title: str
    entry: str
    headline: int
    instances: Mapping[int, Best]
    better: Literal["max", "min"]
    aliases: tuple[str, ...]
    text: str
    unit: str
    source: str
    seed: str
    fingerprint: str
    measure: Callable[[Any, int], Measured] = field(compare=False)
    symbol: str = "n"
    alias_size: int | None = None

    @property
    def best(self) -> Best:
        """The best value of the headline."""
        return self.instances[self.headline]

    def sizes(self) -> tuple[int, ...]:
        """Every instance, the headline first: the order of the components."""
        return (self.headline, *sorted(size for size in self.instances if size != self.headline))

    def fitness(self, value: float) -> float:
        """Higher is better: the value, or its inverse if small values are."""
        return value if self.better == "max" else 1 / value

    def quality(self, size: int, value: float) -> float:
        """The component of one instance, 1.0 at the best value known and above."""
        best = self.instances[size].value
        share = value / best if self.better == "max" else best / value
        return min(1.0, max(0.0, share))

    def beats(self, size: int, value: Fraction, margin: Fraction) -> bool:
        """Whether `value` is better than the best known by more than `margin` of it, in exact arithmetic. A published
        value means the best one that rounds to it."""
        known = self.instances[size]
        best, rounding = Fraction(known.value), known.rounding()
        if self.better == "max":
            return value > (best + rounding) * (1 + margin)
        return value < (best - rounding) * (1 - margin)
