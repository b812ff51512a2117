"""One `evo` command on a node: a training, or a stage of a pipeline. It runs in a process, as on a user's machine, and
the driver reads its lines. If its node is lost, the driver begins it again on another node.
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
from evo.errors import INTERRUPTED, BadInput

MOST_WAITING = 10_000
"""Lines that wait to be read at most; the oldest are dropped if the driver reads too slowly."""


class Command:
    """Carries out an order on this node. Used on one event loop."""

    def __init__(self) -> None:
        self._lines: deque[tuple[str, str]] = deque(maxlen=MOST_WAITING)
        self._changed = asyncio.Event()
        self._ended = self._interrupted = False
        self._process: CommandProcess | None = None
        self._last_line = ""

    async def run(self, order: CommandOrder, node: str) -> CommandOutcome:
        """Run the command to its end. Raises BadInput if the driver's files are not on this machine."""
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

    async def read_lines(self) -> list[tuple[str, str]]:
        """Wait for lines, then return those written since the last call; none after the command has ended."""
        while not self._lines and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        lines = list(self._lines)
        self._lines.clear()
        return lines

    def interrupt(self) -> None:
        """Interrupt the command, as Ctrl-C at its terminal does."""
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
        environment |= {"EVO_COMMAND": order.command} if order.command else {}
        loop = asyncio.get_running_loop()

        def write(stream: str, line: str) -> None:
            loop.call_soon_threadsafe(self._add, stream, line)

        self._process = CommandProcess(arguments, environment=environment, write=write)
        code, last_line = await asyncio.to_thread(self._process.wait)
        return CommandOutcome(code, last_line or self._last_line)

    def _add(self, stream: str, line: str) -> None:
        if stream == "err" and line.strip():
            self._last_line = line.strip().removeprefix("evo: ")
        self._lines.append((stream, line))
        self._changed.set()
