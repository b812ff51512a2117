"""What the detail of a screen says of a problem and of where its answer came from."""

import pytest

from evo.monitor.answer import statement_of, walk_of
from evo.monitor.poller import Poller
from islands.store import Store
from islands.types import ProblemRecord
from problems.registry import resolve


def record(address, fingerprint=None):
    return ProblemRecord(
        1, 1, 0, address, address, ("a",), 1.0, "route", "running", "", None, None, None, None, fingerprint
    )


def test_a_maze_with_its_board():
    (problem,) = resolve("maze:hard/5")
    stated = statement_of(record("maze:hard/5", problem.fingerprint()))
    assert stated.text == problem.statement() and stated.board == problem.maze
    walk = walk_of(stated.board, "RRXX not a route")
    assert walk.cells == (problem.maze.start,) and walk.rows == tuple(problem.maze.rows())
    move = next(m for m in "UDLR" if problem.maze.after[problem.maze.start][m] != problem.maze.start)
    assert walk_of(stated.board, move).cells == (problem.maze.start, problem.maze.after[problem.maze.start][move])


@pytest.mark.parametrize(
    "given",
    [
        record("maze:hard/5", "another scorer's"),
        record("maze:gone/5"),
        record("maze:hard"),  # more than one
        record("/tmp/scorer.py"),  # somebody's code, which watching must not run
        record("examples/valley"),
    ],
)
def test_nothing_is_said_of_what_was_not_searched(given):
    assert statement_of(given).text == "" and statement_of(given).board is None


def test_a_program_has_a_statement_and_no_board():
    stated = statement_of(record("programs:shipped/0"))
    assert stated.text and stated.board is None


def test_the_detail_has_the_prompt_and_the_whole_text(tmp_path, search_with, digits, digits_policy):
    db = f"sqlite:///{tmp_path}/evo.db"
    search_with([digits("a")], digits_policy(), db, iterations=5)
    with Store.open(db, read_only=True) as store:
        poller = Poller(store, "run")
        poller.poll()
        poller.look(0, "run")
        (found,) = poller.poll().details.values()
    assert found.stored.iteration is not None and found.answer.candidate.text in found.origin.chain
    assert "eight digits" in found.origin.user and found.walk is None and found.statement == ""
    assert found.origin.place >= 0
