"""A priority rule: a formula of the grammar over named features. What waits has a value each, and the smallest goes
first.

A rule is parsed and evaluated on arrays, never executed as code. Its numbers stay as they are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas.evaluation import evaluate_formula, quiet
from evo.plugins.formulas.grammar import (
    CODES,
    CONSTANT,
    Formula,
    FormulaError,
    function_name,
    parse_formula,
    write_formula,
)
from evo.plugins.formulas.simplify import simplify
from evo.plugins.formulas.variation import Variation
from problems.contract import Problem

MOST_RULE_NODES = 31
"""Of a rule: it is to be read by a person."""
_ROWS = 400
"""Of features, by which two forms of a rule are compared."""
RULE_FUNCTIONS = tuple(
    CODES[name] for name in ("+", "-", "*", "/", "min", "max", "neg", "abs", "square", "sqrt", "exp", "log")
)
"""Codes of the functions that a rule may use."""
_CALLED = ", ".join(
    function_name(code) for code in RULE_FUNCTIONS if function_name(code).isalpha() and function_name(code) != "neg"
)


class RuleTask(Problem):
    """A problem whose answers are rules, as operators and prompts need to know it.

    about: what each feature is, by its name; the order is that of the formula's variables
    kinds: a word of the language a family (evo.plugins.rules.language.FAMILY_KINDS); "other" for each if empty
    """

    about: Mapping[str, str]
    kinds: tuple[str, ...] = ()
    default_policy = "scripted:gp"

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features, in the order of the formula's variables."""
        return tuple(self.about)

    def canonical(self, answer: str) -> str:
        """The rule as the grammar writes it; other texts as other problems have them."""
        try:
            return write_formula(parse_formula(answer, self.names).freeze(), self.names)
        except FormulaError:
            return super().canonical(answer)

    def picture(self, answer: str) -> str:
        """The rule with fewer nodes, if one has the same values on _ROWS drawn rows of features; else ""."""
        try:
            rule = parse_rule(answer, self.names)
        except FormulaError:
            return ""
        drawn = np.random.default_rng(0).normal(scale=50.0, size=(len(self.names), _ROWS))
        drawn[:, ::2] = np.abs(drawn[:, ::2])
        with quiet():
            shorter = simplify(rule, drawn)
        return f"simplified: {write_formula(shorter, self.names)}" if shorter.size < rule.size else ""

    def random_answer(self, rng: Random) -> str:
        return write_formula(Variation(range(len(self.names)), RULE_FUNCTIONS, rng).tree(4).freeze(), self.names)


def parse_rule(text: str, names: tuple[str, ...]) -> Formula:
    """The rule that a text says. Raises FormulaError, one line, also for functions and sizes that a rule has not."""
    rule = parse_formula(text, names).freeze()
    if rule.size > MOST_RULE_NODES:
        raise FormulaError(f"the rule has {rule.size} nodes; at most {MOST_RULE_NODES} are read")
    for code in rule.codes:
        if code < CONSTANT and code not in RULE_FUNCTIONS:
            raise FormulaError(f"{function_name(code)} is not part of a rule; there is + - * / {_CALLED}")
    return rule


def rank(rule: Formula, features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The values (n,) of what waits; the smallest goes first, and what has no value goes last. features: (d, n)"""
    with quiet():
        values = evaluate_formula(rule, features)
    return np.where(np.isnan(values), np.inf, values)


def describe_features(about: Mapping[str, str]) -> str:
    """The sentences of a statement that say how a rule is written. scripted:gp reads the features from them."""
    listed = "\n".join(f"  {name}: {text}" for name, text in about.items())
    return f"""\
The answer is one expression over the features {", ".join(about)}. What has the smallest value goes first.
{listed}
Write + - * /, parentheses, numbers, and {_CALLED}. At most {MOST_RULE_NODES} names, numbers and operators. No prose."""
