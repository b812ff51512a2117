"""The islands in memory against a naive model that recomputes everything, O(n) a step; measures, ranges and cells; and
the strategies that choose parents."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.island_samples import small_config

from islands.population import selection
from islands.population.archipelago import Archipelago, plan_moves
from islands.population.config import PopulationConfig
from islands.population.features import FeatureSpace, check_features, sketch
from islands.population.island import Columns, GridArchive, Island
from problems.contract import Score, ScorerFault

ISLANDS = 3
DIMENSIONS = ("score", "reward:a")


@dataclass
class Naive:
    """The rules of islands.population.archipelago, written as directly as they can be."""

    cap: int | None
    hall_size: int
    bins: int
    fitness: list[float] = field(default_factory=list)
    valid: list[bool] = field(default_factory=list)
    points: list[tuple[float, ...]] = field(default_factory=list)
    members: list[list[int]] = field(default_factory=lambda: [[] for _ in range(ISLANDS)])
    cells: list[dict] = field(default_factory=lambda: [{} for _ in range(ISLANDS)])
    migrants: set = field(default_factory=set)
    hall: list = field(default_factory=list)
    best: int | None = None
    low: list | None = None
    high: list | None = None

    def key(self, o):
        return (self.valid[o], self.fitness[o], -o)

    def cell(self, o):
        shares = [
            (v - lo) / (hi - lo) if hi > lo else 0.5
            for v, lo, hi in zip(self.points[o], self.low, self.high, strict=True)
        ]
        return tuple(max(0, min(self.bins - 1, int(s * self.bins))) for s in shares)

    def observe(self, o):
        point = self.points[o]
        before = (self.low, self.high) if self.low is None else (list(self.low), list(self.high))
        if self.low is None:
            self.low, self.high = list(point), list(point)
        for i, v in enumerate(point):
            lo, hi = self.low[i], self.high[i]
            if v > hi:
                self.high[i] = v + (v / self.bins - lo / self.bins) / 2 if lo < hi else v
            if v < lo:
                self.low[i] = v - (hi / self.bins - v / self.bins) / 2 if lo < hi else v
        for cells, members in zip(self.cells, self.members, strict=True) if before != (self.low, self.high) else ():
            everybody = sorted([m for m in members if self.valid[m]], key=self.key)
            cells.clear()
            cells.update({self.cell(e): e for e in everybody})

    def remove(self, o, i):
        self.members[i].remove(o)
        self.cells[i] = {c: e for c, e in self.cells[i].items() if e != o}
        self.migrants.discard((o, i))
        if (o, i) in self.hall:
            self.hall.remove((o, i))

    def enter(self, o, i, migrant=False):
        present = self.members[i]
        any_valid = any(self.valid[m] for m in present)
        if not self.valid[o]:
            if any_valid:
                return
            present.append(o)
            self.best = o if self.best is None else self.best
            self.evict(o, i)
            return
        for m in [m for m in present if not self.valid[m]]:
            self.remove(m, i)
        cell = self.cell(o)
        holder = self.cells[i].get(cell)
        if holder is None or self.fitness[o] > self.fitness[holder]:
            if holder is not None:
                self.remove(holder, i)
            self.cells[i][cell] = o
        self.members[i].append(o)
        if migrant:
            self.migrants.add((o, i))
        if len(self.hall) < self.hall_size:
            self.hall.append((o, i))
        else:
            worst = min(self.hall, key=lambda m: (self.key(m[0]), m[1]))
            if self.fitness[o] > self.fitness[worst[0]]:
                self.hall.remove(worst)
                self.hall.append((o, i))
        if self.best is None or self.key(o)[:2] > self.key(self.best)[:2]:
            self.best = o
        self.evict(o, i)

    def repeat(self, o, i):
        if o in self.members[i] or not self.valid[o]:
            return
        holder = self.cells[i].get(self.cell(o))
        if holder is None or self.fitness[o] > self.fitness[holder]:
            self.enter(o, i)

    def evict(self, newcomer, island):
        while self.cap is not None and sum(map(len, self.members)) > self.cap:
            everywhere = [(m, i) for i in range(ISLANDS) for m in self.members[i]]
            may_go = [(m, i) for m, i in everywhere if m != self.best and (m, i) != (newcomer, island)]
            if not may_go:
                return
            rank = lambda m: (m[0] in self.cells[m[1]].values(), self.valid[m[0]], self.fitness[m[0]], m[0], m[1])  # noqa: E731
            self.remove(*min(may_go, key=rank))

    def migrate(self, rate):
        moves = []
        for i in range(ISLANDS):
            own = [m for m in self.members[i] if (m, i) not in self.migrants]
            for m in sorted(own, key=self.key, reverse=True)[: max(1, int(len(own) * rate))]:
                if not self.valid[m]:
                    continue
                for target in ((i + 1) % ISLANDS, (i - 1) % ISLANDS):
                    if m not in self.members[target] and (target, m) not in moves:
                        moves.append((target, m))
        for target, m in moves:
            self.enter(m, target, migrant=True)


number = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6, width=32), st.sampled_from([0.25, 0.5, 1e-9]))
step = st.tuples(st.integers(0, ISLANDS - 1), st.integers(0, 30), number, number, st.integers(0, 9))


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(step, min_size=1, max_size=60),
    cap=st.sampled_from([None, 3, 7, 20]),
    hall=st.sampled_from([1, 4, 100]),
    bins=st.sampled_from([1, 2, 5]),
)
def test_every_step_agrees_with_the_naive_model(steps, cap, hall, bins):
    # a mapping of bins, because one number for all would be raised to hold archive_size cells
    config = small_config(
        islands=ISLANDS, population_size=cap, archive_size=hall, feature_bins=dict.fromkeys(DIMENSIONS, bins),
        feature_dimensions=DIMENSIONS, migration_interval=5, migration_rate=0.34,
    )  # fmt: skip
    islands = Archipelago(config, ("a", "b"))
    naive = Naive(cap, hall, bins)
    columns = islands.columns
    groups = 0
    for island, kind, fitness, reward, chance in steps:
        if kind < 8 and len(columns):  # a repeat
            islands.add_group(island, None, [columns.ids[kind % len(columns)]], set())
            naive.repeat(kind % len(columns), island)
        else:
            valid = chance > 1
            ordinal = columns.append(
                1000 + 3 * len(columns), b"%16d" % len(columns), fitness, (reward, 0.0),
                (fitness, reward) if valid else (), 0, valid,
            )  # fmt: skip
            naive.fitness.append(fitness)
            naive.valid.append(valid)
            naive.points.append((fitness, reward))
            if valid:
                naive.observe(ordinal)
            islands.add_group(island, None, [columns.ids[ordinal]], {columns.ids[ordinal]})
            naive.enter(ordinal, island)
        groups += 1
        moves = islands.planned_moves()
        if moves is not None:
            islands.migrate(moves)
            naive.migrate(config.migration_rate)
        compare(islands, naive)
    assert groups == sum(island.generation for island in islands.islands)


def compare(islands, naive):
    for i, island in enumerate(islands.islands):
        assert list(island.falling()) == sorted(naive.members[i], key=naive.key, reverse=True)
        assert island.archive.cells == naive.cells[i]
        assert {o for o in island.members if o in island.archive} == set(naive.cells[i].values())
        rows, rewards = island.archive.elites()
        assert sorted(rows) == sorted(naive.cells[i].values())
        assert [islands.columns.rewards(o) for o in rows] == [tuple(r) for r in rewards]
        assert island.migrants == {o for o, j in naive.migrants if j == i}
    assert islands.best == naive.best
    assert sorted(islands.hall._all) == sorted(naive.hall)
    assert islands.members == sum(map(len, naive.members))
    if naive.cap is not None:
        assert islands.members <= max(naive.cap, ISLANDS + 1)


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


def test_the_fittest_migrate_to_both_neighbours_and_never_more_than_of_200_members():
    """Rings of other sizes, other rates and copies are compared with OpenEvolve (tests/parity)."""
    moves = plan_moves(populated([20, 0, 5]).islands, 0.1)
    assert moves == [(0, 1, 19), (0, 2, 19), (0, 1, 18), (0, 2, 18), (2, 0, 24), (2, 1, 24)]
    assert len(plan_moves(populated([300, 0]).islands, 0.5)) == 100


def test_an_empty_migration_starts_the_next_interval():
    islands = populated([4], migration_interval=4)
    assert islands.planned_moves() == []  # due, but one island has no neighbour
    islands.migrate([])
    assert islands.planned_moves() is None


# -- measures, ranges and cells


finite = st.floats(allow_nan=False, allow_infinity=False)


def space(*dimensions: str, bins: int = 10, references: int = 20, objectives=("a", "b")) -> FeatureSpace:
    made = FeatureSpace(objectives, lambda names: (bins,) * len(names), references)
    made.settle(dimensions)
    return made


def test_measures_by_name():
    assert space("score", "rewards").dimensions == ("score", "reward:a", "reward:b")
    made = space("complexity", "score", "reward:b", "speed", "diversity")
    score = Score((0.25, 0.75), 0.5, {"speed": 3})
    assert made.measure("abcde", score) == (5.0, 0.5, 0.75, 3.0, 0.0)
    assert space("complexity").measure("abcde", Score((0, 0), 0, {"complexity": 9.0})) == (9.0,)
    check_features(score, made.dimensions, "p")
    said = "p: the grid is spanned by 'speed', which the scorer did not give .it gave no features"
    with pytest.raises(ScorerFault, match=said):
        check_features(Score((0, 0), 0), made.dimensions, "p")
    with pytest.raises(ValueError, match="'reward:c', but the objectives are a, b"):
        space("reward:c")


def test_sketches_tell_texts_apart():
    text = "def f(x):\n    return x + 1\n" * 20
    assert sketch(text).sum() == pytest.approx(1) and not sketch("ab").any()
    near, far = text.replace("x + 1", "x + 2", 1), "import numpy as np\nprint(np.zeros(3).sum())\n" * 20
    distance = lambda other: np.abs(sketch(text) - sketch(other)).sum() / 2  # noqa: E731
    assert distance(text) == 0 < distance(near) < 0.1 < distance(far) <= 1
    long = "x" * 10_000_000
    assert np.array_equal(sketch(long), sketch(long[:100_000]))  # the cost is bounded
    sketch("\ud83d lone")


def test_diversity_is_measured_against_the_first_answers_for_good():
    made = space("diversity", references=2)
    score = Score((0, 0), 0)
    assert made.references_missing == 2 and made.measure("first answer", score) == (0.0,)
    made.measure("second thing", score)
    before = made.measure("third of them", score)
    assert made.references_missing == 0 and made.measure("third of them", score) == before
    assert 0 < before[0] <= 1


@settings(max_examples=300, deadline=None)
@example([(0.0, 0.0), (0.0, 5e-324)], 1)  # a range whose half is zero
@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=40), st.integers(1, 12))
def test_ranges_hold_all_values_and_cells_are_bins(points, bins):
    made = space("x", "y", bins=bins)
    for point in points:
        grew = made.observe(point)
        assert not made.observe(point)
        for value, low, high in zip(point, made.low, made.high, strict=True):
            assert -math.inf < low <= value <= high < math.inf
        assert grew or made.cell(point)
    for point in points:
        assert all(0 <= c < bins for c in made.cell(point))
    ordered = sorted(points)
    firsts = [made.cell(point)[0] for point in ordered]
    assert firsts == sorted(firsts)  # bins keep the order of the values


def test_an_ever_growing_value_rescales_ever_more_rarely():
    made = space("x")
    growths = [made.observe((float(n),)) for n in range(100_000)]
    assert sum(growths) < 260 and sum(growths[50_000:]) < 20  # log(100,000) / log(1.05) = 236


# -- strategies, on islands made by hand


def made(rewards: list[tuple[float, ...]], island_of=lambda n: 0, fitness=None, **settings) -> Archipelago:
    """A population of these candidates, each in a cell of its own. Ordinals follow the list."""
    config = {"feature_dimensions": ("rewards",), "feature_bins": 50, "population_size": None, **settings}
    archipelago = Archipelago(small_config(**config), ("a", "b", "c")[: len(rewards[0])])
    for n, vector in enumerate(rewards):
        value = sum(vector) / 2 if fitness is None else fitness[n]
        measures = vector if archipelago.space.dimensions else ()
        ordinal = archipelago.columns.append(n + 1, b"%d" % n, value, vector, measures, 0, True)
        archipelago.add_group(island_of(n), None, [n + 1], {n + 1})
        assert ordinal == n
    return archipelago


def shares(draw, count=4000) -> dict[int, float]:
    rng = np.random.default_rng(0)
    drawn = Counter(draw(rng) for _ in range(count))
    return {item: n / count for item, n in drawn.items()}


GRID = [(0.1, 0.9), (0.9, 0.1), (0.6, 0.6), (0.2, 0.3), (0.05, 0.05)]


def test_openevolve_mixes_its_three_draws():
    archipelago = made(GRID, archive_size=2)  # the hall: the two fittest, 2 and the older of the 0.5s
    draw = lambda rng: selection.openevolve(archipelago, 0, rng)  # noqa: E731
    assert sorted(o for o, _ in archipelago.hall._all) == [0, 2]
    total = sum(sum(v) / 2 for v in GRID)
    got = shares(draw, 20_000)
    for n, vector in enumerate(GRID):
        expected = 0.2 / 5 + 0.7 * (0.5 if n in (0, 2) else 0) + 0.1 * (sum(vector) / 2) / total
        assert got[n] == pytest.approx(expected, abs=0.012)


def test_exploitation_borrows_from_other_islands():
    archipelago = made(
        GRID, island_of=lambda n: 0 if n == 2 else 1, archive_size=1, exploration_ratio=0, exploitation_ratio=1
    )
    assert set(shares(lambda rng: selection.openevolve(archipelago, 1, rng), 50)) == {2}


def test_weighted_takes_the_best_under_some_weights_only():
    archipelago = made(GRID, strategy="weighted")
    got = shares(lambda rng: selection.weighted(archipelago, 0, rng))
    assert set(got) == {0, 1, 2}
    # w = (u, 1-u): 0 wins where .1u + .9(1-u) > .6, that is u < .375; 1 likewise; 2 between
    assert got[0] == pytest.approx(0.375, abs=0.03) and got[2] == pytest.approx(0.25, abs=0.03)


def test_inspirations_are_best_then_near_then_anybody():
    archipelago = made([(x / 30, 1 - x / 30) for x in range(30)], fitness=[float(n) for n in range(30)])
    archipelago = archipelago
    rng = np.random.default_rng(0)
    near = Counter()
    for _ in range(300):
        chosen = selection.choose_inspirations(archipelago, 0, 10, 4, rng)
        assert len(chosen) == len(set(chosen)) == 4 and 10 not in chosen and chosen[0] == 29
        near.update(abs(o - 10) <= 2 for o in chosen[1:])
    # far more of the near ones than the 4/28 of chance
    assert near[True] / sum(near.values()) > 0.3
    assert selection.choose_inspirations(archipelago, 0, 29, 0, rng) == []
    assert 29 not in selection.choose_inspirations(archipelago, 0, 29, 3, rng)


def test_small_islands_inspire_with_their_best_alone():
    archipelago = made(GRID[:2], fitness=[1.0, 2.0])
    rng = np.random.default_rng(0)
    assert selection.choose_inspirations(archipelago, 0, 0, 2, rng) == [1]
    assert selection.choose_inspirations(archipelago, 0, 1, 2, rng) == []


def test_an_empty_island_borrows():
    archipelago = made(GRID, island_of=lambda n: 0 if n < 2 else 2)
    rng = np.random.default_rng(0)
    chosen = [selection.choose(archipelago, 1, rng) for _ in range(50)]
    assert {tuple(best) for _, _, best in chosen} == {tuple(archipelago.islands[home].top(3)) for home in (0, 2)}
    assert all(parent is not None and parent not in inspirations for parent, inspirations, _ in chosen)


def test_hill_shows_the_best_that_was_ever_stored_and_nothing_else():
    archipelago = made(GRID, strategy="hill", islands=1)
    assert selection.choose(archipelago, 0, np.random.default_rng(0)) == (2, [], [])
    ties = made([(0.4, 0.6), (0.6, 0.4), (0.1, 0.1)], strategy="hill", islands=1)
    assert selection.choose(ties, 0, np.random.default_rng(0)) == (0, [], []), "the first of equals"


def test_scs_draws_from_all_successful_ones_alike():
    vectors = [*GRID, (0.0, 0.0)]  # the last is valid and scores what a failed answer does: no success
    archipelago = made(
        vectors, strategy="scs", islands=1, population_size=2, num_diverse_programs=1, num_top_programs=1
    )
    failed = archipelago.columns.append(7, b"failed", 0.0, (0.0, 0.0), (), 0, False)
    archipelago.add_group(0, None, [7], {7})
    assert len(archipelago.islands[0]) == 2, "most are members no more, and are shown all the same"
    parents, company = Counter(), Counter()
    for seed in range(4000):
        parent, others, best = selection.choose(archipelago, 0, np.random.default_rng(seed))
        assert len({parent, *others}) == 3 and best == []
        parents[parent] += 1
        company.update(others)
    assert set(parents) == set(company) == {0, 1, 2, 3, 4} and failed not in parents
    assert all(n == pytest.approx(800, abs=90) for n in parents.values())
    assert all(n == pytest.approx(1600, abs=120) for n in company.values())


def test_scs_shows_what_there_is_and_nothing_before_the_first_success():
    archipelago = made([(0.0, 0.0)], strategy="scs", islands=1)
    assert selection.choose(archipelago, 0, np.random.default_rng(0)) == (None, [], [])
    archipelago = made([(0.0, 0.0), (0.5, 0.0), (-1.0, 0.2)], fitness=[0.0, 0.25, -0.4], strategy="scs", islands=1)
    drawn = [selection.choose(archipelago, 0, np.random.default_rng(n)) for n in range(20)]
    assert {(parent, tuple(others)) for parent, others, _ in drawn} == {(1, (2,)), (2, (1,))}


@pytest.mark.parametrize("strategy", ["hill", "scs"])
def test_baselines_have_no_islands(strategy):
    assert PopulationConfig.model_validate({"strategy": strategy}).model_dump(exclude_unset=True)["islands"] == 1
    with pytest.raises(ValueError, match=f"strategy {strategy} has no islands"):
        PopulationConfig.model_validate({"strategy": strategy, "islands": 3})


def test_pareto_draws_from_what_nothing_dominates_and_of_equals_the_oldest():
    # the third is best under no weighting of the first two; the fourth is dominated, the last equals the first
    vectors = [(1.0, 0.0), (0.0, 1.0), (0.4, 0.4), (0.3, 0.3), (1.0, 0.0)]
    archipelago = made(vectors, strategy="pareto", islands=1, climb=0)
    draws = {selection.pareto(archipelago, 0, np.random.default_rng(seed)) for seed in range(60)}
    assert draws == {0, 1, 2}
    assert 2 not in {selection.weighted(archipelago, 0, np.random.default_rng(seed)) for seed in range(60)}


def test_a_large_front_gives_a_pool():
    """What serves most weightings: w . (.7, .7) = .7, and for w[0] > .7 the corner gains .045, the
    integral of w - .7, and (.9, .2) gains .029."""
    vectors = [(1.0, 0.0), (0.9, 0.2), (0.7, 0.7), (0.2, 0.9), (0.0, 1.0)]
    archipelago = made(vectors, fitness=list(range(5)), strategy="pareto", pareto_pool=3, climb=0, islands=1)
    draws = {selection.pareto(archipelago, 0, np.random.default_rng(seed)) for seed in range(60)}
    assert draws == {0, 2, 4}


def test_pareto_climbs_the_best_of_a_random_weighting_and_leaves_it_as_its_visits_grow():
    archipelago = made([(0.0, 1.0), (1.0, 0.0), (0.3, 0.3)], fitness=[0.0, 1.0, 0.5], islands=1, exploration_ratio=1,
                  exploitation_ratio=0)  # fmt: skip
    for visits in (0, 1, 4):
        while archipelago.islands[0].visits[0] < visits:
            archipelago.add_group(0, 1, [], set())  # candidate 1 is the first, good in b
        share = 1 / (1 + visits)
        got = shares(lambda rng: selection.auto(archipelago, 0, rng))
        # each corner is the best under half of the weightings; else each of the front of three alike
        rest = (1 - share) / 2 / 3
        assert got[0] == pytest.approx(share / 2 + rest, abs=0.03)
        assert got[1] == pytest.approx(1 / 2 + rest, abs=0.03)


def test_a_front_keeps_what_left_the_island():
    """Neither a fitter answer in its cell nor the cap takes the best of a goal out of the front."""
    vectors = [(0.9, 0.0), (0.0, 0.8), (0.7, 0.6), (0.6, 0.7), (0.5, 0.5)]
    archipelago = made(vectors, islands=1, feature_bins=1, archive_size=1, population_size=2)
    (island,) = archipelago.islands
    assert len(island) <= 2 and island.front.members == [0, 1, 2, 3]
    pool, rewards = island.front.pool(8)
    assert pool == [0, 1, 2, 3] and rewards.tolist() == [list(v) for v in vectors[:4]]


@pytest.mark.parametrize("climb", [1.0, 3.0])
def test_auto_stays_with_the_fittest_and_leaves_it_as_its_visits_grow(climb):
    archipelago = made([(0.5,), (1.0,)], fitness=[0.5, 1.0], climb=climb, exploration_ratio=1, exploitation_ratio=0)
    for visits in (0, 1, 4):
        while archipelago.islands[0].visits[1] < visits:
            archipelago.add_group(0, 2, [], set())
        share = climb / (climb + visits)
        got = shares(lambda rng: selection.auto(archipelago, 0, rng))
        assert got[1] == pytest.approx(share + (1 - share) / 2, abs=0.03)


def test_by_default_a_vector_is_weighed_and_one_number_is_chosen_as_openevolve_does():
    assert PopulationConfig().strategy == "auto"
    for vectors, same in ((GRID, selection.pareto), ([(v[0],) for v in GRID], selection.openevolve)):
        archipelago = made(vectors, climb=0)
        draws = [
            [choose(archipelago, 0, np.random.default_rng(seed)) for seed in range(30)]
            for choose in (selection.auto, same)
        ]
        assert draws[0] == draws[1]
    assert draws[0] != [selection.weighted(archipelago, 0, np.random.default_rng(seed)) for seed in range(30)]


def test_draws_follow_fitness():
    fitness = [1.0, 0.0, 3.0, -5.0, 6.0, 90.0]
    columns = Columns(1)
    for number, value in enumerate(fitness):
        columns.append(number, bytes([number]), value, (value,), (), 0, True)
    island = Island(columns, GridArchive(columns, FeatureSpace(("score",), lambda names: (1,) * len(names), 1)))
    with pytest.raises(IndexError):
        island.members.draw(np.random.default_rng(0))
    for number in range(len(fitness)):
        island.join(number)
    island.leave(5)
    rng = np.random.default_rng(1)
    drawn = [island.draw_by_fitness(rng) for _ in range(20_000)]
    assert [drawn.count(number) / 20_000 for number in range(6)] == pytest.approx([0.1, 0, 0.3, 0, 0.6, 0], abs=0.015)
    uniform = [island.members.draw(rng) for _ in range(20_000)]
    assert all(uniform.count(number) / 20_000 == pytest.approx(0.2, abs=0.015) for number in range(5))
