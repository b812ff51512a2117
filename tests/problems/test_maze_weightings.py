"""The optimum of a maze under any weights, against every walk."""

import random

import numpy as np
import pytest

from problems.contract import Problem, Score
from problems.maze.board import DIAMOND, EMPTY, END, GOLD, LAVA, PAPER, START, WALL, ZONES, Maze, simulate
from problems.maze.optimum import optimum
from problems.maze.problem import TOLERANCE, MazeProblem


def every_vector(maze):
    """The reward vectors of all walks within the budget."""
    found, open_walks = set(), [""]
    while open_walks:
        walk = open_walks.pop()
        for move in "UDLR":
            seen = simulate(maze, walk + move)
            if seen.reached:
                found.add(seen.rewards)
            elif not seen.bumps and len(walk) + 1 < maze.budget:
                open_walks.append(walk + move)
    return np.array(sorted(found)).reshape(-1, len(maze.rules.objectives))


@pytest.mark.parametrize("rules", [PAPER, ZONES], ids=["paper", "zones"])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_best_of_all_walks(seed, rules):
    rng = random.Random(seed)
    tiles = rng.choices([EMPTY, WALL, GOLD, DIAMOND, LAVA, *rules.treasures], k=9)
    tiles[0], tiles[8] = START, END
    maze = Maze("".join(tiles), 8, 3, rules)
    vectors = every_vector(maze)
    problem = MazeProblem(f"maze:test/{seed}", maze, optimum(maze))
    for weights in np.random.default_rng(seed).dirichlet(np.ones(len(rules.objectives)), 20).tolist():
        best = (vectors @ np.array(weights)).max(initial=0.0)
        assert problem.target_under(weights) == pytest.approx(best - TOLERANCE, abs=1e-12)
    even = [1 / len(rules.objectives)] * len(rules.objectives)
    assert problem.target_under(even) == pytest.approx(problem.target, abs=1e-12)


def test_a_problem_that_does_not_say_knows_no_optimum():
    class Plain(Problem):
        name, objectives, target = "plain", ("a", "b"), 1.0

        def statement(self):
            return ""

        def score(self, answer):
            return Score((1.0, 1.0), 1.0)

    assert Plain().target_under([0.5, 0.5]) is None
