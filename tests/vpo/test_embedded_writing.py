"""Routes written in the maze languages are read back as what they were."""

import random

import pytest

from problems.maze import problem_set
from problems.maze.planner import Planner, moves_between
from vpo.embedded import prompt_text, routes
from vpo.embedded.dialects import write_routes
from vpo.embedded.lessons import edit
from vpo.embedded.words import DIALECT, EDIT_DIALECT, MOST_NEW


@pytest.mark.parametrize("name", ["maze:train/3", "maze:large-train/1"])
def test_an_edit_is_written_as_one_and_read_as_the_whole_route(name):
    rng = random.Random(0)
    (problem,) = problem_set(name)
    planner = Planner(problem.maze)
    shorter = 0
    for _ in range(60):
        parent = planner.route(rng)
        found = edit(planner, parent, rng, MOST_NEW)
        if found is None:
            continue
        child = moves_between(problem.maze, found.applied(parent))
        prompt = prompt_text(problem, moves_between(problem.maze, parent), dialect=EDIT_DIALECT)
        text = write_routes(problem.maze, [child], prompt, EDIT_DIALECT)
        assert text is not None and routes(text, prompt) == [child]
        shorter += len(text.split()) < len(child)
    assert shorter > 40


def test_what_needs_too_many_new_steps_cannot_be_said():
    rng = random.Random(1)
    (problem,) = problem_set("maze:large-train/1")
    planner = Planner(problem.maze)
    texts = []
    for _ in range(40):
        parent, other = (moves_between(problem.maze, planner.route(rng)) for _ in range(2))
        prompt = prompt_text(problem, parent, dialect=EDIT_DIALECT)
        texts.append(write_routes(problem.maze, [other], prompt, EDIT_DIALECT))
    assert None in texts


def test_several_routes_are_a_chain_and_bumps_are_kept():
    (problem,) = problem_set("maze:train/3")
    routes_of = ["UU" + moves_between(problem.maze, Planner(problem.maze).route(random.Random(n))) for n in range(3)]
    prompt = prompt_text(problem)
    text = write_routes(problem.maze, routes_of, prompt, DIALECT)
    assert text is not None and routes(text, prompt) == routes_of
