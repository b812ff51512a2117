"""The stages of a search, cheap and certain ones first: powers, spans, quotients, shapes, selection, evolution."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas import regression as r
from evo.plugins.formulas import structure
from evo.plugins.formulas.grammar import Formula, apply, constant
from evo.plugins.formulas.ledger import Ledger
from evo.plugins.formulas.population import Evolution
from evo.plugins.formulas.regression import Target, TermColumns, make_target
from evo.plugins.formulas.shapes import ShapeSearch
from evo.plugins.formulas.terms import (
    LINKS,
    count_polynomial_terms,
    library,
    multilinear_terms,
    other_bases,
    polynomial_terms,
    power,
    simple_terms,
    split_terms,
    waves,
)

_COMMON = ("identity", "reciprocal", "exp", "sqrt", "inverse sqrt", "square", "tanh")
_MOST_SHAPED = 8
"""Columns whose shapes are fitted, those that explain most of the target by a cubic."""
_MOST_PAIRED, _MOST_TERMS = 2, 150
"""Targets on which all pairs of terms are compared, and terms of a target."""
_EARLY = 4000
"""Evaluations for each column up to three, from which shapes are fitted before selections."""


class Stages:
    """What a search does until its ledger is spent or a formula is exact. rng: of the search"""

    def __init__(self, ledger: Ledger, rng: random.Random) -> None:
        self._ledger, self._rng = ledger, rng
        self._functions = tuple(dict.fromkeys((g.ADD, g.SUB, g.MUL, *sorted(ledger.rules.functions))))
        self._columns = TermColumns(ledger)
        self._seeds: list[tuple[int, tuple[Formula, ...]]] = []
        self._targets: list[Target] = []
        self._reached: list[float] = []
        """The smallest loss so far on each target."""

    def run(self, guesses: Sequence[Formula]) -> None:
        """Raises SearchEnded at the end of the budget and at an exact formula; returns if there is nothing to search
        for: a constant target, or no column that varies."""
        ledger, functions = self._ledger, self._functions
        y = ledger.y
        mean = float(y.mean() if ledger.weights is None else (y * ledger.weights).mean())
        ledger.score(constant(mean))
        if float(y.std()) <= 1e-14 * max(1e-300, float(np.abs(y).max())):
            return
        for guess in guesses:  # each as it is, before the first is fitted
            ledger.score(guess)
        fitted = [ledger.fit(guess)[0] for guess in guesses]
        indices = [i for i in range(len(ledger.x)) if float(ledger.x[i].std()) > 0]
        if not indices:
            return
        if g.DIV in functions:
            r.fit_power_law(ledger, indices)
            ledger.stop_if_exact()
            structure.fit_products(ledger, self._columns, indices, functions)
            ledger.stop_if_exact()
        self._targets = self._find_targets(indices)
        self._reached = [math.inf] * len(self._targets)
        plain = [k for k, target in enumerate(self._targets) if target.is_plain]
        self._seeds = [(place, split_terms(guess)) for place in plain for guess in fitted]
        ledger.stop_if_exact()
        stages: list[tuple[set[int], Callable[[], None]]] = [
            ({g.DIV}, self._fit_inner_powers),
            (set(), self._fit_spans),
            ({g.DIV}, self._fit_derived),
            ({g.DIV}, self._fit_rationals),
            (set(), self._select_pairs),
            (set(), partial(self._select, most=60)),
            (set(), partial(self._select, most=250)),
            (set(), self._select_special),
            (set(), partial(self._select, most=700, targets_most=6)),
        ]
        affordable = ledger.most >= _EARLY * min(3, len(indices))
        stages.insert(5 if affordable else -1, ({g.MUL}, self._fit_shapes))
        for needs, stage in stages:
            if needs <= set(functions):
                stage()
                ledger.stop_if_exact()
        if self._targets:
            evolution = Evolution(ledger, self._columns, self._targets, functions, self._rng)
            for place, chosen in self._seeds:
                evolution.offer(place, chosen)
            evolution.run()

    def _find_targets(self, indices: Sequence[int]) -> list[Target]:
        """Every link that fits the target's range, alone and below the factors that the logarithms show."""
        factors = structure.find_factors(self._ledger, indices) if g.DIV in self._functions else []
        targets = []
        for prefactor, rest in (*factors, (None, tuple(indices))):
            if not rest:
                continue
            for name, link in LINKS.items():
                if set(link.needs) <= set(self._functions):
                    target = make_target(self._ledger, name, rest, prefactor)
                    if target is not None:
                        targets.append(target)
        return targets

    def _fit_inner_powers(self) -> None:
        ledger, columns, targets, reached = self._ledger, self._columns, self._targets, self._reached
        for place, target in enumerate(targets):
            reached[place] = min(reached[place], structure.fit_inner_power(ledger, columns, target))
            ledger.stop_if_exact()

    def _fit_spans(self) -> None:
        """Linear models of all terms of a kind, below every link; one that is exact is reduced."""
        ledger, columns, targets, reached = self._ledger, self._columns, self._targets, self._reached
        most = min(0.55 * len(ledger.y), 70)
        for degree in range(1, 10):
            for place, target in enumerate(targets):
                bases = []
                if count_polynomial_terms(len(target.indices), degree) <= most:
                    bases.append(polynomial_terms(target.indices, degree))
                if degree == 2:
                    bases += [b for b in other_bases(target.indices, self._functions) if len(b) <= most]
                for basis in bases:
                    terms, matrix = columns.matrix(basis)
                    fitted = r.fit_sum(ledger, target, terms, matrix) if terms else None
                    if fitted is None:
                        continue
                    reached[place] = min(reached[place], fitted.loss)
                    if fitted.loss < 1e-9 * ledger.variance:
                        r.remove_terms(ledger, target, terms, matrix)
                        ledger.stop_if_exact()

    def _fit_derived(self) -> None:
        """Functions of the monomials that curvatures show."""
        ledger, columns, targets, reached = self._ledger, self._columns, self._targets, self._reached
        known: dict[tuple[int, ...], list[Formula]] = {}
        for place, target in enumerate(targets):
            if target.link.name == "identity":
                known[target.indices] = structure.find_monomials(ledger, target)
            monomials = known.get(target.indices, [])
            if not monomials or target.link.name not in _COMMON:
                continue
            terms, matrix = columns.matrix(structure.monomial_terms(monomials, target.indices, self._functions)[:250])
            if not terms:
                continue
            selected = r.select_terms(ledger, target, terms, matrix, 3)
            if selected is not None:
                reached[place] = min(reached[place], selected.loss)
                self._seeds.append((place, selected.terms))
            ledger.stop_if_exact()

    def _fit_rationals(self) -> None:
        """Quotients of polynomials, with and without mixed terms."""
        ledger, columns = self._ledger, self._columns
        most = min(0.7 * len(ledger.y), 60)
        for degree in range(1, 7):
            for target in self._targets:
                if target.link.name not in ("identity", "sqrt"):
                    continue
                bases = []
                if 2 * count_polynomial_terms(len(target.indices), degree) + 2 <= most:
                    bases.append(polynomial_terms(target.indices, degree))
                if degree > 1 and len(target.indices) > 1 and 2 * degree * len(target.indices) + 2 <= most:
                    bases.append([power(i, e) for e in range(1, degree + 1) for i in target.indices])
                if degree == 1 and len(target.indices) <= 3:
                    waving = [apply(f, u) for u in multilinear_terms(target.indices, 2) for f in (g.SIN, g.COS)]
                    if {g.SIN, g.COS} <= set(self._functions) and 2 * len(waving) + 2 <= most:
                        bases.append(waving)
                for basis in bases:
                    terms, matrix = columns.matrix(basis)
                    r.fit_rational(ledger, target, terms, terms, matrix, matrix)
                    ledger.stop_if_exact()

    def _fit_shapes(self) -> None:
        """Decays, waves, bells, steps: functions of one column with constants inside, their products and sums."""
        ledger = self._ledger
        indices = sorted({i for target in self._targets for i in target.indices})
        left = {}
        for i in indices:
            ledger.spend(1)
            left[i] = float(np.polyfit(ledger.x[i] - ledger.x[i].mean(), ledger.y, 3, full=True)[1].sum())
        chosen = sorted(indices, key=lambda i: left[i])[:_MOST_SHAPED]
        shapes = ShapeSearch(ledger, chosen, np.random.default_rng(self._rng.randrange(2**31)))
        identical = [place for place, target in enumerate(self._targets) if target.link.name == "identity"]
        for place in sorted(identical, key=lambda k: not self._targets[k].is_plain)[:2]:
            for fitted in shapes.run(self._targets[place]):
                self._reached[place] = min(self._reached[place], fitted.loss)
                self._seeds.append((place, fitted.terms))
            self._ledger.stop_if_exact()

    def _select(self, most: int, targets_most: int = 99) -> None:
        """Forward selection from a library, the targets that are best so far first."""
        targets, reached = self._targets, self._reached
        for place in sorted(range(len(targets)), key=lambda k: reached[k])[:targets_most]:
            terms = library(targets[place].indices, self._functions, most)
            self._select_from(place, terms)
            self._ledger.stop_if_exact()

    def _select_pairs(self) -> None:
        """Sums of two simple terms, on the targets that are best so far and y itself."""
        targets, reached = self._targets, self._reached
        order = sorted(range(len(targets)), key=lambda k: (not targets[k].is_plain, reached[k]))
        for place in order[:_MOST_PAIRED]:
            terms, matrix = self._columns.matrix(simple_terms(targets[place].indices, self._functions)[:_MOST_TERMS])
            selected = r.select_pairs(self._ledger, targets[place], terms, matrix) if len(terms) > 1 else None
            if selected is not None:
                self._seeds.append((place, selected.terms))
                reached[place] = min(reached[place], selected.loss)
            self._ledger.stop_if_exact()

    def _select_special(self) -> None:
        """Forward selection of products of different variables, and of waves."""
        for place, target in enumerate(self._targets):
            if target.link.name in ("identity", "sqrt", "reciprocal"):
                pools = [multilinear_terms(target.indices, 3)] if len(target.indices) > 3 else []
                wavy = waves(target.indices, self._functions)
                pools += [polynomial_terms(target.indices, 2) + wavy] if wavy else []
                for pool in pools:
                    self._select_from(place, pool)
                    self._ledger.stop_if_exact()

    def _select_from(self, place: int, pool: Sequence[Formula]) -> None:
        ledger, columns, targets, reached = self._ledger, self._columns, self._targets, self._reached
        terms, matrix = columns.matrix(pool)
        if terms:
            selected = r.select_terms(ledger, targets[place], terms, matrix, 7)
            if selected is not None:
                self._seeds.append((place, selected.terms))
                reached[place] = min(reached[place], selected.loss)
