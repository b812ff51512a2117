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


def test_due_by_the_busiest_island():
    assert not migration.due([3, 49], 0, 50) and migration.due([3, 50], 0, 50)
    assert not migration.due([3, 99], 50, 50) and migration.due([100, 99], 50, 50)


def test_the_top_tenth_goes_to_both_neighbours():
    memory = populated([20, 0, 5])
    moves = migration.plan(memory.archipelago.islands, 0.1, 200)
    assert moves == [Move(0, 1, 19), Move(0, 2, 19), Move(0, 1, 18), Move(0, 2, 18), Move(2, 0, 24), Move(2, 1, 24)]
    assert migration.plan(memory.archipelago.islands, 0.0, 200) == []
    assert len(migration.plan(memory.archipelago.islands, 0.5, 4)) == 2 * (2 + 2)  # never more than of `basis` members


def test_copies_stay_where_they_arrive_and_nothing_goes_twice():
    memory = populated([1, 1, 1])
    memory.migrate(memory_moves := [(0, 1, 1), (0, 2, 1)])
    islands = memory.archipelago.islands
    assert [sorted(i.members) for i in islands] == [[0], [0, 1], [0, 2]]
    assert [sorted(i.migrants) for i in islands] == [[], [0], [0]]
    moves = migration.plan(islands, 1.0, 200)
    assert {(m.target, m.candidate) for m in moves} == {(0, 1), (2, 1), (0, 2), (1, 2)}
    assert all(m.candidate != 0 for m in moves) and len(memory_moves) == 2


def test_a_copy_does_not_travel_on():
    memory = populated([1, 0, 0, 0, 0])
    memory.migrate([(0, 1, 1), (0, 4, 1)])
    assert migration.plan(memory.archipelago.islands, 1.0, 200) == []  # islands 2 and 3 do not have it


def test_a_candidate_of_two_islands_is_sent_to_a_third_once():
    memory = populated([0, 0, 0])
    memory.columns.append(1, b"s", 1.0, (0.0,), (1.0,), 0, True)
    memory.archipelago.observe(0)
    memory.archipelago.enter(0, 0)
    memory.archipelago.enter(0, 1)
    assert migration.plan(memory.archipelago.islands, 1.0, 200) == [Move(0, 2, 0)]


def test_failed_candidates_stay():
    memory = populated([0, 0])
    memory.columns.append(1, b"f", 0.0, (0.0,), (), 0, False)
    memory.group(0, None, [1], {1})
    assert len(memory.archipelago.islands[0]) == 1 and migration.plan(memory.archipelago.islands, 1.0, 200) == []


def test_an_empty_migration_starts_the_next_interval():
    memory = populated([4], migration_interval=4)
    assert memory.planned_moves() == []  # due, but one island has no neighbour
    memory.migrate([])
    assert memory.planned_moves() is None and memory.archipelago.migrations == 1


def test_what_stays_is_not_replaced_by_the_next_in_rank():
    memory = populated([20, 0, 0, 0])
    memory.migrate([(0, 1, 20)])  # the fittest of island 0 is now a migrant on island 1
    moves = migration.plan(memory.archipelago.islands, 0.1, 200)
    assert moves == [Move(0, 3, 19), Move(0, 1, 18), Move(0, 3, 18)], "19 is on island 1, and 17 does not go instead"
