"""What a prompt shows of the rows: which simple terms would lower the error of the parent, where, and by how much.

A term t that is added to node k of the parent changes its value by t times the derivative of the formula by that node,
to first order. The share of the residual's variance which that explains, once the parent's constants have been fitted
again, is the term's hint. Without a parent the hints are of the target and of its transforms, for up to three terms
chosen one after another. The terms are columns that a problem computes once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.edits import words as w
from evo.plugins.formulas.edits.language import nodes, prefix_words, write_header
from evo.plugins.formulas.evaluation import Array, evaluate, evaluate_with_jacobian, fit_constants, quiet
from evo.plugins.formulas.grammar import (
    CONSTANT,
    FIXED,
    Formula,
    FormulaError,
    apply,
    fixed,
    parse,
    variable,
    write,
)
from evo.plugins.formulas.problem import FIT_STEPS, FormulaProblem, region_rewards
from evo.plugins.formulas.terms import monomial
from vpo.languages.contract import MOST_ANSWERS, PARENT

MOST_TERMS = 300
MOST_CONTEXTS = 6
"""Nodes of a parent for which terms have hints; the root and the best of the others are shown."""
_SPOILT = 1e12


@cache
def terms(count: int) -> tuple[Formula, ...]:
    """The simple terms of `count` variables."""
    simple: dict[Formula, None] = {}
    for i in range(count):
        x = variable(i)
        square, double = apply(g.SQUARE, x), apply(g.MUL, fixed(2), x)
        simple |= dict.fromkeys(monomial({i: float(e)}) for e in (1, 2, 3, -1, -2))
        simple |= dict.fromkeys(apply(f, x) for f in (g.SQRT, g.LOG, g.EXP, g.TANH, g.SIN, g.COS))
        simple |= dict.fromkeys(apply(f, u) for u in (double, square) for f in (g.SIN, g.COS))
        simple[apply(g.EXP, apply(g.NEG, x))] = None
    for i, j in combinations(range(count), 2):
        x, y = variable(i), variable(j)
        exponents = ((1, 1), (1, -1), (-1, 1), (2, 1), (1, 2), (2, -1), (-1, 2), (1, -2), (-2, 1))
        simple |= dict.fromkeys(monomial({i: float(a), j: float(b)}) for a, b in exponents)
        simple |= dict.fromkeys((apply(g.MUL, x, apply(g.SIN, y)), apply(g.MUL, y, apply(g.SIN, x))))
        simple |= dict.fromkeys(apply(f, apply(g.MUL, x, y)) for f in (g.SIN, g.EXP))
    for chosen in combinations(range(count), 3):
        for signs in ((1, 1, 1), (1, 1, -1), (1, -1, 1), (-1, 1, 1)):
            simple[monomial({k: float(s) for k, s in zip(chosen, signs, strict=True)})] = None
    return tuple(simple)[:MOST_TERMS]


@dataclass(frozen=True)
class SketchColumns:
    """Terms with values on all rows. values: (D, n), each divided by its largest; words: of each term"""

    values: Array
    terms: tuple[Formula, ...]
    words: tuple[tuple[str, ...], ...]


def columns_of(x: Array) -> SketchColumns:
    """The columns of the terms that have moderate values everywhere."""
    kept = [(evaluate(term, x), term) for term in terms(len(x))]
    kept = [(v, term) for v, term in kept if np.isfinite(v).all() and np.abs(v).max() < _SPOILT and np.ptp(v) > 0]
    values = np.array([v / max(float(np.abs(v).max()), 1e-300) for v, _term in kept])
    usable = tuple(term for _v, term in kept)
    return SketchColumns(
        values.reshape(len(kept), x.shape[1]), usable, tuple(tuple(prefix_words(term)) for term in usable)
    )


def basis_of(rows: Array) -> Array:
    """(n, p) orthonormal, of the space of rows (p, n)."""
    usable = rows[np.isfinite(rows).all(1)] if len(rows) else rows
    if not len(usable):
        return np.zeros((rows.shape[1], 0))
    scaled = usable / np.maximum(np.linalg.norm(usable, axis=1, keepdims=True), 1e-300)
    basis: Array = np.linalg.qr(scaled.T)[0]
    return basis


def hints(candidates: Array, residual: Array, basis: Array) -> Array:
    """(D,) the share of the residual's squares that each candidate explains beyond the basis; 0 for those within it."""
    residual = residual - basis @ (basis.T @ residual)
    rest = candidates - (candidates @ basis) @ basis.T
    norms = np.einsum("dn,dn->d", rest, rest)
    whole = np.einsum("dn,dn->d", candidates, candidates)
    total = float(residual @ residual)
    shares = (rest @ residual) ** 2 / np.maximum(norms * total, 1e-300)
    usable = np.isfinite(shares) & (norms > 1e-7 * whole) & (total > 0)
    return np.where(usable, np.minimum(shares, 1.0), 0.0)


