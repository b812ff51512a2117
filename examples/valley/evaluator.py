"""Scores a program by how low it gets and how few evaluations it needs, over five valleys."""

import importlib.util
import math
import random

from openevolve.evaluation_result import EvaluationResult

BUDGET = 200


def valley(seed):
    chance = random.Random(seed)
    a, b = chance.uniform(-3, 3), chance.uniform(-3, 3)
    return lambda x, y: (x - a) ** 2 + (y - b) ** 2 + 1.5 * (2 - math.cos(5 * (x - a)) - math.cos(5 * (y - b)))


def evaluate(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    depth, thrift, notes = 0.0, 0.0, []
    for seed in range(5):
        random.seed(seed)
        height, calls = valley(seed), [0]

        def counted(x, y, height=height, calls=calls):
            calls[0] += 1
            return height(x, y)

        x, y = program.run(counted, BUDGET)
        reached = height(x, y)
        depth += 1 / (1 + reached) / 5 if calls[0] <= BUDGET else 0.0
        thrift += max(0.0, 1 - calls[0] / BUDGET) / 5
        notes.append(f"valley {seed}: height {reached:.4f} after {calls[0]} evaluations")
    metrics = {"depth": depth, "thrift": thrift, "combined_score": 0.9 * depth + 0.1 * thrift}
    return EvaluationResult(metrics=metrics, artifacts={"valleys": "\n".join(notes)})
