"""An autocorrelation inequality, how small can the largest value of f * f be: evo run examples/maths/steps.py

The answer runs apart. Heights become integers in the same proportion, so that the convolution is exact.
"""

from fractions import Fraction

import evo
from problems import AnswerError

statement = (
    "f is a step function on [-1/4, 1/4] with heights >= 0. Make the largest value of its convolution with itself "
    "small, relative to the square of its integral. Write a Python function heights() that returns at most 200 heights."
)
answer_format = "python"
seed_answer = """def heights():
    return [1 / (1 + 0.02 * abs(i - 24.5)) for i in range(50)]
"""
directions = {"bound": "min"}
target = 1.5032  # AlphaEvolve's second construction (2025), of 30,000 steps


def score(answer: str) -> dict[str, float]:
    try:
        heights = [max(Fraction(0), Fraction(height)) for height in evo.call(answer, "heights")]
    except (TypeError, ValueError, OverflowError) as error:
        raise AnswerError(f"a list of finite numbers belongs here: {error}") from None
    if not 0 < len(heights) <= 200 or not any(heights):
        raise AnswerError(f"{len(heights)} heights; at most 200 belong here, not all of them 0")
    whole = [round(height * (1 << 64) / max(heights)) for height in heights]
    shifts = range(2 * len(whole) - 1)
    largest = max(sum(whole[i] * whole[k - i] for i in range(len(whole)) if 0 <= k - i < len(whole)) for k in shifts)
    return {"bound": float(Fraction(2 * len(whole) * largest, sum(whole) ** 2))}
