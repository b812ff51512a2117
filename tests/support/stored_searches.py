"""Comparisons of given values, stored by the population's own functions as a search would store them: no policy samples
and no scorer runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

from support.island_samples import group, small_config

from islands.comparisons import PlannedRun, plan, run_name
from islands.population.population import Population
from islands.store import Store
from problems.contract import Score
from problems.identity import identity
from problems.objectives import Objective, measure_objectives, score_values
from problems.types import ScoredAnswer

Values = Sequence[float | None]
"""Of one search: the seed answer's, then one an iteration; None for an answer at fault."""


def store_comparison(
    address: str,
    name: str,
    searches: Mapping[str, Sequence[Mapping[str, Values]]],
    *,
    lower: bool | Mapping[str, bool] = False,
    objective: str = "delay",
    targets: Mapping[str, float] | None = None,
    failed: tuple[str, int, str] | None = None,
    settings: Mapping[str, object] | None = None,
) -> None:
    """searches: arm -> seeds -> problem -> values. lower: whether lower values are better, of all or by problem.
    targets: by problem, as values; failed: arm, seed and problem whose scorer failed after the last answer."""
    problems = list(next(iter(searches.values()))[0])
    iterations = max(len(values) for seeds in searches.values() for one in seeds for values in one.values()) - 1
    config = {"problems": problems, "iterations": iterations, "rollouts": 1, "answers": 1, **(settings or {})}
    runs = [
        PlannedRun(arm, seed, {**config, "policy": f"scripted:{arm}", "seed": seed})
        for seed in range(len(next(iter(searches.values()))))
        for arm in searches
    ]
    with Store.open(address) as store:
        plan(store, name, runs, command=f"evo compare {' '.join(problems)}", commit="0" * 12)
        for run in runs:
            record = store.run(run_name(name, run.arm, run.seed))
            _store_run(store, record.id, searches[run.arm][run.seed], lower, objective, targets or {})
            if failed is not None and failed[:2] == (run.arm, run.seed):
                broken = next(one for one in store.problems(record.id) if one.name == failed[2])
                store.set_problem_status(broken.id, "failed", "ValueError: no number")
            store.finish_run(record.id, "done", summary={"seconds": 2.0})


def _store_run(
    store: Store,
    run: int,
    searches: Mapping[str, Values],
    lower: bool | Mapping[str, bool],
    objective: str,
    targets: Mapping[str, float],
) -> None:
    populations = dict[str, tuple[Population, tuple[Objective, ...]]]()
    for index, (name, values) in enumerate(searches.items()):
        down = lower if isinstance(lower, bool) else lower[name]
        metrics = measure_objectives([objective], {objective: "min"} if down else {}, {objective: values[0]}, True)
        target = None if name not in targets else metrics[0].reward(targets[name])
        with store.begin() as tx:
            record = store.add_problem(run, index, f"{name}.py", name, (objective,), target, "text", tx)
            seed = _answer(metrics, values[0], 0)
            store.set_metrics(record.id, SimpleNamespace(objectives=(objective,), metrics=metrics), seed.score, tx)
            population = Population(store, record, small_config(islands=1))
            if values[0] is not None:
                population.seed(seed, tx)
        populations[name] = population, metrics
    sequence = 0
    for iteration in range(max(map(len, searches.values())) - 1):
        for name, values in searches.items():
            population, metrics = populations[name]
            answer = _answer(metrics, values[iteration + 1], iteration + 1)
            one = replace(group(population.problem, sequence, [answer], text=answer.text), iteration=iteration)
            with store.begin() as tx:
                population.add(one, tx)
                goal = population.problem.target
                if goal is not None and answer.score.fitness >= goal and not answer.score.error:
                    record = population.problem
                    if next(p for p in store.problems(run) if p.id == record.id).solved_sequence is None:
                        store.set_problem_status(record.id, "solved", solved_sequence=sequence, tx=tx)
            sequence += 1


def _answer(metrics: tuple[Objective, ...], value: float | None, number: int) -> ScoredAnswer:
    text = f"answer {number}: {value}"
    if value is None:
        score = Score.failure(1, "not a number")
    else:
        rewards, own = score_values([metrics[0].name], metrics, {metrics[0].name: value})
        score = Score(rewards, rewards[0], {}, "", None, own)
    return ScoredAnswer(text, identity(text, "text"), score, 0.01)
