"""The scorer's own numbers as people and models read them: with direction and seed, and with as many digits as tell
apart the numbers that are shown together. It is the one writer of a number for every view; `ago`, `count` and `rate`
write times, counts and rates, short and of one width whatever their size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from islands.types import Candidate
from problems.contract import Score
from problems.objectives import ARROW, Objective, Reward, Value, is_lower, measure_of, own_values, value_of, whole_index

LEAST_DIGITS, MOST_DIGITS, WHOLE_DIGITS, MOST_SEEDS = 4, 15, 7, 6
_SAME = 5e-9
"""Numbers that differ by a smaller share of themselves count as one, as a target and what reaches it exactly."""


def digits_of(numbers: Iterable[float | None]) -> int:
    """Significant digits that show the smallest difference between these numbers with two digits."""
    known = sorted({float(one) for one in numbers if one is not None and math.isfinite(one)})
    largest = max(map(abs, known), default=0.0)
    gaps = [b - a for a, b in zip(known, known[1:], strict=False) if b - a > _SAME * largest]
    if not gaps:
        return LEAST_DIGITS
    digits = math.floor(math.log10(largest)) - math.floor(math.log10(min(gaps))) + 2
    return min(max(digits, LEAST_DIGITS), MOST_DIGITS)


def write_number(number: float | None, others: Iterable[float | None] = (), least: int = LEAST_DIGITS) -> str:
    """54.8, -1234531.2; "-" for none. others: the numbers that it is read with; least: digits"""
    if number is None or not math.isfinite(number):
        return "-"
    whole = math.floor(math.log10(abs(number))) + 1 if number else 1  # digits before the point are all shown, if few
    digits = max(digits_of((number, *others)), least, whole if whole <= WHOLE_DIGITS else 0)
    return f"{number + 0.0:.{digits}g}"  # -0.0 is 0


def mark(objective: Objective) -> str:
    """An arrow if lower is better."""
    return ARROW * objective.lower


def write_value(value: Value, others: Iterable[Value] = (), *, arrow: bool = True) -> str:
    """54.8 ↓, "-" for none. others: the values that it is read with; arrow: whether one shows that lower is better"""
    text = write_number(value.number, [one.number for one in others])
    return text + ARROW * (arrow and value.measure.lower and value.number is not None)


def write_signed(change: float | None, others: Iterable[float | None] = ()) -> str:
    """+0.062, -7.93, 0: a change of a value. others: the values that it is the difference of"""
    if change is None or not math.isfinite(change):
        return "-"
    largest = max((abs(one) for one in others if one is not None), default=0.0)
    if abs(change) <= _SAME * largest:
        return "0"
    return f"{change:+.0f}" if 999.5 <= abs(change) < 1e6 else f"{change + 0.0:+.3g}"


def write_values(objectives: Sequence[Objective], values: Sequence[float | None], seed: bool = True) -> str:
    """max_wait 54.8 ↓ seed 63.4, energy 6.04 ↓ seed 6.9. seed: whether the seed's follow, unless there are too many"""
    parts = []
    for one, value in zip(objectives, values, strict=True):
        known = seed and len(objectives) <= MOST_SEEDS and one.seed is not None and value is not None
        parts.append(f"{one.name} {write_number(value, [one.seed] * known)}{mark(one)}")
        parts[-1] += f" seed {write_number(one.seed, [value])}" if known else ""
    return ", ".join(parts)


def target_value(objectives: Sequence[Objective], target: float | None) -> Value:
    """The target of a problem, which has it as a fitness, as its scorer measures it."""
    return value_of(objectives, None if target is None else Reward(target))


def scored_value(objectives: Sequence[Objective], scored: Candidate | Score) -> Value:
    """The fitness as the scorer measures it, to the last digit; None for a failed answer that has none."""
    index, measure = whole_index(objectives), measure_of(objectives)
    number = own_values(objectives, scored)[index] if index is not None and measure.lower else scored.fitness
    return Value(number, measure)


def write_scored(objectives: Sequence[Objective], scored: Candidate | Score) -> str:
    """fitness 0.52 (max_wait 54.8 ↓ seed 63.4, energy 6.04 ↓ seed 6.9), or loss -4 ↓ seed 5 where that is the
    fitness, with the others behind it in parentheses."""
    pairs = list(zip(objectives, own_values(objectives, scored), strict=True))

    def write(some: Sequence[tuple[Objective, float | None]]) -> str:
        return write_values([objective for objective, _ in some], [value for _, value in some])

    if is_lower(objectives):
        alone, *others = sorted(pairs, key=lambda pair: not pair[0].whole)
        return write([alone]) + (f" ({write(others)})" if others else "")
    text = write(pairs)
    seed = [one.seed for one in objectives if one.whole]
    return f"fitness {write_number(scored.fitness, seed, least=6)} ({text})"


def as_dict(objectives: Sequence[Objective], scored: Candidate | Score | None) -> dict[str, Any]:
    """As --json and evo.Answer have it: fitness and values as the scorer measures them, rewards as they count."""
    names = [one.name for one in objectives]
    return {
        "fitness": None if scored is None else scored_value(objectives, scored).number,
        "values": None if scored is None else dict(zip(names, own_values(objectives, scored), strict=True)),
        "seed": {one.name: one.seed for one in objectives},
        "directions": {one.name: "min" if one.lower else "max" for one in objectives},
        "rewards": None if scored is None else dict(zip(names, scored.rewards, strict=True)),
    }


def ago(seconds: float) -> str:
    """now, 12s, 3m, 2h, 5d."""
    if seconds < 1:
        return "now"
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{letter}"
    return f"{int(seconds)}s"


def count(value: float | None) -> str:
    """Five cells at most: 999, 9,999, 12.3k, 4.5M; "-" if it is not known."""
    if value is None:
        return "-"
    if value < 9_999.5:
        return f"{value:,.0f}"
    for size, letter in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        if value < size * 999.5:
            scaled = value / size
            return f"{scaled:.1f}{letter}" if scaled < 99.95 else f"{scaled:.0f}{letter}"
    return f"{value:.0e}"


def rate(value: float | None) -> str:
    """The rate like `count`, with a decimal below ten."""
    return f"{value:.1f}" if value is not None and value < 9.95 else count(value)
