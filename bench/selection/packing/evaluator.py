"""Nested circle packing: the largest sum of radii around the first 4, 6, 8 and 10 points, each over sqrt(n) / 2, the
scale of a grid. Radii are the exact solution of a linear programme: a program claims centres and nothing else.
"""

import importlib.util
import math

from openevolve.evaluation_result import EvaluationResult
from scipy.optimize import linprog

SIZES = (4, 6, 8, 10)


def radii_sum(points):
    n = len(points)
    rows, bounds = [], []
    for i in range(n):
        for j in range(i):
            row = [0.0] * n
            row[i] = row[j] = 1.0
            rows.append(row)
            bounds.append(math.dist(points[i], points[j]))
    walls = [(0.0, min(x, 1 - x, y, 1 - y)) for x, y in points]
    return -linprog([-1.0] * n, A_ub=rows, b_ub=bounds, bounds=walls, method="highs").fun


def evaluate(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    points = [(float(x), float(y)) for x, y in program.points]
    if len(points) != max(SIZES) or not all(0 <= c <= 1 for point in points for c in point):
        return EvaluationResult(metrics={**{f"n{n}": 0.0 for n in SIZES}, "combined_score": 0.0})
    sums = {f"n{n}": radii_sum(points[:n]) / (math.sqrt(n) / 2) for n in SIZES}
    return EvaluationResult(metrics={**sums, "combined_score": sum(sums.values()) / len(sums)})
