"""Parts of a snapshot: when a comparison has ended, what is known of a problem, and where its answer came from."""

from dataclasses import replace

import pytest
from support.run_records import run_record

from evo.progress import answer as answers
from evo.progress.answer import Statement, best_known_of, describe_best_known, statement_of
from evo.progress.model import Progress
from evo.progress.snapshot import ArmSnapshot, Snapshot
from islands.store import Store
from islands.types import ProblemRecord
from problems.contract import Problem, Score
from problems.maze.optimum import best_route
from problems.registry import resolve


@pytest.mark.parametrize(
    ("statuses", "ended"),
    [
        ({"done": 2}, True),
        ({"running": 1, "done": 1}, False),
        ({"failed": 1, "waiting": 1}, False),  # between two batches of seeds
        ({"interrupted": 1, "waiting": 1}, True),
        ({"failed": 1, "done": 1}, True),
        ({}, False),
    ],
)
def test_a_comparison_ends_with_its_last_batch(statuses, ended):
    runs = tuple(run_record(status=status) for status, count in statuses.items() for _ in range(count))
    assert Snapshot("both", (ArmSnapshot("a", runs),), (), None).ended is ended


RECORD = ProblemRecord(
    1, 1, 0, "half", "my/half.py", ("value",), None, "text", "active", "", None, None, None, None
)  # fmt: skip


class Half(Problem):
    """The number is to be large; .49 is the best known one."""

    name, objectives, best_known = "half", ("value",), 0.49

    def statement(self):
        return "A number."

    def score(self, answer):
        return Score((float(answer),), float(answer))


@pytest.mark.parametrize(
    "fitness, told",
    [
        (None, "best known 2"),
        (1.0, "best known 2, 50% reached"),
        (2.0 * (1 - 1e-12), "best known 2, reached"),
        (1.9999999, "best known 2, 99.9999% reached"),
        (2.1, "best known 2, and this is above it"),
    ],
)
def test_what_is_reached_of_the_best_known(fitness, told):
    assert describe_best_known(fitness, 2.0) == told


def test_the_best_known_is_looked_up(monkeypatch):
    monkeypatch.setattr(answers, "problem_of", lambda record: Half())
    assert best_known_of(RECORD) == 0.49
    assert best_known_of(replace(RECORD, address="maze:test/0")) is None, "no problem of ours has one"


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
