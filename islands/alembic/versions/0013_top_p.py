"""The top-p that a group was sampled at.

Revision 0013, after 0012. A group of an older run has the least that the settings of its run name.
"""

import json
import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("prompt_groups", sa.Column("top_p", sa.Double, nullable=False, server_default="1"))
    runs = sa.table("runs", sa.column("id"), sa.column("config", sa.JSON))
    groups = sa.table("prompt_groups", sa.column("run_id"), sa.column("top_p"))
    connection = op.get_bind()
    for id, config in connection.execute(sa.select(runs.c.id, runs.c.config)).all():
        if (top_p := _least(config)) < 1:
            connection.execute(groups.update().where(groups.c.run_id == id).values(top_p=top_p))


def _least(config: Any) -> float:
    """Of a run's setting, and of the options of its policies, those before a change among them."""
    named = [config.get("top_p"), *re.findall(r"[?&]top_p=([0-9.eE+-]+)", json.dumps(config))]
    return min((float(value) for value in named if value is not None), default=1.0)
