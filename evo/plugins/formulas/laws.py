"""Sets of known formulas: equations of the Feynman lectures, small problems, and formulas of graded difficulty.

Sources: the table of AI Feynman (Udrescu and Tegmark 2020), 100 equations with ranges; 66 small problems (Koza, Nguyen,
Vladislavleva, Jin, Neat, Livermore's predecessors), as their sets specify rows; formulas that were drawn at random
(commit c96219c2 has the generator), none of them equal to a published one. Rows are drawn here.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from evo.plugins.formulas.evaluation import Reals, evaluate_formula, quiet
from evo.plugins.formulas.grammar import Formula, parse_formula

_ROWS = 200, 1000
"""Training rows and test rows of the Feynman equations and of the drawn formulas."""
RANGES = ((1.0, 5.0), (0.5, 3.0), (-2.0, 2.0), (0.0, 1.0))
"""Of the variables of drawn formulas."""
Specification = tuple[tuple[str, float, float, float], ...]
"""Of each variable: kind, low, high, count or step; kind "U" is uniform, "E" evenly spaced."""
_MOST_ROWS = {"train": 2000, "test": 5000}


@dataclass(frozen=True)
class Law:
    """A known formula and where its rows come from.

    names: of the variables
    """

    name: str
    text: str
    names: tuple[str, ...]
    train: Specification
    test: Specification
    target: str = "y"

    def value(self, x: Reals) -> Reals:
        """y (n,) of rows x (d, n)."""
        if self.text.startswith("harmonic"):
            return np.array([np.sum(1 / np.arange(1, round(each) + 1)) for each in x[0]])
        with quiet():
            return evaluate_formula(self.formula, x)

    @property
    def formula(self) -> Formula:
        return parse_formula(self.text, self.names)

    def rows(self, split: str, seed: int) -> tuple[Reals, Reals]:
        """x (d, n) and y (n,) of "train" or "test", rows without a value left out."""
        spec = self.train if split == "train" else self.test
        rng = np.random.default_rng([seed, split == "train"])
        x = _draw(spec, rng, _MOST_ROWS[split])
        y = self.value(x)
        kept = np.isfinite(y)
        return np.ascontiguousarray(x[:, kept]), y[kept]


def _draw(spec: Specification, rng: np.random.Generator, most: int) -> Reals:
    """Uniform rows, or the grid of evenly spaced values (a step, or a count if the number is a large whole one)."""
    if spec[0][0] == "U":
        count = int(spec[0][3])
        return np.array([rng.uniform(low, high, count) for _kind, low, high, _count in spec])
    axes = []
    for _kind, low, high, step in spec:
        count = int(step) if step > high - low or step >= 10 else round((high - low) / step) + 1
        axes.append(np.linspace(low, high, max(2, count)))
    x = np.array([axis.ravel() for axis in np.meshgrid(*axes)])
    if x.shape[1] > most:
        x = x[:, np.sort(rng.choice(x.shape[1], most, replace=False))]
    return x


@cache
def feynman() -> tuple[Law, ...]:
    """The equations of the Feynman lectures: 200 training rows and 1,000 test rows, uniform in each range."""
    laws = []
    for row in _read("feynman.csv"):
        count = int(row["# variables"])
        names = tuple(row[f"v{i}_name"] for i in range(1, count + 1))
        ranges = [(float(row[f"v{i}_low"]), float(row[f"v{i}_high"])) for i in range(1, count + 1)]
        laws.append(Law(row["Filename"], row["Formula"], names, *_uniform(ranges), row["Output"]))
    return tuple(laws)


@cache
def small() -> tuple[Law, ...]:
    """The small problems. A set without test rows is tested on fresh rows of its training specification."""
    laws = []
    for row in _read("small.csv"):
        count = int(row["variables"])
        names = tuple(f"x{i}" for i in range(1, count + 1))
        train = _specification(row["train_spec"], names)
        test = train if row["test_spec"] in ("None", "") else _specification(row["test_spec"], names)
        if test == train and train[0][0] == "U":
            test = tuple((kind, low, high, max(count, 1000.0)) for kind, low, high, count in train)
        laws.append(Law(row["name"], row["expression"], names, train, test))
    return tuple(laws)


@cache
def generated(split: str) -> tuple[Law, ...]:
    """The formulas drawn for "train", 10,000, or "test", 100. Formula i is of level i % 5:

    0  one term: a product of powers, or a function of one
    1  a sum of two terms
    2  a sum of two or three terms of more variables
    3  a square root, exponential, logarithm or quotient around a sum
    4  a product or quotient of two sums
    """
    with (files(__package__) / "data" / "generated.json.gz").open("rb") as packed:
        rows: list[tuple[str, str]] = json.loads(gzip.decompress(packed.read()))[split]
    laws = []
    for index, (text, ranges) in enumerate(rows):
        names = tuple(f"x{i}" for i in range(1, len(ranges) + 1))
        laws.append(Law(f"{split}/{index}", text, names, *_uniform([RANGES[int(digit)] for digit in ranges])))
    return tuple(laws)


def _uniform(ranges: Sequence[tuple[float, float]]) -> tuple[Specification, Specification]:
    """Training rows and test rows, uniform in each range."""
    train, test = (tuple(("U", low, high, float(rows)) for low, high in ranges) for rows in _ROWS)
    return train, test


def _specification(text: str, names: tuple[str, ...]) -> Specification:
    held: Mapping[str, Mapping[str, list[float]]] = json.loads(text)
    specification = []
    for name in names:
        ((kind, (low, high, amount)),) = (held.get("all") or held[name]).items()
        specification.append((kind, float(low), float(high), float(amount)))
    return tuple(specification)


def _read(file: str) -> list[dict[str, str]]:
    with (files(__package__) / "data" / file).open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))
