"""Linear models around links: y = M * g(c0 + c1 t1 + ...), found by least squares before anything evolves.

Many laws are of this form: products of powers (one fit of logarithms), polynomials, rational functions, square roots
and exponentials of sums. A fit of all terms tells in one evaluation whether the target is in their span; terms are
then removed one by one. Forward selection (orthogonal least squares) finds few among many.

Sources: interaction-transformation (de Franca 2018), TIR (2022); SINDy (Brunton 2016) for removal; separability in
logarithms after AI Feynman (Udrescu and Tegmark 2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import Reals, evaluate_formula
from evo.plugins.formulas.grammar import Formula, apply
from evo.plugins.formulas.ledger import EXACT, PASS_NODES, Ledger
from evo.plugins.formulas.terms import LINKS, Link, monomial, weighted_sum

_MOST_KEPT = 20_000
"""Terms whose values are kept."""


@dataclass(frozen=True)
class Target:
    """What a sum has to equal: z with y = prefactor * link(z), and the root weights with which z's error is y's.

    indices: of the variables that z may depend on
    """

    link: Link
    prefactor: Formula | None
    factor: Reals | None
    z: Reals
    root: Reals
    indices: tuple[int, ...]

    @property
    def is_plain(self) -> bool:
        """Whether z is y."""
        return self.link.name == "identity" and self.prefactor is None

    def wrap(self, inner: Formula) -> Formula:
        """The formula of y around one of z."""
        outer = self.link.wrap(inner)
        if self.prefactor is None:
            return outer
        if self.link.name.startswith(("reciprocal", "inverse")):
            return apply(g.DIV, self.prefactor, outer.arguments()[1])
        return apply(g.MUL, self.prefactor, outer)

    def loss(self, ledger: Ledger, z: Reals) -> float:
        """The loss in y of a prediction of z."""
        predicted = self.link.forward(z)
        if self.factor is not None:
            predicted = predicted * self.factor
        residual = predicted - ledger.y
        square = residual * residual
        total = float(square.mean() if ledger.weights is None else (square * ledger.weights).mean())
        return total if math.isfinite(total) else math.inf


def make_target(ledger: Ledger, name: str, indices: Sequence[int], prefactor: Formula | None = None) -> Target | None:
    """The target of a link; None if some row has no z, or z is as good as constant."""
    link, factor, y = LINKS[name], None, ledger.y
    if prefactor is not None:
        factor = evaluate_formula(prefactor, ledger.x)
        y = y / factor
    z = link.inverse(y)
    slope = np.abs(link.slope(y) if factor is None else link.slope(y) * factor)
    if not (np.isfinite(z).all() and np.isfinite(slope).all()):
        return None
    spread = float(np.abs(z).max())
    if spread > ledger.largest or float(z.std()) <= 1e-14 * spread:
        return None
    top = float(slope.max())
    root = np.maximum(slope / top, 1e-6) if top > 0 else np.ones_like(z)
    if ledger.weights is not None:
        root = root * np.sqrt(ledger.weights)
    return Target(link, prefactor, factor, z, root, tuple(indices))


def solve(columns: Reals, z: Reals, root: Reals) -> tuple[Reals, Reals] | None:
    """Weighted least squares with an intercept: coefficients (k + 1,), the intercept last, and their standard errors
    over the residual's deviation; None if it is singular beyond repair. columns: (k, n)"""
    design = np.vstack([columns, np.ones_like(z)]) * root
    scale = np.sqrt((design * design).sum(1))
    scale[scale == 0] = 1.0
    try:
        u, s, vt = np.linalg.svd((design / scale[:, None]).T, full_matrices=False)
    except np.linalg.LinAlgError:
        return None
    keep = s > 1e-13 * s[0]
    inverse = np.where(keep, 1 / np.where(keep, s, 1), 0.0)
    coefficients = vt.T @ (inverse * (u.T @ (z * root)))
    errors = np.sqrt(((vt.T * inverse) ** 2).sum(1))
    return coefficients / scale, errors / scale


