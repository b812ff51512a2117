"""Answers of given values in several objectives to one problem, stored as a search would store them: no policy samples
and no scorer runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

from support.island_samples import group, small_config

from islands.comparisons import PlannedRun, plan, run_name
from islands.population.population import Population
from islands.store import Store
from problems.contract import Score
from problems.identity import identity
from problems.objectives import Objective, score_values
from problems.types import ScoredAnswer
from problems.weights import weighted_mean

Vectors = Sequence[Sequence[float] | None]
"""The seed answer's values, then one answer's an iteration; None for an answer at fault."""


def store_vectors(
    address: str,
    name: str,
    objectives: Sequence[Objective],
    arms: Mapping[str, Vectors],
    *,
    fitness: Callable[[Sequence[float]], float] | None = None,
    **settings: object,
) -> None:
    """A comparison with one seed an arm. The fitness is the mean reward by the weights of the objectives, or what
    `fitness` makes of the rewards. The text of answer 2 is `answer 2: (0.5, 1)`."""
    config = {"problems": ["trade"], "iterations": max(map(len, arms.values())) - 1, "rollouts": 1, "answers": 1}
    runs = [PlannedRun(arm, 0, {**config, "policy": f"scripted:{arm}", "seed": 0, **settings}) for arm in arms]
    shares = [one.weight / sum(one.weight for one in objectives) for one in objectives]
    names = tuple(one.name for one in objectives)

    def answer(values: Sequence[float] | None, number: int) -> ScoredAnswer:
        text = f"answer {number}: {values}"
        if values is None:
            return ScoredAnswer(text, identity(text, "text"), Score.failure(len(names), "not a number"), 0.01)
        rewards, own = score_values(names, objectives, dict(zip(names, values, strict=True)))
        value = weighted_mean(rewards, shares) if fitness is None else fitness(rewards)
        return ScoredAnswer(text, identity(text, "text"), Score(rewards, value, {}, "", None, own), 0.01)

    with Store.open(address) as store:
        plan(store, name, runs, command="evo compare trade", commit="0" * 12)
        for run in runs:
            record = store.run(run_name(name, run.arm, run.seed))
            seed, *others = [answer(values, at) for at, values in enumerate(arms[run.arm])]
            with store.begin() as tx:
                problem = store.add_problem(record.id, 0, "trade.py", "trade", names, None, "text", tx)
                store.set_metrics(
                    problem.id, SimpleNamespace(objectives=names, metrics=tuple(objectives)), seed.score, tx
                )
                population = Population(store, problem, small_config(islands=1))
                population.seed(seed, tx)
            for at, one in enumerate(others):
                with store.begin() as tx:
                    population.add(replace(group(problem, at, [one], text=one.text), iteration=at), tx)
            store.finish_run(record.id, "done", summary={"seconds": 2.0})


def best_under(front, weights, arm=None):
    """The answer of a front (evo.progress.front) with the largest weighted mean of rewards, of equals the first; None
    without an answer. arm: whose answers, None for those of all"""
    found = [one for one in front.answers if arm in (None, one.arm)]
    means = [sum(w * r for w, r in zip(weights, one.stored.rewards, strict=True)) / sum(weights) for one in found]
    return next((one for one, mean in zip(found, means, strict=True) if mean >= max(means) - front.equal), None)
