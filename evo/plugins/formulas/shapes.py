"""Shapes: functions of one column with constants inside, their products and sums, fitted by variable projection.

A table of starts (decays, waves, bells, steps, powers, logarithms with an offset) is screened against the residual,
each alone, times a factor, and with another of its kind. The best of each kind are fitted: the constants inside by
Levenberg-Marquardt, the coefficients of the sum by least squares at every trial. A fitted sum gets further terms, and
its terms further factors, while that makes its description shorter.

Sources: variable projection (Golub and Pereyra 1973) with the Jacobian of Kaufman (1975); a least-squares periodogram
(Lomb 1976) for the frequency of a wave.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import Reals, evaluate_formula, evaluate_with_jacobian
from evo.plugins.formulas.grammar import CONSTANT, Formula, apply, fixed, parse_formula
from evo.plugins.formulas.ledger import EXACT, PASS_NODES, Ledger
from evo.plugins.formulas.regression import Target, round_off
from evo.plugins.formulas.terms import product, raised, weighted_sum

_PERIODS = 30
"""Within a column's range, of the fastest wave that is screened."""
_SCREENED = 300
"""Rows that starts are compared on."""
_STEEPEST = 9.0
"""A power with a larger exponent is an exponential in disguise."""
_ONE = fixed(1)
_Choice = tuple[float, tuple[Formula, ...]]
"""Terms, and what they take from the squared residual."""


def multiply(a: Formula, b: Formula) -> Formula:
    """a * b, reciprocals as one quotient."""
    above: list[Formula] = []
    below: list[Formula] = []
    for each in (a, b):
        parts = each.arguments() if each.codes[-1] == g.DIV else (each,)
        above += [part for part in parts[:1] if part != _ONE]
        below += parts[1:]
    top = product(above) if above else _ONE
    return apply(g.DIV, top, product(below)) if below else top


