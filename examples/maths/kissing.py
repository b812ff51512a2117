"""The kissing number in 11 dimensions: evo run examples/maths/kissing.py

The answer runs apart. Integer vectors whose smallest distance is at least their largest length are the centres of
spheres that touch a central one (AlphaEvolve, B.11); vectors in conflict are left out in their order.
"""

import evo
from problems import AnswerError

statement = (
    "Write a Python function vectors() that returns many vectors of 11 integers. Those count whose distances to the "
    "vectors counted before, and whose length, are right: each distance is at least the largest length of all."
)
answer_format = "python"
seed_answer = """def vectors():
    return [[2 * sign if i == k else 0 for i in range(11)] for k in range(11) for sign in (-1, 1)]
"""
target = 604  # Ganzhinov (2022) has 592, AlphaEvolve (2025) 593


def score(answer: str) -> dict[str, float]:
    vectors = evo.call(answer, "vectors")
    if not isinstance(vectors, list) or not all(isinstance(v, list) and len(v) == 11 for v in vectors):
        raise AnswerError("a list of lists of 11 integers belongs here")
    if len(vectors) > 1000 or not all(type(x) is int and abs(x) < 2**60 for v in vectors for x in v):
        raise AnswerError("at most 1000 vectors of integers below 2**60 belong here")
    longest = max((sum(x * x for x in v) for v in vectors), default=0)
    counted: list[list[int]] = []
    for vector in (v for v in vectors if any(v)):
        if all(sum((x - y) ** 2 for x, y in zip(vector, other, strict=True)) >= longest for other in counted):
            counted.append(vector)
    return {"spheres": float(len(counted))}
