"""What the generator of large mazes promises, on dozens of boards."""

import hashlib
import random

from problems.maze.board import BONUS, END, START, ZONES
from problems.maze.generator import APART, IN_REACH, LAVA_TILES, LEAST_SPARE, attempt_large, generate
from problems.maze.generator import LARGE_SIZE as SIZE
from problems.maze.generator import ZONE_ITEMS as ITEMS
from problems.maze.optimum import fewest_steps

BOARDS = [generate(random.Random(seed), SIZE, attempt_large) for seed in range(7_100_000, 7_100_060)]
LAST = SIZE - 1


def apart(a: int, b: int) -> int:
    return abs(a // SIZE - b // SIZE) + abs(a % SIZE - b % SIZE)


def test_start_and_end_are_opposite_corners():
    assert {(maze.start, maze.end) for maze in BOARDS} == {(0, SIZE**2 - 1), (LAST, SIZE * LAST)}


def test_every_treasure_lies_in_a_zone_of_its_own_that_can_be_walked_to():
    for maze in BOARDS:
        assert maze.rules is ZONES and maze.size == SIZE and BONUS not in maze.tiles
        assert [len(cells) for cells in maze.treasures] == [ITEMS] * 4 and len(maze.lava) == LAVA_TILES
        for cells in maze.treasures:
            assert all(apart(a, b) <= 4 for a in cells for b in cells)  # two cells of radius 2
            assert all(maze.to_end[cell] > 0 for cell in cells)
            assert all(min(apart(cell, maze.start), apart(cell, maze.end)) >= APART - 2 for cell in cells)
        assert not any(apart(lava, end) <= 1 for lava in maze.lava for end in (maze.start, maze.end))


def test_the_budget_leaves_steps_to_weigh_up_and_never_fits_all_four_zones():
    for maze in BOARDS:
        assert maze.budget - maze.shortest >= LEAST_SPARE
    assert len({maze.budget for maze in BOARDS}) > 2
    for maze in BOARDS[:12]:
        found = [counts[:-1] for counts in fewest_steps(maze)]
        assert (ITEMS,) * 4 not in found
        assert any(sum(count > 0 for count in counts) >= IN_REACH for counts in found)


def test_the_seeds_give_known_boards():
    digest = hashlib.sha256(repr([(m.tiles, m.budget) for m in BOARDS]).encode()).hexdigest()
    assert digest[:16] == "d642e81aed136c3e"
    assert all(maze.tiles.count(START) == maze.tiles.count(END) == 1 for maze in BOARDS)


def test_a_draw_that_fails_a_condition_is_none():
    refused = sum(attempt_large(random.Random(seed)) is None for seed in range(100))
    assert 10 < refused < 80
