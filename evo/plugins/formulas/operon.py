"""`scripted:operon`: pyoperon as a policy for formulas.

Each rollout is a short run of pyoperon on the rows that the prompt shows: on their target, or on the residual of the
parent, to which the found formula is added. Its answers come from the front of that run. Needs pyoperon, as in
`pip install "evo-search[operon]"`.
"""

from __future__ import annotations

import random
import re

import numpy as np

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import Array, evaluate, quiet
from evo.plugins.formulas.grammar import Formula, FormulaError, apply, parse, write
from evo.plugins.formulas.operator import LARGEST, names_in, shown_formulas
from problems.contract import BadAddress
from problems.types import Prompt

POPULATION, PASSES = 100, 2000
"""Of a run; the passes are over the rows shown."""
SYMBOLS = "add,sub,mul,div,square,sqrt,exp,log,sin,cos,tanh,constant,variable"
_NUMBER = re.compile(r"-?[\d.]+(e[-+]?\d+)?")


def generate(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Formulas from the front of one run. form: how answers are written, text; bits: random

    Raises ValueError for a prompt of another task, and BadAddress without pyoperon.
    """
    names = names_in(prompt, "scripted:operon")
    rows = _rows(prompt.user, len(names))
    x, y = np.ascontiguousarray(rows[:, :-1].T), rows[:, -1]
    rng = random.Random(bits)
    parent = next(iter(shown_formulas(prompt, names)), None)
    if parent is not None and rng.random() < 0.5:
        with quiet():
            residual = y - evaluate(parent, x)
        if parent.size > LARGEST // 2 or not np.isfinite(residual).all():
            parent = None
        else:
            y = residual
    else:
        parent = None
    found = _run(x, y, LARGEST if parent is None else LARGEST - parent.size - 1, rng.randrange(2**31))
    if parent is not None:
        found = [apply(g.ADD, parent, formula) for formula in found]
    kept = list(dict.fromkeys(write(formula, names, digits=8) for formula in found))[-2 * answers :]
    rng.shuffle(kept)
    return kept[:answers]


def _rows(text: str, columns: int) -> Array:
    """The numbers (n, columns + 1) of the table in a prompt."""
    lines = [line.split() for line in text.splitlines()]
    found = [cells for cells in lines if len(cells) == columns + 1 and all(map(_NUMBER.fullmatch, cells))]
    if not found:
        raise ValueError("scripted:operon found no rows in the prompt")
    return np.array(found, dtype=np.float64)


def _run(x: Array, y: Array, longest: int, seed: int) -> list[Formula]:
    """The formulas of the front for x (d, n) and y (n,), the least accurate first."""
    try:
        from pyoperon.sklearn import SymbolicRegressor
    except ImportError:
        raise BadAddress('scripted:operon needs pyoperon: pip install "evo-search[operon]"') from None
    model = SymbolicRegressor(
        allowed_symbols=SYMBOLS,
        population_size=POPULATION,
        max_evaluations=PASSES,
        max_length=longest,
        optimizer_iterations=5,
        objectives=["r2", "length"],
        model_selection_criterion="mean_squared_error",
        n_threads=1,
        random_state=seed,
    ).fit(x.T, y)
    names = [f"v{i}" for i in range(len(x))]
    found = []
    for row in sorted(model.pareto_front_, key=lambda row: -float(row["mean_squared_error"])):
        try:
            found.append(parse(model.get_model_string(row["tree"], 12, names), names))
        except FormulaError:  # a number that is not finite
            continue
    return found
