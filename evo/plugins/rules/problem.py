"""A rule as the answer of a Problem: its cost on each family of instances, lower being better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np

from evo.plugins.formulas.grammar import Formula, FormulaError
from evo.plugins.rules.rule import RuleTask, describe_features, parse_rule
from problems.contract import Score
from problems.fingerprint import fingerprint_of
from problems.objectives import Objective, measure_objectives

RULE_SCORING = "rules 1"
"""Changes when costs change."""


class RuleProblem(RuleTask):
    """A priority rule to find. Subclasses give the features and the costs.

    objectives: one per family of instances, the mean cost there, lower is better
    fitness: the mean of s / (s + cost) over families, where s is the cost of the seed answer (problems.objectives)
    """

    answer_format = "text"
    execution = "never"
    task: str
    """What the rule decides, in English."""
    seed: str
    """The rule from which a search starts."""

    def __init__(self, name: str, about: Mapping[str, str], families: Sequence[str]) -> None:
        self.name, self.about, self.objectives = name, about, tuple(families)
        self.directions = dict.fromkeys(self.objectives, "min")

    def costs(self, rule: Formula, held_out: bool = False) -> np.ndarray:
        """(families,) the mean cost of a rule on the instances of each family. held_out: on those that steer no
        search"""
        raise NotImplementedError

    @cached_property
    def metrics(self) -> tuple[Objective, ...]:  # type: ignore[override]
        seed = _costs(self, parse_rule(self.seed, self.names), False)
        values = dict(zip(self.objectives, seed, strict=True))
        return measure_objectives(self.objectives, self.directions, values, whole=True)

    def statement(self) -> str:
        return f"{self.task}\n\n{describe_features(self.about)}"

    def seed_answer(self) -> str:
        return self.seed

    def fingerprint(self) -> str:
        """Of the rules of scoring and the costs of the seed answer on the instances."""
        return fingerprint_of(RULE_SCORING, self.name, *self.about, *(f"{one.scale:.9g}" for one in self.metrics))

    def score(self, answer: str) -> Score:
        return self._score(answer, held_out=False)

    holds_out = True

    def score_held_out(self, answer: str) -> Score:
        return self._score(answer, held_out=True)

    def _score(self, answer: str, held_out: bool) -> Score:
        """Features: `size`, the nodes of the rule."""
        try:
            rule = parse_rule(answer, self.names)
        except FormulaError as fault:
            return Score.failure(len(self.objectives), str(fault), f"{fault}. Write one expression.")
        values = _costs(self, rule, held_out)
        rewards = tuple(one.reward(value) for one, value in zip(self.metrics, values, strict=True))
        return Score(rewards, float(np.mean(rewards)), {"size": float(rule.size)}, values=values)


@lru_cache(maxsize=8192)
def _costs(problem: RuleProblem, rule: Formula, held_out: bool) -> tuple[float, ...]:
    """Kept, so that nothing is simulated again for a prompt or an equal answer."""
    return tuple(map(float, problem.costs(rule, held_out)))
