"""The boards of the sets, which are pinned, walks worked by hand, and optima against every walk."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection
from itertools import product

import numpy as np
import pytest
from support.run_limited import DONE, run_limited

from problems.maze.board import (
    BONUS,
    DIAMOND,
    EMPTY,
    END,
    GOLD,
    JADE,
    LAVA,
    MOST_CHARACTERS,
    PAPER,
    PEARL,
    START,
    WALL,
    ZONES,
    Maze,
    Rules,
    UnreadableRoute,
    fitness_of,
    parse_moves,
    rewards_of,
    simulate,
)
from problems.maze.generator import (
    attempt_maze,
    generate_maze,
)
from problems.maze.optimum import best_route, fewest_steps, optimum
from problems.maze.planner import Planner, moves_between
from problems.maze.problem import TOLERANCE, MazeProblem
from problems.maze.sets import SETS, held_out_tiles, problem_set, stored_instances


def test_the_seeds_of_the_paper_give_known_boards():
    """Pinned: the draws come in the order of the authors' generator, so these are their boards."""
    maze = attempt_maze(random.Random(4242))
    assert maze is not None and maze.budget == 27
    assert " ".join(maze.rows()) == (
        "S......D. #.#....DD ..##....D .#L...L#. ....B.... .....L... G........ GG....... GG....#.E"
    )


@pytest.mark.parametrize("tiles", ["S..", "S...E...X", "S.......S", "........E"])
def test_a_board_that_is_none_is_refused(tiles):
    with pytest.raises(ValueError):
        Maze(tiles, 5, 3)


# S . G .
# # L # D
# . G . L
# B . D E
HAND = Maze.from_rows(["S.G.", "#L#D", ".G.L", "B.DE"], budget=9)


@pytest.mark.parametrize(
    ("moves", "cells", "rewards"),
    [
        ("RDDDRR", (0, 1, 5, 9, 13, 14, 15), (1.0, 0.5, 0.5, 0.5)),  # lava at (1,1), gold at (2,1), diamond at (3,2)
        ("RRRDDD", (0, 1, 2, 3, 7, 11, 15), (1.0, 0.5, 0.5, 0.5)),  # the other gold
        ("RRRDDDUUU", (0, 1, 2, 3, 7, 11, 15), (1.0, 0.5, 0.5, 0.5)),  # the walk ends at E
        ("RRLRRDDD", (0, 1, 2, 1, 2, 3, 7, 11, 15), (1.0, 0.5, 0.5, 0.5)),  # an item counts once
    ],
)
def test_a_walk_is_worth_what_it_takes(moves, cells, rewards):
    walk = simulate(HAND, moves)
    assert walk.cells == cells and walk.reached and walk.bumps == () and walk.steps == len(cells) - 1
    assert walk.collected == (1, 1) and walk.lava == 1 and walk.rewards == rewards
    assert fitness_of(walk.rewards) == 0.625


def test_walls_and_the_border_block_and_cost_a_step():
    walk = simulate(HAND, "UDLRRRDDD")
    assert walk.bumps == (1, 2, 3)
    assert walk.reached and walk.steps == 9
    assert simulate(HAND, "UDLURRRDDD").rewards == (0.0, 0.0, 0.0, 0.0)  # one bump more than the budget has room for


def test_all_is_zero_without_the_exit_but_the_counts_are_told():
    walk = simulate(HAND, "RR")
    assert not walk.reached and walk.collected[0] == 1 and walk.rewards == (0.0,) * 4
    assert simulate(HAND, "").rewards == (0.0,) * 4


def test_the_bonus_tile_changes_nothing():
    plain = Maze(HAND.tiles.replace(BONUS, "."), HAND.budget, HAND.size)
    route = "RDDDLRRR"
    assert 12 in simulate(HAND, route).cells
    assert simulate(HAND, route).rewards == simulate(plain, route).rewards


def test_a_board_without_items_pays_completion_and_safety():
    maze = Maze.from_rows(["S.", ".E"], budget=2)
    assert simulate(maze, "RD").rewards == (1.0, 0.0, 0.0, 1.0)
    assert not {GOLD, DIAMOND, LAVA} & set(maze.tiles)


# S J P
# G # L
# D . E
SEVEN = Maze.from_rows(["SJP", "G#L", "D.E"], budget=8, rules=ZONES)


def test_four_treasures_safety_and_thrift_are_paid():
    assert simulate(SEVEN, "RRDD").rewards == (1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0)  # by the lava, 4 steps are the fewest
    assert simulate(SEVEN, "DDRR").rewards == (1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0)
    assert simulate(SEVEN, "RRLLDDRR").rewards == (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0)  # all, and the whole budget
    assert simulate(SEVEN, "RLDDRR").rewards == (1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.5)
    assert simulate(SEVEN, "UDDRR").rewards[-1] == 0.75  # a bump is a step
    assert simulate(SEVEN, "DD").rewards == (0.0,) * 7 and simulate(SEVEN, "DD").collected == (1, 1, 0, 0)


