"""What can be wrong with a new training, before torch is loaded."""

from __future__ import annotations

from evo.config.train import TrainRun
from evo.runs.preflight import check_policies
from evo.search.resources import problems_at
from evo.training.run_directory import TrainingRecord


def check_new_training(run: TrainRun, output: str) -> None:
    """Raises BadInput or BadAddress, one line."""
    TrainingRecord(output).check_new()
    problems_at([*run.problems, *run.evaluate], 1)
    check_policies([run.policy])
