"""`scripted:gp` for formulas: genetic programming, a policy without a model.

It changes the parent by subtree, point and hoist mutation and by crossover with the other answers shown. Constants are
fitted when an answer is scored; those of the parent are read from its feedback.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from functools import cache

from evo.plugins.formulas.grammar import CODES, Formula, FormulaError, parse_formula, write_formula
from evo.plugins.formulas.terms import weighted_sum
from evo.plugins.formulas.variation import Variation
from problems.entry_points import find_entry_points, load_entry_point
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.scripted import Generator

_FUNCTIONS = tuple(
    CODES[name] for name in ("+", "-", "*", "/", "square", "cube", "sqrt", "exp", "log", "sin", "cos", "tanh")
)
_LARGEST = 45
"""Nodes of a child."""
_NAMES = re.compile(r"from the variables (.+?)\.(?:\n|$)")
_FITTED = re.compile(r"(?m)\bFitted: (.+)$")
_TRIES = 8


def generate(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Children of the parent that a prompt shows. form: how answers are written, text; bits: random. What is no formula
    goes to the generator `rule-gp`.

    Raises PolicyUnavailable for a prompt of another task.
    """
    match = _NAMES.search(prompt.user)
    if match is None:
        return _find_other()(prompt, form, answers, bits)
    names = tuple(name.strip() for name in match[1].split(","))
    shown = _formulas(prompt.shown, names)
    fitted = _FITTED.search(prompt.user)
    if fitted is not None and prompt.shown:  # the parent has the constants that its feedback gives
        shown = [*_formulas([fitted[1]], names), *shown[1:]]
    return [write_formula(_child(shown, names, _generator(bits, place)), names, digits=8) for place in range(answers)]


@cache
def _find_other() -> Generator:
    """The generator of rules (evo/plugins/rules), a folder that may have been deleted."""
    if point := find_entry_points("evo.generators").get("rule-gp"):
        found: Generator = load_entry_point(point, "scripted:gp")
        return found
    raise PolicyUnavailable("it changes formulas only; name another --policy")


def _generator(bits: int, place: int) -> random.Random:
    digest = hashlib.blake2b(bits.to_bytes(64, "little") + bytes([place % 256])).digest()
    return random.Random(int.from_bytes(digest, "little"))


def _formulas(texts: Sequence[str], names: tuple[str, ...]) -> list[Formula]:
    formulas = []
    for text in texts:
        try:
            formulas.append(parse_formula(text, names))
        except FormulaError:
            continue
    return formulas


def _child(shown: Sequence[Formula], names: tuple[str, ...], rng: random.Random) -> Formula:
    variation = Variation(range(len(names)), _FUNCTIONS, rng)
    if not shown or rng.random() < 0.1:
        terms = [variation.term() for _ in range(rng.choice((1, 1, 2, 3)))]
        return weighted_sum(terms, [1.1] * len(terms), 0.1)
    parent, *others = shown
    for _ in range(_TRIES):
        if rng.random() < 0.25:
            child = weighted_sum([parent, variation.term()], [1.0, rng.choice((0.1, -0.1))])
        else:
            child = variation.change(parent, others)
        if child != parent and child.size <= _LARGEST:
            return child
    return variation.term()
