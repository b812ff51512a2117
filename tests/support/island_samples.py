"""Made-up answers, groups and a small search, for the tests of the population."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import pytest

from islands.population.config import PopulationConfig
from islands.population.population import Population
from islands.store import Store
from islands.types import ProblemRecord
from problems.contract import Score
from problems.identity import identity
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout

OBJECTIVES = ("left", "right")
BOTH = pytest.mark.parametrize("address", ["sqlite", "postgresql"], indirect=True)
"""On both databases (tests/islands/conftest.py)."""


def answer(
    text: str,
    fitness: float = 0.5,
    rewards: tuple[float, ...] | None = None,
    error: str | None = None,
    features: dict[str, float] | None = None,
    feedback: str = "",
) -> ScoredAnswer:
    rewards = (fitness, fitness) if rewards is None else rewards
    score = Score(rewards, fitness, features or {}, feedback, error)
    return ScoredAnswer(text, identity(text, "text"), score, 0.25)


def group(
    problem: ProblemRecord,
    sequence: int,
    *rollouts: Sequence[ScoredAnswer],
    island: int = 0,
    parent: int | None = None,
    inspirations: tuple[int, ...] = (),
    policy_version: str = "v1",
    text: str = "what it wrote",
) -> ScoredGroup:
    prompt_ids = np.arange(5, dtype=np.int32)
    scored = []
    for place, answers in enumerate(rollouts):
        ids = np.arange(place, place + 7, dtype=np.int32)
        logprobs = -np.linspace(0.1, 3.3, 7, dtype=np.float32)
        scored.append(ScoredRollout(Rollout(text, ids, logprobs, prompt_ids), tuple(answers)))
    return ScoredGroup(
        problem.id, sequence, sequence, island, parent, inspirations, Prompt("user", "system", sequence),
        policy_version, 3, 7, 0.7, tuple(scored), 1.5, 0.5,
    )  # fmt: skip


def new_problem(store: Store, name: str | None = None, index: int = 0, target: float | None = 1.0) -> ProblemRecord:
    run = store.create_run(name, {"iterations": 3}, command="evo run", seed=1, commit="abc")
    return store.add_problem(run.id, index, f"maze:test/{index}", f"maze {index}", OBJECTIVES, target, "text")


def fresh(store: Store, name: str | None = None, **settings: object) -> tuple[ProblemRecord, Population]:
    """A problem of a new run, and its empty population."""
    problem = new_problem(store, name)
    return problem, Population(store, problem, small_config(**settings))


def put(store: Store, population: Population, *groups: ScoredGroup) -> list:
    """Add groups, one transaction each, and return all placements."""
    placements = []
    for one in groups:
        with store.begin() as tx:
            placements += population.add(one, tx)
            population.migrate_if_due(tx)
    return placements


def search(
    store: Store, population: Population, groups: int, seed: int = 0, start: int = 0, pool: int = 160
) -> list[tuple]:
    """A small search with repeats, failures and missing answers; what each step selected. Two groups of each three
    share a transaction."""
    chosen = []
    transaction: list[ScoredGroup] = []

    def land() -> None:
        with store.begin() as tx:
            for one in transaction:
                population.add(one, tx)
                population.migrate_if_due(tx)
        transaction.clear()

    for sequence in range(start, start + groups):
        rng = np.random.default_rng([1, sequence])
        island = int(rng.integers(population.config.islands))
        selection = population.select(island, rng)
        parent = selection.parent.id if selection.parent else None
        chosen.append((parent, [c.id for c in selection.inspirations], [c.id for c in selection.best]))
        rollouts = []
        for _ in range(2):
            answers: dict[bytes, ScoredAnswer] = {}
            for _ in range(int(rng.integers(0, 4))):
                number = int(rng.integers(pool))  # few enough to repeat
                made = np.random.default_rng([seed, number])
                rewards = tuple(float(x) for x in np.round(made.random(2), 2))
                length = int(made.integers(1, 12)) + number // 10
                text = f"answer {number} " + "ab"[number % 2] * length
                error = "broken" if made.random() < 0.2 else None
                fitness = 0.0 if error else sum(rewards) / 2
                one = answer(text, fitness, (0.0, 0.0) if error else rewards, error, feedback=f"feedback {number}")
                answers.setdefault(one.identity, one)
            rollouts.append(list(answers.values()))
        transaction.append(
            group(
                population.problem, sequence, *rollouts, island=island, parent=parent,
                inspirations=tuple(c.id for c in selection.inspirations), policy_version=f"v{sequence // 10}",
            )
        )  # fmt: skip
        if len(transaction) == 2 or sequence % 3 == 0:
            land()
    land()
    return chosen


def state(population: Population) -> dict:
    """Everything of a population that a later choice could depend on."""
    islands = range(population.config.islands)
    memory = population._archipelago
    return deepcopy(
        {
            "members": [population.members(i) for i in islands],
            "order": [list(memory.islands[i].members) for i in islands],
            "cells": [population.cells(i) for i in islands],
            "migrants": [sorted(memory.islands[i].migrants) for i in islands],
            "visits": [memory.islands[i].visits for i in islands],
            "hall": sorted(memory.hall._all),
            "hall order": [list(bag) for bag in memory.hall._of_island],
            "ranges": (memory.space.low, memory.space.high),
            "references": memory.space._references.tolist(),
            "last migration": memory.last_migration,
            "best": population.best,
            "sequence": population.sequence,
            "generations": [island.generation for island in memory.islands],
        }
    )


def small_config(**settings: object) -> PopulationConfig:
    values = dict(islands=3, population_size=40, archive_size=8, feature_bins=4, migration_interval=4)
    return PopulationConfig.model_validate({**values, **settings})
