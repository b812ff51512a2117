"""Reading routes, scoring them, and what is said about them."""

import math
import time

import pytest
from support.run_limited import DONE, run_limited

from problems.contract import Problem
from problems.maze import MazeProblem, problem_set
from problems.maze.board import MOST_CHARACTERS, ZONES, Maze, UnreadableRoute, parse_moves
from problems.maze.optimum import best_route, optimum

HAND = Maze.from_rows(["S.G.", "#L#D", ".G.L", "B.DE"], budget=9)
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


def test_the_contract():
    problem = problem_set("maze:test/17")[0]
    assert isinstance(problem, Problem)
    assert problem.name == "maze:test/17" and problem.answer_format == "route" and problem.seed_answer() == ""
    assert problem.objectives == ("completion", "gold", "diamond", "safety")
    assert 0 < problem.optimum - problem.target < 1e-8


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


def test_scoring_is_quick():
    problem = problem_set("maze:test/0")[0]
    route = best_route(problem.maze)
    problem.score(route)
    best = math.inf
    for _ in range(5):
        started = time.process_time()
        for _ in range(200):
            problem.score(route)
        best = min(best, (time.process_time() - started) / 200)
    assert best < 200e-6
