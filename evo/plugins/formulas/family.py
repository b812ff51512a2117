"""The family `formula:`: published sets, generated sets, and tables of the user's.

formula:feynman  formula:small/3          published formulas, rows drawn here
formula:train/0-9999  formula:test        generated formulas of graded difficulty
formula:FILE.csv  formula:FILE.parquet?target=NAME
formula:SET?noise=0.01&seed=3             noise of this share of the target's deviation on the training rows
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from evo.plugins.formulas.evaluation import Reals
from evo.plugins.formulas.laws import Law, feynman, generated, small
from evo.plugins.formulas.problem import FormulaProblem
from evo.plugins.formulas.table import read_table
from problems.address import parse_place, user_path, whole_number
from problems.contract import BadAddress
from problems.registry import ProblemFamily, ProblemSet, Sandboxes, chosen, unknown_set

_OWN = ("own generator", "Apache-2.0")
_SETS: dict[str, tuple[Callable[[], tuple[Law, ...]], str, str, str]] = {
    "feynman": (
        *(feynman, "equations of the Feynman lectures, from 200 rows"),
        *("AI Feynman (Udrescu and Tegmark 2020)", "facts"),
    ),
    "small": (
        *(small, "small problems of genetic programming, from their own rows"),
        *("published small problems of genetic programming", "facts"),
    ),
    "train": (partial(generated, "train"), "generated formulas at 5 levels, to learn from", *_OWN),
    "test": (partial(generated, "test"), "generated formulas at 5 levels", *_OWN),
}
"""By name: the formulas, their description, their source and its licence."""
_HELD_BACK = 4
"""One row in this many of a file is a test row."""
_LEAST_ROWS, _MOST_ROWS = 8, 2000
"""Of a file."""


class LawProblem(FormulaProblem):
    """A formula that is known; its rows are drawn when they are first needed."""

    def __init__(self, name: str, law: Law, source: str, licence: str, noise: float, seed: int) -> None:
        super().__init__(name, law.names, source, licence)
        self.law, self._noise, self._seed = law, noise, seed

    def draw_rows(self) -> tuple[tuple[Reals, Reals], tuple[Reals, Reals]]:
        x, y = self.law.rows("train", self._seed)
        if self._noise:
            y = y + np.random.default_rng([self._seed, 7]).normal(0, self._noise * float(y.std()), len(y))
        return (x, y), self.law.rows("test", self._seed)

    def known_answers(self, seed: int) -> list[str]:
        """The law itself."""
        return [] if self.law.text.startswith("harmonic") else [self.law.text]


class TableProblem(FormulaProblem):
    """Rows of a file; every fourth is a test row."""

    def __init__(self, name: str, names: tuple[str, ...], units: tuple[str, ...], x: Reals, y: Reals) -> None:
        super().__init__(name, names[:-1], "the file's", "as the file's source says")
        self.output, self.units = names[-1], units
        held_back = np.arange(len(y)) % _HELD_BACK == _HELD_BACK - 1
        self._parts = ((x[:, ~held_back], y[~held_back]), (x[:, held_back], y[held_back]))

    def draw_rows(self) -> tuple[tuple[Reals, Reals], tuple[Reals, Reals]]:
        return self._parts


class FormulaFamily(ProblemFamily):
    """`formula:SET`, `formula:SET/INDEX` and `formula:FILE.csv`."""

    name = "formula"
    reads_files = True
    example = "formula:small/0"

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[FormulaProblem]:
        address = parse_place(self.name, rest, _OPTIONS)
        place, options = address.path, address.options
        noise, seed = float(str(options.get("noise", 0.0))), int(str(options.get("seed", 0)))
        path = user_path(place)
        if place not in _SETS:
            if not path.is_file():
                raise unknown_set(f"formula:{place}", [f"formula:{name}" for name in _SETS], ", and FILE.csv")
            target = options.get("target")
            return [read_problem(path, f"formula:{rest}", None if target is None else str(target))]
        if "target" in options:
            raise BadAddress(f"formula:{rest}: target is an option of files")
        query = "&".join(f"{key}={options[key]:g}" for key in ("noise", "seed") if key in options)
        laws, _text, source, licence = _SETS[place]
        whole = f"formula:{place}?{query}" if query else f"formula:{place}"
        places = chosen(whole, address.index or None, len(laws()), limit)
        return [LawProblem(f"{whole}/{k}", laws()[k], source, licence, noise, seed) for k in places]

    def sets(self) -> list[ProblemSet]:
        objectives = FormulaProblem.objectives
        return [
            ProblemSet(f"formula:{name}", text, len(laws()), objectives, *terms)
            for name, (laws, text, *terms) in _SETS.items()
        ]


def read_problem(path: Path, name: str, target: str | None) -> TableProblem:
    """The problem of a CSV or Parquet file. Raises BadAddress.

    target: the column to explain, the last by default
    """
    table = read_table(path, -1 if target is None else target, least=_LEAST_ROWS, most=_MOST_ROWS)
    for note in table.notes:
        warnings.warn(f"{path}: {note}", stacklevel=2)
    return TableProblem(name, (*table.names, table.target), table.units, np.ascontiguousarray(table.x.T), table.y)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 10:
        raise ValueError("must be a number from 0 to 10")
    return value


_OPTIONS: dict[str, Callable[[str], object]] = {"noise": _share, "seed": whole_number, "target": str}
FAMILY = FormulaFamily()