def make_starts(index: int, u: Reals) -> tuple[list[list[Formula]], list[list[Formula]], list[Formula]]:
    """Starts for variable `index` with values u (n,), a list for each kind: those with a place on the axis, which are
    alone; the others, waves with phase 0; and the factors that these are multiplied by. Some have no value."""
    low, high, width = float(u.min()), float(u.max()), float(np.ptp(u))
    least = low if low > 0 else 1e-3 * width
    most = max(high, 2 * least)
    names = [*(f"_{k}" for k in range(index)), "x"]

    def kind(text: str, constants: Iterable[tuple[float, ...]] = ((),)) -> list[Formula]:
        formula = parse_formula(text, names)
        return [formula.with_constants(each) for each in constants]

    rates = [(sign * rate / width,) for rate in (0.7, 1.5, 3, 6, 12, 25) for sign in (-1, 1)]
    shifts = [s * width - low for s in (0.01, 0.04, 0.15, 0.5, 2)]
    scales = [1 / (s * most) for s in (0.05, 0.15, 0.4, 0.8)]
    spots = [(m, s * width) for m in np.linspace(low, high, 11).tolist() for s in (0.04, 0.12, 0.35)]
    places = np.linspace(math.log(least), math.log(most), 7).tolist()
    cycles = [0.25, 0.5, 0.75, *np.arange(1, max(2, min(_PERIODS, len(u) // 4)), 0.5).tolist()]
    far = abs(low + high) > 10 * width  # exp(0.1*x) overflows in the years 2000 to 2020
    decays = kind("exp(0.1*(x - 0.1))", [(k, low) for (k,) in rates]) if far else kind("exp(0.1*x)", rates)
    alone = [
        kind("exp(0.1*(x - 0.1)**2)", [(-1 / s**2, m) for m, s in spots]),
        kind("1/((x - 0.1)**2 + 0.1)", [(m, s**2) for m, s in spots]),
        kind("tanh(0.1*(x - 0.1))", [(1 / s, m) for m, s in spots]),
        kind("exp(0.1*(log(x) - 0.1)**2)", [(-k, m) for m in places for k in (0.5, 3, 20)]),
    ]
    others = [
        kind("x"),
        decays,
        kind("exp(0.1/x)", [(k * width / (1 / least - 1 / most),) for (k,) in rates]),
        kind("exp(-(0.1*x)**0.1)", [(k, p) for k in scales for p in (0.5, 2)]),
        kind("1/(exp(0.1*x) - 1)", rates[1::2]),
        kind("1/(1 + (0.1*x)**0.1)", [(k, p) for k in scales for p in (-2, 2, 4)]),
        kind("1/(x + 0.1)", [(s,) for s in shifts]),
        kind("log(x + 0.1)", [(s,) for s in shifts]),
        kind("(x + 0.1)**0.1", [(s, p) for s in shifts for p in (-2, 0.5)]),
        kind("x**0.1", [(p,) for p in (-2, -1, -0.5, 0.5, 1.5, 2.5, 4)]),
        kind("sin(0.1*x + 0.1)", [(2 * math.pi * each / width, 0.0) for each in cycles]),
    ]
    factors = [*kind("x"), *decays[2:10], *kind("x**0.1", [(p,) for p in (-1, 0.5, 2)])]
    return alone, others, factors


@dataclass(frozen=True)
class _Kind:
    """The starts of one kind. values: (k, n); quarters: (k, n) of waves a quarter of a period on, None of others
    alone: whether they are not multiplied by factors"""

    starts: list[Formula]
    values: Reals
    quarters: Reals | None
    alone: bool

    @property
    def passes(self) -> float:
        """Of a screening: four nodes a column."""
        return 4 * len(self.starts) * (1 if self.quarters is None else 2) / PASS_NODES

    def best_start(self, weight: Reals, basis: Reals, residual: Reals) -> tuple[float, Formula]:
        """The start, times `weight` (n,) and with a basis (n, q), that takes most from the squared residual; a wave
        with its best phase."""
        design, along = _project(self.values * weight, basis, residual)
        own = (design * design).sum(1)
        others, mixed, across = np.ones_like(own), np.zeros_like(own), np.zeros_like(own)
        if self.quarters is not None:
            quarters, across = _project(self.quarters * weight, basis, residual)
            others, mixed = (quarters * quarters).sum(1), (design * quarters).sum(1)
        sine, cosine = _solve_pairs(own, others, mixed, along, across)
        gains = sine * along + cosine * across
        k = int(gains.argmax())
        start = self.starts[k]
        if self.quarters is not None:
            start = start.with_constants((start.values[0], math.atan2(cosine[k], sine[k])))
        return float(gains[k]), start

    def best_pair(self, weight: Reals, basis: Reals, residual: Reals) -> _Choice:
        """The two starts that take most together."""
        design, along = _project(self.values * weight, basis, residual)
        gram = design @ design.T
        own, first, second = gram.diagonal(), along[:, None], along[None]
        a, b = _solve_pairs(own[:, None], own[None], gram, first, second)
        gains = a * first + b * second
        k = int(gains.argmax())
        return float(gains.flat[k]), tuple(self.starts[place] for place in divmod(k, len(own)))


def _project(design: Reals, basis: Reals, residual: Reals) -> tuple[Reals, Reals]:
    """Rows (k, n) of length 1, then without their part in a basis; and their products with the residual."""
    design = design / np.maximum(np.linalg.norm(design, axis=1, keepdims=True), 1e-300)
    design = design - (design @ basis) @ basis.T
    return design, design @ residual


def _solve_pairs(a: Reals, b: Reals, mixed: Reals, first: Reals, second: Reals) -> tuple[Reals, Reals]:
    """The coefficients of two columns whose squares, product, and products with a residual are known."""
    determinant = a * b - mixed * mixed
    scale = np.where(determinant > 1e-6 * a * b + 1e-18, 1 / np.maximum(determinant, 1e-18), 0.0)
    return (b * first - mixed * second) * scale, (a * second - mixed * first) * scale


@dataclass(frozen=True)
class Fitted:
    """A fitted sum of shapes. values: (k, n) of its terms; cost: its description length, up to a constant"""

    whole: Formula
    terms: tuple[Formula, ...]
    intercept: bool
    values: Reals
    loss: float
    cost: float


class ShapeSearch:
    """Fits sums of shapes of some columns. rng: draws the rows for screening"""

    def __init__(self, ledger: Ledger, indices: Sequence[int], rng: np.random.Generator) -> None:
        self._ledger, n = ledger, len(ledger.y)
        self._rows = np.sort(rng.choice(n, _SCREENED, replace=False)) if n > _SCREENED else np.arange(n)
        self._kinds: dict[int, list[_Kind]] = {}
        self._factors: dict[int, list[tuple[Formula, Reals]]] = {}
        for index in indices:
            alone, others, factors = make_starts(index, ledger.x[index])
            self._factors[index] = self._tabulate(factors)
            held = [(self._tabulate(starts), starts in alone) for starts in (*alone, *others)]
            self._kinds[index] = [self._make_kind(kind, stands_alone) for kind, stands_alone in held if kind]

    def _make_kind(self, held: Sequence[tuple[Formula, Reals]], alone: bool) -> _Kind:
        starts = [start for start, _values in held]
        turned = [_quarter_on(each) for each in starts if each.codes[-1] == g.SIN]
        quarters = np.array([values for _start, values in self._tabulate(turned)]) if turned else None
        return _Kind(starts, np.array([values for _start, values in held]), quarters, alone)

    def _tabulate(self, starts: Sequence[Formula]) -> list[tuple[Formula, Reals]]:
        """The starts that the rules allow and that have values on the screened rows, with these."""
        held = []
        for start in starts:
            if self._ledger.rules.admits_term(start):
                self._ledger.spend(1)
                values = evaluate_formula(start, self._ledger.x[:, self._rows])
                largest = float(np.abs(values).max())
                if 1e-100 < largest < self._ledger.largest:
                    held.append((start, values))
        return held

    def run(self, target: Target) -> list[Fitted]:
        """The best sums, shortest description first."""
        one = _ONE, np.ones(len(self._rows))
        beam = [Fitted(_ONE, (), True, np.empty((0, len(target.z))), math.inf, math.inf)]
        for most in (6, 3, 3):
            sums: list[tuple[Formula, ...]] = []
            for each in beam:
                values, terms = each.values[:, self._rows], each.terms
                sums += [(*terms, *new) for new in self._screen(target, values, one, most)]
                for k in range(len(terms)):
                    new_terms = self._screen(target, np.delete(values, k, 0), (terms[k], values[k]), most)
                    sums += [(*terms[:k], *new, *terms[k + 1 :]) for new in new_terms]
            best = beam[0].cost
            beam = sorted([*beam, *self._fit_all(target, sums)], key=lambda each: each.cost)[:2]
            beam[0] = self._simplify(target, beam[0])
            if self._ledger.exact or not beam[0].cost < best:
                break
        return [each for each in beam if each.terms]

    def _screen(
        self, target: Target, base: Reals, factor: tuple[Formula, Reals], most: int
    ) -> list[tuple[Formula, ...]]:
        """What explains most of what a sum of `base` (q, n) leaves: of each kind the best start times the factor, at
        most `most`. Where that is 1, also three times as many products of starts and factors of the three columns that
        are best alone, and, without a base, pairs of starts."""
        root = target.root[self._rows]
        basis, _r = np.linalg.qr((np.vstack([np.ones(len(root)), base]) * root).T)
        goal = target.z[self._rows] * root
        residual = goal - basis @ (basis.T @ goal)
        found: list[dict[object, _Choice]] = [{}, {}, {}]

        def compare(kind: _Kind, term: Formula, values: Reals, place: int) -> float:
            self._ledger.spend(kind.passes)
            gain, start = kind.best_start(values * root, basis, residual)
            for each in _twins(start):
                if gain > found[place].get((each.codes, term.codes), (0.0, ()))[0]:
                    found[place][each.codes, term.codes] = gain, (multiply(term, each),)
            return gain

        kinds = {index: self._kinds[index] for index in target.indices if index in self._kinds}
        reached = {index: max(compare(kind, *factor, 0) for kind in kinds[index]) for index in kinds}
        if factor[0] == _ONE:
            ranked = sorted(reached, key=lambda index: -reached[index])[:3]
            terms = [each for index in ranked for each in self._factors[index]]
            for kind in (each for index in ranked for each in kinds[index] if not each.alone):
                for term, values in terms:
                    if kind.starts[0].codes != term.codes:
                        compare(kind, term, values, 1)
        if factor[0] == _ONE and not len(base):
            crossed: list[tuple[Formula, Reals]] = []
            for index in ranked[:2]:  # waves below bells of their column, and times waves of the other
                bells, waves = kinds[index][0], kinds[index][-1]
                if waves.quarters is not None:
                    for term, values in (*zip(bells.starts, bells.values, strict=True), *crossed):
                        compare(waves, term, values, 1)
                    turned = map(_quarter_on, waves.starts)
                    crossed += zip(waves.starts, waves.values, strict=True)
                    crossed += zip(turned, waves.quarters, strict=True)
            for kind in (each for index in kinds for each in kinds[index] if each.quarters is None):
                self._ledger.spend(kind.passes * len(kind.starts) / 2)
                found[2][kind.starts[0].codes] = kind.best_pair(root, basis, residual)
        chosen: list[tuple[Formula, ...]] = []
        for choices, count in zip(found, (most, 3 * most, most), strict=True):
            best = sorted(choices.values(), key=lambda each: -each[0])
            chosen += [terms for _gain, terms in best[:count]]
        return chosen

    def _fit_all(self, target: Target, sums: Sequence[tuple[Formula, ...]]) -> list[Fitted]:
        raced = [self.fit(target, terms, True, 4) for terms in sums]
        begun = sorted((each for each in raced if each is not None), key=lambda each: each.cost)
        fits = []
        for each in begun[:8]:
            both = [self.fit(target, each.terms, intercept, 12) for intercept in (True, False)]
            known = [fitted for fitted in both if fitted is not None]
            fits += sorted(known, key=lambda fitted: fitted.cost)[:1]
            if self._ledger.exact:
                break
        return sorted(fits, key=lambda each: each.cost)

    def fit(self, target: Target, terms: tuple[Formula, ...], intercept: bool, steps: int) -> Fitted | None:
        """The terms with fitted constants and their coefficients, added to the front; None if they have no value.

        Each trial of the constants inside is a least-squares problem in the coefficients; the Jacobian is that of the
        residual with the coefficients solved."""
        ledger, goal = self._ledger, target.z * target.root
        counts = np.cumsum([len(term.fitted) for term in terms])[:-1].tolist()

        def set_constants(numbers: Reals) -> tuple[Formula, ...]:
            parts = np.split(numbers, counts)
            return tuple(term.with_constants(part.tolist()) for term, part in zip(terms, parts, strict=True))

        def solve(tried: Sequence[Formula]) -> tuple[float, Reals, Reals, Reals, Reals] | None:
            """Loss, residual, an orthonormal basis, coefficients, values."""
            ledger.spend(1)
            values = np.array([evaluate_formula(term, ledger.x) for term in tried])
            design = (np.vstack([values, np.ones(len(goal))]) if intercept else values) * target.root
            size = np.abs(design).max(1)
            if not (np.isfinite(size).all() and size.min() > 1e-100 and size.max() < ledger.largest):
                return None
            basis, triangle = np.linalg.qr((design / size[:, None]).T)
            if np.abs(triangle.diagonal()).min() < 1e-10:
                return None
            coefficients = np.linalg.solve(triangle, basis.T @ goal)
            residual = goal - basis @ (basis.T @ goal)
            return float(residual @ residual), residual, basis, coefficients / size, values

        numbers = np.array([term.values[place] for term in terms for place in term.fitted])
        state, damping = solve(terms) if len(numbers) + len(terms) < len(goal) // 2 else None, 1e-2
        if state is None:
            return None
        for _ in range(steps if len(numbers) else 0):
            loss, residual, basis, coefficients, _values = state
            ledger.spend(1)
            slopes = [evaluate_with_jacobian(term, ledger.x)[1] for term in set_constants(numbers)]
            scaled = [c * each for c, each in zip(coefficients, slopes, strict=False)]
            jacobian = np.nan_to_num(np.vstack(scaled) * target.root, nan=0.0, posinf=0.0, neginf=0.0)
            jacobian = jacobian - (jacobian @ basis) @ basis.T
            gram, gradient = jacobian @ jacobian.T, jacobian @ residual
            diagonal = gram.diagonal() + 1e-9 * float(gram.diagonal().max()) + 1e-200
            reached = None
            for _attempt in range(4):
                step = np.linalg.solve(gram + np.diag(damping * diagonal), gradient)
                reached = solve(set_constants(numbers + step))
                if reached is not None and reached[0] < loss:
                    break
                damping *= 10
            else:
                break
            state, numbers, damping = reached, numbers + step, max(0.1 * damping, 1e-9)
            if loss - state[0] <= 1e-6 * loss:
                break
        return self._add(target, set_constants(numbers), intercept, state[3], state[4])

    def _add(
        self, target: Target, terms: tuple[Formula, ...], intercept: bool, coefficients: Reals, values: Reals
    ) -> Fitted | None:
        ledger, n = self._ledger, len(target.z)
        numbers = [round_off(c) for c in coefficients.tolist()]
        last = numbers.pop() if intercept else 0.0
        z = np.array(numbers) @ values + last
        whole = target.wrap(weighted_sum(terms, numbers, last))
        loss = target.loss(ledger, z)
        if any(map(_is_steep, terms)) or not math.isfinite(loss) or ledger.rules.express(whole) is None:
            return None
        ledger.add(whole, loss)
        cost = n * math.log(max(loss, EXACT * ledger.variance))
        cost += (len(whole.fitted) + 0.4 * whole.size) * math.log(n)
        return Fitted(whole, terms, intercept, values, loss, cost)

    def _simplify(self, target: Target, fitted: Fitted) -> Fitted:
        """Constants left out or rounded while that makes the description shorter."""
        terms = fitted.terms
        queue = [(*terms[:k], new, *terms[k + 1 :]) for k, term in enumerate(terms) for new in _simpler(term)]
        for simpler in queue:
            again = self.fit(target, simpler, fitted.intercept, 8)
            if again is not None and again.cost < fitted.cost:
                return self._simplify(target, again)
        for whole in _simpler(fitted.whole):
            self._ledger.fit(whole, 8)
        return fitted


def _quarter_on(wave: Formula) -> Formula:
    """The wave a quarter of a period on."""
    return wave.with_constants((wave.values[0], math.pi / 2))


def _twins(start: Formula) -> list[Formula]:
    """The start, and those that span the same with a constant: of a step from -1 to 1, both from 0 to 1."""
    if start.codes[-1] != g.TANH:
        return [start]
    inner = start.arguments()[0]
    turned = (inner.with_constants((sign * 2 * inner.values[0], *inner.values[1:])) for sign in (-1, 1))
    return [start, *(apply(g.DIV, _ONE, apply(g.ADD, _ONE, apply(g.EXP, each))) for each in turned)]


def _is_steep(term: Formula) -> bool:
    powers = [k - 1 for k, code in enumerate(term.codes) if code == g.POW and term.codes[k - 1] == CONSTANT]
    return any(abs(term.cut(k, k + 1).values[0]) > _STEEPEST for k in powers)


def _simpler(formula: Formula) -> Iterator[Formula]:
    """The formula without one constant or factor, or with an exponent rounded to halves."""
    for root, code in enumerate(formula.codes):
        begin, end = formula.subtree(root)
        parts = formula.cut(begin, end).arguments()
        simpler: list[Formula] = []
        if code == g.MUL:
            simpler = [part for part in parts if part.variables]
        elif code == g.DIV and parts[0].variables:
            simpler = [parts[0], apply(g.DIV, _ONE, parts[1])]
        elif code in (g.ADD, g.SUB) and parts[1].codes == (CONSTANT,):
            simpler = [parts[0]]
        elif code == g.SIN and parts[0].codes[-1] == g.ADD:
            simpler = [apply(g.COS, parts[0].arguments()[0])]
        elif code == g.POW and parts[1].codes == (CONSTANT,) and 0.25 < abs(parts[1].values[0]) < 6:
            exponent = round(2 * parts[1].values[0]) / 2
            whole = raised(parts[0], abs(exponent))
            simpler = [whole if exponent > 0 else apply(g.DIV, _ONE, whole)]
        yield from (formula.replace(begin, end, each) for each in simpler)
