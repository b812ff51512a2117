"""The answers of an evaluation and their metrics: best@k, solve@k, diversity and so on, with intervals over problems,
and comparisons.

Pure functions of the samples. Problems are the unit everywhere: a metric is computed for each, averaged over
seeds, then over problems; intervals are over problems (evo.stats), and a comparison pairs them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evo.evaluation.preferences import judging_weights
from evo.stats.differences import Difference, paired_difference
from evo.stats.intervals import mean_interval
from problems.contract import ScorerFault
from vpo.metrics import best_at_k, best_of_scalarized, diversity, pareto_fraction, pass_at_k
from vpo.scalarize import Bools, Floats, with_floor

_KS = (1, 3, 10, 30)
_COSTS = ("rollouts", "tokens", "prompt_tokens", "cost", "seconds", "sampling_seconds", "scoring_seconds")
_SHARES = ("written", "valid", "pareto_fraction")


@dataclass(frozen=True, eq=False)
class ProblemAnswers:
    """The n answers to one problem, d objectives.

    rewards: (n, d), zero rows for missing answers
    fitness: (n,), 0 for missing answers
    written: (n,) whether there is an answer at all; failed: (n,) whether it has an error
    """

    name: str
    objectives: tuple[str, ...]
    target: float | None
    rewards: Floats
    fitness: Floats
    written: Bools
    failed: Bools

    @property
    def valid(self) -> Bools:
        """(n,) answers that achieved anything: written, without an error, and not the zero vector (a maze's exit was
        reached, a test case passed). The others are all alike, and a distance from them is no diversity."""
        return self.written & ~self.failed & self.rewards.any(axis=1)

    @property
    def solved(self) -> Bools | None:
        """(n,) fitness >= target, as in a search; None if the problem has no target."""
        return None if self.target is None else self.written & ~self.failed & (self.fitness >= self.target)


@dataclass
class SampledAnswers:
    """The result of one seed.

    problems: one entry per problem that could be judged, in order
    faults: problem -> why it could not be judged (its scorer failed, its prompt is too long); its answers count nowhere
    format_errors: why answers are missing, counted by reason; answer_errors: the kinds of failed answers
    costs: rollouts, tokens, prompt_tokens, cost, and seconds, sampling_seconds (the policy at work), scoring_seconds
        (summed over workers)
    """

    seed: int
    answers: int
    problems: list[ProblemAnswers] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)
    format_errors: Counter[str] = field(default_factory=Counter)
    answer_errors: Counter[str] = field(default_factory=Counter)
    costs: dict[str, float] = field(default_factory=dict)


def metrics_of(answers: ProblemAnswers) -> dict[str, float]:
    """One problem's metrics; NaN for those that it has not.

    best@k, solve@k: expected best fitness, and chance of a solution, among k of the n answers; k = 1, 3, 10, 30 and n.
        A missing or failed answer counts 0, but no more than the worst valid one (vpo.scalarize.with_floor)
    diversity: mean L1 distance of two answers' vectors, over all and over valid answers
    E_w[best]: the set's worth to a random taste, w ~ Dir(1); it grows with n, as pareto_fraction and
        distinct_vectors depend on n: compare them at equal n
    written, valid: shares of the n; mean[...]: of each objective over all n
    """
    n, solved = len(answers.fitness), answers.solved
    # a missing or failed answer is not the best where valid ones are below 0
    fitness, rewards = (
        with_floor(values[None], answers.written[None], answers.failed[None])[0]
        for values in (answers.fitness[:, None], answers.rewards)
    )
    ks = sorted({k for k in (*_KS, n) if k <= n})
    metrics = {f"best@{k}": best_at_k(fitness[:, 0], k) for k in ks}
    metrics |= {f"solve@{k}": math.nan if solved is None else pass_at_k(n, int(solved.sum()), k) for k in ks}
    weights = judging_weights(answers.rewards.shape[1])
    metrics |= {
        "diversity": diversity(answers.rewards),
        "diversity_valid": diversity(answers.rewards[answers.valid]),
        "pareto_fraction": pareto_fraction(answers.rewards),
        "E_w[best]": best_of_scalarized(rewards, weights),
        "distinct_vectors": float(len(np.unique(answers.rewards.round(6), axis=0))),
        "written": float(answers.written.mean()),
        "valid": float(answers.valid.mean()),
    }
    means = answers.rewards.mean(axis=0)
    return metrics | {f"mean[{name}]": float(mean) for name, mean in zip(answers.objectives, means, strict=True)}


class Evaluation:
    """Metrics of one policy on a set of problems, from the result of each seed.

    problems: the P problems that every seed could judge; faults: the others, with the reason
    per_problem: metric -> (P,) averaged over seeds; NaN if a problem has no such metric
    metrics: metric -> mean with its 95% interval; None if no problem has it (solve@k without targets)
    per_seed: seed -> metric -> mean over problems or None
    """

    def __init__(self, samples: Sequence[SampledAnswers]) -> None:
        """Raises ScorerFault if no problem is left."""
        self.samples = samples
        self.faults = {name: reason for sample in samples for name, reason in sample.faults.items()}
        kept = [[answers for answers in sample.problems if answers.name not in self.faults] for sample in samples]
        if not kept or not kept[0]:
            raise ScorerFault(
                f"no problem could be judged with every seed: {next(iter(self.faults.values()), 'there are none')}"
            )
        self.problems = kept[0]
        rows = [[metrics_of(answers) for answers in of_seed] for of_seed in kept]
        shared = len({answers.objectives for answers in self.problems}) == 1
        # means of objectives that only some problems have would be of different problems
        names = [name for name in rows[0][0] if shared or not name.startswith("mean[")]
        cube = {name: np.array([[row[name] for row in seed] for seed in rows]) for name in names}  # (seeds, P)
        self.per_problem = {name: values.mean(axis=0) for name, values in cube.items()}
        self.metrics = {
            name: mean_interval(values, rate=is_rate(name)) if np.isfinite(values).any() else None
            for name, values in self.per_problem.items()
        }
        self.per_seed = {
            sample.seed: {name: _mean(values[i]) for name, values in cube.items()} for i, sample in enumerate(samples)
        }

    def mean(self, metric: str) -> float | None:
        """The metric's mean over problems; None if no problem has it. Raises KeyError on an unknown name."""
        interval = self.metrics[metric]
        return None if interval is None else interval.mean

    def record(self) -> dict[str, Any]:
        """Everything as JSON: metrics, their intervals, each seed's means, the cost, and the metrics of each problem,
        as `compare_problems` reads them back."""
        samples, names = self.samples, ("problem", "objectives", "target", *self.per_problem)
        columns = [[None if math.isnan(v) else float(v) for v in values] for values in self.per_problem.values()]
        costs = {name: sum(sample.costs.get(name, 0) for sample in samples) for name in _COSTS}
        return {
            "problems": len(self.problems),
            "answers": samples[0].answers,
            "answers_total": len(self.problems[0].fitness),
            "seeds": [sample.seed for sample in samples],
            **{name: self.mean(name) for name in self.metrics},
            "intervals": {name: [i.low, i.high] for name, i in self.metrics.items() if i and len(self.problems) > 1},
            "per_seed": [{"seed": seed, **means} for seed, means in self.per_seed.items()],
            **{name: round(cost, 6 if name == "cost" else 3) for name, cost in costs.items()},
            "missing_answers": sum(int((~one.written).sum()) for sample in samples for one in sample.problems),
            "format_errors": _count([sample.format_errors for sample in samples]),
            "answer_errors": _count([sample.answer_errors for sample in samples]),
            "faults": self.faults,
            "per_problem": [
                dict(zip(names, (one.name, list(one.objectives), one.target, *row), strict=True))
                for one, *row in zip(self.problems, *columns, strict=True)
            ],
        }


def is_rate(name: str) -> bool:
    """Whether a metric's values are shares, in [0, 1]."""
    return name.startswith("solve@") or name in _SHARES


def compare_problems(first: Evaluation, second: Sequence[Mapping[str, Any]]) -> dict[str, Difference]:
    """Paired differences over the problems that both judged, of every metric that both have; `second` as
    `Evaluation.record` gave it. Empty if they share no problem."""
    theirs = {record["problem"]: record for record in second}
    differences = {}
    for name, values in first.per_problem.items():
        others = np.array([_number(theirs.get(problem.name, {}).get(name)) for problem in first.problems])
        if (np.isfinite(values) & np.isfinite(others)).any():
            differences[name] = paired_difference(values, others, rate=is_rate(name), least=0.0)
    return differences


def _mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _count(counters: Sequence[Counter[str]]) -> dict[str, int]:
    return dict(sum(counters, Counter[str]()).most_common(20))