def test_a_budget_without_a_spare_step_leaves_thrift_whole():
    maze = Maze("S..E", 2, 2, ZONES)
    assert simulate(maze, "RD").rewards[-1] == 1.0


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
    assert fewest_steps(maze).keys() == counts
    assert optimum(maze) == pytest.approx(max(map(fitness_of, vectors), default=0.0))
    assert fitness_of(simulate(maze, best_route(maze)).rewards) == pytest.approx(optimum(maze))
    assert front(vectors) == front(outcome_vectors(maze))
    plain = MazeProblem("m", maze, optimum(maze))
    for weights in np.random.default_rng(seed).dirichlet(np.ones(len(plain.objectives)), 5).tolist():
        problem = plain.weighted(dict(zip(plain.objectives, weights, strict=True)))
        best = max((fitness_of(vector, weights) for vector in vectors), default=0.0)
        assert problem.target == pytest.approx(best - TOLERANCE, abs=1e-12)
        assert plain.target_under(weights) == pytest.approx(problem.target, abs=1e-12)
        assert not best or problem.score(problem.known_answers(0)[0]).fitness >= problem.target


def outcome_vectors(maze: Maze) -> set[tuple[float, ...]]:
    return {rewards_of(maze, counts[:-1], counts[-1], steps) for counts, steps in fewest_steps(maze).items()}


def front(vectors: Collection[tuple[float, ...]]) -> set[tuple[float, ...]]:
    """Those that none dominates."""
    return {v for v in vectors if not any(w != v and all(a >= b for a, b in zip(w, v, strict=True)) for w in vectors)}


def lava_of(maze: Maze, rewards: tuple[float, ...]) -> int:
    return round((1 - rewards[len(maze.treasures) + 1]) * len(maze.lava))


def test_the_best_route_is_a_shortest_one():
    maze = Maze.from_rows(["S.G", "...", "..E"], budget=8)
    assert len(best_route(maze)) == 4 and simulate(maze, best_route(maze)).collected == (1, 0)


PROBLEM = MazeProblem("maze:hand/0", HAND, optimum(HAND))


@pytest.mark.parametrize(
    "text",
    [
        "RRD",
        "R, R, D",
        "rrd",
        "right right down",
        "Right, RIGHT then".replace(" then", ", Down"),
        "→ → ↓",
        "➡️➡️⬇️",
        "R R D\n",
        "['R', 'R', 'D']",
        "1. R 2. R 3. D",
        "R-R-D",
        "R; R | D.",
        "RR down",
    ],
)
def test_moves_are_read_in_many_hands(text):
    assert parse_moves(text) == "RRD"
    assert PROBLEM.canonical(text) == "RRD"


@pytest.mark.parametrize("text", ["", "   ", "go right", "R3", "RRX", "E", "123", "R" * 5 + "!", "\x00", "ÜR", "ﬀ"])
def test_what_is_no_route_is_an_error_of_the_answer(text):
    with pytest.raises(UnreadableRoute):
        parse_moves(text)
    assert PROBLEM.canonical(text) == text
    score = PROBLEM.score(text).check(PROBLEM)
    assert score.error and score.rewards == (0.0,) * 4 and score.fitness == 0.0


def test_an_endless_answer_is_refused_or_read_at_once():
    def score() -> None:
        assert PROBLEM.score("right " * MOST_CHARACTERS).error
        assert PROBLEM.score("(" * 10_000_000).error
        assert PROBLEM.score("R" * 1_000_000).error is None

    assert run_limited(score) == DONE


def test_score_features_and_fitness():
    score = PROBLEM.score("RDDDRR").check(PROBLEM)
    assert score.rewards == (1.0, 0.5, 0.5, 0.5) and score.fitness == 0.625 and score.error is None
    assert score.features == {"gold": 0.5, "diamond": 0.5, "length": 6 / 9}
    stopped = PROBLEM.score("RR").check(PROBLEM)
    assert stopped.fitness == 0.0 and stopped.error is None
    assert stopped.features == {"gold": 0.5, "diamond": 0.0, "length": 2 / 9}


def test_the_optimum_solves_and_less_does_not():
    for problem in problem_set("maze:test", 10):
        route = best_route(problem.maze)
        assert problem.score(route).fitness >= problem.target
        assert problem.score(route[:-1]).fitness < problem.target
    assert PROBLEM.score(best_route(HAND)).fitness >= PROBLEM.target


def test_feedback_says_what_happened():
    assert PROBLEM.score("UDRRRDDD").feedback == (
        "Hit a wall at step 1 (U), step 2 (D); collected 1/2 gold and 1/2 diamonds, stepped on 1/2 lava; "
        "reached E in 8 of 9 steps."
    )
    assert PROBLEM.score("RD").feedback == (
        "Collected 0/2 gold and 0/2 diamonds, stepped on 1/2 lava; the moves ended at row 2, column 2 of 4 "
        "(counted from the top left), 4 steps from E, so everything scores zero."
    )
    assert "and 6 more times" in PROBLEM.score("U" * 9).feedback
    assert "the 9 steps were used up" in PROBLEM.score("U" * 12).feedback
    assert "the last 2 moves came after E" in PROBLEM.score("RRRDDDUU").feedback


