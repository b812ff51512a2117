"""The objectives of a problem as its scorer measures them, and the rewards that count for them inside.

A search, its archive and a training maximise rewards, of which 0 is that of a failed answer. The value of an objective
that is better when lower becomes one here; what people, pages and models are shown is the value. Two types keep them
apart: a `Reward` is of one stored answer, and whatever is computed from several is none, so that only `value_of` turns
it back; whatever paints a number takes a `Value`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, NewType, Protocol

Reward = NewType("Reward", float)
"""A fitness as selection maximises it, of one answer. No view shows it."""


class Measure(NamedTuple):
    """What a number is of. name: as people read it; lower: whether a lower number is better"""

    name: str
    lower: bool = False

    @property
    def title(self) -> str:
        """With an arrow if lower is better."""
        return self.name + ARROW * self.lower


ARROW = " ↓"
FITNESS = Measure("fitness")
REWARD = Measure("reward")
"""Of means over problems that measure different things, which have no mean in their own units."""


@dataclass(frozen=True)
class Value:
    """A number in the unit and direction of its scorer. number: None if it is not known"""

    number: float | None
    measure: Measure = FITNESS


@dataclass(frozen=True)
class Objective:
    """lower: whether a lower value is better; scale: the value that counts .5 then
    seed: the value of the seed answer, None if it is unknown
    whole: whether the reward of this objective is the fitness, at most one is; weight: of its reward, where the fitness
        is a weighted mean
    group: what it shares with other objectives that one answer has to serve together, as the costs of one kind of day;
        None if it is alone
    counts: whether its reward is in the fitness at all; not where the scorer itself gives the fitness, nor at weight 0
    """

    name: str
    lower: bool = False
    scale: float = 1.0
    seed: float | None = None
    whole: bool = False
    weight: float = 1.0
    group: str | None = None
    counts: bool = True

    @property
    def measure(self) -> Measure:
        return Measure(self.name, self.lower)

    def reward(self, value: float) -> float:
        """scale / (scale + value) if lower is better, and 1 - value / scale below 0: it falls as the value rises and
        stays above 0."""
        if not self.lower:
            return value
        return self.scale / (self.scale + value) if value >= 0 else 1 - value / self.scale

    def value(self, reward: float) -> float:
        """The inverse of `reward`, but for rounding; nan for the reward of a failed answer."""
        if not self.lower:
            return reward
        if reward <= 0:
            return math.nan
        value = self.scale * (1 - reward) / min(reward, 1.0)
        return round(value, 14 - math.floor(math.log10(self.scale)))  # a reward holds no more of it


def measure_objectives(
    names: Sequence[str], directions: Mapping[str, str], seed: Mapping[str, float | None], whole: bool
) -> tuple[Objective, ...]:
    """seed: its values, of which the scales are made; whole: whether the fitness is made of the objectives"""
    found = []
    for name in names:
        value, lower = seed.get(name), directions.get(name) == "min"
        scale = abs(value or 0) or 1.0 if lower else 1.0
        found.append(Objective(name, lower, scale, value, whole and len(names) == 1, counts=whole))
    return tuple(found)


def groups_of(objectives: Sequence[Objective]) -> tuple[tuple[int, ...], ...]:
    """Which objectives one answer serves together: the indices of each group, of an objective without one its own."""
    groups = dict[object, list[int]]()
    for index, one in enumerate(objectives):
        groups.setdefault((index,) if one.group is None else one.group, []).append(index)
    return tuple(map(tuple, groups.values()))


def seeded_objectives(
    names: Sequence[str], objectives: Sequence[Objective], seed: HasValues | None
) -> tuple[Objective, ...]:
    """The objectives, plain ones if there are none, with the values of a seed that was scored."""
    known = tuple(objectives) or tuple(map(Objective, names))
    if seed is None or seed.error is not None:
        return known
    return tuple(replace(one, seed=value) for one, value in zip(known, own_values(known, seed), strict=True))


class HasValues(Protocol):
    """A Score, or a stored candidate: rewards, and the scorer's own values if they differ."""

    @property
    def error(self) -> str | None: ...
    @property
    def rewards(self) -> tuple[float, ...]: ...
    @property
    def values(self) -> tuple[float | None, ...]: ...


def own_values(objectives: Sequence[Objective], scored: HasValues) -> tuple[float | None, ...]:
    """What the scorer itself measured, in the order of the objectives; None for what was not measured, as of a failed
    answer."""
    if not any(one.lower for one in objectives):
        return scored.rewards
    unknown = (None if one.lower else reward for one, reward in zip(objectives, scored.rewards, strict=True))
    return scored.values or tuple(unknown)


def score_values(
    names: Sequence[str], objectives: Sequence[Objective], values: Mapping[str, float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(rewards of these values, the values in their order or () if these are the rewards). objectives: () if all are
    plain. Raises KeyError for a value that is missing."""
    own = tuple(values[name] for name in names)
    rewards = tuple(one.reward(values[one.name]) for one in objectives) or own
    return rewards, () if rewards == own else own


def value_of(objectives: Sequence[Objective], fitness: Reward | None, values: Sequence[float | None] = ()) -> Value:
    """A stored fitness as the scorer measures it: the value of the one objective that is the whole fitness and better
    when lower, else the fitness as it is. values: what the scorer measured, as it is stored; the inverse of `reward`
    without it"""
    measure = measure_of(objectives)
    index = whole_index(objectives)
    if fitness is None or index is None or not measure.lower:
        return Value(fitness, measure)
    number = values[index] if values else objectives[index].value(fitness)
    return Value(None if number is None or math.isnan(number) else number, measure)


def whole_index(objectives: Sequence[Objective]) -> int | None:
    """The index of the objective that is the whole fitness, None if there is none."""
    return next((index for index, one in enumerate(objectives) if one.whole), None)


def fitness_objective(objectives: Sequence[Objective]) -> Objective:
    """What the fitness is of: the one objective that is all of it and better when lower, else a fitness."""
    return next((one for one in objectives if one.whole and one.lower), Objective(FITNESS.name))


def measure_of(objectives: Sequence[Objective]) -> Measure:
    """The measure of that."""
    return fitness_objective(objectives).measure


def is_lower(objectives: Sequence[Objective]) -> bool:
    """Whether the fitness is the reward of one objective that is better when lower."""
    return fitness_objective(objectives).lower


def describe_directions(objectives: Sequence[Objective]) -> str:
    """Sentences about the objectives that are better when lower; "" if there are none."""
    lower = [one for one in objectives if one.lower]
    if not lower:
        return ""
    told = f"Lower is better in {', '.join(one.name for one in lower)}."
    scales = ", ".join(f"{one.scale:.4g} for {one.name}" for one in lower if one.counts)
    if is_lower(objectives) or not scales:
        return told
    return f"{told} In the fitness each counts as s / (s + its value), where s is {scales}."
