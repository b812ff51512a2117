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
    LAVA,
    START,
    WALL,
    Maze,
    fitness_of,
    generate,
    simulate,
)
from problems.maze.optimum import best_route, optimum, outcomes, pareto


def small_board(seed: int) -> Maze:
    rng = random.Random(seed)
    tiles = rng.choices([EMPTY, WALL, GOLD, DIAMOND, LAVA, BONUS], [5, 2, 1, 1, 1.5, 0.3], k=9)
    start, end = rng.sample(range(9), 2)
    tiles[start], tiles[end] = START, END
    return Maze("".join(tiles), rng.randint(2, 8), 3)


def every_walk(maze: Maze) -> set[tuple[float, ...]]:
    """The vectors of all move lists of the budget's length (shorter ones are prefixes that bump on)."""
    walks = (simulate(maze, moves) for moves in product("UDLR", repeat=maze.budget))
    return {walk.rewards for walk in walks if walk.reached}


@pytest.mark.parametrize("seed", range(24))
def test_outcomes_are_those_of_all_walks(seed):
    maze = small_board(seed)
    vectors = every_walk(maze)
    counts = {
        tuple(round(v) for v in (r[1] * len(maze.gold), r[2] * len(maze.diamond), (1 - r[3]) * len(maze.lava)))
        for r in vectors
    }
    assert outcomes(maze) == counts
    assert optimum(maze) == pytest.approx(max(map(fitness_of, vectors), default=0.0))
    weights = np.random.default_rng(seed).dirichlet(np.ones(4))
    assert optimum(maze, weights) == pytest.approx(max((float(weights @ v) for v in vectors), default=0.0))
    route = best_route(maze)
    assert fitness_of(simulate(maze, route).rewards) == pytest.approx(optimum(maze))


def test_the_small_boards_are_worth_checking():
    boards = [small_board(seed) for seed in range(24)]
    assert sum(not outcomes(maze) for maze in boards) >= 2  # some cannot be finished
    assert sum(len(outcomes(maze)) > 3 for maze in boards) >= 3


def test_the_best_route_is_a_shortest_one():
    maze = Maze.from_rows(["S.G", "...", "..E"], budget=8)
    assert len(best_route(maze)) == 4 and simulate(maze, best_route(maze)).gold == 1


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
