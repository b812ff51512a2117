"""What the detail of a screen says of a problem and of where its answer came from."""

import pytest

from evo.progress.answer import Statement, statement_of
from evo.progress.model import Progress
from islands.store import Store
from islands.types import ProblemRecord
from problems.maze.optimum import best_route
from problems.registry import resolve


def record(address, fingerprint=None, objectives=("a",)):
    return ProblemRecord(
        1, 1, 0, address, address, objectives, 1.0, "route", "running", "", None, None, None, None, fingerprint
    )


def test_a_maze_with_a_picture_of_the_answer():
    (problem,) = resolve("maze:hard/5")
    given = record("maze:hard/5", problem.fingerprint(), problem.objectives)
    rows = statement_of(given, "RRXX not a route").picture.splitlines()
    assert statement_of(given).text == problem.statement()
    assert len(rows) == problem.maze.size and {len(row) for row in rows} == {3 * problem.maze.size}
    assert sum(row.count("[") for row in rows) == 1, "only the start is on the route of an unreadable answer"
    route = statement_of(given, best_route(problem.maze)).picture
    assert "[S]" in route and "[E]" in route and any(arrow in route for arrow in "→←↑↓")


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
    assert statement_of(given, "x") == Statement()


def test_a_program_has_a_statement_and_no_picture():
    (problem,) = resolve("programs:shipped/0")
    stated = statement_of(record(problem.name, objectives=problem.objectives), "pass")
    assert stated.text and not stated.picture


def test_the_detail_has_the_prompt_and_the_whole_text(small):
    with Store.open(small, read_only=True) as store:
        found = Progress.open(store, "run").best(0, "run")
    assert found.stored.iteration is not None and found.answer.candidate.text in found.origin.chain
    assert "eight digits" in found.origin.user and found.stated == Statement()
    assert found.origin.place >= 0