class TermColumns:
    """The values of terms, each evaluated once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._values: dict[Formula, Reals | None] = {}

    def get(self, term: Formula) -> Reals | None:
        """(n,), None if a value is not finite or enormous, or the rules refuse the term. The first time costs an
        evaluation, except of variables."""
        if term not in self._values:
            if len(self._values) >= _MOST_KEPT:
                self._values.clear()
            self._values[term] = self._evaluate(term)
        return self._values[term]

    def _evaluate(self, term: Formula) -> Reals | None:
        ledger = self._ledger
        if not ledger.rules.admits_term(term):
            ledger.spend(0.02)
            return None
        values = evaluate_formula(term, ledger.x) if term.size == 1 else ledger.column(term)
        return values if np.isfinite(values).all() and float(np.abs(values).max()) < ledger.largest else None

    def matrix(self, terms: Sequence[Formula]) -> tuple[list[Formula], Reals]:
        """The terms that have values, and these (k, n)."""
        kept, rows = [], []
        for term in terms:
            values = self.get(term)
            if values is not None and float(values.std()) > 1e-12 * (1e-300 + float(np.abs(values).max())):
                kept.append(term)
                rows.append(values)
        return kept, np.array(rows) if rows else np.empty((0, self._ledger.x.shape[1]))


@dataclass(frozen=True)
class Sum:
    """A fitted sum of a target's terms."""

    terms: tuple[Formula, ...]
    loss: float


def fit_sum(ledger: Ledger, target: Target, terms: Sequence[Formula], columns: Reals) -> Sum | None:
    """Least squares over the coefficients; the formula is added to the front. Counted as one pass."""
    ledger.spend_pass(len(terms))
    solved = solve(columns, target.z, target.root)
    if solved is None:
        return None
    return _add_sum(ledger, target, terms, columns, solved[0])


def _add_sum(
    ledger: Ledger, target: Target, terms: Sequence[Formula], columns: Reals, coefficients: Reals
) -> Sum | None:
    scale = float(np.abs(target.z).max())
    weak = np.abs(coefficients[:-1]) * np.abs(columns).max(1) < 1e-11 * scale
    if weak.any() and not weak.all():
        coefficients = np.where(np.append(weak, False), 0.0, coefficients)
    *inner, intercept = coefficients.tolist()
    loss = target.loss(ledger, coefficients[:-1] @ columns + intercept)
    if abs(intercept) < 1e-9 * scale:
        without = target.loss(ledger, coefficients[:-1] @ columns)
        if without <= loss + EXACT * ledger.variance:
            intercept, loss = 0.0, without
    inner = [*map(round_off, inner)]
    ledger.add(target.wrap(weighted_sum(terms, inner, intercept)), loss)
    return Sum(tuple(terms), loss)


def remove_terms(ledger: Ledger, target: Target, terms: Sequence[Formula], columns: Reals) -> None:
    """Backward elimination: the term with the smallest t-value goes, and the rest is fitted again."""
    kept = list(range(len(terms)))
    while len(kept) > 1:
        ledger.spend_pass(len(kept))
        solved = solve(columns[kept], target.z, target.root)
        if solved is None:
            return
        coefficients, errors = solved
        chosen = [terms[k] for k in kept]
        _add_sum(ledger, target, chosen, columns[kept], coefficients)
        residual = (coefficients[:-1] @ columns[kept] + coefficients[-1] - target.z) * target.root
        noise = math.sqrt(float(residual @ residual) / max(1, len(target.z) - len(kept) - 1))
        relative = np.abs(coefficients[:-1]) / np.maximum(errors[:-1] * max(noise, 1e-300), 1e-300)
        weak = np.flatnonzero(relative < 1e-3 * relative.max()) if noise < 1e-9 else np.array([], int)
        gone = set(weak.tolist()) if 0 < len(weak) < len(kept) else {int(np.argmin(relative))}
        kept = [k for place, k in enumerate(kept) if place not in gone]


