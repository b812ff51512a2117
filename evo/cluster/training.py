"""`evo train` as one task of a cluster: on a node with the requested resources, and on another node if that one dies.

The nodes must share the directory of the training. The next node needs nothing else: the training continues from its
newest checkpoint, and gives the same bits if the nodes compute alike.
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

    run: the settings of a new training, None for one that continues; named: the settings that a resume is given
    command: the command on record; as_json: make the summary the last line on "out"
    """

    def __init__(
        self,
        place: ClusterAddress,
        run: TrainRun | None,
        folder: str,
        named: Mapping[str, Any],
        command: str,
        as_json: bool,
    ) -> None:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise BadInput("--ray places one process; under accelerate launch leave it out")
        self.place, self.run, self.named, self.command = place, run, named, command
        self.record = TrainingRecord(Path(folder).absolute())
        self._options = ["--plain", *(["--json"] if as_json else [])]
        self._resumes = run is None
        self._witness = self.record.folder / (SETTINGS if run is None else f".shared-{uuid.uuid4().hex[:8]}")
        self._pool = ActorPool(place, lambda _: self.record.newest_step(), "steps")
        self._pool.warning = lambda text: print(f"evo: warning: {text}", file=sys.stderr)

    async def work(self, write: Write) -> CommandOutcome:
        """Train to the end or until an interrupt. Raises BadInput if the cluster or the directory cannot be used,
        SearchFailed if node after node is lost."""
        must_leave = await asyncio.to_thread(connect, self.place)
        folder = self.record.folder
        try:
            if not self._resumes:
                made = not folder.exists()
                folder.mkdir(parents=True, exist_ok=True)
                self._witness.touch()
            try:
                return await run_command(self._pool, str(folder), self._make_order, write)
            finally:
                if not self._resumes:
                    self._witness.unlink(missing_ok=True)
                    if made and not any(folder.iterdir()):
                        folder.rmdir()
        finally:
            self._pool.close()
            if must_leave:
                await asyncio.to_thread(leave)

    def interrupt(self, reason: str) -> None:
        """Finish and save the current step, then end, as after Ctrl-C."""
        self._pool.interrupt(reason)

    def _make_order(self) -> CommandOrder:
        """The command for the work that is left: all of it, or the part after the newest checkpoint."""
        folder, witness = str(self.record.folder), str(self._witness)
        if self.run is not None and not self.record.begun():
            settings = self.run.model_dump(mode="json", exclude_unset=True, exclude={"db"})
            return CommandOrder(
                ("train", "-o", folder, *self._options), witness, settings, self.command, self._choose_database()
            )
        flags: list[str] = []
        for name, value in self.named.items():
            if name != "db":
                for part in value if isinstance(value, list) else [value]:
                    flags += [f"--{name.replace('_', '-')}", str(part)]
        return CommandOrder(
            ("train", "--resume", folder, *flags, *self._options), witness, None, self.command, self._choose_database()
        )

    def _choose_database(self) -> str | None:
        """The address as it was given, with its password, if traces are read from it."""
        if self.run is None:
            return self.named.get("db")
        return self.run.db if "db" in self.run.model_fields_set else None
