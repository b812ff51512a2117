"""What a database holds, as comparable rows: two runs are the same run when these are equal."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import text

from islands.groups import read_groups, read_prompts
from islands.store import Store
from problems.types import ScoredGroup

ANSWERS = (
    "SELECT runs.name, g.sequence, p.name, g.iteration, g.island, g.id, r.position, r.text, a.position, "
    "c.text, c.fitness, a.repeat FROM prompt_groups g JOIN problems p ON p.id = g.problem_id "
    "JOIN runs ON runs.id = g.run_id "
    "JOIN rollouts r ON r.group_id = g.id "
    "LEFT JOIN answers a ON a.rollout_id = r.id "
    "LEFT JOIN candidates c ON c.id = a.candidate_id"
)
GROUP = 5
"""The column of the query that becomes the text of the prompt."""
SEQUENCE = 1
"""The column of a row that counts the prompt groups of its run."""


def stored_answers(db: str, run: str | None = None) -> list[tuple]:
    """Every answer of every run (or of one, then without the run's name), in the order of commitment. The database must
    be there: a fault of it is a fault of the test."""
    where = " WHERE runs.name = :run" if run else ""
    query = text(f"{ANSWERS}{where} ORDER BY runs.name, g.sequence, r.position, a.position")
    with Store.open(db, read_only=True) as store, store.read() as connection:
        rows = connection.execute(query, {"run": run} if run else {}).all()
        prompts = read_prompts(connection, list({row[GROUP] for row in rows}))
    shown = [(*row[:GROUP], prompts[row[GROUP]][1], *row[GROUP + 1 :]) for row in map(tuple, rows)]
    return [row[1:] if run else row for row in shown]


def stored_groups(db: str, run: str) -> list[ScoredGroup]:
    """Every prompt group of a run, in the order of commitment."""
    with Store.open(db, read_only=True) as store:
        return [group for _, group in read_groups(store, store.run(run).id)]


def committed_groups(file: Path | str) -> int:
    """How many prompt groups an SQLite file holds; 0 before the file or its tables are there. Anything else raises."""
    if not Path(file).exists():
        return 0
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=20)
    try:
        return connection.execute("SELECT count(*) FROM prompt_groups").fetchone()[0]
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return 0
        raise
    finally:
        connection.close()


def assert_same_run(rows: list[tuple], whole: list[tuple]) -> None:
    """Fail with the first row that differs, and where, instead of with both runs."""
    assert len(rows) == len(whole)
    for row, expected in zip(rows, whole, strict=True):
        assert row == expected
