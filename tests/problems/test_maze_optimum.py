"""The dynamic programme against every walk there is, on small boards."""

import random
from itertools import product

import numpy as np
import pytest

from problems.maze.board import (
    BONUS,
    DIAMOND,
    EMPTY,
    END,
    GOLD,
    JADE,
    LAVA,
    PAPER,
    PEARL,
    START,
    WALL,
    ZONES,
    Maze,
    Rules,
    fitness_of,
    rewards_of,
    simulate,
)
from problems.maze.generator import LARGE_SIZE, attempt_large, generate
from problems.maze.optimum import best_route, fewest_steps, optimum, outcomes, pareto


def small_board(seed: int, rules: Rules = PAPER) -> Maze:
    rng = random.Random(seed)
    if rules is PAPER:
        tiles = rng.choices([EMPTY, WALL, GOLD, DIAMOND, LAVA, BONUS], [5, 2, 1, 1, 1.5, 0.3], k=9)
    else:
        tiles = rng.choices([EMPTY, WALL, GOLD, DIAMOND, JADE, PEARL, LAVA], [4, 2, 1, 1, 1, 1, 1], k=9)
    start, end = rng.sample(range(9), 2)
    tiles[start], tiles[end] = START, END
    return Maze("".join(tiles), rng.randint(2, 8), 3, rules)


def every_walk(maze: Maze) -> set[tuple[float, ...]]:
    """The vectors of all move lists of the budget's length (shorter ones are prefixes that bump on)."""
    walks = (simulate(maze, moves) for moves in product("UDLR", repeat=maze.budget))
    return {walk.rewards for walk in walks if walk.reached}


@pytest.mark.parametrize("rules", [PAPER, ZONES])
@pytest.mark.parametrize("seed", range(24))
def test_outcomes_are_those_of_all_walks(seed, rules):
    maze = small_board(seed, rules)
    vectors = every_walk(maze)
    sizes = [len(cells) for cells in maze.treasures]
    counts = {
        (*(round(share * size) for share, size in zip(r[1:], sizes, strict=False)), lava_of(maze, r)) for r in vectors
    }
    assert outcomes(maze) == counts
    assert optimum(maze) == pytest.approx(max(map(fitness_of, vectors), default=0.0))
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(rules.objectives)))
    assert optimum(maze, weights) == pytest.approx(max((float(weights @ v) for v in vectors), default=0.0))
    route = best_route(maze)
    assert fitness_of(simulate(maze, route).rewards) == pytest.approx(optimum(maze))
    best = [v for v in vectors if not any(w != v and all(a >= b for a, b in zip(w, v, strict=True)) for w in vectors)]
    assert sorted(best) == pareto(maze)


def lava_of(maze: Maze, rewards: tuple[float, ...]) -> int:
    return round((1 - rewards[len(maze.treasures) + 1]) * len(maze.lava))


def test_on_a_large_board_the_fewest_steps_are_those_of_a_search_through_all_states():
    """Breadth first through (cell, items held), an item set at a time, on boards thinned to eight items."""
    for seed in range(3):
        whole = generate(random.Random(seed), LARGE_SIZE, attempt_large)
        rng, tiles = random.Random(seed), list(whole.tiles)
        items = [cell for group in (*whole.treasures, whole.lava) for cell in group]
        for cell in rng.sample(items, len(items) - 8):
            tiles[cell] = EMPTY
        maze = Maze("".join(tiles), whole.budget, whole.size, ZONES)
        groups = [frozenset(group) for group in (*maze.treasures, maze.lava)]
        countable = frozenset().union(*groups)
        found: dict[tuple[int, ...], int] = {}
        states = seen = {(maze.start, frozenset())}
        for step in range(1, maze.budget + 1):
            reached = {(n, held | ({n} & countable)) for cell, held in states for n in maze.neighbours[cell]} - seen
            for cell, held in reached:
                if cell == maze.end:
                    found.setdefault(tuple(len(held & group) for group in groups), step)
            states = {state for state in reached if state[0] != maze.end}
            seen = seen | reached
        assert len(found) > 20 and fewest_steps(maze) == found


def test_the_optimum_of_a_large_board_is_attained_and_no_zone_is_free():
    for seed in range(4):
        maze = generate(random.Random(seed), LARGE_SIZE, attempt_large)
        value = optimum(maze)
        assert fitness_of(simulate(maze, best_route(maze)).rewards) == pytest.approx(value)
        earned = fewest_steps(maze)
        assert value > max(fitness_of(rewards_of(maze, c[:-1], c[-1], s)) for c, s in earned.items() if not any(c[:-1]))
        assert not any(all(counts[:-1]) for counts, steps in earned.items() if steps == maze.shortest)
        assert len(pareto(maze)) > 4


def test_the_small_boards_are_worth_checking():
    boards = [small_board(seed) for seed in range(24)]
    assert sum(not outcomes(maze) for maze in boards) >= 2  # some cannot be finished
    assert sum(len(outcomes(maze)) > 3 for maze in boards) >= 3


def test_the_best_route_is_a_shortest_one():
    maze = Maze.from_rows(["S.G", "...", "..E"], budget=8)
    assert len(best_route(maze)) == 4 and simulate(maze, best_route(maze)).collected == (1, 0)


def test_lava_is_paid_once_and_worth_it_where_gold_lies_behind():
    maze = Maze.from_rows(["SLG", ".##", "..E"], budget=8)
    # (1, 1, 0, 0) = .5 through the lava and back; (1, 0, 0, 1) = .5 around it
    assert set(pareto(maze)) == {(1.0, 1.0, 0.0, 0.0), (1.0, 0.0, 0.0, 1.0)}
    assert optimum(maze, (0.1, 0.6, 0.1, 0.2)) == pytest.approx(0.7)


def test_the_optimum_of_a_real_board_is_attained():
    boards = [generate(random.Random(seed)) for seed in range(8_000_000, 8_000_020)]
    for maze in boards:
        value = optimum(maze)
        assert 0.5 < value < 1.0  # never both: the conflict is real
        assert fitness_of(simulate(maze, best_route(maze)).rewards) == pytest.approx(value)


def test_the_pareto_set_holds_the_specialists_and_nothing_dominated():
    for seed in range(8_000_000, 8_000_010):
        vectors = pareto(generate(random.Random(seed)))
        assert len(vectors) >= 2
        for v in vectors:
            assert not any(w != v and all(a >= b for a, b in zip(w, v, strict=True)) for w in vectors)
