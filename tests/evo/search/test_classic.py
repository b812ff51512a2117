"""`scripted:classic` on the prompts that a search gives it."""

from __future__ import annotations

import asyncio

import pytest

from evo.config.run import PromptConfig
from evo.prompts.chat import ChatFormat
from islands.types import Candidate, Selection
from problems.identity import kept
from problems.maze.board import Maze, simulate
from problems.maze.optimum import optimum
from problems.maze.problem import MazeProblem
from problems.maze.sets import problem_set
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.registry import policy_at


def answers_of(problem: MazeProblem, parent: str | None, stream: int = 0) -> list[str]:
    style = ChatFormat(problem, PromptConfig(), 3)
    shown = None
    if parent is not None:
        score = problem.score(parent)
        shown = Candidate(1, parent, score.rewards, score.fitness, score.features, score.feedback, None, 0, 0, None)
    selection = Selection(shown, (), ())
    prompt = style.build(selection, stream)
    ((rollout,),) = asyncio.run(policy_at("scripted:classic").sample([prompt], rollouts=1, answers=3, seed=0))
    return list(style.parse(rollout, selection).answers)


@pytest.mark.parametrize("board", ["test", "large"])
def test_its_answers_reach_the_exit_and_keep_most_of_the_parent_that_is_shown(board: str) -> None:
    shares = {True: 0.0, False: 0.0}
    for i, problem in enumerate(problem_set(f"maze:{board}", 10)):
        parent = answers_of(problem, None, 1000 + i)[0]
        for shown in shares:
            answers = answers_of(problem, parent if shown else None, i)
            assert answers and all(simulate(problem.maze, moves).reached for moves in answers)
            shares[shown] += sum(sum(kept(parent, moves)) for moves in answers) / len(answers) / 10
    assert shares[True] > shares[False] + 0.15


def test_a_parent_with_bumps_and_one_that_fails_are_read() -> None:
    (problem,) = problem_set("maze:test", 1)  # S at the top left, walls below 00 and 02
    for parent in ("URRDRDDRRDRRRDDDDDD", "RRDR"):
        assert all(simulate(problem.maze, moves).reached for moves in answers_of(problem, parent))


def test_boards_of_any_size_are_read() -> None:
    rows = ["S . . G", ". # . .", ". L # .", "D . . E"]
    maze = Maze.from_rows(rows, 10)
    problem = MazeProblem("own", maze, optimum(maze))
    assert all(simulate(maze, moves).reached for moves in answers_of(problem, None))


def test_what_is_no_maze_is_refused() -> None:
    policy = policy_at("scripted:classic")
    with pytest.raises(PolicyUnavailable, match="only mazes"):
        asyncio.run(policy.sample([Prompt("Write a program.")], rollouts=1, answers=1, seed=0))
