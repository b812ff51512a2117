"""The set reward's estimator: its speed beside two loops over rollouts, and its variance by sampler, in one run.

    python bench/estimator.py [--json FILE]

Speed: 1,024 rollouts x 5 answers x 16 objectives under K = 100 shared weights. `loop` is the straightforward one: for
every rollout, for every weight, the largest dot product over its answers. `matmul` takes one matrix product per
rollout, as anyone would who knows NumPy. CPU milliseconds, medians of runs in turns.
Variance: the standard deviation over 400 draws of the weights of one rollout's R(S), and of the difference of two
rollouts that share the weights (what an advantage is made of), at K = 100, d = 2 where the exact value is known too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from vpo.scalarize import dirichlet_weights, exact_set_rewards, set_rewards  # noqa: E402

TURNS = 7


def loop(rewards: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """R(S) rollout by rollout, weight by weight."""
    result = np.zeros(len(rewards))
    for g, answers in enumerate(rewards):
        total = 0.0
        for w in weights:
            total += max(float(np.dot(w, answer)) for answer in answers)
        result[g] = total / len(weights)
    return result


def matmul(rewards: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """R(S) by one matrix product per rollout."""
    return np.array([(answers @ weights.T).max(axis=0).mean() for answers in rewards])


def cpu_ms(function: Callable[[], Any]) -> float:
    function()  # so that what ran before it decides nothing
    started = time.process_time()
    function()
    return (time.process_time() - started) * 1e3


def speed() -> dict[str, float]:
    rng = np.random.default_rng(0)
    rewards, valid = rng.random((1024, 5, 16)), np.ones((1024, 5), bool)
    weights = dirichlet_weights(100, 16, seed=0)
    assert np.allclose(loop(rewards[:20], weights), set_rewards(rewards[:20], valid[:20], weights))
    assert np.allclose(matmul(rewards, weights), set_rewards(rewards, valid, weights))
    ways: dict[str, Callable[[], Any]] = {
        "ours": lambda: set_rewards(rewards, valid, weights),
        "matmul": lambda: matmul(rewards, weights),
        "loop": lambda: loop(rewards, weights),
    }
    turns = [{name: cpu_ms(way) for name, way in ways.items()} for _ in range(TURNS)]
    taken = {name: sorted(turn[name] for turn in turns)[TURNS // 2] for name in ways}
    ratios = {f"{name}_ratio": taken[name] / taken["ours"] for name in ("loop", "matmul")}
    return {f"{name}_ms": ms for name, ms in taken.items()} | ratios


def variance() -> list[dict[str, Any]]:
    rows = []
    for d, m in ((2, 3), (4, 3), (16, 5)):
        rng = np.random.default_rng(d)
        rewards, valid = rng.random((2, m, d)), np.ones((2, m), bool)
        row: dict[str, Any] = {"d": d, "m": m}
        for sampler in ("iid", "sobol"):
            draws = np.array(
                [set_rewards(rewards, valid, dirichlet_weights(100, d, seed=s, sampler=sampler)) for s in range(400)]
            )
            row[f"{sampler}_std"] = float(draws[:, 0].std())
            row[f"{sampler}_difference_std"] = float((draws[:, 0] - draws[:, 1]).std())
            if d == 2:
                row[f"{sampler}_bias"] = float(np.abs(draws.mean(axis=0) - exact_set_rewards(rewards, valid)).max())
        row["variance_ratio"] = (row["iid_difference_std"] / row["sobol_difference_std"]) ** 2
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    result = {"speed": speed(), "variance": variance()}
    print(json.dumps(result, indent=1))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
