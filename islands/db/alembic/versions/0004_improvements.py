"""What lets a screen open a long run as fast as a short one: the candidates that raised a problem's best fitness, and
an index by which the answers of a candidate are counted.

Revision 0004, after 0003.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")

# within a group ids and fitnesses of the rises grow together, so both maxima are of its last
FILL = """
INSERT INTO improvements (problem_id, sequence, candidate_id, fitness)
SELECT problem_id, sequence, max(id), max(fitness) FROM (
    SELECT problem_id, sequence, id, fitness, max(fitness) OVER (
        PARTITION BY problem_id ORDER BY sequence, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before FROM candidates WHERE error IS NULL
) AS valid WHERE before IS NULL OR fitness > before GROUP BY problem_id, sequence
"""


def upgrade() -> None:
    op.create_table(
        "improvements",
        sa.Column("problem_id", row_id, sa.ForeignKey("problems.id"), primary_key=True, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("candidate_id", row_id, sa.ForeignKey("candidates.id"), nullable=False),
        sa.Column("fitness", sa.Double, nullable=False),
    )
    op.execute(FILL)
    op.create_index("ix_answers_candidate", "answers", ["candidate_id"])


def downgrade() -> None:
    op.drop_index("ix_answers_candidate", "answers")
    op.drop_table("improvements")
