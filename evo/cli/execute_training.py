"""`evo train --ray`: drive a training on a cluster, show its lines here, obey Ctrl-C."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from evo.cli.execute_run import handling_interrupts
from evo.cli.options import command_line
from evo.cluster import cluster_training
from evo.config.train import TrainRun
from evo.exit_status import describe_exit


def train_on_cluster(ray: str, run: TrainRun | None, folder: str, named: Mapping[str, Any], *, as_json: bool) -> int:
    """The exit code. run: of a new training, None to go on with the one in the folder."""
    training = cluster_training(ray, run, folder, named, command_line(), as_json=as_json)

    async def drive() -> int:
        with handling_interrupts(lambda stop: training.interrupt(str(stop))):
            return (await training.work(write_line)).code

    try:
        code = asyncio.run(drive())
    except asyncio.CancelledError:  # a second Ctrl-C
        return 130
    if code < 0:
        print(f"evo: {describe_exit(code)}", file=sys.stderr)
    return code if code >= 0 else 1


def write_line(stream: str, line: str) -> None:
    """A line of a command elsewhere, where it would have been written here."""
    print(line, file=sys.stdout if stream == "out" else sys.stderr, flush=True)
