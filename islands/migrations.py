"""The schema of a database: made of islands.schema, or brought up to it from an earlier revision, each by one step.

`_from_0010` opens the databases of commit c96219c2, the last before a group's row had its own sums. What its tables of
sums, counts, rises and archives held is worked out again from the groups, or carried over.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import URL, Connection, Engine, bindparam, inspect, text, update
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError
from sqlalchemy.schema import CreateColumn

from islands.blobs import pack_texts
from islands.engine import mask_url, unavailable
from islands.errors import DatabaseUnavailable, NoRuns
from islands.schema import METADATA, REVISION, ModelText, PromptGroup, PromptText
from islands.types import AT_TARGET, NO_PARENT, QUARTERS
from problems.scoring import error_kind

LOCK = 0x65766F  # an arbitrary number that only this program's migrations lock
_VERSION_TABLE = "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
"""Named as in the databases that Alembic migrated."""
BATCH = 2000


def revision_of(connection: Connection) -> str | None:
    """The schema revision of a database, None for one without our tables."""
    try:
        row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    except (OperationalError, ProgrammingError) as error:
        if "alembic_version" in str(error.orig):
            return None
        raise
    return row[0] if row else None


def ensure_schema(url: URL, writer: Engine, reader: Engine, read_only: bool) -> None:
    """Bring the schema up to REVISION. A reader changes nothing: it gets a DatabaseUnavailable if the schema is
    older or there are no runs yet; a writer gets one if the schema cannot be upgraded."""
    try:
        with reader.connect() as connection:
            revision = revision_of(connection)
        if revision == REVISION:
            return
        if read_only and revision is None:
            raise NoRuns(f"{mask_url(url)}: the database holds no runs yet")
        _check_known(url, revision)
        if read_only:
            raise DatabaseUnavailable(
                f"{mask_url(url)}: it has the older schema {revision}, which reading does not change; bring it up to "
                f"{REVISION} with `evo runs upgrade`, when no older evo writes to it"
            )
        with writer.begin() as connection:
            if url.drivername != "sqlite":  # SQLite's BEGIN IMMEDIATE is the lock
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
            _upgrade(url, connection)
    except DBAPIError as error:
        raise unavailable(url, error) from None
    except UnicodeDecodeError:  # the driver cannot decode its error message, which quotes the damaged schema
        raise DatabaseUnavailable(f"{mask_url(url)}: the file is damaged") from None


def _check_known(url: URL, revision: str | None) -> None:
    if revision in (None, REVISION, *STEPS):
        return
    if str(revision) < min(STEPS):
        raise DatabaseUnavailable(
            f"{mask_url(url)}: its schema {revision} is too old for this version of evo; open it once with the evo of "
            "commit c96219c2 (`evo runs upgrade`)"
        )
    raise DatabaseUnavailable(
        f"{mask_url(url)}: its schema {revision} is newer than this version of evo, which knows {REVISION}; upgrade evo"
    )


def _upgrade(url: URL, connection: Connection) -> None:
    """Create or migrate, now that no other process can be doing it."""
    names = set(inspect(connection).get_table_names())
    if not names & {"alembic_version", *METADATA.tables}:
        METADATA.create_all(connection, checkfirst=False)
        connection.execute(text(_VERSION_TABLE))
        connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": REVISION})
        return
    while (revision := revision_of(connection)) != REVISION:
        _check_known(url, revision)
        if revision is None:
            raise DatabaseUnavailable(f"{mask_url(url)}: its tables have no revision; name another database")
        then, step = STEPS[revision]
        step(connection)
        connection.execute(text("UPDATE alembic_version SET version_num = :then"), {"then": then})


SUMS = (
    "given", "born", "repeats", "missing", "tokens", "prompt_tokens", "cost", "scored_seconds", "errors", "best",
    "best_fitness", "parent_bin", "better", "copies", "compared", "kept", "cells",
)  # fmt: skip
"""Columns of prompt_groups since 0011."""


def _from_0010(connection: Connection) -> None:
    quoted = connection.dialect.identifier_preparer
    for name in SUMS:
        declared = CreateColumn(PromptGroup.c[name]).compile(dialect=connection.dialect)
        connection.execute(text(f"ALTER TABLE prompt_groups ADD COLUMN {declared}"))
    PromptText.create(connection)
    _move_prompts(connection)
    rows = [
        {"of_group": group, **{name: row.get(name, _ZERO[name]) for name in SUMS}}
        for group, row in _group_sums(connection).items()
    ]
    if rows:
        where = update(PromptGroup).where(PromptGroup.c.id == bindparam("of_group"))
        connection.execute(where.values({name: bindparam(name) for name in SUMS}), rows)
    for column in ("user", "system", "prefill", "prompt_ids"):
        connection.execute(text(f"ALTER TABLE prompt_groups DROP COLUMN {quoted.quote(column)}"))
    for column in ("heartbeat", "tags", "note"):
        connection.execute(text(f"ALTER TABLE runs DROP COLUMN {column}"))
    for table in (
        *("elites", "improvements", "operator_counts", "totals", "reflections", "shards", "cluster_states"),
        *("imported_programs", "imports"),
    ):
        connection.execute(text(f"DROP TABLE {table}"))


_ZERO: dict[str, Any] = dict.fromkeys(SUMS, 0) | dict.fromkeys(("errors", "best", "best_fitness", "cells"))
_ZERO["parent_bin"] = NO_PARENT


def _move_prompts(connection: Connection) -> None:
    last, bases = 0, dict[int, tuple[int, list[str]]]()  # problem -> its first group, and its texts
    query = text(
        'SELECT id, problem_id, system, "user", prefill, prompt_ids FROM prompt_groups WHERE id > :last '
        "ORDER BY id LIMIT :n"
    )
    decode = ModelText().process_result_value
    while page := connection.execute(query, {"last": last, "n": BATCH}).all():
        rows = []
        for id, problem, *parts, ids in page:
            texts = [decode(value, connection.dialect) or "" for value in parts]
            base, of = bases.get(problem, (None, None))
            packed = pack_texts(texts, of)
            rows.append({"group_id": id, "base": base, "texts": packed, "token_ids": zlib.compress(bytes(ids))})
            bases.setdefault(problem, (id, texts))
        connection.execute(PromptText.insert(), rows)
        last = page[-1][0]


_ANSWERS = """
SELECT g.id, g.problem_id, g.operator, g.inspirations, g.parent_id, p.target, parent.fitness, parent.error, a.repeat,
    a.seconds, c.id, c.fitness, c.error