def best_of(shares: Array, most: int) -> list[tuple[int, float]]:
    """The places of the largest shares that are not 0, and these."""
    order = np.argsort(-shares, kind="stable")[:most]
    return [(int(k), float(shares[k])) for k in order if shares[k] > 0]


def chosen_in_turn(candidates: Array, residual: Array, basis: Array, count: int) -> list[tuple[int, float]]:
    """Up to `count` columns, each the best after those before it, with the share that all of them explain."""
    chosen: list[tuple[int, float]] = []
    start = residual - basis @ (basis.T @ residual)
    total = float(start @ start)
    for _ in range(count):
        best = best_of(hints(candidates, residual, basis), 1)
        if not best or total <= 0:
            break
        place = best[0][0]
        column = candidates[place]
        column = column - basis @ (basis.T @ column)
        basis = np.column_stack([basis, column / max(float(np.linalg.norm(column)), 1e-300)])
        rest = residual - basis @ (basis.T @ residual)
        chosen.append((place, 1 - float(rest @ rest) / total))
    return chosen


# -- the parent --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parent:
    """A parent with fitted constants, its residual (n,), and its rewards by region."""

    formula: Formula
    residual: Array
    quality: tuple[float, ...]


def fit_parent(problem: FormulaProblem, formula: Formula) -> Parent | None:
    """None if the formula has no finite value on some row, or no words."""
    x, y = problem.train
    if formula.size > w.MOST_NODES:
        return None
    with quiet():
        fitted = fit_constants(formula, x, y, steps=FIT_STEPS).formula
        residual = y - evaluate(fitted, x)
        if not np.isfinite(residual).all():
            return None
        return Parent(fitted, residual, region_rewards(problem, residual))


def contexts(formula: Formula) -> list[int]:
    """Nodes, in prefix order, to which a summand is no summand of another of them: the root, factors, and arguments
    of functions."""
    spans = nodes(formula)
    place_of = {span: place for place, span in enumerate(spans)}
    places = [0]
    for begin, end in spans:
        code = formula.codes[end - 1]
        if code in (g.ADD, g.SUB, g.NEG) or code >= CONSTANT:
            continue
        last, arguments = end - 1, []
        while last > begin:
            start = formula.subtree(last - 1)[0]
            arguments.append((start, last))
            last = start
        constant = [formula.codes[b] in (CONSTANT, FIXED) and e - b == 1 for b, e in arguments]
        if code == g.MUL and any(constant):
            continue
        places += [place_of[span] for span, number in zip(arguments[::-1], constant[::-1], strict=True) if not number]
    return places[:MOST_CONTEXTS]


def derivatives(formula: Formula, chosen: Sequence[int], x: Array) -> tuple[Array, Array]:
    """The formula's derivatives by its constants (p, n), and by the values of the chosen nodes (k, n): those of a
    constant 0 that is added to each."""
    spans = nodes(formula)
    ends = {spans[place][1] - 1: k for k, place in enumerate(chosen)}
    codes: list[int] = []
    values: list[float] = []
    added: list[int] = []  # the chosen node of each fitted constant, -1 for the formula's own
    numbers = iter(formula.values)
    for place, code in enumerate(formula.codes):
        codes.append(code)
        if code in (CONSTANT, FIXED):
            values.append(next(numbers))
            added += [-1] if code == CONSTANT else []
        if place in ends:
            codes += [CONSTANT, g.ADD]
            values.append(0.0)
            added.append(ends[place])
    _values, jacobian = evaluate_with_jacobian(Formula(tuple(codes), tuple(values)), x)
    order = np.array(added)
    return jacobian[order < 0], jacobian[[int(np.flatnonzero(order == k)[0]) for k in range(len(chosen))]]


# -- words -------------------------------------------------------------------------------------------------------------


