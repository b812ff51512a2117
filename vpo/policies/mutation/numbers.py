"""Steps in numbers: an answer that is a JSON value of numbers alone, or rows of numbers."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_ROWS = re.compile(r"[\s,;\[\](){}]*")
MOST = 100_000
"""Characters of an answer that are looked at."""
SMALLEST, LARGEST = 3e-3, 1.0
"""Step sizes, as shares of what a number is."""


@dataclass(frozen=True)
class Vector:
    """Numbers and the text that stands around them: len(values) + 1 pieces of it."""

    values: tuple[float, ...]
    whole: tuple[bool, ...]
    around: tuple[str, ...]

    def write(self, values: Sequence[float]) -> str:
        written = [_write(value, whole) for value, whole in zip(values, self.whole, strict=True)]
        return "".join(piece for pair in zip(self.around, [*written, ""], strict=True) for piece in pair)


def read_vector(text: str) -> Vector | None:
    """The numbers of an answer that consists of nothing else, None for any other."""
    if not text.strip() or len(text) > MOST:
        return None
    try:
        if not _only_numbers(json.loads(text)):
            return None
        text = re.sub(r'"(?:[^"\\]|\\.)*"', lambda key: "\0" * len(key[0]), keys := text)
    except ValueError:
        keys = text
        if _ROWS.sub("", _NUMBER.sub(" ", text)):
            return None
    return _split(keys, text)


def numbers_in(text: str) -> Vector | None:
    """All numbers of any text, None where it holds none."""
    return _split(text, text)


def _split(text: str, searched: str) -> Vector | None:
    found = list(_NUMBER.finditer(searched))
    if not found:
        return None
    ends = [0, *(one.end() for one in found)]
    starts = [*(one.start() for one in found), len(text)]
    return Vector(
        tuple(float(one[0]) for one in found),
        tuple(one[0].lstrip("+-").isdigit() for one in found),
        tuple(text[end:start] for end, start in zip(ends, starts, strict=True)),
    )


def _only_numbers(value: object) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(map(_only_numbers, value.values()))
    if isinstance(value, list):
        return bool(value) and all(map(_only_numbers, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def mutate_vector(parent: Vector, others: Sequence[Vector], rng: random.Random) -> str:
    """A step from the parent, in some of its numbers or all; with others of its length also between them."""
    others = [one for one in others if len(one.values) == len(parent.values) and one.values != parent.values]
    moves: list[Callable[[], list[float]]] = [lambda: _gaussian(parent.values, rng)] * 3
    if others:
        moves.append(lambda: _blend(parent.values, rng.choice(others).values, rng))
        moves.append(lambda: _gaussian(_exchange(parent.values, rng.choice(others).values, rng), rng))
    if len(others) > 1:
        moves.append(lambda: _differential(parent.values, [one.values for one in rng.sample(others, 2)], rng))
    values = rng.choice(moves)()
    return parent.write([_kept_whole(*one) for one in zip(values, parent.values, parent.whole, strict=True)])


def _gaussian(values: Sequence[float], rng: random.Random) -> list[float]:
    """Some of the values by a normal step. Its size is drawn log-uniformly, since nothing tells the right scale."""
    size = math.exp(rng.uniform(math.log(SMALLEST), math.log(LARGEST)))
    typical = math.sqrt(sum(v * v for v in values) / len(values)) or 1.0
    share = rng.choice((1 / len(values), 0.3, 1.0))
    chosen = [i for i in range(len(values)) if rng.random() < share] or [rng.randrange(len(values))]
    moved = list(values)
    for i in chosen:
        scale = abs(values[i]) if rng.random() < 0.5 and values[i] else typical
        moved[i] += rng.gauss(0.0, size * scale)
    return moved


def _exchange(ours: Sequence[float], theirs: Sequence[float], rng: random.Random) -> list[float]:
    return [a if rng.random() < 0.5 else b for a, b in zip(ours, theirs, strict=True)]


def _blend(ours: Sequence[float], theirs: Sequence[float], rng: random.Random) -> list[float]:
    """BLX: between the two and a little beyond (Eshelman and Schaffer 1993)."""
    at = rng.uniform(-0.3, 1.3)
    return [a + at * (b - a) for a, b in zip(ours, theirs, strict=True)]


def _differential(ours: Sequence[float], pair: Sequence[Sequence[float]], rng: random.Random) -> list[float]:
    """The parent and a share of the way between two others (Storn and Price 1997)."""
    factor = rng.uniform(0.2, 1.0)
    return [a + factor * (b - c) for a, b, c in zip(ours, *pair, strict=True)]


def _kept_whole(value: float, before: float, whole: bool) -> float:
    """A whole number stays one, and a step that was taken moves it."""
    if not math.isfinite(value):
        return before
    if not whole or value == before:
        return value
    rounded = float(round(value))
    return rounded if rounded != before else before + (1.0 if value > before else -1.0)


def _write(value: float, whole: bool) -> str:
    return str(int(value)) if whole and value == int(value) else f"{value:.12g}"
