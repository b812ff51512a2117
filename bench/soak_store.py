"""What bench/soak.py holds a database against: every committed group as it was, none twice, no gap."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from soak_life import answer_key
from sqlalchemy import make_url

GROUPS = """SELECT runs.name, g.sequence, p.name, g.iteration, g.island, g.seed, g.parent_id, t.texts,
r.position, r.text, r.token_ids, a.position, a.candidate_id, a.repeat, c.text, c.rewards, c.fitness, c.error
FROM prompt_groups g JOIN prompts t ON t.group_id = g.id JOIN runs ON runs.id = g.run_id
JOIN problems p ON p.id = g.problem_id LEFT JOIN rollouts r ON r.group_id = g.id
LEFT JOIN answers a ON a.rollout_id = r.id
LEFT JOIN candidates c ON c.id = a.candidate_id ORDER BY runs.name, g.sequence, r.position, a.position"""
STEPS = "SELECT run_id, step, stats, policy_version_id FROM training_steps ORDER BY run_id, step"
TWICE = """SELECT count(*) FROM (SELECT problem_id, identity FROM candidates GROUP BY problem_id, identity
HAVING count(*) > 1) AS doubled"""
HALF = {
    "groups without rollouts": "SELECT count(*) FROM prompt_groups g WHERE NOT EXISTS "
    "(SELECT 1 FROM rollouts r WHERE r.group_id = g.id)",
    "candidates of no group": "SELECT count(*) FROM candidates c WHERE c.sequence >= 0 AND NOT EXISTS "
    "(SELECT 1 FROM prompt_groups g WHERE g.id = c.group_id)",
}


@contextlib.contextmanager
def connected(db: str) -> Iterator[Any]:
    """A plain connection of the driver's own, closed at the end."""
    url = make_url(db)
    if url.drivername == "sqlite":
        connection: Any = sqlite3.connect(f"file:{url.database}?mode=ro", uri=True, timeout=30)
    else:
        import psycopg

        connection = psycopg.connect(
            host=url.query["host"], user=url.username, dbname=url.database, autocommit=True, application_name="soak"
        )
    try:
        yield connection
    finally:
        connection.close()


def rows(db: str, query: str) -> list[Any]:
    """Of one query; none where the database or its tables are not there yet."""
    try:
        with connected(db) as connection:
            return list(connection.execute(query).fetchall())
    except Exception as error:
        if any(words in str(error) for words in ("no such table", "does not exist", "unable to open")):
            return []
        raise


class Snapshot:
    """What was committed: (run, sequence) -> a hash of the whole group; training steps; the answers with a score."""

    def __init__(self, db: str) -> None:
        hashed: dict[tuple[str, int], Any] = {}
        self.known: set[str] = set()
        for row in rows(db, GROUPS):
            digest = hashed.setdefault((row[0], row[1]), blake2b(digest_size=12))
            digest.update(repr(tuple(bytes(v) if isinstance(v, memoryview) else v for v in row)).encode())
            if row[14] is not None:
                self.known.add(answer_key(row[2], row[14]))
        self.groups = {key: digest.hexdigest() for key, digest in hashed.items()}
        self.steps = [tuple(map(str, row)) for row in rows(db, STEPS)]
        self.runs = {name: status for name, status in rows(db, "SELECT name, status FROM runs")}
        self.twice = sum(row[0] for row in rows(db, TWICE))
        self.half = [what for what, query in HALF.items() if sum(row[0] for row in rows(db, query))]

    def faults_after(self, before: Snapshot) -> dict[str, list[str]]:
        """What is wrong with this, which came after `before`: by kind, in words."""
        lost = [f"group {key}" for key, digest in before.groups.items() if self.groups.get(key) != digest]
        lost += [f"step {row[1]}" for row in before.steps if row not in self.steps]
        lost += [f"run {name}" for name in before.runs if name not in self.runs]
        places: dict[str, list[int]] = {}
        for name, sequence in self.groups:
            places.setdefault(name, []).append(sequence)
        gaps = [f"run {name} has a gap" for name, found in places.items() if found != list(range(len(found)))]
        return {"lost": lost, "half": gaps + self.half, "twice": [f"{self.twice} candidates"] if self.twice else []}


def committed(db: str) -> int:
    """How many groups are committed now."""
    return sum(row[0] for row in rows(db, "SELECT count(*) FROM prompt_groups"))


def whole(db: str) -> str:
    """What the database's own check finds wrong; empty for nothing."""
    if make_url(db).drivername != "sqlite":
        return ""
    found = [row[0] for row in rows(db, "PRAGMA integrity_check")]
    return "" if found in (["ok"], []) else "; ".join(found[:3])
