"""Counts of the answers to a parent, kept as they are stored, so that a screen need not read them all.

Revision 0006, after 0005. Stored answers are counted too, except the share that they keep of their parent, which needs
their texts.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
COUNTS = ("answers", "better", "copies", "repeats", "compared")

# islands.population.operator_counts defines the bins
FILL = """
INSERT INTO operator_counts (problem_id, operator, bin, answers, better, copies, repeats, compared, kept)
SELECT problem_id, operator, bin, count(*), sum(better), sum(copy), sum(CASE WHEN repeat THEN 1 ELSE 0 END), 0, 0.0
FROM (
    SELECT g.problem_id, g.operator, a.repeat,
        CASE WHEN parent.id IS NULL THEN -1
            WHEN parent.error IS NULL AND parent.fitness >= p.target THEN 4
            WHEN parent.fitness < 0.25 * (CASE WHEN p.target > 0 THEN p.target ELSE 1 END) THEN 0
            WHEN parent.fitness < 0.5 * (CASE WHEN p.target > 0 THEN p.target ELSE 1 END) THEN 1
            WHEN parent.fitness < 0.75 * (CASE WHEN p.target > 0 THEN p.target ELSE 1 END) THEN 2
            ELSE 3 END AS bin,
        CASE WHEN parent.id IS NULL OR c.error IS NOT NULL THEN 0
            WHEN parent.error IS NOT NULL OR c.fitness > parent.fitness + 1e-9 THEN 1
            ELSE 0 END AS better,
        CASE WHEN c.id = g.parent_id OR EXISTS ({among}) THEN 1 ELSE 0 END AS copy
    FROM prompt_groups g
    JOIN problems p ON p.id = g.problem_id
    JOIN rollouts r ON r.group_id = g.id
    JOIN answers a ON a.rollout_id = r.id
    JOIN candidates c ON c.id = a.candidate_id
    LEFT JOIN candidates parent ON parent.id = g.parent_id
) AS given GROUP BY problem_id, operator, bin
"""
AMONG = {
    "sqlite": "SELECT 1 FROM json_each(g.inspirations) AS one WHERE one.value = c.id",
    "postgresql": "SELECT 1 FROM json_array_elements_text(g.inspirations) AS one WHERE CAST(one AS BIGINT) = c.id",
}


def upgrade() -> None:
    op.create_table(
        "operator_counts",
        sa.Column("problem_id", row_id, sa.ForeignKey("problems.id"), primary_key=True, autoincrement=False),
        sa.Column("operator", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("bin", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in COUNTS),
        sa.Column("kept", sa.Double, nullable=False),
    )
    op.execute(FILL.format(among=AMONG[op.get_bind().dialect.name]))


def downgrade() -> None:
    op.drop_table("operator_counts")
