"""Weights of a problem's objectives that a user names, and the fitness that they make of a reward vector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from problems.address import did_you_mean
from problems.contract import BadAddress, finite

SPREAD = "spread"
"""In place of weights: all of them count alike, w ~ Dirichlet(1)."""


def parse_weights(text: str) -> dict[str, float] | str:
    """`gold=3,diamond=1` as numbers by name, or SPREAD. Raises BadAddress for anything else."""
    if text.strip() == SPREAD:
        return SPREAD
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.rpartition("="))
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not equals or not name or not 0 <= value < math.inf or name in found:
            raise BadAddress(
                f"--weights {text}: {part.strip()!r} is not an objective with a number of at least 0; "
                f"as in gold=3,diamond=1, or {SPREAD}"
            )
        found[name] = value
    return found


def write_weights(weights: Mapping[str, float]) -> str:
    """`gold=3,diamond=1`, as parse_weights reads it."""
    return ",".join(f"{name}={weight:.12g}" for name, weight in weights.items())


def order_weights(objectives: Sequence[str], weights: Mapping[str, float], where: str) -> tuple[float, ...]:
    """(d,) in the order of the objectives, with sum 1; objectives without a weight have 0. where: whose objectives they
    are, for the message. Raises BadAddress for an unknown name, a number that is negative or not finite, and a sum of
    0."""
    for name, number in weights.items():
        if name not in objectives:
            known = f"it has {', '.join(objectives)}{did_you_mean(name, objectives, most=1)}"
            raise BadAddress(f"{where} has no objective {name!r}; {known}")
        if finite(number) is None or number < 0:
            raise BadAddress(f"{where}: the weight of {name} is {number!r}, not a number of at least 0")
    total = sum(weights.values())
    if total <= 0:
        raise BadAddress(f"{where}: the weights sum to 0; name an objective with a weight above 0")
    return tuple(weights.get(name, 0.0) / total for name in objectives)


def weighted_mean(rewards: Sequence[float], weights: Sequence[float]) -> float:
    """The fitness of a reward vector (d,) under ordered weights (d,) with sum 1."""
    return sum(weight * reward for weight, reward in zip(weights, rewards, strict=True))
