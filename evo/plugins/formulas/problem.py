"""A table and its formula as a Problem: rows in the prompt, rewards for the error of each region and for the size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas.evaluation import Reals, evaluate_formula, fit_constants, quiet
from evo.plugins.formulas.grammar import CALLABLE, Formula, FormulaError, parse_formula, write_formula
from problems.contract import Problem, Score
from problems.fingerprint import fingerprint_of

_RULES = "formulas 1"
"""Changes when scores change."""
REGIONS = 5
SOLVED_R2 = 0.999
MOST_SIZE = 50
FINEST = 1e-8
"""A normalised error this small or smaller earns a region's whole reward."""
SHOWN_ROWS = 12
FIT_STEPS = 10


class FormulaProblem(Problem):
    """A formula to find from rows. Subclasses give the rows.

    objectives: one per region of the rows (clusters of X): 1 for an error of at most FINEST of the target's variance, 0
    for the whole variance, by the logarithm between; then `size`, 1 less nodes / MOST_SIZE
    fitness: half the mean of the regions, and half more if R2 on the test rows is above SOLVED_R2, which is the target
    Constants with a point are fitted to the training rows before anything is measured.
    """

    answer_format = "text"
    inline = True
    execution = "never"
    objectives = (*(f"region_{k}" for k in range(1, REGIONS + 1)), "size")
    target: float | None = 0.5

    output: str = "y"
    units: tuple[str, ...] = ()
    """Of the variables and, last, of the target; empty if unknown."""

    def __init__(self, name: str, names: tuple[str, ...], source: str, licence: str) -> None:
        """names: of the variables"""
        self.name, self.names, self.source, self.licence = name, names, source, licence

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def draw_rows(self) -> tuple[tuple[Reals, Reals], tuple[Reals, Reals]]:
        """(x (d, n), y (n,)) of the training rows and of the test rows."""
        raise NotImplementedError

    @cached_property
    def _rows(self) -> tuple[tuple[Reals, Reals], tuple[Reals, Reals]]:
        return self.draw_rows()

    @property
    def train(self) -> tuple[Reals, Reals]:
        """x (d, n) and y (n,) that answers are fitted to and rewarded on."""
        return self._rows[0]

    @property
    def test(self) -> tuple[Reals, Reals]:
        """x (d, n) and y (n,) that decide whether the problem is solved."""
        return self._rows[1]

    @cached_property
    def regions(self) -> npt.NDArray[np.intp]:
        """The region (n,) of each training row: its nearest of REGIONS centres. Lloyd's algorithm finds them; it starts
        from rows that are far from each other."""
        x = self.train[0]
        scale = x.std(1, keepdims=True)
        points = ((x - x.mean(1, keepdims=True)) / np.where(scale > 0, scale, 1.0)).T
        centres = [points[0]]
        for _ in range(REGIONS - 1):
            distance = np.min([((points - c) ** 2).sum(1) for c in centres], axis=0)
            centres.append(points[int(distance.argmax())])
        middle = np.array(centres)
        nearest = np.zeros(len(points), dtype=np.intp)
        for _ in range(10):
            nearest = ((points[:, None] - middle[None]) ** 2).sum(2).argmin(1)
            for k in range(REGIONS):
                if (nearest == k).any():
                    middle[k] = points[nearest == k].mean(0)
        return nearest

    # -- what a prompt shows -------------------------------------------------------------------------------------------

    def statement(self) -> str:
        x, y = self.train
        shown = np.linspace(0, len(y) - 1, min(SHOWN_ROWS, len(y))).astype(int)
        shown = shown[np.argsort(x[0, shown], kind="stable")]
        head = "  ".join((*self.names, self.output))
        rows = "\n".join("  ".join(f"{value:.3g}" for value in (*x[:, k], y[k])) for k in shown)
        examples = f"1.0*{self.names[0]}**2 + 1.0 or 1.0/(1.0 + {self.names[-1]})"
        units = ""
        if any(self.units):
            pairs = zip((*self.names, self.output), self.units, strict=True)
            units = "\nUnits: " + ", ".join(f"{name} [{unit or '1'}]" for name, unit in pairs) + "."
        return f"""\
Find a formula that gives {self.output} from the variables {", ".join(self.names)}.{units}

Write one expression, such as {examples}, with + - * / **, parentheses, numbers, pi, and the functions \
{", ".join(CALLABLE)}. Write no prose and no data.
A number with a decimal point (1.0) is a constant that is fitted to the rows for you; a whole number (2) stays as it is.
Errors are measured in {REGIONS} regions of the rows; smaller formulas earn more. {len(y)} rows are given, of which \
{len(shown)} are:

{head}
{rows}"""

    def seed_answer(self) -> str:
        """A linear formula of the first variable."""
        return f"1.0*{self.names[0]} + 1.0"

    def canonical(self, answer: str) -> str:
        """The formula as the grammar writes it; other texts as other problems have them."""
        try:
            return write_formula(parse_formula(answer, self.names), self.names)
        except FormulaError:
            return super().canonical(answer)

    def fingerprint(self) -> str:
        """Of the rules and the rows."""
        (x, y), (a, b) = self._rows
        numbers = [array.round(9).tolist() for array in (x, y, a, b)]
        return fingerprint_of(_RULES, self.names, self.output, *numbers)

    # -- scoring -------------------------------------------------------------------------------------------------------

    def score(self, answer: str) -> Score:
        """Rewards, fitness and features of an answer. Features: `size` and `constants`."""
        try:
            formula = parse_formula(answer, self.names)
        except FormulaError as fault:
            return Score.failure(len(self.objectives), str(fault), f"{fault}. Write one expression.")
        with quiet():
            return self._score(formula)

    def _score(self, formula: Formula) -> Score:
        x, y = self.train
        fitted = fit_constants(formula, x, y, steps=FIT_STEPS)
        if not math.isfinite(fitted.loss):
            bad = int((~np.isfinite(evaluate_formula(formula, x))).sum())
            fault = f"the formula has no finite value on {bad} of {len(y)} rows"
            return Score.failure(len(self.objectives), fault)
        residual = evaluate_formula(fitted.formula, x) - y
        errors = region_errors(self, residual)
        quality = [_reward(error) for error in errors]
        size = formula.size
        test_x, test_y = self.test
        wrong = evaluate_formula(fitted.formula, test_x) - test_y
        r2 = 1 - float((wrong**2).mean()) / max(float(test_y.var()), 1e-300)
        solved = math.isfinite(r2) and r2 > SOLVED_R2
        fitness = 0.5 * min(sum(quality) / REGIONS, 0.999) + (0.5 if solved else 0.0)
        rewards = (*quality, max(0.0, 1 - size / MOST_SIZE))
        return Score(
            rewards,
            fitness,
            {"size": float(size), "constants": float(len(formula.fitted))},
            self._describe(fitted.formula, residual, errors),
        )

    def _describe(self, fitted: Formula, residual: Reals, errors: Sequence[float]) -> str:
        x, _y = self.train
        lines = [f"Fitted: {write_formula(fitted, self.names, digits=6)}"]
        for k, error in enumerate(errors):
            inside = self.regions == k
            if inside.any():
                centre = ", ".join(f"{n} {v:.3g}" for n, v in zip(self.names, x[:, inside].mean(1), strict=True))
                bias = float(residual[inside].mean())
                lines.append(
                    f"region_{k + 1} near {centre}: error {math.sqrt(error):.2g} of the deviation, bias {bias:+.2g}"
                )
        return "\n".join(lines)


def region_errors(problem: FormulaProblem, residual: Reals) -> list[float]:
    """The mean squared residual (n,) of each region as a share of the target's variance; of all rows if it is empty."""
    variance = max(float(problem.train[1].var()), 1e-300)
    insides = [residual[problem.regions == k] for k in range(REGIONS)]
    loss = float(residual @ residual) / len(residual)
    return [(float((inside**2).mean()) if len(inside) else loss) / variance for inside in insides]


def _reward(error: float) -> float:
    """1 for FINEST and less, 0 for 1 and more."""
    if not math.isfinite(error):
        return 0.0
    return min(1.0, max(0.0, math.log(max(error, FINEST)) / math.log(FINEST)))
