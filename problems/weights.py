"""Weights of a problem's objectives that a user names, the fitness that they make of a reward vector, and the problem
that is judged by it."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from problems.address import did_you_mean
from problems.contract import BadAddress, Problem, Score, finite
from problems.fingerprint import fingerprint_of
from problems.objectives import Objective

SPREAD = "spread"
"""In place of weights: all of them count alike, w ~ Dirichlet(1)."""
ALL_REWARDS = 1.0 - 1e-9
"""The fitness of an answer whose rewards are all 1, under any weights; below 1 for the rounding of a sum."""


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
        if name in found:
            raise BadAddress(f"--weights {text}: {name} is named twice")
        if not equals or not name or not 0 <= value < math.inf:
            raise BadAddress(
                f"--weights {text}: {part.strip()!r} is not an objective with a number of at least 0; "
                f"as in gold=3,diamond=1, or {SPREAD}"
            )
        found[name] = value
    return found


def read_weights(given: Any) -> dict[str, float] | str:
    """As a caller gives them: numbers by objective, or the text of --weights. Raises BadAddress for anything else, and
    for weights that are none of any problem."""
    named = parse_weights(given) if isinstance(given, str) else given
    if isinstance(named, Mapping):
        order_weights(tuple(named), named, "weights")
        return {name: float(number) for name, number in named.items()}
    if named != SPREAD:
        raise BadAddress(f"weights {given!r}: expected numbers by objective, as in gold=3,diamond=1, or {SPREAD}")
    return SPREAD


def write_weights(weights: Mapping[str, float]) -> str:
    """gold 3, diamond 1: those above 0, as people read them."""
    return ", ".join(f"{name} {number:g}" for name, number in weights.items() if number > 0)


def weights_argument(weights: Mapping[str, float]) -> str:
    """As --weights takes them; `parse_weights` reads it."""
    return ",".join(f"{name}={float(number)!r}".removesuffix(".0") for name, number in weights.items())


def describe_fitness(weights: Mapping[str, float] | str | None) -> str:
    """`fitness: gold 3, diamond 1` for the weights of a configuration; "" where it names none."""
    return f"fitness: {write_weights(weights)}" if isinstance(weights, Mapping) else ""


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
    largest = max(weights.values(), default=0.0)
    if largest <= 0:
        raise BadAddress(f"{where}: the weights sum to 0; name an objective with a weight above 0")
    total = sum(weights.values())
    if not math.isfinite(total):
        return order_weights(objectives, {name: number / largest for name, number in weights.items()}, where)
    return tuple(weights.get(name, 0.0) / total for name in objectives)


def weighted_mean(rewards: Sequence[float], weights: Sequence[float]) -> float:
    """The fitness of a reward vector (d,) under ordered weights (d,) with sum 1."""
    return sum(weight * reward for weight, reward in zip(weights, rewards, strict=True))


def ordered_weights(problem: Problem) -> tuple[float, ...]:
    """(d,) with sum 1: the weights that a user named for this problem."""
    assert problem.user_weights is not None
    return order_weights(problem.objectives, problem.user_weights, problem.name)


def weigh_score(problem: Problem, score: Score) -> Score:
    """The score with the fitness under the weights that a user named for the problem; as it is without them. Raises
    ScorerFault for rewards that do not fit."""
    if problem.user_weights is None:
        return score
    score = score.check(problem)
    return replace(score, fitness=weighted_mean(score.rewards, ordered_weights(problem)))


def weigh_objectives(
    names: Sequence[str], known: Sequence[Objective], weights: Sequence[float]
) -> tuple[Objective, ...]:
    """The objectives, plain ones if there are none, as they count under ordered weights (d,) with sum 1."""
    pairs = zip(known or tuple(map(Objective, names)), weights, strict=True)
    return tuple(replace(one, weight=weight, whole=weight == 1.0, counts=weight > 0) for one, weight in pairs)


def describe_weights(problem: Problem) -> str:
    """What the fitness of a problem under a user's weights is, as a clause of a sentence."""
    assert problem.user_weights is not None
    named = {name: number for name, number in problem.user_weights.items() if number > 0}
    if len(named) == 1:
        return f"{next(iter(named))} alone"
    rest = "; the others do not count" if len(named) < len(problem.objectives) else ""
    return f"the weighted mean: {write_weights(named)}{rest}"


