"""A group's row carries its own sums, and prompts are compressed in a table of their own.

Revision 0011, after 0010. What the tables of sums, counts, rises and archives held is worked out again from the groups,
or carried over to the last group that it may be of.
"""

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from islands.blobs import pack_texts
from islands.schema import ModelText
from islands.types import AT_TARGET, NO_PARENT, QUARTERS
from problems.scoring import error_kind

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

BATCH = 2000
row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _number(name: str, kind: Any = sa.BigInteger, zero: str = "0") -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, server_default=zero)


SUMS = (
    *(_number(name) for name in ("given", "born", "repeats", "missing", "tokens", "prompt_tokens")),
    _number("cost", sa.Double),
    _number("scored_seconds", sa.Double),
    sa.Column("errors", sa.JSON(none_as_null=True), nullable=True),
    sa.Column("best", sa.BigInteger, nullable=True),
    sa.Column("best_fitness", sa.Double, nullable=True),
    _number("parent_bin", zero="-1"),
    *(_number(name) for name in ("better", "copies", "compared")),
    _number("kept", sa.Double),
    sa.Column("cells", sa.JSON(none_as_null=True), nullable=True),
)
ZERO: dict[str, Any] = {column.name: None if column.nullable else 0 for column in SUMS} | {"parent_bin": NO_PARENT}


def upgrade() -> None:
    connection = op.get_bind()
    for column in SUMS:
        op.add_column("prompt_groups", column)
    prompts = op.create_table(
        "prompts",
        sa.Column("group_id", row_id, sa.ForeignKey("prompt_groups.id"), primary_key=True, autoincrement=False),
        sa.Column("base", sa.BigInteger, nullable=True),
        sa.Column("texts", sa.LargeBinary, nullable=False),
        sa.Column("token_ids", sa.LargeBinary, nullable=False),
    )
    _move_prompts(connection, prompts)
    rows = [
        {"of_group": group, **{name: row.get(name, zero) for name, zero in ZERO.items()}}
        for group, row in _group_sums(connection).items()
    ]
    if rows:
        groups = sa.table("prompt_groups", sa.column("id"), *(sa.column(c.name, c.type) for c in SUMS))
        changed = sa.update(groups).where(groups.c.id == sa.bindparam("of_group"))
        connection.execute(changed.values({name: sa.bindparam(name) for name in ZERO}), rows)
    for name in ("user", "system", "prefill", "prompt_ids"):
        op.drop_column("prompt_groups", name)
    for name in ("heartbeat", "tags", "note"):
        op.drop_column("runs", name)
    for table in (
        *("elites", "improvements", "operator_counts", "totals", "reflections", "shards", "cluster_states"),
        *("imported_programs", "imports"),
    ):
        op.drop_table(table)


def _move_prompts(connection: sa.Connection, prompts: sa.Table) -> None:
    last, bases = 0, dict[int, tuple[int, list[str]]]()  # problem -> its first group, and its texts
    query = sa.text(
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
        connection.execute(sa.insert(prompts), rows)
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


def _group_sums(connection: sa.Connection) -> dict[int, dict[str, Any]]:
    """Group id -> what the rows of its rollouts and answers tell."""
    sums: dict[int, dict[str, Any]] = defaultdict(dict)
    of_group: dict[int, tuple[int, int]] = {}
    for id, size, first, problem, operator in connection.execute(sa.text(_PROMPTS)):
        sums[id]["prompt_tokens"] = _token_count(size, first)
        of_group[id] = (problem, operator)
    errors: dict[int, Counter[str]] = defaultdict(Counter)
    for group, answers, size, first, held in connection.execute(sa.text(_ROLLOUTS)):
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
    for group, candidate, fitness in connection.execute(sa.text(_RISES)):
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


def _place_cells(connection: sa.Connection, sums: dict[int, dict[str, Any]]) -> None:
    """Each cell's occupant, with the group that put it there; a seed's with the first group."""
    groups = "SELECT problem_id, sequence, id FROM prompt_groups ORDER BY problem_id, sequence"
    at, first = dict[tuple[int, int], int](), dict[int, int]()
    for problem, sequence, id in connection.execute(sa.text(groups)):
        at[problem, sequence] = id
        first.setdefault(problem, id)
    for problem, sequence, island, cell, candidate in connection.execute(sa.text(_CELLS)):
        group = at.get((problem, sequence), first.get(problem))
        if group is not None:
            sums[group].setdefault("cells", []).append([island, cell, candidate])


def _add_totals(
    connection: sa.Connection, sums: dict[int, dict[str, Any]], errors: dict[int, Counter[str]],
    of_group: dict[int, tuple[int, int]],
) -> None:  # fmt: skip
    """What only the tables of sums told, to the last group that it may be of: a server's counts of tokens and the cost,
    kinds of unreadable rollouts; and shares of parents' texts, by operator and bin."""
    query = "SELECT problem_id, operator, bin, compared, kept FROM operator_counts WHERE compared > 0"
    last = {(*of_group[group], row.get("parent_bin", NO_PARENT)): group for group, row in sums.items()}
    for problem, operator, bin, compared, kept in connection.execute(sa.text(query)):
        if (group := last.get((problem, operator, bin))) is not None:
            sums[group].update(compared=compared, kept=kept)
    newest = {problem: group for group, (problem, _) in of_group.items()}
    counted: dict[int, Counter[str]] = defaultdict(Counter)
    for group, row in sums.items():
        counted[of_group[group][0]].update({name: row.get(name, 0) for name in ("tokens", "prompt_tokens")})
    for problem, name, value in connection.execute(sa.text("SELECT problem_id, name, value FROM totals")):
        group = newest.get(problem)
        if group is None:
            continue
        if name in ("tokens", "prompt_tokens", "cost") and value > counted[problem][name]:
            whole = value if name == "cost" else int(value)
            sums[group][name] = sums[group].get(name, 0) + whole - counted[problem][name]
        if name == "error: format" or name.startswith("error: reply "):
            errors[group][name.removeprefix("error: ")] += int(value)


def _batches(connection: sa.Connection, query: str) -> Iterator[Any]:
    yield from connection.execute(sa.text(query), execution_options={"yield_per": BATCH})