class Sketch:
    """The words of prompts about one problem."""

    def __init__(self, problem: FormulaProblem) -> None:
        self.problem = problem
        x, y = problem.train
        with quiet():
            self.columns = columns_of(x)
            self.start = self._without_parent(y)
        self.rows = ["y", *_extent(y)]
        for index, row in enumerate(x):
            self.rows += [f"x{index + 1}", *_extent(row)]

    def prompt(self, parent: Parent | None, answers: int) -> str:
        """The prompt for `answers` answers."""
        words = [write_header(self.problem.names, None if parent is None else parent.formula), *self.rows]
        if parent is None:
            words += self.start
        else:
            with quiet():
                words += self._of_parent(parent)
        return " ".join([*words, f"m{answers}"])

    def _terms(self, names: Sequence[str], places: Sequence[tuple[int, float]]) -> list[str]:
        """Terms with their names and hints."""
        words: list[str] = []
        for name, (place, share) in zip(names, places, strict=False):
            words += [name, *self.columns.words[place], w.explained_word(share)]
        return words

    def _without_parent(self, y: Array) -> list[str]:
        candidates = self.columns.values
        if not len(candidates):
            return []
        basis = basis_of(np.ones((1, len(y))))
        words = self._of_root(y, basis)
        for link, target in zip(w.LINKS, _transforms(y), strict=True):
            if target is not None:
                names = [f"{link}{k}" for k in range(1, w.IN_TURN + 1)]
                words += [w.AT, link, *self._terms(names, chosen_in_turn(candidates, target, basis, w.IN_TURN))]
        return words

    def _of_root(self, residual: Array, basis: Array) -> list[str]:
        """The best terms, then those that are chosen after the first."""
        best = best_of(hints(self.columns.values, residual, basis), w.BEST)
        words = [w.AT, *self._terms(w.ROOT_TERMS, best)]
        turns = chosen_in_turn(self.columns.values, residual, basis, w.IN_TURN)[1:]
        return [*words, *self._terms(w.ROOT_TERMS[w.BEST :], turns)]

    def _of_parent(self, parent: Parent) -> list[str]:
        words = [PARENT]
        for place, word in enumerate(prefix_words(parent.formula)):
            words += [w.NODES[place], word]
        words += [w.ERRORS, *(w.QUALITY[round(w.LEVELS * share)] for share in parent.quality)]
        candidates = self.columns.values
        if not len(candidates):
            return words
        chosen = contexts(parent.formula)
        own, by_node = derivatives(parent.formula, chosen, self.problem.train[0])
        basis = basis_of(own)
        words += self._of_root(parent.residual, basis)
        others: list[tuple[float, int, Array]] = []
        for place, slope in zip(chosen[1:], by_node[1:], strict=True):
            if np.isfinite(slope).all() and np.abs(slope).max() > 0:
                shares = hints(candidates * (slope / np.abs(slope).max()), parent.residual, basis)
                others.append((float(shares.max()), place, shares))
        others.sort(key=lambda each: (-each[0], each[1]))
        for name, (_best, place, shares) in zip(w.OTHERS, others, strict=False):
            names = [f"{name}{k}" for k in range(1, w.OF_OTHERS + 1)]
            words += [w.AT, name, w.NODES[place], *self._terms(names, best_of(shares, w.OF_OTHERS))]
        return words


def _transforms(y: Array) -> list[Array | None]:
    """The target as LINKS name it, None if it has no such value, or its size spoils it."""
    positive, scale = bool((y > 0).all()), float(np.abs(y).max())
    return [
        y * y if positive else None,
        np.log(y) if positive else None,
        1 / y if float(np.abs(y).min()) > 1e-3 * scale else None,
        np.exp(y) if scale < 8 else None,
    ]


def _extent(values: npt.NDArray[np.float64]) -> list[str]:
    low, high = float(values.min()), float(values.max())
    sign = w.SIGNS[0] if low > 0 else w.SIGNS[1] if high < 0 else w.SIGNS[2]
    size = max(abs(low), abs(high), 1e-30)
    return [sign, w.SIZES[min(max(round(float(np.log2(size))) + 4, 0), len(w.SIZES) - 1)]]


@lru_cache(maxsize=2048)
def sketch_of(problem: FormulaProblem) -> Sketch:
    """The sketch of a problem; raises ValueError for more variables than there are words."""
    if len(problem.names) > w.MOST_VARIABLES:
        raise ValueError(f"the embedded policy reads at most {w.MOST_VARIABLES} variables, not {len(problem.names)}")
    return Sketch(problem)


@lru_cache(maxsize=8192)
def _prompt(problem: FormulaProblem, parent: str, answers: int) -> str:
    shown: Parent | None = None
    if parent:
        try:
            # fitted, written and read again: the parent that the first word of the prompt carries
            shown = fit_parent(problem, parse(parent, problem.names))
            if shown is not None:
                text = write(shown.formula, problem.names, digits=8)
                shown = Parent(parse(text, problem.names), shown.residual, shown.quality)
        except FormulaError:
            shown = None
    return sketch_of(problem).prompt(shown, answers)


def encode_prompt(problem: FormulaProblem, parent: str, answers: int) -> str:
    """The prompt for `answers` answers. parent: its text; left out if it cannot be read or has no finite value.

    Raises ValueError for a number of answers outside 1..5 and for too many variables.
    """
    if not 1 <= answers <= MOST_ANSWERS:
        raise ValueError(f"the embedded policy writes 1 to {MOST_ANSWERS} answers a chain, not {answers}")
    return _prompt(problem, parent, answers)