FROM prompt_groups g
JOIN problems p ON p.id = g.problem_id
LEFT JOIN candidates parent ON parent.id = g.parent_id
JOIN rollouts r ON r.group_id = g.id
JOIN answers a ON a.rollout_id = r.id
JOIN candidates c ON c.id = a.candidate_id
ORDER BY g.id, r.position, a.position
"""
_ROLLOUTS = """
SELECT r.group_id, g.answers, length(r.token_ids), substr(r.token_ids, 1, 1),
    (SELECT count(*) FROM answers a WHERE a.rollout_id = r.id)
FROM rollouts r JOIN prompt_groups g ON g.id = r.group_id
"""
_PROMPTS = (
    "SELECT id, length(prompt_ids), substr(prompt_ids, 1, 1), problem_id, operator FROM prompt_groups ORDER BY id"
)
_RISES = """
SELECT g.id, i.candidate_id, i.fitness FROM improvements i
JOIN prompt_groups g ON g.problem_id = i.problem_id AND g.sequence = i.sequence
"""
_CELLS = "SELECT problem_id, sequence, island, cell, candidate_id FROM elites ORDER BY problem_id, island, cell"


def _group_sums(connection: Connection) -> dict[int, dict[str, Any]]:
    """Group id -> what the rows of its rollouts and answers tell."""
    sums: dict[int, dict[str, Any]] = defaultdict(dict)
    of_group: dict[int, tuple[int, int]] = {}
    for id, size, first, problem, operator in connection.execute(text(_PROMPTS)):
        sums[id]["prompt_tokens"] = _token_count(size, first)
        of_group[id] = (problem, operator)
    errors: dict[int, Counter[str]] = defaultdict(Counter)
    for group, answers, size, first, held in connection.execute(text(_ROLLOUTS)):
        _count(sums[group], missing=max(0, answers - held), tokens=_token_count(size, first))
    for row in _batches(connection, _ANSWERS):
        group, _, _, shown, parent, target, fitness, wrong, repeat, seconds, candidate, reached, error = row
        counted = sums[group]
        among = {parent, *(json.loads(shown) if isinstance(shown, str) else shown)}
        better = parent is not None and error is None and (wrong is not None or reached > fitness + 1e-9)
        _count(
            counted, given=1, repeats=bool(repeat), born=not repeat, scored_seconds=seconds, better=better,
            copies=candidate in among,
        )  # fmt: skip
        counted["parent_bin"] = _bin(parent, fitness, wrong, target)
        if error is not None and not repeat:
            errors[group][error_kind(error[:120])] += 1
    for group, candidate, fitness in connection.execute(text(_RISES)):
        sums[group].update(best=candidate, best_fitness=fitness)
    _place_cells(connection, sums)
    _add_totals(connection, sums, errors, of_group)
    for group, kinds in errors.items():
        sums[group]["errors"] = dict(kinds)
    return sums


def _count(sums: dict[str, Any], **more: float) -> None:
    for name, value in more.items():
        sums[name] = sums.get(name, 0) + value


def _token_count(size: int | None, first: Any) -> int:
    """A blob of ids: one leading byte, then 2 bytes a token under "H", else 4."""
    return (size - 1) // (2 if bytes(first) == b"H" else 4) if size else 0


def _bin(parent: int | None, fitness: float | None, error: str | None, target: float | None) -> int:
    """As islands.population.operator_counts.fitness_bin."""
    if parent is None or fitness is None:
        return NO_PARENT
    if target is not None and error is None and fitness >= target:
        return AT_TARGET
    whole = target if target is not None and target > 0 else 1.0
    return next((i for i in range(QUARTERS - 1) if fitness < (i + 1) / QUARTERS * whole), QUARTERS - 1)


def _place_cells(connection: Connection, sums: dict[int, dict[str, Any]]) -> None:
    """Each cell's occupant, with the group that put it there; a seed's with the first group."""
    groups = "SELECT problem_id, sequence, id FROM prompt_groups ORDER BY problem_id, sequence"
    at, first = dict[tuple[int, int], int](), dict[int, int]()
    for problem, sequence, id in connection.execute(text(groups)):
        at[problem, sequence] = id
        first.setdefault(problem, id)
    for problem, sequence, island, cell, candidate in connection.execute(text(_CELLS)):
        group = at.get((problem, sequence), first.get(problem))
        if group is not None:
            sums[group].setdefault("cells", []).append([island, cell, candidate])


def _add_totals(
    connection: Connection, sums: dict[int, dict[str, Any]], errors: dict[int, Counter[str]],
    of_group: dict[int, tuple[int, int]],
) -> None:  # fmt: skip
    """What only the tables of sums told, to the last group that it may be of: a server's counts of tokens and the cost,
    kinds of unreadable rollouts; and shares of parents' texts, by operator and bin."""
    query = "SELECT problem_id, operator, bin, compared, kept FROM operator_counts WHERE compared > 0"
    last = {(*of_group[group], row.get("parent_bin", NO_PARENT)): group for group, row in sums.items()}
    for problem, operator, bin, compared, kept in connection.execute(text(query)):
        if (group := last.get((problem, operator, bin))) is not None:
            sums[group].update(compared=compared, kept=kept)
    newest = {problem: group for group, (problem, _) in of_group.items()}
    counted: dict[int, Counter[str]] = defaultdict(Counter)
    for group, row in sums.items():
        counted[of_group[group][0]].update({name: row.get(name, 0) for name in ("tokens", "prompt_tokens")})
    for problem, name, value in connection.execute(text("SELECT problem_id, name, value FROM totals")):
        group = newest.get(problem)
        if group is None:
            continue
        if name in ("tokens", "prompt_tokens", "cost") and value > counted[problem][name]:
            whole = value if name == "cost" else int(value)
            sums[group][name] = sums[group].get(name, 0) + whole - counted[problem][name]
        if name == "error: format" or name.startswith("error: reply "):
            errors[group][name.removeprefix("error: ")] += int(value)


def _batches(connection: Connection, query: str) -> Iterator[Any]:
    yield from connection.execute(text(query), execution_options={"yield_per": BATCH})


STEPS: dict[str, tuple[str, Callable[[Connection], None]]] = {"0010": ("0011", _from_0010)}
"""Revision -> the next one, and the step to it."""
