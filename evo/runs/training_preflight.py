"""What can be wrong with a new training, before torch is loaded."""

from __future__ import annotations

from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.runs.preflight import check_policies
from evo.search.resources import check_one_policy, problems_at
from evo.training.run_directory import TrainingRecord
from vpo.policies.address import OF_ITS_PROMPTS, parse_address


def check_new_training(run: TrainRun, output: str) -> None:
    """Raises BadInput or BadAddress, one line."""
    TrainingRecord(output).check_new()
    problems_at([*run.problems, *run.evaluate], 1)
    check_one_policy(run.policy, "evo train trains")
    named = parse_address(run.policy).common.model_dump(include=set(OF_ITS_PROMPTS), exclude_none=True)
    if run.from_traces and named:
        raise BadInput(f"traces are learned from as they are stored: leave out ?{next(iter(named))}= of {run.policy}")
    check_policies([run.policy])
