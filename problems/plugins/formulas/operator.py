"""`scripted:gp`: genetic programming on the formulas that a prompt shows, as a policy without a model.

It changes the parent by subtree, point and hoist mutation and by crossover with the other answers shown. Constants are
fitted when an answer is scored; those of the parent are read from its feedback.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence

from problems.plugins.formulas.generated import FUNCTIONS
from problems.plugins.formulas.grammar import Formula, FormulaError, parse, write
from problems.plugins.formulas.terms import weighted_sum
from problems.plugins.formulas.variation import Variation
from problems.types import Prompt

LARGEST = 45
"""Nodes of a child."""
_NAMES = re.compile(r"from the variables (.+?)\.(?:\n|$)")
_FITTED = re.compile(r"(?m)\bFitted: (.+)$")
_TRIES = 8


def generate(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Children of the parent that a prompt shows. form: how answers are written, text; bits: random

    Raises ValueError for a prompt of another task.
    """
    found = _NAMES.search(prompt.user)
    if found is None:
        raise ValueError("scripted:gp answers formula: problems only; name another --policy")
    names = tuple(name.strip() for name in found[1].split(","))
    shown = _formulas(prompt.shown, names)
    fitted = _FITTED.search(prompt.user)
    if fitted is not None and prompt.shown:
        shown = [*_formulas([fitted[1]], names), *shown[1:]]
    children = []
    for place in range(answers):
        digest = hashlib.blake2b(bits.to_bytes(64, "little") + bytes([place % 256])).digest()
        rng = random.Random(int.from_bytes(digest, "little"))
        children.append(write(_child(shown, names, rng), names, digits=8))
    return children


def _formulas(texts: Sequence[str], names: tuple[str, ...]) -> list[Formula]:
    found = []
    for text in texts:
        try:
            found.append(parse(text, names))
        except FormulaError:
            continue
    return found


def _child(shown: Sequence[Formula], names: tuple[str, ...], rng: random.Random) -> Formula:
    variation = Variation(range(len(names)), FUNCTIONS, rng)
    if not shown or rng.random() < 0.1:
        terms = [variation.term() for _ in range(rng.choice((1, 1, 2, 3)))]
        return weighted_sum(terms, [1.1] * len(terms), 0.1)
    parent, *others = shown
    for _ in range(_TRIES):
        if rng.random() < 0.25:
            child = weighted_sum([parent, variation.term()], [1.0, rng.choice((0.1, -0.1))])
        else:
            child = variation.change(parent, others)
        if child != parent and child.size <= LARGEST:
            return child
    return variation.term()