def select_terms(ledger: Ledger, target: Target, terms: Sequence[Formula], columns: Reals, most: int) -> Sum | None:
    """Orthogonal least squares: the term that lowers the error most is added, up to `most` of them. Every screening
    counts as a pass over all terms."""
    root, n = target.root, len(target.z)
    design = columns * root
    ones = root / np.linalg.norm(root)
    goal = target.z * root
    design = design - np.outer(design @ ones, ones)
    norms = (design * design).sum(1)
    norms[norms == 0] = 1.0
    residual, left = goal - (goal @ ones) * ones, norms.copy()
    chosen: list[int] = []
    basis: list[Reals] = []
    best: Sum | None = None
    total = float(goal @ goal)
    for _ in range(min(most, n // 2 - 1)):
        ledger.spend_pass(len(terms))
        with np.errstate(all="ignore"):
            gains = np.where(left > 1e-9 * norms, (design @ residual) ** 2 / left, 0.0)
        k = int(np.argsort(-gains)[0])
        direction = design[k].copy()
        for _twice in range(2):
            for q in basis:
                direction -= (direction @ q) * q
        length = float(np.linalg.norm(direction))
        if k in chosen or length < 1e-9 * math.sqrt(float(norms[k])):
            break
        direction /= length
        residual, left = residual - (residual @ direction) * direction, left - (design @ direction) ** 2
        chosen.append(k)
        basis.append(direction)
        fitted = fit_sum(ledger, target, [terms[k] for k in chosen], columns[chosen])
        if fitted is not None and (best is None or fitted.loss < best.loss):
            best = fitted
        if float(residual @ residual) < 1e-24 * total or ledger.exact:
            break
    if best is not None and best.loss <= EXACT * ledger.variance:
        places = [terms.index(t) for t in best.terms]
        remove_terms(ledger, target, best.terms, columns[places])
    return best


def select_pairs(ledger: Ledger, target: Target, terms: Sequence[Formula], columns: Reals) -> Sum | None:
    """Of all sums of two terms the best one of each size, if it is better than those of smaller sizes; with an
    intercept and without.

    A selection that adds one term at a time misses log(a) + b wherever a third term is close to the sum. All products
    of two columns count as passes over that many nodes: a product and a sum each, and half of them by symmetry.
    """
    ledger.spend(max(1.0, len(terms) ** 2 / PASS_NODES))
    ones = target.root / np.linalg.norm(target.root)
    design, goal = columns * target.root, target.z * target.root
    design = design - np.outer(design @ ones, ones)
    before, after = (np.linalg.norm(each, axis=1, keepdims=True) for each in (columns * target.root, design))
    design = design / np.where(after > 1e-9 * before, after, 1e300)
    along, gram = design @ goal, design @ design.T
    with np.errstate(all="ignore"):
        first, second = along[:, None], along[None]
        gains = (first * first + second * second - 2 * first * second * gram) / (1 - gram * gram)
    gains = np.where(np.isfinite(gains) & (np.abs(gram) < 1 - 1e-9), gains, 0.0)
    sizes = np.add.outer(*[np.array([term.size for term in terms])] * 2)
    best: Sum | None = None
    most = 0.0
    for size in np.unique(sizes):
        of_size = np.where(sizes == size, gains, 0.0)
        place = int(of_size.argmax())
        if of_size.flat[place] <= most * (1 + 1e-9):
            continue
        most = float(of_size.flat[place])
        chosen = list(divmod(place, len(terms)))
        fitted = fit_sum(ledger, target, [terms[k] for k in chosen], columns[chosen])
        if fitted is not None and (best is None or fitted.loss < best.loss):
            best = fitted
        rooted = columns[chosen] * target.root
        alone = np.linalg.lstsq(rooted.T, target.z * target.root, rcond=None)[0]
        ledger.spend(1)
        _add_sum(ledger, target, [terms[k] for k in chosen], columns[chosen], np.append(alone, 0.0))
    return best


# -- powers ------------------------------------------------------------------------------------------------------------


def fit_power_law(ledger: Ledger, indices: Sequence[int]) -> None:
    """y = c * product of powers: one fit of logarithms, then exponents rounded to halves."""
    x, y = ledger.x, ledger.y
    usable = [i for i in indices if float(np.abs(x[i]).min()) > 0]
    if not usable or float(np.abs(y).min()) == 0:
        return
    logs, z = np.log(np.abs(x[usable])), np.log(np.abs(y))
    ledger.spend_pass(len(usable))
    solved = solve(logs, z, np.abs(y) / np.abs(y).max() if float(np.abs(y).min()) > 0 else np.ones_like(y))
    if solved is None:
        return
    exponents = solved[0][:-1]
    for scale in (1, 2):
        whole = {i: round(e * scale) / scale for i, e in zip(usable, exponents.tolist(), strict=True)}
        _scale_monomial(ledger, {i: e for i, e in whole.items() if e})
    ledger.stop_if_exact()
    if all(float(x[i].min()) > 0 for i in usable):
        real = {i: e for i, e in zip(usable, exponents.tolist(), strict=True) if abs(e) > 1e-6}
        if real:
            _scale_monomial(ledger, real, steps=3)
            close = {i: round(e) if abs(e - round(e)) < 0.02 else e for i, e in real.items()}
            if close != real and any(close.values()):
                _scale_monomial(ledger, {i: e for i, e in close.items() if e}, steps=3)


def _scale_monomial(ledger: Ledger, exponents: dict[int, float], steps: int = 0) -> None:
    if not exponents or max(abs(e) for e in exponents.values()) > 9:
        return
    term = monomial(exponents)
    values = ledger.column(term)
    if not np.isfinite(values).all():
        return
    w = np.ones_like(values) if ledger.weights is None else ledger.weights
    square = float((w * values) @ values)
    if not 0 < square < math.inf:
        return
    coefficient = float((w * values) @ ledger.y) / square
    if abs(coefficient - round(coefficient)) < 1e-12 * abs(coefficient):
        coefficient = float(round(coefficient))
    formula = weighted_sum([term], [coefficient])
    residual = coefficient * values - ledger.y
    loss = float((w * residual) @ residual) / len(values)
    ledger.add(formula, loss)
    if steps and formula.fitted:
        ledger.fit(formula, steps)


def find_prefactors(ledger: Ledger, indices: Sequence[int]) -> list[dict[int, float]]:
    """Products of powers that divide y, from a quadratic model of log|y| in the logarithms of the variables.

    A variable that only multiplies has a constant slope there: no curvature, no interaction, and the slope is its
    exponent. At most three candidates, the largest set of variables first.
    """
    x, y = ledger.x, ledger.y
    usable = [i for i in indices if float(np.abs(x[i]).min()) > 1e-9]
    n, d = len(y), len(usable)
    if d < 1 or float(np.abs(y).min()) == 0 or 1 + d + d * (d + 1) // 2 > 0.7 * n:
        return []
    logs = np.log(np.abs(x[usable]))
    logs = logs - logs.mean(1, keepdims=True)
    spread = logs.std(1)
    if (spread < 1e-9).any():
        return []
    logs /= spread[:, None]
    z = np.log(np.abs(y))
    pairs = [(a, b) for a in range(d) for b in range(a, d)]
    crossed = np.array([logs[a] * logs[b] for a, b in pairs])
    columns = np.vstack([logs, crossed])
    ledger.spend_pass(len(columns))
    solved = solve(columns, z, np.ones_like(z))
    if solved is None:
        return []
    coefficients, errors = solved
    residual = coefficients[:-1] @ columns + coefficients[-1] - z
    noise = math.sqrt(float(residual @ residual) / max(1, n - len(columns) - 1))
    prefactors: list[dict[int, float]] = []
    for strictness in (3.5, 7.0):
        exponents: dict[int, float] = {}
        for a in range(d):
            mixed = [k + d for k, pair in enumerate(pairs) if a in pair]
            if any(abs(coefficients[k]) > strictness * errors[k] * noise + 1e-7 for k in mixed):
                continue
            slope = float(coefficients[a]) / float(spread[a])
            doubt = 4 * float(errors[a]) * noise / float(spread[a])
            near = round(slope) if doubt > 0.02 or abs(slope - round(slope)) < 0.05 else round(2 * slope) / 2
            if near and abs(near) <= 6 and abs(slope - near) <= doubt + 1e-6 and doubt < 0.4:
                exponents[usable[a]] = float(near)
        if exponents and exponents not in prefactors:
            prefactors.append(exponents)
    return prefactors


# -- rational functions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quotient:
    """A fitted quotient of sums. vector: the singular one, a number a term; singular: the values, falling
    numerator, denominator: (n,); top, bottom: as formulas, the largest coefficient below being 1"""

    vector: Reals
    singular: Reals
    numerator: Reals
    denominator: Reals
    top: Formula
    bottom: Formula

    def unneeded(self, exact: bool) -> set[int]:
        """The terms to leave out next. exact: whether it fits but for rounding"""
        if self.singular[-2] < 1e-10 * self.singular[0] and len(self.vector) > 3:
            # several exact relations: drop the last of the terms that occur in the combination
            return {int(np.flatnonzero(np.abs(self.vector) > 1e-8)[-1])}
        small = np.flatnonzero(np.abs(self.vector) < 1e-7)
        return set(small.tolist()) if len(small) and exact else {int(np.argmin(np.abs(self.vector)))}


def fit_rational(
    ledger: Ledger,
    target: Target,
    above: Sequence[Formula],
    below: Sequence[Formula],
    tops: Reals,
    bottoms: Reals,
) -> None:
    """z = (a0 + sum a t) / (b0 + sum b u): the smallest singular vector of z * below - above, then terms removed.

    above, below: terms with their columns tops (k, n) and bottoms (m, n); ones are added here
    """
    n, terms = len(target.z), [None, *above, None, *below]
    columns = np.vstack([np.ones((1, n)), tops, np.ones((1, n)), bottoms])
    if len(columns) > 0.7 * n:
        return
    kept, weight = list(range(len(columns))), np.ones(n)
    while True:
        ledger.spend_pass(len(kept))
        found = _fit_quotient(target, terms, columns, kept, len(tops) + 1, weight)
        if found is None:
            return
        with np.errstate(all="ignore"):
            loss = target.loss(ledger, found.numerator / found.denominator)
        number = found.bottom.values[0] if found.bottom.size == 1 and found.bottom.values else None
        ledger.add(target.wrap(found.top if number == 1.0 else apply(g.DIV, found.top, found.bottom)), loss)
        if len(kept) <= 2 or found.singular[-1] > 0.3 * found.singular[-2] and len(kept) > 24:
            return
        gone = found.unneeded(exact=loss < 1e-10 * ledger.variance)
        kept = [k for place, k in enumerate(kept) if place not in gone]
        if loss < math.inf and loss > EXACT * ledger.variance:
            with np.errstate(all="ignore"):
                least = 1e-3 * float(np.abs(found.denominator).mean())
                weight = 1 / np.maximum(np.abs(found.denominator), least)
            weight = weight / weight.max()


def _fit_quotient(
    target: Target, terms: Sequence[Formula | None], columns: Reals, kept: Sequence[int], split: int, weight: Reals
) -> Quotient | None:
    """The quotient of the terms that are kept, those from `split` on below; None if it has none above or below.

    terms: None for the constants; columns: (k, n) their values; weight: (n,) of the rows
    """
    above = [place for place, k in enumerate(kept) if k < split]
    below = [place for place, k in enumerate(kept) if k >= split]
    signs = np.where(np.asarray(kept)[:, None] < split, 1.0, -target.z)
    chosen = signs * columns[kept] * target.root * weight
    scale = np.linalg.norm(chosen, axis=1)
    scale[scale == 0] = 1.0
    try:
        _u, singular, vt = np.linalg.svd(chosen.T / scale, full_matrices=False)
    except np.linalg.LinAlgError:
        return None
    if not above or not below:
        return None
    coefficients = vt[-1] / scale

    def add(places: Sequence[int]) -> Reals:
        total: Reals = sum(coefficients[place] * columns[kept[place]] for place in places)
        return total

    norm = float(max((coefficients[place] for place in below), key=abs)) or 1.0
    top, bottom = (
        _sum_of([(terms[kept[place]], coefficients[place] / norm) for place in places]) for places in (above, below)
    )
    return Quotient(vt[-1], singular, add(above), add(below), top, bottom)


def _sum_of(parts: Sequence[tuple[Formula | None, float]]) -> Formula:
    """A sum of terms times numbers; None is the constant."""
    intercept = sum(number for term, number in parts if term is None)
    terms = [(term, round_off(number)) for term, number in parts if term is not None]
    return weighted_sum([term for term, _ in terms], [number for _, number in terms], intercept)


def round_off(value: float) -> float:
    """A whole number in place of one that differs by rounding."""
    return float(round(value)) if value and abs(value - round(value)) < 1e-9 * abs(value) else float(value)
