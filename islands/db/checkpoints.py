"""The places where a run's learner was saved."""

from __future__ import annotations

from sqlalchemy import update

from islands.db.schema import TrainingStep
from islands.db.store import Store


def set_checkpoint(store: Store, run_id: int, step: int, checkpoint: str) -> None:
    """Record where the learner was saved after a step; called later than the step itself."""
    query = update(TrainingStep).where(TrainingStep.c.run_id == run_id, TrainingStep.c.step == step)
    with store.begin() as tx:
        tx.connection.execute(query.values(checkpoint=checkpoint))
