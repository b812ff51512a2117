"""The sets: the paper's seeds, hard mazes by the planner alone, the shipped file against a fresh drawing."""

import hashlib
import random

import pytest
from support.run_limited import DONE, run_limited

from problems.contract import BadAddress
from problems.maze.board import fitness_of, rewards_of, simulate
from problems.maze.generator import attempt, attempt_large, generate
from problems.maze.optimum import best_route, optimum, outcomes
from problems.maze.planner import Planner, moves_between, tries_to_reach
from problems.maze.sets import (
    FIRST_SEED,
    HARD_TRIES,
    ONE_ZONE,
    SIZES,
    belongs,
    draw_set,
    held_out_tiles,
    problem_set,
    stored_instances,
)


def digest(name: str, limit: int | None = None) -> str:
    problems = problem_set(f"maze:{name}", limit)
    text = "\n".join(f"{p.maze.tiles} {p.maze.budget} {p.optimum!r}" for p in problems)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("name", "size", "pinned"),
    [
        ("train", 1000, "564651f9269e01de"),
        ("test", 100, "f252ec4799556f33"),
        ("hard", 1000, "ac8ec7f7f7c2288a"),
        ("compromise", 2000, "43ab04b17188cce7"),
        ("large", 100, "a0ca84ce79139cfd"),
        ("large-train", 1000, "20eb5f24377bbccc"),
        ("compromise-train", 1000, "808c97f125aad888"),
    ],
)
def test_sets_are_pinned(name, size, pinned):
    assert len(problem_set(f"maze:{name}")) == size
    assert digest(name) == pinned


def test_what_results_were_measured_on_stays():
    assert digest("hard", 200) == "b0368ff60484b396" and digest("compromise", 100) == "5f0f9c31c2891b10"
    assert digest("compromise", 1000) == "254e30e9a963d873"


def test_no_board_is_in_two_sets():
    assert len(held_out_tiles()) == sum(SIZES.values())


def test_names_and_limits():
    assert [p.name for p in problem_set("maze:hard", 3)] == ["maze:hard/0", "maze:hard/1", "maze:hard/2"]
    assert len(problem_set("maze:test", 1000)) == 100
    (one,) = problem_set("maze:test/17")
    assert one is problem_set("maze:test")[17]


@pytest.mark.parametrize(
    "address", ["maze:none", "maze:test/100", "maze:test/x", "maze:test/-1", "maze:", "maze:test/"]
)
def test_a_wrong_address_is_one_clear_line(address):
    with pytest.raises(BadAddress) as caught:
        problem_set(address)
    assert "\n" not in str(caught.value) and "maze:t" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("train", 25),
        ("test", 25),
        ("hard", 25),
        ("compromise", 6),
        ("compromise-train", 6),
        ("large", 12),
        ("large-train", 12),
    ],
)
def test_the_shipped_file_is_what_drawing_gives(name, first):
    shipped = stored_instances()[name]
    assert [[seed, best] for seed, _, best in draw_set(name, first)] == shipped[:first]
    draw = attempt_large if "large" in name else attempt
    for seed, best in random.Random(name).sample(shipped, 12 if "large" in name else 20):
        maze = draw(random.Random(seed))
        assert maze is not None and optimum(maze) == best
        assert seed >= FIRST_SEED[name]


@pytest.mark.parametrize("name", ["compromise", "compromise-train"])
def test_the_optimum_of_a_compromise_takes_items_of_both_zones_and_leaves_some(name):
    for problem in random.Random(name).sample(problem_set(f"maze:{name}"), 20):
        maze = problem.maze
        earned = {counts: fitness_of(rewards_of(maze, counts[:2], counts[2], 0)) for counts in outcomes(maze)}
        best = [counts for counts, fitness in earned.items() if fitness >= problem.target]
        assert best and all(gold and diamond for gold, diamond, _ in best)
        assert not any(counts[:2] == tuple(map(len, maze.treasures)) for counts in best)
        assert max(earned[counts] for counts in earned if not counts[0] or not counts[1]) <= ONE_ZONE


def test_a_board_whose_best_routes_stay_in_one_zone_is_no_compromise():
    plain = next(p for p in problem_set("maze:test") if p.optimum <= ONE_ZONE)
    mixed = next(p for p in problem_set("maze:test") if p.optimum > ONE_ZONE)
    assert not belongs("compromise", plain.maze, plain.optimum, 0) and belongs("test", plain.maze, plain.optimum, 0)
    assert belongs("compromise-train", mixed.maze, mixed.optimum, 0)


@pytest.mark.long
def test_the_planner_misses_the_hard_ones_and_not_the_rest():
    for problem, (seed, _) in list(zip(problem_set("maze:hard"), stored_instances()["hard"], strict=True))[::50]:
        assert tries_to_reach(problem.maze, problem.target, HARD_TRIES, random.Random(f"planner {seed}")) is None
    easy = [tries_to_reach(p.maze, p.target, HARD_TRIES, random.Random(1)) for p in problem_set("maze:test")]
    assert 60 < sum(found is not None for found in easy) < 95


def test_planner_routes_reach_the_exit_within_the_budget_and_differ():
    rng = random.Random(5)
    for seed in range(30):
        maze = generate(random.Random(9_000_000 + seed))
        planner = Planner(maze)
        routes = [moves_between(maze, planner.route(rng)) for _ in range(20)]
        assert all(simulate(maze, route).reached and simulate(maze, route).steps == len(route) for route in routes)
        assert len(set(routes)) > 5


def test_large_mazes_are_not_solved_in_one_go_and_a_solver_solves_them():
    """30 routes of the planner are what one-shot planning may try."""
    problems = problem_set("maze:large")
    found = [tries_to_reach(p.maze, p.target, 30, random.Random(f"one shot {p.name}")) for p in problems]
    assert sum(tries is not None for tries in found) <= 4
    for problem in problems[::20]:
        assert problem.score(best_route(problem.maze)).fitness >= problem.target


def test_a_set_is_loaded_from_its_file_and_not_drawn_again():
    assert run_limited(lambda: problem_set("maze:train")) == DONE  # drawing it takes minutes
