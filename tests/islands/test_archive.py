"""The Pareto archive against a naive one, and the hall of fame. (The grid: test_archipelago.)"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from islands.population.archive import ParetoArchive, cell_name
from islands.population.columns import Columns

vector = st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])] * 3)


def dominated(a, b):
    """Whether a is no better than b anywhere."""
    return all(x <= y for x, y in zip(a, b, strict=True))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(vector, st.integers(0, 5)), max_size=60))
def test_an_unbounded_front_is_the_front(offers):
    columns = Columns(3)
    archive = ParetoArchive(columns, 1000)
    front: list[int] = []
    for n, (rewards, fitness) in enumerate(offers):
        columns.append(n + 1, b"%d" % n, float(fitness), rewards, (), 0, True)
        enters = not any(dominated(rewards, columns.rewards(o)) for o in front)
        losers = [o for o in front if dominated(columns.rewards(o), rewards)] if enters else []
        assert archive.would_enter(n) == enters
        change = archive.offer(n)
        assert (change.cell is not None) == enters and change.demoted == losers and change.displaced is None
        if enters:
            front = [o for o in front if o not in losers] + [n]
        assert sorted(archive.elites()[0]) == sorted(front) == sorted(archive.cells.values())
        assert all(archive.cell_of(o) is not None and o in archive for o in front)
        assert archive.near(n, np.random.default_rng(n)) in (None, *front)
        slots = [cell[0] for cell in archive.cells]
        assert len(set(slots)) == len(front) and all(0 <= s <= n for s in slots)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(vector, st.integers(0, 5)), max_size=60), st.integers(1, 5))
def test_a_bounded_front_stays_small_mutually_fair_and_keeps_the_fittest(offers, bound):
    columns = Columns(3)
    archive = ParetoArchive(columns, bound)
    for n, (rewards, fitness) in enumerate(offers):
        before = set(archive.elites()[0])
        columns.append(n + 1, b"%d" % n, float(fitness), rewards, (), 0, True)
        change = archive.offer(n)
        after = set(archive.elites()[0])
        assert len(after) <= bound
        assert before - after == set(change.demoted) and (n in after) == (change.cell is not None)
        assert not any(dominated(columns.rewards(a), columns.rewards(b)) for a in after for b in after if a != b)
        candidates = [
            o
            for o in before | {n}
            if o in after or not any(dominated(columns.rewards(o), columns.rewards(x)) for x in after)
        ]
        if change.cell is not None:
            assert max(candidates, key=columns.rank_key) in after


def test_the_most_crowded_goes():
    columns = Columns(2)
    archive = ParetoArchive(columns, 3)
    for n, (x, fitness) in enumerate([(0.0, 0.0), (1.0, 0.0), (0.5, 9.0), (0.9, 0.0)]):
        columns.append(n + 1, b"%d" % n, fitness, (x, 1 - x), (), 0, True)
        change = archive.offer(n)
    assert change.demoted == [] and change.cell is None  # the newcomer and 1.0 are equally crowded, and it is younger
    assert sorted(archive.elites()[0]) == [0, 1, 2]
    assert cell_name((7,), "pareto") == "front-7" and cell_name((3, 7), "grid") == "3-7"
