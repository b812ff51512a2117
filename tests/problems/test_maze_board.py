"""The generator's promises on hundreds of boards, and walks worked by hand."""

import hashlib
import random

import pytest

from problems.maze.board import BONUS, DIAMOND, GOLD, LAVA, PAPER, WALL, ZONES, Maze, fitness_of, simulate
from problems.maze.generator import SLACK, attempt, generate

BOARDS = [generate(random.Random(seed)) for seed in range(7_000_000, 7_000_400)]
CORNERS = (0, 8, 72, 80)


def apart(a: int, b: int) -> int:
    return abs(a // 9 - b // 9) + abs(a % 9 - b % 9)


def zone_corners(maze: Maze) -> tuple[int, int]:
    """(gold corner, diamond corner), by where the items lie."""
    others = [c for c in CORNERS if c not in (maze.start, maze.end)]
    others.sort(key=lambda corner: apart(corner, maze.cells(GOLD)[0]))
    return others[0], others[1]


def test_start_and_end_are_opposite_corners_and_every_diagonal_and_direction_occurs():
    assert all(maze.start in CORNERS and maze.start + maze.end == 80 for maze in BOARDS)
    # S is drawn at the top only: the diagonal is random, its direction is not
    assert {(maze.start, maze.end) for maze in BOARDS} == {(0, 80), (8, 72)}


def test_gold_and_diamonds_lie_near_the_two_other_corners():
    sides = set()
    for maze in BOARDS:
        gold_corner, diamond_corner = zone_corners(maze)
        sides.add(gold_corner)
        gold, diamond = maze.treasures
        assert 3 <= len(gold) <= 5 and 3 <= len(diamond) <= 5
        assert all(apart(cell, gold_corner) <= 2 for cell in gold)
        assert all(apart(cell, diamond_corner) <= 2 for cell in diamond)
    assert sides == set(CORNERS)


def test_lava_lies_inside_and_the_bonus_in_the_centre():
    for maze in BOARDS:
        assert maze.cells(BONUS) == (40,)
        assert 3 <= len(maze.lava) <= 5
        assert all(2 <= cell // 9 <= 6 and 2 <= cell % 9 <= 6 for cell in maze.lava)


def test_budget_fits_each_corner_and_a_safe_path_and_never_both_corners():
    for maze in BOARDS:
        gold, diamond = zone_corners(maze)
        to_gold, to_diamond = maze.distances(gold), maze.distances(diamond)
        detours = to_gold[maze.start] + to_gold[maze.end], to_diamond[maze.start] + to_diamond[maze.end]
        assert min(detours) >= 16
        assert maze.budget == max(detours) + SLACK
        assert to_gold[maze.start] + to_gold[diamond] + to_diamond[maze.end] > maze.budget
        assert to_diamond[maze.start] + to_gold[diamond] + to_gold[maze.end] > maze.budget
        assert 16 <= maze.distances(maze.end, frozenset(maze.lava))[maze.start] <= maze.budget


def test_most_walls_are_opened_and_their_number_varies():
    walls = [maze.tiles.count(WALL) for maze in BOARDS]
    assert 0 <= min(walls) <= 1 and 10 <= max(walls) <= 20
    assert 4 < sum(walls) / len(walls) < 7


def test_the_seeds_of_the_paper_give_known_boards():
    """Pinned: the draws come in the order of the authors' generator, so these are their boards."""
    maze = attempt(random.Random(4242))
    assert maze is not None and maze.budget == 27
    assert " ".join(maze.rows()) == (
        "S......D. #.#....DD ..##....D .#L...L#. ....B.... .....L... G........ GG....... GG....#.E"
    )
    digest = hashlib.sha256(repr([(m.tiles, m.budget) for m in BOARDS]).encode()).hexdigest()
    assert digest[:16] == "113fda8c61bdcdb4"


def test_a_draw_that_fails_a_condition_is_none_and_generate_goes_on():
    draws = [attempt(random.Random(seed)) for seed in range(300)]
    refused = sum(maze is None for maze in draws)
    assert 0 < refused < 90
    rng = random.Random(next(seed for seed, maze in enumerate(draws) if maze is None))
    assert generate(rng).budget >= 23


@pytest.mark.parametrize("tiles", ["S..", "S...E...X", "S.......S", "........E"])
def test_a_board_that_is_none_is_refused(tiles):
    with pytest.raises(ValueError):
        Maze(tiles, 5, 3)


# S . G .
# # L # D
# . G . L
# B . D E
HAND = Maze.from_rows(["S.G.", "#L#D", ".G.L", "B.DE"], budget=9)


def test_a_walk_with_gold_and_lava():
    walk = simulate(HAND, "RDDDRR")  # lava at (1,1), gold at (2,1), diamond at (3,2), then E
    assert walk.cells == (0, 1, 5, 9, 13, 14, 15)
    assert walk.reached and walk.bumps == () and walk.steps == 6
    assert walk.collected == (1, 1) and walk.lava == 1
    assert walk.rewards == (1.0, 0.5, 0.5, 0.5)
    assert fitness_of(walk.rewards) == 0.625


def test_a_walk_along_the_border_takes_the_other_gold():
    walk = simulate(HAND, "RRRDDD")
    assert walk.cells == (0, 1, 2, 3, 7, 11, 15)
    assert walk.rewards == (1.0, 0.5, 0.5, 0.5)


def test_walls_and_the_border_block_and_cost_a_step():
    walk = simulate(HAND, "UDLRRRDDD")
    assert walk.bumps == (1, 2, 3)
    assert walk.reached and walk.steps == 9
    assert simulate(HAND, "UDLURRRDDD").rewards == (0.0, 0.0, 0.0, 0.0)  # one bump more than the budget has room for


def test_an_item_counts_once():
    walk = simulate(HAND, "RRLRRDDD")
    assert walk.reached and walk.collected[0] == 1
    assert simulate(HAND, "RDUDUD").lava == 1


def test_all_is_zero_without_the_exit_but_the_counts_are_told():
    walk = simulate(HAND, "RR")
    assert not walk.reached and walk.collected[0] == 1 and walk.rewards == (0.0,) * 4
    assert simulate(HAND, "").rewards == (0.0,) * 4


def test_the_walk_ends_at_the_exit():
    assert simulate(HAND, "RRRDDDUUU").steps == 6
    assert simulate(HAND, "RRRDDDUUU").rewards == simulate(HAND, "RRRDDD").rewards


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


def test_the_rules_name_the_components():
    assert PAPER.objectives == ("completion", "gold", "diamond", "safety")
    assert ZONES.objectives == ("completion", "gold", "diamond", "jade", "pearl", "safety", "thrift")


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