def test_the_statement_shows_the_board_and_sells_the_bonus():
    problem = problem_set("maze:test/0")[0]
    text = problem.statement()
    assert "\n".join(" ".join(row) for row in problem.maze.rows()) in text
    assert f"{problem.maze.budget} steps" in text and "bonus" in text.lower()
    assert all(word in text for word in ("U (up)", "D (down)", "L (left)", "R (right)", "completion", "safety"))
    assert "<route" not in text  # the tags belong to the chain's prompt
    example = text.rsplit(":", 1)[1]
    assert set(parse_moves(example)) == set("RDL")


def test_a_large_maze_states_scores_and_tells_seven_components():
    rows = ["SJP..", "G#L..", "D..#.", "...G.", "P.J.E"]
    maze = Maze.from_rows(rows, budget=12, rules=ZONES)
    problem = MazeProblem("maze:seven/0", maze, optimum(maze))
    assert problem.objectives == ZONES.objectives
    text = problem.statement()
    assert "\n".join(" ".join(row) for row in rows) in text and "bonus" not in text.lower()
    assert (
        "2 gold, 1 diamond, 2 jade, 2 pearl and 1 lava tiles" in text and "G gold, D diamond, J jade, P pearl" in text
    )
    assert text.count("Seven scores") == 1 and "8 steps, down to 0 for one of 12" in text
    assert all(name in text for name in problem.objectives) and max(map(len, text.splitlines())) <= 120
    score = problem.score("DDRRDDRR").check(problem)
    assert score.rewards == (1.0, 0.5, 1.0, 0.5, 0.0, 1.0, 1.0) and score.fitness == pytest.approx(5 / 7)
    assert score.features == {"gold": 0.5, "diamond": 1.0, "others": 0.25}
    assert score.feedback == (
        "Collected 1/2 gold, 1/1 diamonds, 1/2 jade and 0/2 pearls, stepped on 0/1 lava; reached E in 8 of 12 steps."
    )
    assert problem.score("no").rewards == (0.0,) * 7
    assert problem.fingerprint() != MazeProblem("maze:four/0", Maze(maze.tiles, 12, 5), 0.5).fingerprint()


def digest(name: str, limit: int | None = None) -> str:
    problems = problem_set(f"maze:{name}", limit)
    text = "\n".join(f"{p.maze.tiles} {p.maze.budget} {p.optimum!r}" for p in problems)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


PINNED = {
    "train": (1000, "564651f9269e01de", "5c2f0c0d697b547a"),
    "test": (100, "f252ec4799556f33", "c4a92bfa84faa33d"),
    "hard": (1000, "ac8ec7f7f7c2288a", "9f8d9c34d1542eeb"),
    "compromise": (2000, "43ab04b17188cce7", "04fb930bf6a02f59"),
    "large": (100, "a0ca84ce79139cfd", "173826f63cca3891"),
    "large-train": (1000, "20eb5f24377bbccc", "b76054a6ab25b354"),
    "compromise-train": (1000, "808c97f125aad888", "6c03713ca8b72dd3"),
}
"""Results were measured on these sets: their sizes, the digest of all boards, and of the first 50."""


@pytest.mark.parametrize("name", PINNED)
def test_the_first_boards_of_a_set_and_all_its_seeds_are_pinned(name):
    assert len(stored_instances()[name]) == SETS[name][0] == PINNED[name][0] and digest(name, 50) == PINNED[name][2]
    stored = hashlib.sha256(repr(stored_instances()).encode()).hexdigest()
    assert stored[:16] == "e517bad9507d3fb8"


@pytest.mark.long
@pytest.mark.parametrize("name", PINNED)
def test_all_boards_of_a_set_are_pinned(name):
    assert digest(name) == PINNED[name][1]


@pytest.mark.long
def test_no_board_is_in_two_sets():
    assert len(held_out_tiles()) == sum(size for size, *_ in SETS.values())


@pytest.mark.parametrize("name", PINNED)
def test_the_stored_optimum_is_that_of_the_board(name):
    for problem in random.Random(name).sample(problem_set(f"maze:{name}"), 4):
        assert optimum(problem.maze) == problem.optimum


def test_planner_routes_reach_the_exit_within_the_budget_and_differ():
    rng = random.Random(5)
    for seed in range(30):
        maze = generate_maze(random.Random(9_000_000 + seed))
        planner = Planner(maze)
        routes = [moves_between(maze, planner.route(rng)) for _ in range(20)]
        assert all(simulate(maze, route).reached and simulate(maze, route).steps == len(route) for route in routes)
        assert len(set(routes)) > 5
