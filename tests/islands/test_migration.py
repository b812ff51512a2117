"""The ring."""

from __future__ import annotations

from support.island_samples import small_config

from islands.population.archipelago import Archipelago, plan_moves


def populated(counts: list[int], **settings) -> Archipelago:
    config = dict(islands=len(counts), population_size=None, feature_dimensions=("score",), feature_bins=1000)
    memory = Archipelago(small_config(**{**config, **settings}), ("a",))
    n = 0
    for island, count in enumerate(counts):
        for _ in range(count):
            memory.columns.append(n + 1, b"%d" % n, float(n), (0.0,), (float(n),), 0, True)
            memory.add_group(island, None, [n + 1], {n + 1})
            n += 1
    return memory


def migrate(islands: Archipelago) -> None:
    moves = plan_moves(islands.islands, 0.1)
    islands.migrate([(source, target, islands.columns.ids[ordinal]) for source, target, ordinal in moves])


def test_the_top_tenth_goes_to_both_neighbours_on_a_ring_of_any_size():
    (*of_first, _, _) = moves = plan_moves(populated([20, 0, 5]).islands, 0.1)
    assert moves == [(0, 1, 19), (0, 2, 19), (0, 1, 18), (0, 2, 18), (2, 0, 24), (2, 1, 24)]
    # OpenEvolve: max(1, int(members * rate))
    assert plan_moves(populated([20, 0, 5]).islands, 0.0) == [*of_first[:2], *moves[4:]]
    assert plan_moves(populated([0, 0, 0, 0, 1]).islands, 0.1) == [(4, 0, 0), (4, 3, 0)]
    assert plan_moves(populated([1, 0]).islands, 0.1) == [(0, 1, 0)] and plan_moves(populated([4]).islands, 0.1) == []
    assert len(plan_moves(populated([300, 0]).islands, 0.5)) == 100  # never more than of 200 members


def test_copies_take_no_place_of_those_that_migrate():
    islands = populated([3, 3, 3])
    for _ in range(3):
        migrate(islands)
    third = islands.islands[0]  # its own members are the least fit of all, and its best went to both
    assert {8, 5} <= third.migrants and 2 in islands.islands[1] and 2 in islands.islands[2]
    assert plan_moves(islands.islands, 0.1) == []
    islands.columns.append(99, b"new", 2.5, (0.0,), (2.5,), 0, True)
    islands.add_group(0, None, [99], {99})
    assert plan_moves(islands.islands, 0.1) == [(0, 1, 9), (0, 2, 9)]


def test_an_empty_migration_starts_the_next_interval():
    islands = populated([4], migration_interval=4)
    assert islands.planned_moves() == []  # due, but one island has no neighbour
    islands.migrate([])
    assert islands.planned_moves() is None
