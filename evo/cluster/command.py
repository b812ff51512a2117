"""One `evo` command on a node: a training, a stage of a pipeline. Here it is a process, as it is on a person's machine,
whose lines are read by the driver; where its node is lost, the driver has it begun again in another place.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections import deque
from pathlib import Path

import yaml

from evo.cluster.task import CommandOrder, CommandOutcome
from evo.command_process import CommandProcess
from evo.errors import BadInput
from evo.exit_status import INTERRUPTED

MOST_WAITING = 10_000
"""Lines that wait to be read; where the driver is slower, the oldest go."""


class Command:
    """An order that is being carried out on this node. Used on one event loop."""

    def __init__(self) -> None:
        self._lines: deque[tuple[str, str]] = deque(maxlen=MOST_WAITING)
        self._changed = asyncio.Event()
        self._ended = self._interrupted = False
        self._process: CommandProcess | None = None
        self._word = ""

    async def run(self, order: CommandOrder, node: str) -> CommandOutcome:
        """Raises BadInput where the driver's files are not on this machine."""
        try:
            if self._interrupted:
                return CommandOutcome(INTERRUPTED)
            if not Path(order.witness).exists():
                raise BadInput(
                    f"{order.witness} is not on node {node} ({socket.gethostname()}): name a directory that all nodes "
                    "share, or choose nodes that have it with ?resources="
                )
            self._add("err", f"on node {node} ({socket.gethostname()})")
            with tempfile.TemporaryDirectory(prefix="evo-order-") as folder:
                return await self._carry_out(order, Path(folder))
        finally:
            self._ended = True
            self._changed.set()

    async def lines(self) -> list[tuple[str, str]]:
        """What was written since the last call, once there is something; nothing when it has ended."""
        while not self._lines and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        found = list(self._lines)
        self._lines.clear()
        return found

    def interrupt(self) -> None:
        """As Ctrl-C at its terminal."""
        self._interrupted = True
        if self._process is not None:
            self._process.send_signal()

    async def _carry_out(self, order: CommandOrder, folder: Path) -> CommandOutcome:
        arguments = list(order.arguments)
        if order.settings is not None:
            settings = folder / "settings.yaml"
            settings.write_text(yaml.safe_dump(dict(order.settings), sort_keys=False), encoding="utf-8")
            arguments += ["--config", str(settings)]
        environment = {} if order.database is None else {"EVO_DB": order.database}
        environment |= {"EVO_COMMAND": order.said} if order.said else {}
        loop = asyncio.get_running_loop()

        def write(stream: str, line: str) -> None:
            loop.call_soon_threadsafe(self._add, stream, line)

        self._process = CommandProcess(arguments, environment=environment, write=write)
        code, word = await asyncio.to_thread(self._process.wait)
        return CommandOutcome(code, word or self._word)

    def _add(self, stream: str, line: str) -> None:
        if stream == "err" and line.strip():
            self._word = line.strip().removeprefix("evo: ")
        self._lines.append((stream, line))
        self._changed.set()
