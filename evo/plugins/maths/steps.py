"""Common parts of the problems about step functions: reading heights, and convolutions exact or fast.

Up to MOST_EXACT steps everything is exact: the heights become integers of 64 bits in the same proportion (the rounded
    function is measured), and convolutions are integers. Beyond, floats decide, and an exact value is computed only on
    request, before a record is announced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evo.plugins.maths.exact import convolve, quantise
from evo.plugins.maths.task import Unfit
from evo.plugins.maths.values import read_numbers, without_claims

MOST_EXACT = 5000


def read_heights(returned: Any, most: int | None, lowest: float | None = None) -> tuple[list[float], str]:
    """The heights and the repair: heights below `lowest` are raised to it.

    most: of steps, None for no limit. A tuple (heights, claims...) counts by its heights alone.
    """
    heights = read_numbers(without_claims(returned), "heights")
    if not heights:
        raise Unfit("no heights")
    if most is not None and len(heights) > most:
        raise Unfit(f"{len(heights)} heights, where at most {most} were asked for")
    if lowest is None:
        return heights, ""
    below = sum(height < lowest for height in heights)
    return [max(lowest, height) for height in heights], f"{below} heights below {lowest:g} were raised" if below else ""


def to_whole(heights: Sequence[float]) -> list[int]:
    """Integers in the proportion of the heights; Unfit if all are 0."""
    whole = quantise(heights)
    if not any(whole):
        raise Unfit("every height is 0")
    return whole


def convolve_exact(first: Sequence[int], second: Sequence[int]) -> list[int]:
    return convolve(first, second)


def convolve_fast(first: Sequence[float], second: Sequence[float]) -> np.ndarray:
    """Convolution by Fourier transform; the error is about 1e-15 of the largest value."""
    size = len(first) + len(second) - 1
    padded = 1 << (size - 1).bit_length()
    return np.fft.irfft(np.fft.rfft(first, padded) * np.fft.rfft(second, padded), padded)[:size]


def wants_exact(heights: Sequence[float], exact: bool) -> bool:
    return exact or len(heights) <= MOST_EXACT


STEP_SEED = """\
import math


def construct(n):
    \"\"\"The heights of a step function of n equal steps.\"\"\"
    heights = []
    for i in range(n):
        x = (i + 0.5) / n
        heights.append({height})
    return heights
"""
