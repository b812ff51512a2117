"""`scripted:gp` for rules, also as `scripted:rule-gp`: genetic programming whose numbers stay as they are written.

A child is the parent after subtree, point, hoist or insert mutation, crossover with another answer that is shown, or
with another number. Numbers are mostly those of the language `rule-edit`.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence

from evo.plugins.formulas.grammar import Formula, FormulaError, apply, fixed, write_formula
from evo.plugins.formulas.variation import Variation, uses_variables
from evo.plugins.rules.language import VALUES
from evo.plugins.rules.rule import MOST_RULE_NODES, RULE_FUNCTIONS, parse_rule
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable

_NAMES = re.compile(r"(?m)^The answer is one expression over the features (.+?)\. What has ")
_NUMBERS = [value for value in VALUES if value > 0]


class RuleVariation(Variation):
    """The changes of rules."""

    unary_share = 0.08

    def number(self) -> Formula:
        """One of those that the language has a word for."""
        return fixed(self.rng.choice(_NUMBERS))

    def inner(self) -> Formula:
        """A random tree of 2 to 4 levels."""
        return self.tree(self.rng.choice((2, 3, 4)))

    def insert(self, formula: Formula) -> Formula:
        """A function inserted above a random subtree, which is one of its arguments."""
        begin, end = formula.subtree(self.rng.randrange(formula.size))
        part = formula.cut(begin, end)
        if self.rng.random() < self.unary_share:
            return formula.replace(begin, end, apply(self.rng.choice(self.unary), part))
        both = [part, self.tree(self.rng.choice((1, 1, 2)))]
        self.rng.shuffle(both)
        return formula.replace(begin, end, apply(self.rng.choice(self.binary), *both))

    def jitter(self, formula: Formula) -> Formula:
        """One number changed: to the next one of the language, or by a random factor."""
        if not formula.values:
            return self.point(formula)
        place = self.rng.randrange(len(formula.values))
        value = formula.values[place]
        if self.rng.random() < 0.5:
            nearest = min(range(len(_NUMBERS)), key=lambda k: abs(_NUMBERS[k] - value))
            value = _NUMBERS[min(max(nearest + self.rng.choice((-1, 1)), 0), len(_NUMBERS) - 1)]
        else:
            value = float(f"{value * math.exp(self.rng.gauss(0.0, 0.5)):.2g}")
        return Formula(formula.codes, (*formula.values[:place], value, *formula.values[place + 1 :]))


def generate(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Different children of the parent that a prompt shows. form: how answers are written, text; bits: random

    Raises PolicyUnavailable for a prompt of another task.
    """
    match = _NAMES.search(prompt.user)
    if match is None:
        raise PolicyUnavailable("it changes formulas and rules only; name another --policy")
    names = tuple(match[1].split(", "))
    shown: list[Formula] = []
    for text in prompt.shown:
        try:
            shown.append(parse_rule(text, names))
        except FormulaError:
            continue
    variation = RuleVariation(range(len(names)), RULE_FUNCTIONS, random.Random(bits))
    children: dict[Formula, None] = {}
    while len(children) < answers:
        children[_child(variation, shown, children)] = None
    return [write_formula(child, names) for child in children]


def _child(variation: RuleVariation, shown: Sequence[Formula], taken: dict[Formula, None]) -> Formula:
    """A rule that is neither shown nor taken."""
    rng = variation.rng
    while True:
        fresh = not shown or rng.random() < 0.05
        child = variation.inner() if fresh else variation.change(shown[0], shown[1:])
        if child.size <= MOST_RULE_NODES and uses_variables(child) and child not in taken and child not in shown:
            return child
