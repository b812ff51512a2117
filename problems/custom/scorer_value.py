"""What a user's score() gave, as a Score: the shapes it may have, and the faults that name file and value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from problems.contract import Score, ScorerFault
from problems.directions import reward_of

RESERVED = ("fitness", "combined_score", "feedback", "features", "error", "rewards")
"""Keys of a score that are no objectives."""


@dataclass(frozen=True)
class ScorerShape:
    """How one scorer's scores are read.

    where: the file or function, named in faults
    objectives: the names that every score must have, no more and no fewer
    weights: of the objectives in the fitness, None for the plain mean
    directions: "min" for objectives that are better when lower (problems.directions)
    left_out: further names that a score may have, which count for nothing
    """

    where: str
    objectives: tuple[str, ...]
    weights: tuple[float, ...] | None = None
    directions: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def score(self, value: Any) -> Score:
        """Raises ScorerFault where names do not fit or a number is not finite."""
        given = {k: v for k, v in numbers(value, self.objectives).items() if k not in self.left_out}
        if set(given) != set(self.objectives):
            raise ScorerFault(
                f"{self.where}: score() returned {clip(value)} with the names {', '.join(given) or '(none)'}; the "
                f"objectives are {', '.join(self.objectives)}"
            )
        extra = value if isinstance(value, dict) else {}
        named = {**given, **{key: extra[key] for key in ("fitness", "combined_score") if extra.get(key) is not None}}
        features = extra.get("features") or {}
        if not isinstance(features, dict):
            raise ScorerFault(f"{self.where}: score() returned features = {clip(features)}, not numbers by name")
        for name, number in {**named, **features}.items():
            if not isinstance(number, int | float) or not math.isfinite(number):
                raise ScorerFault(f"{self.where}: score() returned {name} = {clip(number)}; it must be a finite number")
        rewards = tuple(reward_of(float(given[name]), self.directions.get(name)) for name in self.objectives)
        fitness = next((float(named[key]) for key in ("fitness", "combined_score") if key in named), None)
        if fitness is None:
            weights = self.weights or (1.0,) * len(rewards)
            fitness = sum(w * r for w, r in zip(weights, rewards, strict=True)) / sum(weights)
        told = None if "error" in self.objectives else extra.get("error")
        error = " ".join(str(told).split()) if told else None
        feedback = str(extra.get("feedback") or error or "")
        return Score(rewards, fitness, {str(k): float(v) for k, v in features.items()}, feedback, error)


def numbers(value: Any, objectives: Sequence[str] = ()) -> dict[str, Any]:
    """The objectives' values in what score() returned; {} where it holds none. A list goes by `objectives` in order."""
    if not isinstance(value, dict):
        return {objectives[0] if len(objectives) == 1 else "score": value}
    rewards = value.get("rewards")
    if isinstance(rewards, dict):
        return {str(name): number for name, number in rewards.items()}
    if isinstance(rewards, list | tuple):
        names = objectives if len(objectives) == len(rewards) else [f"reward_{n}" for n in range(1, len(rewards) + 1)]
        return dict(zip(names, rewards, strict=True))
    plain = {str(key): item for key, item in value.items() if key not in RESERVED or key in objectives}
    return plain or {key: value[key] for key in ("combined_score", "fitness") if key in value}


def objective_names(where: str, value: Any, asked: Sequence[str] = ()) -> tuple[str, ...]:
    """The objectives that the seed's score tells: its names, sorted; a list's places in order. `asked` are names that
    have a direction."""
    names = tuple(numbers(value, asked))
    if not names:
        raise ScorerFault(f"{where}: score() returned {clip(value)}, which holds no number")
    positional = isinstance(value, dict) and isinstance(value.get("rewards"), list | tuple)
    return names if positional else tuple(sorted(names))


def check_weights(where: str, weights: Any, objectives: Sequence[str]) -> tuple[float, ...] | None:
    """`weights` in the order of the objectives."""
    if weights is None:
        return None
    if isinstance(weights, dict):
        if unknown := sorted(map(str, set(weights) - set(objectives))):
            raise ScorerFault(
                f"{where}: weights names {', '.join(unknown)}; the objectives are {', '.join(objectives)}"
            )
        weights = [weights.get(name, 0.0) for name in objectives]
    fits = isinstance(weights, list | tuple) and len(weights) == len(objectives)
    if not fits or not all(isinstance(w, int | float) and 0 <= w < math.inf for w in weights):
        raise ScorerFault(f"{where}: weights is {clip(weights)}, not {len(objectives)} numbers of at least 0")
    if sum(weights) <= 0:
        raise ScorerFault(f"{where}: weights sum to 0")
    return tuple(float(w) for w in weights)


def clip(value: Any) -> str:
    """A value in a fault's message, shortened."""
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
