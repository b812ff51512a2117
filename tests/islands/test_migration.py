"""The ring."""

from __future__ import annotations

from support.island_samples import small_config

from islands.population import migration
from islands.population.memory import Memory
from islands.population.migration import Move


def populated(counts: list[int], **settings) -> Memory:
    config = dict(islands=len(counts), population_size=None, feature_dimensions=("score",), feature_bins=1000)
    memory = Memory(small_config(**{**config, **settings}), ("a",))
    n = 0
    for island, count in enumerate(counts):
        for _ in range(count):
            memory.columns.append(n + 1, b"%d" % n, float(n), (0.0,), (float(n),), 0, True)
            memory.group(island, None, [n + 1], {n + 1})
            n += 1
    return memory


def test_neighbours_on_rings_of_every_size():
    assert migration.neighbours(0, 5) == (1, 4) and migration.neighbours(4, 5) == (0, 3)
    assert migration.neighbours(0, 2) == (1,) and migration.neighbours(0, 1) == ()


def test_the_top_tenth_goes_to_both_neighbours():
    memory = populated([20, 0, 5])
    moves = migration.plan(memory.archipelago.islands, 0.1, 200)
    assert moves == [Move(0, 1, 19), Move(0, 2, 19), Move(0, 1, 18), Move(0, 2, 18), Move(2, 0, 24), Move(2, 1, 24)]
    # OpenEvolve: max(1, int(members * rate))
    assert migration.plan(memory.archipelago.islands, 0.0, 200) == [moves[0], moves[1], *moves[4:]]
    assert len(migration.plan(memory.archipelago.islands, 0.5, 4)) == 2 * (2 + 2)  # never more than of `basis` members


def test_copies_take_no_place_of_those_that_migrate():
    memory = populated([3, 3, 3], feature_dimensions=("score",))
    for _ in range(3):
        memory.archipelago.migrate(migration.plan(memory.archipelago.islands, 0.1, 200))
    third = memory.archipelago.islands[0]  # its own members are the least fit of all, and its best went to both
    assert {8, 5} <= third.migrants and 2 in memory.archipelago.islands[1] and 2 in memory.archipelago.islands[2]
    assert migration.plan(memory.archipelago.islands, 0.1, 200) == []
    memory.columns.append(99, b"new", 2.5, (0.0,), (2.5,), 0, True)
    memory.group(0, None, [99], {99})
    assert migration.plan(memory.archipelago.islands, 0.1, 200) == [Move(0, 1, 9), Move(0, 2, 9)]


def test_an_empty_migration_starts_the_next_interval():
    memory = populated([4], migration_interval=4)
    assert memory.planned_moves() == []  # due, but one island has no neighbour
    memory.migrate([])
    assert memory.planned_moves() is None
