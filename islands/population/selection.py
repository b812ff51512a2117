"""How a parent and its company are chosen. Pure functions of the islands and a generator; nothing here changes state.

Strategies: `auto` is `pareto` for several objectives, else `openevolve` after `climbs`; `openevolve` draws uniformly,
from the hall of fame, or by fitness; `pareto` draws from the answers that no other dominates; `weighted` takes the
elite that is best under a random scalarization w ~ Dir(1).

Two baselines that an evolution has to beat use none of that: `hill` and `scs` choose a prompt's whole company
themselves, from everything that was ever stored, evicted candidates too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from islands.population.archipelago import Archipelago
from islands.population.island import index_below


def climbs(population: Archipelago, number: int, ordinal: int, rng: np.random.Generator) -> bool:
    """Whether an island's best has its turn: with chance c / (c + groups it was parent of), where c is the setting
    `climb`. So a search climbs like `hill` while that finds better answers, and spreads out as it stops."""
    strength = population.config.climb
    if not strength:
        return False  # without a draw, so that runs stored before there was a climb go on as they began
    return rng.random() * (strength + population.islands[number].visits[ordinal]) < strength


def openevolve(population: Archipelago, number: int, rng: np.random.Generator) -> int:
    """Uniform over the island with exploration_ratio, over its share of the hall of fame with exploitation_ratio (over
    the whole hall if it has no share), else in proportion to fitness, floored at 0.001.

    OpenEvolve's parallel runner uses the last for the `random` tenth."""
    config, island = population.config, population.islands[number]
    chance = rng.random()
    if chance < config.exploration_ratio:
        return island.members.draw(rng)
    if chance < config.exploration_ratio + config.exploitation_ratio:
        famous = population.hall.draw(number, rng)
        if famous is not None:
            return famous
    return island.draw_by_fitness(rng)


def weighted(population: Archipelago, number: int, rng: np.random.Generator) -> int:
    """argmax over the elites of w . r, with w ~ Dir(1). O(elites x objectives)."""
    island = population.islands[number]
    rows, rewards = island.archive.elites()
    if not rows:
        return island.members.draw(rng)
    weights = rng.dirichlet(np.ones(rewards.shape[1]))
    return rows[int((rewards @ weights).argmax())]


def pareto(population: Archipelago, number: int, rng: np.random.Generator) -> int:
    """From the answers that no other dominates (GEPA, arXiv 2507.19457, draws from such a front), of which a pool of
    at most pareto_pool is taken. The best of the pool under a random weighting w ~ Dir(1) has its turn first
    (`climbs`), then each of the pool alike; so goals that exclude each other are all pursued."""
    config, island = population.config, population.islands[number]
    pool, rewards = island.front.pool(config.pareto_pool)
    if not pool:
        return island.members.draw(rng)
    best = pool[int((rewards @ rng.dirichlet(np.ones(rewards.shape[1]))).argmax())]
    return best if climbs(population, number, best, rng) else pool[index_below(len(pool), rng)]


def auto(population: Archipelago, number: int, rng: np.random.Generator) -> int:
    """The default that won its benchmark (bench/results/selection.md): `pareto` for a vector of objectives, which
    keeps different answers; for a single one, where `pareto` would always take the fittest, OpenEvolve's choice after
    `climbs`."""
    if population.columns.objectives > 1:
        return pareto(population, number, rng)
    fittest = population.islands[number].top(1)[0]
    return fittest if climbs(population, number, fittest, rng) else openevolve(population, number, rng)


STRATEGIES: dict[str, Callable[[Archipelago, int, np.random.Generator], int]] = {
    "auto": auto,
    "openevolve": openevolve,
    "weighted": weighted,
    "pareto": pareto,
}


def hill(population: Archipelago, rng: np.random.Generator) -> tuple[int | None, list[int], list[int]]:
    """Hill sampling (arXiv 2609.25510): the fittest candidate ever stored as the parent, and nothing else. Of equals
    the oldest; a failed one while there is no other. Uses no randomness."""
    return population.best, [], []


def scs(population: Archipelago, rng: np.random.Generator) -> tuple[int | None, list[int], list[int]]:
    """Conditioning on random successful answers (the SCS of arXiv 2602.16805): as many different ones as an island's
    prompt would show, drawn uniformly; the first is the parent, the others are inspirations. Score chooses nothing and
    orders nothing. What counts as a success: islands.population.island. No parent before the first one."""
    config, successful = population.config, population.columns.successful
    count = min(1 + config.num_diverse_programs + config.num_top_programs, len(successful))
    if not count:
        return None, [], []
    parent, *others = (successful[place] for place in rng.choice(len(successful), count, replace=False).tolist())
    return parent, others, []


WITHOUT_ISLANDS: dict[str, Callable[[Archipelago, np.random.Generator], tuple[int | None, list[int], list[int]]]] = {
    "hill": hill,
    "scs": scs,
}


def choose_inspirations(
    population: Archipelago, number: int, parent: int, count: int, rng: np.random.Generator
) -> list[int]:
    """OpenEvolve's inspirations for a parent: the island's best, its top elite_selection_ratio, then elites from
    cells near the parent's (three tries for each place left), then random members. Never the parent, none twice. An
    island of at most `count` members gives only the first two kinds. O(count)."""
    config, island = population.config, population.islands[number]
    if count <= 0:
        return []
    chosen: dict[int, None] = {}
    for ordinal in island.top(max(1, int(count * config.elite_selection_ratio))):
        if ordinal != parent:
            chosen[ordinal] = None
    if len(island.members) > count:
        if population.columns.valid[parent]:
            for _ in range((count - len(chosen)) * 3):
                neighbour = island.archive.near(parent, rng)
                if neighbour is not None and neighbour != parent:
                    chosen[neighbour] = None
                if len(chosen) >= count:
                    break
        missing = count - len(chosen)
        for _ in range(missing * 8):  # more members than places: misses are rare
            if len(chosen) >= count:
                break
            member = island.members.draw(rng)
            if member != parent:
                chosen[member] = None
    return list(chosen)[:count]


def choose(population: Archipelago, number: int, rng: np.random.Generator) -> tuple[int | None, list[int], list[int]]:
    """(parent, inspirations, best) as ordinals; of a random inhabited island while this one is empty."""
    baseline = WITHOUT_ISLANDS.get(population.config.strategy)
    if baseline is not None:
        return baseline(population, rng)
    if not population.islands[number].members:
        inhabited = [i for i, island in enumerate(population.islands) if island.members]
        if not inhabited:
            return None, [], []
        number = inhabited[index_below(len(inhabited), rng)]
    config = population.config
    parent = STRATEGIES[config.strategy](population, number, rng)
    inspirations = choose_inspirations(population, number, parent, config.num_diverse_programs, rng)
    return parent, inspirations, population.islands[number].top(config.num_top_programs)
