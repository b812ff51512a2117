"""Coverage of the 95% intervals of evo.stats, and how often a difference is shown, by simulation:
`python -m bench.coverage [RUNS [PART OF A NAME]]`. tests/evo/stats/test_stats.py runs a short form."""

import sys
from collections.abc import Callable, Mapping

import numpy as np

from evo.stats.differences import paired_difference
from evo.stats.intervals import mean_interval

PROBLEMS = (8, 12, 20, 40, 60)


def rates(rng, n, seeds, base, gain):
    """Searches of two arms, solved or not: (P, S) each. base, gain: chances, the same or (P, 1)"""
    return tuple((rng.random((n, seeds)) < np.broadcast_to(chance, (n, 1))) * 1.0 for chance in (base + gain, base))


def values(rng, n, seeds, gain, noise=0.02):
    """Best fitnesses of problems that differ."""
    base = rng.uniform(0.45, 0.95, (n, 1))
    return base + gain + rng.normal(0, noise, (n, seeds)), base + rng.normal(0, noise, (n, seeds))


def some(rng, n, share, here, elsewhere=0.0):
    return np.where(rng.random((n, 1)) < share, here, elsewhere)


def better(rng, n, seeds, base, gain):
    """Problems differ, and the first arm closes a part of what the second leaves."""
    chance = rng.beta(1.5 * base, 1.5 * (1 - base), (n, 1))
    return rates(rng, n, seeds, chance, (1 - chance) * gain / (1 - base))


def learners(rng, n, seeds, own, spread):
    """No difference; a seed moves all problems of an arm by `spread`."""
    ease = rng.normal(0, own, (n, 1))
    return [ease + rng.normal(0, spread, (1, seeds)) + rng.normal(0, own / 5, (n, seeds)) for _ in range(2)]


RATE = {"rate": True}
SCENARIOS: Mapping[str, tuple[Callable, float, dict[str, bool]]] = {
    "rate, none": (lambda r, n, s: rates(r, n, s, r.beta(0.3, 0.3, (n, 1)), 0.0), 0.0, RATE),
    "rate, none, in tenths": (lambda r, n, s: r.binomial(10, 0.5, (2, n, s)) / 10, 0.0, RATE),
    "rate, a tenth gain 0.9": (lambda r, n, s: rates(r, n, s, 0.0, some(r, n, 0.1, 0.9)), 0.09, RATE),
    "rate, 5% lose 0.95": (lambda r, n, s: rates(r, n, s, 0.95, some(r, n, 0.95, 0.05, -0.95)), 0.0, RATE),
    "rate, 5% gain 0.95": (lambda r, n, s: rates(r, n, s, 0.05, some(r, n, 0.95, -0.05, 0.95)), 0.0, RATE),
    "rate, 0.3 + 0.4": (lambda r, n, s: better(r, n, s, 0.3, 0.4), 0.4, RATE),
    "rate, 0.1 + 0.2": (lambda r, n, s: better(r, n, s, 0.1, 0.2), 0.2, RATE),
    "rate, 0.9 + 0.08": (lambda r, n, s: better(r, n, s, 0.9, 0.08), 0.08, RATE),
    "mean, none": (lambda r, n, s: values(r, n, s, 0.0, 0.1), 0.0, {}),
    "mean, all gain 0.1": (lambda r, n, s: values(r, n, s, 0.1, 0.1), 0.1, {}),
    "mean, 15% gain": (lambda r, n, s: values(r, n, s, some(r, n, 0.15, r.uniform(0.3, 0.7, (n, 1))), 0.0), 0.075, {}),
    "mean, 10% lose 0.45": (lambda r, n, s: values(r, n, s, some(r, n, 0.9, 0.05, -0.45)), 0.0, {}),
    "mean, exponential": (lambda r, n, s: (r.exponential(1, (n, s)) - 1, np.zeros((n, s))), 0.0, {}),
    "mean, learners": (lambda r, n, s: learners(r, n, s, 0.2, 0.1), 0.0, {"crossed_seeds": True}),
    "rate, learners": (
        lambda r, n, s: [(r.random((n, s)) < 1 / (1 + np.exp(-arm))) * 1.0 for arm in learners(r, n, s, 1.5, 0.5)],
        0.0,
        {"rate": True, "crossed_seeds": True},
    ),
}
"""Name -> what draws both arms, the true difference, and options of paired_difference."""


def measure(name, problems, seeds, runs, seed=0):
    """Coverage where there is an interval, share of runs that show a difference, share that have an interval."""
    draw, truth, options = SCENARIOS[name]
    rng = np.random.default_rng([seed, problems, seeds, *name.encode()])
    found = [paired_difference(*draw(rng, problems, seeds), **options) for _ in range(runs)]
    ends = np.array([(one.interval.low, one.interval.high) for one in found if one.interval.known]).reshape(-1, 2)
    covered = (ends[:, 0] - 1e-9 <= truth) & (truth <= ends[:, 1] + 1e-9)
    return covered.mean() if len(ends) else np.nan, np.mean([one.shown for one in found]), len(ends) / runs


def measure_mean(problems, runs, seed=0):
    """Coverage of the mean of exponential values."""
    rng = np.random.default_rng([seed, problems])
    found = [mean_interval(rng.exponential(1, problems)) for _ in range(runs)]
    return np.mean([one.low <= 1 <= one.high for one in found])


if __name__ == "__main__":
    runs, part = int((sys.argv[1:] or ["1200"])[0]), "".join(sys.argv[2:])
    for name, seeds in [(name, seeds) for name in SCENARIOS if part in name for seeds in (1, 3, 5)]:
        cells = [measure(name, problems, seeds, runs) for problems in PROBLEMS]
        told = [f"{of:.3f} {shown:.3f}" + f" ({known:.2f})" * (known < 1) for of, shown, known in cells]
        print(f"| {name} | {seeds} |", " | ".join(told), "|", flush=True)
    print("| mean_interval |", " | ".join(f"{measure_mean(problems, runs):.3f}" for problems in PROBLEMS), "|")
