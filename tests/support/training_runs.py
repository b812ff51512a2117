"""Training runs, made and looked at."""

import asyncio
import json
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

from evo.search.stop import INTERRUPT
from problems.contract import Score
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout

SMALL_POLICY = str(Path(__file__).parents[1] / "fixtures" / "small_policy")
"""Writes routes as embedded:base does, in a third of its time."""


def trained(training, stop_after=None):
    """Run to the end, or to a stop after so many steps; the reason it ended for."""

    async def run():
        if stop_after is not None:
            step = training._step

            async def counted():
                await step()
                if training.status.step == stop_after:
                    training.stop(INTERRUPT)

            training._step = counted
        try:
            stop = await training.train()
            if stop != INTERRUPT:
                training.finish()
            return str(stop)
        finally:
            await training.close()

    return asyncio.run(run())


def weights(folder):
    return load_file(Path(folder) / "model.safetensors")


def read_metrics(folder, kind="step"):
    """What was logged of this kind, the clock left out."""
    lines = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines if line["kind"] == kind]


def scored(problem, *answers, error=None, asked=1):
    """A group of one rollout with answers (text, vector), whose fitness is the mean."""
    empty, one = np.zeros(0, np.int32), np.zeros(1, np.int32)
    found = tuple(ScoredAnswer(t, t.encode(), Score(v, sum(v) / len(v), error=error)) for t, v in answers)
    rollout = ScoredRollout(Rollout("", one, np.zeros(1, np.float32), empty), found)
    return ScoredGroup(problem, 0, 0, 0, None, (), Prompt(""), "v", asked, 0, 1.0, (rollout,))
