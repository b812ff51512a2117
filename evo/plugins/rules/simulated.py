"""Problems whose rules are run on instances of ours, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from evo.plugins.formulas.evaluation import Reals
from evo.plugins.formulas.grammar import Formula
from evo.plugins.rules.compiled import Integers, arrays_of
from evo.plugins.rules.problem import RuleProblem


class Batch(Protocol):
    """Instances that are simulated together."""

    def costs(self, codes: Integers, numbers: Reals) -> Reals:
        """(n,) the cost of a rule (arrays_of) on each, in percent."""


@dataclass(frozen=True)
class Family:
    """Base class of the families of instances. kind: the word by which a policy knows it; about: what its cost is"""

    name: str
    kind: str
    about: str

    def draw(self, rng: np.random.Generator, count: int) -> Sequence[Batch]:
        """`count` instances of each of its sizes."""
        raise NotImplementedError


@dataclass(frozen=True)
class Domain:
    """task: what a rule decides, in English; about: its features; seed: the rule from which a search starts
    textbook: rules that are known, by their names in the literature"""

    task: str
    about: Mapping[str, str]
    seed: str
    textbook: Mapping[str, str]
    source: str
    licence: str = "Apache-2.0"


class SimulatedProblem(RuleProblem):
    """Instances drawn from seeds, equally many of each family. counts: those that steer a search and those held out"""

    def __init__(
        self,
        name: str,
        domain: Domain,
        families: Sequence[Family],
        seeds: tuple[int, ...] = (),
        counts: tuple[int, ...] = (1,),
    ) -> None:
        super().__init__(name, domain.about, [one.name for one in families])
        self.kinds = tuple(one.kind for one in families)
        self.seed, self.textbook = domain.seed, domain.textbook
        self.source, self.licence = domain.source, domain.licence
        self.holds_out = len(counts) > 1
        listed = "\n".join(f"  {one.name}: {one.about}" for one in families)
        self.task = f"{domain.task}\nCosts, in percent, lower is better:\n{listed}"
        self._families, self._seeds, self._counts = families, seeds, counts

    @cached_property
    def instances(self) -> list[list[Sequence[Batch]]]:
        """Of every family, first those that steer a search, then those held out."""
        return [
            [one.draw(np.random.default_rng([*self._seeds, k, place]), n) for place, one in enumerate(self._families)]
            for k, n in enumerate(self._counts)
        ]

    def instance_costs(self, rule: Formula, held_out: bool = False) -> Reals:
        """(families, instances) the cost of a rule on every instance, in percent."""
        arrays = arrays_of(rule)
        return np.array([np.concatenate([part.costs(*arrays) for part in one]) for one in self.instances[held_out]])

    def costs(self, rule: Formula, held_out: bool = False) -> Reals:
        means: Reals = self.instance_costs(rule, held_out).mean(1)
        return means

    def known_answers(self, seed: int) -> list[str]:
        """The rules of textbooks."""
        return sorted(self.textbook.values(), key=lambda text: -self.score(text).fitness)
