"""In the process of a user's simulator: its file as a scorer of rules (problems.shims.python_scorer calls `adapt`)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property, partial
from statistics import fmean
from types import ModuleType
from typing import Any

import numpy as np

from evo.plugins.formulas.evaluation import quiet
from evo.plugins.formulas.grammar import Formula, FormulaError
from evo.plugins.rules.rule import describe_features, parse_rule, rank
from problems.apart import AnswerError
from problems.contract import clip, finite

Families = dict[str, list[Any]]


def adapt(module: ModuleType) -> Simulator:
    """An object with the names of a scorer file. Raises ValueError if the module's names do not fit."""
    return Simulator(vars(module))


class Simulator:
    """own: the names of the user's file"""

    def __init__(self, own: Mapping[str, Any]) -> None:
        self._simulate, self._names = own["simulate"], tuple(own["features"])
        if not callable(self._simulate):
            raise ValueError("simulate must be a function of a rule and an instance")
        self._families = _read_families("families", own["families"])
        if own.get("held_out") is not None:
            held_out = _read_families("held_out", own["held_out"])
            if set(held_out) != set(self._families):
                raise ValueError(f"held_out has {', '.join(held_out)}; families has {', '.join(self._families)}")
            self.held_out = partial(self.score, families=held_out)
        self.seed_answer = own.get("seed_answer") or self._names[0]
        self.statement = (
            f"{own.get('task') or 'Find a rule that keeps the cost low.'}\n\n{describe_features(own['features'])}"
        )
        self.weights, self.target = own.get("weights"), own.get("target")

    @cached_property
    def _measured(self) -> dict[str, str]:
        """Cost -> its family, of a seed on the first instance of each family."""
        seed = self.seed_answer if isinstance(self.seed_answer, str) else self.seed_answer[0]
        try:
            rule = parse_rule(seed, self._names)
            return {
                name: family
                for family, instances in self._families.items()
                for name in self._costs(rule, {family: instances[:1]})
            }
        except FormulaError as fault:
            raise ValueError(f"seed_answer is {clip(seed)}, but {fault}") from None

    def objectives(self) -> list[str]:
        return list(self._measured)

    def groups(self) -> dict[str, str]:
        """The family of each cost, where one has several: an instance is decided by one rule, for all its costs."""
        families = list(self._measured.values())
        return {name: family for name, family in self._measured.items() if families.count(family) > 1}

    def directions(self) -> dict[str, str]:
        return dict.fromkeys(self._measured, "min")

    def score(self, answer: str, families: Families | None = None) -> dict[str, Any]:
        """The mean cost of a rule on the instances of each family; the feature `size`, the nodes of the rule."""
        try:
            rule = parse_rule(answer, self._names)
        except FormulaError as fault:
            raise AnswerError(f"{fault}. Write one expression.") from None
        return {"rewards": self._costs(rule, families or self._families), "features": {"size": rule.size}}

    def _costs(self, rule: Formula, families: Families) -> dict[str, float]:
        call = _RuleCall(rule, self._names)
        means: dict[str, float] = {}
        with quiet():
            for family, instances in families.items():
                costs = [_read_costs(family, self._simulate(call, instance)) for instance in instances]
                if odd := next((row for row in costs if row.keys() != costs[0].keys()), None):
                    raise ValueError(f"simulate() returned the costs {', '.join(costs[0])}, then {', '.join(odd)}")
                means |= {name: fmean(row[name] for row in costs) for name in costs[0]}
        return means


class _RuleCall:
    """The `rule` that a simulator calls: numbers or arrays in, values of their common shape out."""

    def __init__(self, rule: Formula, names: tuple[str, ...]) -> None:
        self._rule, self._names = rule, names

    def __call__(self, *values: Any, **named: Any) -> Any:
        if named:
            values = (*values, *(named.pop(name) for name in self._names[len(values) :] if name in named))
        if named or len(values) != len(self._names):
            raise TypeError(f"rule() takes the features {', '.join(self._names)}, in this order or by name")
        features = np.empty((len(values), *np.broadcast(*values).shape))
        for index, value in enumerate(values):
            features[index] = value
        return rank(self._rule, features)[()]  # a number of numbers


def _read_families(name: str, families: Any) -> Families:
    """By name; "" for one list. Each instance is a separate copy, as a simulator may take the jobs off a list that
    two families have; every rule is scored in a new process."""
    if isinstance(families, list | tuple):
        families = {"": families}
    if (
        not isinstance(families, dict)
        or not families
        or not all(isinstance(kind, list | tuple) and kind for kind in families.values())
    ):
        raise ValueError(f"{name} must be a list of instances, or map each kind of them to its list; none is empty")
    used = set[int]()
    return {
        str(family): [_separate(name, instance, used) for instance in instances]
        for family, instances in families.items()
    }


def _separate(name: str, instance: Any, used: set[int]) -> Any:
    """A copy, or the instance itself if it has none and is used once. used: ids of the instances so far"""
    repeated = id(instance) in used
    used.add(id(instance))
    try:
        return copy.deepcopy(instance)
    except Exception as error:  # of the instance's own methods
        if not repeated:
            return instance
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{name} holds {clip(instance)} twice, and it cannot be copied ({reason}); make an instance for each"
        ) from error


def _read_costs(family: str, value: Any) -> dict[str, float]:
    """What simulate() returned, by objective."""
    given = value if isinstance(value, dict) else {"": value}
    costs = {" ".join(filter(None, (family, str(name)))) or "cost": finite(cost) for name, cost in given.items()}
    if not costs or None in costs.values():
        where = f" for {family}" if family else ""
        raise ValueError(
            f"simulate() returned {clip(value)}{where}; a cost is a finite number, or such numbers by name"
        )
    return {name: cost for name, cost in costs.items() if cost is not None}
