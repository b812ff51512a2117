"""`evo train` as one task of a cluster: on a node with what was asked for, and on another where that one dies.

The directory of the training has to be one that the nodes share. It is all that the next node needs: the training goes
on from its newest checkpoint, to the same bits where the nodes compute alike.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evo.cluster.actor_pool import ActorPool, run_command
from evo.cluster.connection import connect, leave
from evo.cluster.task import CommandOrder, CommandOutcome
from evo.command_process import Write
from evo.config.cluster import ClusterAddress
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.training.run_directory import SETTINGS, TrainingRecord


class ClusterTraining:
    """One training, used once: work, and perhaps interrupt.

    run: of a new training, None for one that is to go on; named: what a resume is given; said: the command on record
    as_json: let the last line on "out" be the summary
    """

    def __init__(
        self,
        place: ClusterAddress,
        run: TrainRun | None,
        folder: str,
        named: Mapping[str, Any],
        said: str,
        as_json: bool,
    ) -> None:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise BadInput("--ray places one process; under accelerate launch leave it out")
        self.place, self.run, self.named, self.said = place, run, named, said
        self.record = TrainingRecord(Path(folder).absolute())
        self._options = ["--plain", *(["--json"] if as_json else [])]
        self._resumes = run is None
        self._witness = self.record.folder / (SETTINGS if run is None else f".shared-{uuid.uuid4().hex[:8]}")
        self._pool = ActorPool(place, lambda _: self.record.newest_step(), "steps")
        self._pool.warning = lambda text: print(f"evo: warning: {text}", file=sys.stderr)

    async def work(self, write: Write) -> CommandOutcome:
        """Train to the end or to an interrupt. Raises BadInput where the cluster or the directory cannot be used,
        SearchFailed where node after node is lost."""
        ours = await asyncio.to_thread(connect, self.place)
        folder = self.record.folder
        try:
            if not self._resumes:
                made = not folder.exists()
                folder.mkdir(parents=True, exist_ok=True)
                self._witness.touch()
            try:
                return await run_command(self._pool, str(folder), self._order, write)
            finally:
                if not self._resumes:
                    self._witness.unlink(missing_ok=True)
                    if made and not any(folder.iterdir()):
                        folder.rmdir()
        finally:
            self._pool.close()
            if ours:
                await asyncio.to_thread(leave)

    def interrupt(self, reason: str) -> None:
        """As Ctrl-C: the step under way is done and saved."""
        self._pool.interrupt(reason)

    def _order(self) -> CommandOrder:
        """What is left to do: all of it, or from the newest checkpoint on."""
        folder, witness = str(self.record.folder), str(self._witness)
        if self.run is not None and not self.record.begun():
            settings = self.run.model_dump(mode="json", exclude_unset=True, exclude={"db"})
            return CommandOrder(("train", "-o", folder, *self._options), witness, settings, self.said, self._database())
        flags: list[str] = []
        for name, value in self.named.items():
            if name != "db":
                for one in value if isinstance(value, list) else [value]:
                    flags += [f"--{name.replace('_', '-')}", str(one)]
        return CommandOrder(
            ("train", "--resume", folder, *flags, *self._options), witness, None, self.said, self._database()
        )

    def _database(self) -> str | None:
        """The address as it was given, password and all, where traces are read from it."""
        if self.run is None:
            return self.named.get("db")
        return self.run.db if "db" in self.run.model_fields_set else None
