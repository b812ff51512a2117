"""`ray=` of evo.train: drives a training on a cluster, as evo.api.train does here."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from evo.api.background import Job, run_in_background
from evo.api.errors import Interrupted
from evo.api.progress import Progress, open_display
from evo.cluster import cluster_training
from evo.config.train import TrainRun
from evo.errors import BadInput, SearchFailed
from evo.exit_status import describe_exit
from evo.search.stop import FINISHING
from evo.training.run_directory import TrainingRecord

_STEP = re.compile(r"step (\d+)  (.*)")


def train_on_cluster(
    ray: str, run: TrainRun | None, folder: str, named: Mapping[str, Any], command: str, progress: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The training's summary and what it logged. Raises as evo.train does, and SearchFailed where it went wrong on
    its node."""
    training = cluster_training(ray, run, folder, named, command, as_json=True)
    told: list[str] = []
    heard = _Heard(str(training.place), run)

    def write(stream: str, line: str) -> None:
        if stream == "out":
            told.append(line)
        else:
            heard(line)

    async def work(job: Job) -> Any:
        job.name, job.progress = folder, lambda: heard.progress
        job.stop = lambda: training.interrupt(str(FINISHING))
        return await training.work(write)

    job, ended = run_in_background(work, open_display(progress))
    outcome = ended.value
    if ended.interrupts or outcome is None:
        raise Interrupted(f"{folder}: interrupted; evo.train(resume={folder!r}, ray=...) goes on", job.name)
    if outcome.code == 2:
        raise BadInput(outcome.word)
    if outcome.code or not told:
        raise SearchFailed(f"{folder}: {outcome.word or describe_exit(outcome.code)}")
    record = TrainingRecord(folder)
    record.read_lines()
    return json.loads(told[-1]), record.lines


class _Heard:
    """What the lines of a training say of how far it is."""

    def __init__(self, place: str, run: TrainRun | None) -> None:
        self.progress: Progress | None = None
        self._title, self._steps = f"training on {place}", run.steps if run is not None else 0

    def __call__(self, line: str) -> None:
        if found := _STEP.match(line):
            step = int(found[1])
            self.progress = Progress(self._title, step, max(step, self._steps), "steps", found[2])
        elif "warning: " in line:
            print(line, file=sys.stderr)
