"""Comparisons of given answers, stored by the functions of the population as a search would store them: no policy
samples and no scorer runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

from support.island_samples import group, small_config

from evo.progress.answer_set import AnswerFront, FrontAnswer
from islands.comparisons import PlannedRun, plan, run_name
from islands.population.population import Population
from islands.store import Store
from problems.contract import Score
from problems.identity import identity
from problems.objectives import Objective, measure_objectives, score_values
from problems.types import ScoredAnswer
from problems.weights import weighted_mean

Values = Sequence[float | None]
"""Of one search: the seed answer's, then one an iteration; None for an answer at fault."""
Vectors = Sequence[Sequence[float] | None]
"""The same in several objectives."""
Fitness = Callable[[Sequence[float]], float]
"""Of the rewards of an answer."""


@dataclass(frozen=True)
class StoredProblem:
    """A problem and its answers. path: its address; target: a fitness"""

    path: str
    name: str
    objectives: tuple[Objective, ...]
    answers: tuple[ScoredAnswer, ...]
    target: float | None = None


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

    def problem(name: str, values: Values) -> StoredProblem:
        down = lower if isinstance(lower, bool) else lower[name]
        metrics = measure_objectives([objective], {objective: "min"} if down else {}, {objective: values[0]}, True)
        answers = tuple(make_answer(metrics, value, at) for at, value in enumerate(values))
        target = None if name not in (targets or {}) else metrics[0].reward(targets[name])
        return StoredProblem(f"{name}.py", name, metrics, answers, target)

    runs = {
        (arm, seed): [problem(name, values) for name, values in one.items()]
        for seed in range(len(next(iter(searches.values()))))
        for arm in searches
        for one in [searches[arm][seed]]
    }
    _store(address, name, runs, failed, settings or {})


def store_vectors(
    address: str,
    name: str,
    objectives: Sequence[Objective],
    arms: Mapping[str, Vectors],
    *,
    fitness: Fitness | None = None,
    problems: int = 1,
    **settings: object,
) -> None:
    """A comparison with one seed an arm. The fitness is the mean reward by the weights of the objectives, or what
    `fitness` makes of the rewards. The text of answer 2 is `answer 2: (0.5, 1)`. problems: how many have them"""
    shares = [one.weight / sum(one.weight for one in objectives) for one in objectives]
    runs = {}
    for arm, vectors in arms.items():
        answers = tuple(
            make_answer(objectives, vector, at, fitness or partial(weighted_mean, weights=shares))
            for at, vector in enumerate(vectors)
        )
        names = ["trade"] if problems == 1 else [f"trade{number}" for number in range(problems)]
        runs[arm, 0] = [StoredProblem(f"{name}.py", name, tuple(objectives), answers) for name in names]
    _store(address, name, runs, None, settings)


def make_answer(
    objectives: Sequence[Objective], value: float | Sequence[float] | None, number: int, fitness: Fitness | None = None
) -> ScoredAnswer:
    """An answer of this value, or of these; its text is `answer NUMBER: VALUE`."""
    text, names = f"answer {number}: {value}", [one.name for one in objectives]
    if value is None:
        score = Score.failure(len(names), "not a number")
    else:
        given = dict(zip(names, value if isinstance(value, Sequence) else (value,), strict=True))
        rewards, own = score_values(names, objectives, given)
        score = Score(rewards, rewards[0] if fitness is None else fitness(rewards), {}, "", None, own)
    return ScoredAnswer(text, identity(text, "text"), score, 0.01)


def _store(
    address: str,
    name: str,
    runs: Mapping[tuple[str, int], Sequence[StoredProblem]],
    failed: tuple[str, int, str] | None,
    settings: Mapping[str, object],
) -> None:
    problems = [one.name for one in next(iter(runs.values()))]
    iterations = max(len(one.answers) for stored in runs.values() for one in stored) - 1
    config = {"problems": problems, "iterations": iterations, "rollouts": 1, "answers": 1, **settings}
    planned = [PlannedRun(arm, seed, {**config, "policy": f"scripted:{arm}", "seed": seed}) for arm, seed in runs]
    with Store.open(address) as store:
        plan(store, name, planned, command=f"evo compare {' '.join(problems)}", commit="0" * 12)
        for (arm, seed), stored in runs.items():
            record = store.run(run_name(name, arm, seed))
            _store_run(store, record.id, stored)
            if failed is not None and failed[:2] == (arm, seed):
                broken = next(one for one in store.problems(record.id) if one.name == failed[2])
                store.set_problem_status(broken.id, "failed", "ValueError: no number")
            store.finish_run(record.id, "done", summary={"seconds": 2.0})


def _store_run(store: Store, run: int, problems: Sequence[StoredProblem]) -> None:
    populations = []
    for index, one in enumerate(problems):
        names, seed = tuple(each.name for each in one.objectives), one.answers[0]
        with store.begin() as tx:
            record = store.add_problem(run, index, one.path, one.name, names, one.target, "text", tx)
            store.set_metrics(record.id, SimpleNamespace(objectives=names, metrics=one.objectives), seed.score, tx)
            populations.append(Population(store, record, small_config(islands=1)))
            if seed.score.error is None:
                populations[-1].seed(seed, tx)
    sequence, solved = 0, set[int]()
    for iteration in range(max(len(one.answers) for one in problems) - 1):
        for population, one in zip(populations, problems, strict=True):
            answer, record = one.answers[iteration + 1], population.problem
            drawn = replace(group(record, sequence, [answer], text=answer.text), iteration=iteration)
            with store.begin() as tx:
                population.add(drawn, tx)
                reached = one.target is not None and not answer.score.error and answer.score.fitness >= one.target
                if reached and record.id not in solved:
                    store.set_problem_status(record.id, "solved", solved_sequence=sequence, tx=tx)
                    solved.add(record.id)
            sequence += 1


def best_under(front: AnswerFront, weights: Sequence[float], arm: int | None = None) -> FrontAnswer | None:
    """The answer of a front with the largest weighted mean of rewards, of equals the first; None without an answer.
    arm: whose answers, None for those of all"""
    found = [one for one in front.answers if arm in (None, one.arm)]
    means = [weighted_mean(one.stored.rewards, [weight / sum(weights) for weight in weights]) for one in found]
    return next((one for one, mean in zip(found, means, strict=True) if mean >= max(means) - front.equal), None)
