"""Selections, additions and migrations a second as the population grows, and what memory and resuming cost.

    python bench/population.py [--sizes 1000,10000,100000] [--cap none|1000] [--db sqlite:///FILE] [--strategy NAME]

Each size is a database of its own, filled by large groups; then all are measured in turns, round after round, so that
noise is shared, with real groups of one rollout and three answers of about 1 KB, one transaction each. A `cold`
selection finds no text in the cache; a `warm` one is as a search makes it. Figures are of the best round, wall-clock,
with the processor's time in brackets: on a machine that others use too, the latter is the one to compare.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from islands.db.store import Store
from islands.population.config import PopulationConfig
from islands.population.population import Population
from islands.queries.candidates import CandidateReader
from problems.contract import Score
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout

OBJECTIVES = ("completion", "gold", "diamond", "safety")
GROUPS_PER_TRANSACTION = 500


def answers(rng: np.random.Generator, count: int, first: int) -> list[ScoredAnswer]:
    made = []
    for n in range(first, first + count):
        rewards = tuple(float(r) for r in rng.random(len(OBJECTIVES)))
        text = f"# answer {n}\n" + "".join(
            f"x{int(k)} = step({int(k) % 17})\n" for k in rng.integers(0, 999, rng.integers(20, 90))
        )
        made.append(ScoredAnswer(text, n.to_bytes(16, "big"), Score(rewards, sum(rewards) / len(rewards))))
    return made


def group(
    population: Population, sequence: int, island: int, parent: int | None, found: list[ScoredAnswer]
) -> ScoredGroup:
    ids, logprobs = np.arange(200, dtype=np.int32), np.linspace(-3, -0.1, 200, dtype=np.float32)
    rollout = ScoredRollout(Rollout("text " * 100, ids, logprobs, ids), tuple(found))
    prompt, problem = Prompt("prompt " * 100), population.problem.id
    return ScoredGroup(problem, sequence, sequence, island, parent, (), prompt, "v1", 3, 1, 1.0, (rollout,))


class Growing:
    """One run whose population grows."""

    def __init__(self, store: Store, config: PopulationConfig) -> None:
        run = store.create_run(None, {}, command="bench", seed=0, commit="")
        problem = store.add_problem(run.id, 0, "bench", "bench", OBJECTIVES, None, "text")
        self.store, self.config = store, config
        self.population = Population(store, problem, config)
        self.islands = self.population.config.islands
        self.rng = np.random.default_rng(0)
        self.sequence = self.made = 0

    def fill(self, size: int) -> None:
        while self.made < size:
            with self.store.begin() as tx:
                for _ in range(GROUPS_PER_TRANSACTION):
                    if self.made >= size:
                        break
                    self.add(tx, min(30, size - self.made))

    def add(self, tx, count: int = 3, parent: int | None = None) -> None:
        found = answers(self.rng, count, self.made)
        self.made += count
        self.population.add(group(self.population, self.sequence, self.sequence % self.islands, parent, found), tx)
        self.sequence += 1

    def warm_up(self, selections: int) -> None:
        for n in range(selections):
            self.select(n)

    def select(self, n: int) -> None:
        self.population.select(n % self.islands, self.rng)

    def measure(self, repeats: int) -> dict[str, tuple[float, ...]]:
        """(wall, processor) seconds of each kind of step, over `repeats` of them."""
        population, islands = self.population, self.islands
        seconds = {"warm selections": timed(repeats * 4, self.select)}
        usual, population._reader = population._reader, CandidateReader(self.store, 0)
        seconds["cold selections"] = timed(repeats, self.select)
        population._reader = usual
        made = [answers(self.rng, 3, self.made + 3 * n) for n in range(repeats)]
        self.made += 3 * repeats

        def step(n: int) -> None:
            with self.store.begin() as tx:
                population.add(group(population, self.sequence + n, n % islands, None, made[n]), tx)

        seconds["groups of 3"] = timed(repeats, step)
        self.sequence += repeats
        memory = population._memory.archipelago

        def migrate(n: int) -> None:
            memory.islands[0].generation = memory.last_migration + population.config.migration_interval
            with self.store.begin() as tx:
                population.migrate_if_due(tx)

        seconds["migrations"] = timed(1, migrate)
        return seconds


CLOCKS = (time.perf_counter, time.process_time)


def timed(repeats: int, call: Callable[[int], object]) -> tuple[float, ...]:
    """(wall, processor) seconds a call."""
    started = [clock() for clock in CLOCKS]
    for n in range(repeats):
        call(n)
    return tuple((clock() - then) / repeats for clock, then in zip(CLOCKS, started, strict=True))


def rate(seconds: Sequence[float]) -> str:
    wall, processor = seconds
    return f"{1 / wall:,.0f} ({1 / processor:,.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--cap", default="1000", help="population_size, or none")
    parser.add_argument("--strategy", default="openevolve")
    parser.add_argument("--archive", default="grid")
    parser.add_argument("--repeats", type=int, default=100, help="steps of each kind in a round")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--db")
    options = parser.parse_args()
    config = PopulationConfig.model_validate(
        {
            "population_size": None if options.cap == "none" else int(options.cap),
            "strategy": options.strategy,
            "archive": options.archive,
        }
    )
    sizes = [int(size) for size in options.sizes.split(",")]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        grown = []
        for size in sizes:
            address = options.db or f"sqlite:///{Path(folder) / f'{size}.db'}"
            grown.append(Growing(stack.enter_context(Store.open(address)), config))
            started = time.perf_counter()
            grown[-1].fill(size)
            print(f"filled {size:,} in {time.perf_counter() - started:.0f} s", flush=True)
        for one in grown:
            one.warm_up(20_000)  # until the cache holds what is chosen
        rounds = [[one.measure(options.repeats) for one in grown] for _ in range(options.rounds)]
        for place, (size, one) in enumerate(zip(sizes, grown, strict=True)):
            least = {kind: [min(r[place][kind][c] for r in rounds) for c in (0, 1)] for kind in rounds[0][0]}
            figures = ", ".join(f"{kind}/s {rate(seconds)}" for kind, seconds in least.items())
            print(f"{size:>9,} candidates, {one.population.stats()['members']:,} members: {figures}")
        started_both = [clock() for clock in CLOCKS]
        resumed = Population(grown[-1].store, grown[-1].store.problems(grown[-1].population.problem.run_id)[0], config)
        resumed.advance(None)
        wall, processor = (clock() - then for clock, then in zip(CLOCKS, started_both, strict=True))
        print(f"resuming {resumed.size:,} candidates: {wall:.2f} s ({processor:.2f})")
        print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB at most, for all sizes together")


if __name__ == "__main__":
    main()
