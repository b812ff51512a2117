"""What a run has spent and brought, counted as its groups are stored, so that totals are right after a kill too.

Revision 0009, after 0008. Of groups that are stored already everything is counted that their rows tell. What only the
run's last summary tells, as the cost, goes to the run's first problem.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    totals = op.create_table(
        "totals",
        sa.Column("problem_id", row_id, sa.ForeignKey("problems.id"), primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
    )
    connection = op.get_bind()
    # a blob of ids: one leading byte, then 2 bytes a token under "H", else 4
    first = "decode('48', 'hex')" if connection.dialect.name == "postgresql" else "x'48'"
    counted: dict[int, dict[str, float]] = {}
    for name, query in QUERIES.items():
        for problem, value in connection.execute(sa.text(query.replace("FIRST", first))):
            counted.setdefault(problem, {})[name] = float(value or 0)
    for problem, error, number in connection.execute(sa.text(ERRORS)):
        head = error.split(":", 1)[0].strip()
        kind = head if 0 < len(head) <= 40 else head[:37] + "..."
        values = counted.setdefault(problem, {})
        values[f"error: {kind}"] = values.get(f"error: {kind}", 0.0) + number
    _add_from_summaries(connection, counted)
    rows = [
        {"problem_id": problem, "name": name, "value": value}
        for problem, values in counted.items()
        for name, value in values.items()
        if value
    ]
    if rows:
        connection.execute(sa.insert(totals), rows)


def downgrade() -> None:
    op.drop_table("totals")


def _add_from_summaries(connection: sa.Connection, counted: dict[int, dict[str, float]]) -> None:
    """What servers counted and no row holds: to the run's first problem, so that the sums are those of the summary."""
    problems: dict[int, list[int]] = {}
    for run, problem in connection.execute(sa.text('SELECT run_id, id FROM problems ORDER BY run_id, "index"')):
        problems.setdefault(run, []).append(problem)
    for run, summary in connection.execute(sa.text("SELECT id, summary FROM runs")):
        known = json.loads(summary) if isinstance(summary, str) else summary or {}
        for name in ("tokens", "prompt_tokens", "cost"):
            value = known.get(name)
            if run in problems and isinstance(value, int | float):
                value -= known.get(f"lost_{name}", 0)  # no group holds it: it stays in the summary
                stored = sum(counted.get(problem, {}).get(name, 0.0) for problem in problems[run])
                if value > stored:
                    values = counted.setdefault(problems[run][0], {})
                    values[name] = values.get(name, 0.0) + value - stored


_ROLLOUTS = "prompt_groups g JOIN rollouts r ON r.group_id = g.id"
_ANSWERS = f"{_ROLLOUTS} JOIN answers a ON a.rollout_id = r.id"


def _tokens(column: str) -> str:
    return (
        f"CASE WHEN length({column}) > 0 THEN (length({column}) - 1) / "
        f"(CASE WHEN substr({column}, 1, 1) = FIRST THEN 2 ELSE 4 END) ELSE 0 END"
    )


QUERIES = {
    "groups": "SELECT problem_id, count(*) FROM prompt_groups GROUP BY problem_id",
    "answers": f"SELECT g.problem_id, count(*) FROM {_ANSWERS} GROUP BY g.problem_id",
    "missing": (
        "SELECT problem_id, sum(CASE WHEN held < answers THEN answers - held ELSE 0 END) FROM ("
        f"SELECT g.problem_id, g.answers, count(a.rollout_id) AS held FROM {_ROLLOUTS} "
        "LEFT JOIN answers a ON a.rollout_id = r.id GROUP BY g.problem_id, g.answers, r.id) AS each_rollout "
        "GROUP BY problem_id"
    ),
    "repeats": f"SELECT g.problem_id, count(*) FROM {_ANSWERS} WHERE a.repeat GROUP BY g.problem_id",
    "tokens": (
        f"SELECT problem_id, sum(n) FROM (SELECT g.problem_id, {_tokens('r.token_ids')} AS n FROM {_ROLLOUTS} "
        "UNION ALL SELECT problem_id, tokens FROM reflections) AS parts GROUP BY problem_id"
    ),
    "prompt_tokens": (
        f"SELECT problem_id, sum(n) FROM (SELECT problem_id, {_tokens('prompt_ids')} AS n FROM prompt_groups "
        "UNION ALL SELECT problem_id, prompt_tokens FROM reflections) AS parts GROUP BY problem_id"
    ),
    "sampling_seconds": "SELECT problem_id, sum(sampling_seconds) FROM prompt_groups GROUP BY problem_id",
    "scoring_seconds": f"SELECT g.problem_id, sum(a.seconds) FROM {_ANSWERS} GROUP BY g.problem_id",
    "migrations": (
        "SELECT problem_id, count(DISTINCT sequence) FROM migrations WHERE candidate_id IS NOT NULL GROUP BY problem_id"
    ),
    "reflections": "SELECT problem_id, count(*) FROM reflections GROUP BY problem_id",
    "reflection_tokens": "SELECT problem_id, sum(tokens) FROM reflections GROUP BY problem_id",
    "error: format": (
        f"SELECT g.problem_id, count(*) FROM {_ROLLOUTS} WHERE r.format_error IS NOT NULL GROUP BY g.problem_id"
    ),
}
ERRORS = (
    "SELECT problem_id, substr(error, 1, 120), count(*) FROM candidates "
    "WHERE error IS NOT NULL AND group_id IS NOT NULL GROUP BY problem_id, substr(error, 1, 120)"
)
