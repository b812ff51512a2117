"""Problems whose rules are run on instances of ours, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas.grammar import Formula
from evo.plugins.rules.problem import RuleProblem
from evo.plugins.rules.rule import parse_rule

Floats = npt.NDArray[np.float64]


class SimulatedProblem(RuleProblem):
    """Each family has equally many instances.

    textbook: rules that are known, by their names in the literature
    """

    textbook: ClassVar[Mapping[str, str]]

    def __init__(
        self, name: str, task: str, about: Mapping[str, str], families: Sequence[tuple[str, str, str]]
    ) -> None:
        """families: of each the name, the kind, and what its cost is"""
        super().__init__(name, about, [family for family, _, _ in families])
        self.kinds = tuple(kind for _, kind, _ in families)
        listed = "\n".join(f"  {family}: {cost}" for family, _, cost in families)
        self.task = f"{task}\nCosts, in percent, lower is better:\n{listed}"

    def instance_costs(self, rule: Formula, held_out: bool = False) -> Floats:
        """(families, instances) the cost of a rule on every instance, in percent."""
        raise NotImplementedError

    def costs(self, rule: Formula, held_out: bool = False) -> Floats:
        means: Floats = self.instance_costs(rule, held_out).mean(1)
        return means

    @cached_property
    def _ranked(self) -> list[str]:
        return sorted(self.textbook.values(), key=lambda text: -self.score(text).fitness)

    def known_answers(self, seed: int) -> list[str]:
        """The rules of textbooks."""
        return self._ranked


def measure_textbook(problem: SimulatedProblem, held_out: bool = False) -> dict[str, Floats]:
    """The costs (families, instances) of each textbook rule, by its name."""
    return {
        name: problem.instance_costs(parse_rule(text, problem.names), held_out)
        for name, text in problem.textbook.items()
    }


def choose_portfolio(costs: Mapping[str, Floats], k: int) -> tuple[list[str], float]:
    """Up to k rules, chosen one by one so that the mean over instances of the best member's cost falls most; and that
    mean. costs: (families, instances) of each rule by its name"""
    best: Floats = np.full_like(next(iter(costs.values())), np.inf)
    members: list[str] = []
    for _ in range(k):
        name = min(costs, key=lambda name: np.minimum(best, costs[name]).mean())
        if name in members:
            break
        members.append(name)
        best = np.minimum(best, costs[name])
    return members, float(best.mean())