def weighed_fingerprint(scorer: str, problem: Problem) -> str:
    """The fingerprint of a problem under a user's weights: that of its scorer, a dash and 8 digits of the weights."""
    rounded = {
        name: f"{weight:.12g}" for name, weight in zip(problem.objectives, ordered_weights(problem), strict=True)
    }
    return f"{scorer}-{fingerprint_of(rounded)[:8]}"


def scorer_fingerprint(fingerprint: str) -> str:
    """The part of a fingerprint that is of the scorer, whatever the weights."""
    return fingerprint.partition("-")[0]


def weigh_by(problem: Problem, weights: Mapping[str, float] | str | None) -> Problem:
    """The problem as a configuration has it judged: under its weights if it names any."""
    return problem.weighted(weights) if isinstance(weights, Mapping) else problem


def weigh_as_stored(problem: Problem, stored: Sequence[Objective]) -> Problem:
    """The problem under the weights that its objectives were stored with; itself if these are its own."""
    own = {one.name: one for one in problem.metrics or map(Objective, problem.objectives)}
    named = math.isclose(sum(one.weight for one in stored), 1.0)  # not so where a run is older than weights
    if not named or all(one.name in own and _counts(own[one.name]) == _counts(one) for one in stored):
        return problem
    return problem.weighted({one.name: one.weight for one in stored})


def _counts(objective: Objective) -> tuple[float, bool]:
    return objective.weight, objective.whole


AnyProblem = TypeVar("AnyProblem", bound=Problem)


def weigh(problem: AnyProblem, weights: Mapping[str, float]) -> AnyProblem:
    """Problem.weighted for a problem of any class: a copy, whose class is one below the problem's own, so that it has
    all other members and passes for one of its kind."""
    if problem.fault is not None:
        return problem  # its objectives are unknown; whatever scores it raises the fault
    order_weights(problem.objectives, weights, problem.name)
    kind, weighed = type(problem), copy.copy(problem)
    if not issubclass(kind, _Weighed):
        object.__setattr__(weighed, "__class__", _weighed_kind(kind))
        vars(weighed)["_plain"] = problem
    # a frozen class refuses assignments
    vars(weighed).update(user_weights=dict(weights), metrics=problem.metrics, best_known=None)
    _count_by_weights(weighed)
    return weighed


def _count_by_weights(problem: Problem) -> None:
    ordered = ordered_weights(problem)
    metrics = weigh_objectives(problem.objectives, problem.metrics, ordered)
    vars(problem).update(metrics=metrics, target=problem.target_under(ordered))


class _Weighed(Problem):
    """In front of a problem's class: what is different under weights. A score that is weighted twice, since one method
    of the class calls another, stays the same."""

    target: float | None = None  # in front of properties of the class
    best_known: float | None = None
    metrics: tuple[Objective, ...] = ()
    _plain: Problem  # the problem itself, since weights change what a fingerprint may be of

    def statement(self) -> str:
        return f"{super().statement()}\n\nThe fitness is {describe_weights(self)}."  # type: ignore[safe-super]

    def fingerprint(self) -> str:
        return weighed_fingerprint(self._plain.fingerprint(), self)

    def restore(self, objectives: Sequence[Objective]) -> None:
        super().restore(objectives)
        _count_by_weights(self)

    def score(self, answer: str) -> Score:
        return weigh_score(self, super().score(answer))  # type: ignore[safe-super]

    def score_seed(self) -> Score:
        return weigh_score(self, super().score_seed())

    def score_held_out(self, answer: str) -> Score:
        return weigh_score(self, super().score_held_out(answer))

    def score_held_out_cases(self, answer: str) -> list[Score]:
        return [weigh_score(self, score) for score in super().score_held_out_cases(answer)]

    def score_of_metrics(
        self, metrics: Mapping[str, float], feedback: str = "", error: str | None = None
    ) -> Score | None:
        score = super().score_of_metrics(metrics, feedback, error)
        return None if score is None else weigh_score(self, score)


@cache
def _weighed_kind(kind: type[Problem]) -> type[Problem]:
    about: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (_Weighed, kind), about)
