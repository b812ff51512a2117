"""Generated formulas of graded difficulty, none of them equal to a published one, up to constants and names.

Problem i of a set is drawn from a random generator that is seeded by the set's name and i, at level i % LEVELS:

    0  one term: a product of powers, or a function of one
    1  a sum of two terms
    2  a sum of two or three terms of more variables
    3  a square root, exponential, logarithm or quotient around a sum
    4  a product or quotient of two sums
"""

from __future__ import annotations

import json
import random
from functools import cache
from importlib.resources import files

import numpy as np

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import Array, evaluate, quiet
from evo.plugins.formulas.grammar import CODES, Formula, apply, fixed, write
from evo.plugins.formulas.published import ROWS, Law
from evo.plugins.formulas.terms import weighted_sum
from evo.plugins.formulas.variation import Variation

LEVELS = 5
SIZES = {"train": 10_000, "test": 100}
FUNCTIONS = tuple(
    CODES[name] for name in ("+", "-", "*", "/", "square", "cube", "sqrt", "exp", "log", "sin", "cos", "tanh")
)
_RANGES = ((1.0, 5.0), (0.5, 3.0), (-2.0, 2.0), (0.0, 1.0))
_TRIES = 10_000


@cache
def _twins() -> dict[str, dict[str, int]]:
    """By set and index, how many draws were left out because they equal a published formula. Canonical forms of all
    draws found them (commit c96219c2)."""
    twins: dict[str, dict[str, int]] = json.loads((files(__package__) / "data" / "twins.json").read_text())
    return twins


@cache
def generate(split: str, index: int) -> Law:
    """Problem `index` of the set "train" or "test"."""
    rng = random.Random(f"formula:{split}/{index}")
    level, twins = index % LEVELS, _twins()[split].get(str(index), 0)
    for _ in range(_TRIES):
        count = rng.randint(1, min(5, 2 + level))
        ranges = [rng.choice(_RANGES) for _v in range(count)]
        formula = _draw(level, count, rng)
        if formula.size > 30 or formula.variables != tuple(range(count)) or not _is_fit(formula, ranges):
            continue
        if twins > 0:  # equal to a published formula
            twins -= 1
            continue
        names = tuple(f"x{i}" for i in range(1, count + 1))
        train, test = (tuple(("U", low, high, float(rows)) for low, high in ranges) for rows in ROWS["feynman"])
        return Law(f"{split}/{index}", write(formula, names, digits=4), names, train, test)
    raise RuntimeError(f"no formula was drawn for formula:{split}/{index}")


def _draw(level: int, count: int, rng: random.Random) -> Formula:
    variation = Variation(range(count), FUNCTIONS, rng)

    def total(terms: int) -> Formula:
        intercept = round(rng.gauss(0, 2), 2) if rng.random() < 0.5 else 0.0
        return weighted_sum(
            [_rounded(variation.term()) for _ in range(terms)], [_number(rng) for _ in range(terms)], intercept
        )

    if level == 0:
        return _rounded(variation.term())
    if level in (1, 2):
        return total(2 if level == 1 else rng.randint(2, 3))
    if level == 3:
        outer = rng.choice((g.SQRT, g.EXP, g.LOG, g.DIV))
        return apply(g.DIV, fixed(1), total(2)) if outer == g.DIV else apply(outer, total(2))
    return apply(rng.choice((g.MUL, g.DIV)), total(rng.randint(1, 2)), total(2))


def _number(rng: random.Random) -> float:
    return rng.choice((1.0, 1.0, 2.0, -1.0, round(rng.uniform(0.1, 5), 2), round(-rng.uniform(0.1, 5), 2)))


def _rounded(formula: Formula) -> Formula:
    """Its constants with two decimals, none of them 0."""
    return formula.with_constants([round(formula.values[p], 2) or 0.5 for p in formula.fitted])


def _is_fit(formula: Formula, ranges: list[tuple[float, float]]) -> bool:
    """Whether it has values of moderate size everywhere, and every variable matters."""
    rng = np.random.default_rng(0)
    x = np.array([rng.uniform(low, high, 400) for low, high in ranges])
    with quiet():
        y = evaluate(formula, x)
        if not np.isfinite(y).all() or float(np.abs(y).max()) > 1e4:
            return False
        spread = float(y.std())
        middle = float(np.abs(y - np.median(y)).mean())
        if spread < 1e-3 * max(1.0, float(np.abs(y).max())) or middle < 0.1 * spread:
            return False
        return all(_matters(formula, x, y, row, spread) for row in range(len(x)))


def _matters(formula: Formula, x: Array, y: Array, row: int, spread: float) -> bool:
    moved = x.copy()
    moved[row] = moved[row][::-1]
    return float((evaluate(formula, moved) - y).std()) > 0.03 * spread
