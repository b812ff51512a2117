"""The numbers of an answer as coordinates around it: of a Python program its constants by the syntax tree, of any other
text what a regular expression finds. Only between EVOLVE-BLOCK marks, if it has some."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from statistics import NormalDist

from problems.openevolve.evolve_block import open_lines
from vpo.policies.mutation import find_constants

FIRST_STEP, FIRST_OF_WHOLE, CHANGES = 0.3, 0.01, 0.1
"""The first steps, as shares of a number, and the chance that a whole number changes in an answer, if there are few."""
_FARTHEST, _LARGEST = 50.0, 1e15
_NUMBER = re.compile(rb"(?<![\w.])[-+]?(?:\d+(?![\w.])|(\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))")


class Tunable:
    """An answer, and the answers that differ from it in their numbers.

    steps: the first step of each coordinate, a standard deviation; empty if the answer has no numbers
    least: the least steps, by which whole numbers continue to change
    """

    def __init__(self, text: str, python: bool) -> None:
        self._data, self._python = text.encode("utf-8", "surrogatepass"), True
        found = find_constants(text) if python else None
        if found is None:
            self._python, (first, last) = False, open_lines(text)
            lines = self._data.split(b"\n")
            start, end = (sum(len(line) + 1 for line in lines[:number]) for number in (first, last))
            numbers = _NUMBER.finditer(self._data, start, end)
            found = [(*one.span(), int(one[0]) if one[1] is None else float(one[0])) for one in numbers]
        self._found = [one for one in found if abs(one[2]) <= _LARGEST]
        whole = [isinstance(value, int) for _, _, value in self._found]
        unit = 0.5 / NormalDist().inv_cdf(1 - min(CHANGES, 1 / max(1, sum(whole))) / 2)
        sizes = [max(1, abs(value)) for _, _, value in self._found]
        self.least = [unit / size if is_whole else 0.0 for size, is_whole in zip(sizes, whole, strict=True)]
        self.steps = [max(least, FIRST_OF_WHOLE) if least else FIRST_STEP for least in self.least]

    def at(self, steps: Iterable[float]) -> str:
        """The answer at these coordinates: a positive number times e^step, another one plus step times its size (of 0:
        times 1). Whole numbers stay whole."""
        parts, end = list[bytes](), 0
        for (start, stop, value), step in zip(self._found, steps, strict=False):
            parts += [self._data[end:start], self._write(value, max(-_FARTHEST, min(_FARTHEST, step))).encode()]
            end = stop
        return b"".join([*parts, self._data[end:]]).decode("utf-8", "surrogatepass")

    def _write(self, value: int | float, step: float) -> str:
        moved = value * math.exp(step) if value > 0 else value + step * (abs(value) or 1)
        moved = max(-_LARGEST, min(_LARGEST, moved))
        text = repr(round(moved)) if isinstance(value, int) else repr(float(f"{moved:.12g}"))
        return f"({text})" if self._python and text.startswith("-") else text
