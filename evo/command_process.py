"""`evo ARGUMENTS` as a process of its own: a stage of a pipeline, a command on a node of a cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from problems.child_process import python_path

Write = Callable[[str, str], None]
"""Called with each line: "out" or "err", and the line without its end."""


class CommandProcess:
    """A command that imports what this process imports, and ends with this process (evo.cli.stage_process)."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        held: Sequence[int] = (),
        write: Write | None = None,
        **streams: Any,
    ) -> None:
        """environment: more variables. A database belongs there, where no list of processes shows its password
        held: descriptors that it keeps open
        write: called in other threads with what it prints, while `wait` waits
        streams: its stdin, stdout and stderr as in subprocess.Popen
        """
        self._write = write
        if write is not None:
            streams |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._last_word, writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evo.cli.stage_process", str(os.getpid()), str(writer), *arguments],
                env={**os.environ, "PYTHONPATH": python_path(), **environment},
                pass_fds=(writer, *held),
                **streams,
            )
        except BaseException:
            os.close(self._last_word)
            raise
        finally:
            os.close(writer)

    def send_signal(self, number: int = signal.SIGINT) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def wait(self) -> tuple[int, str]:
        """Its exit code (negative: the signal that killed it) and the last line that it wrote to stderr."""
        readers = [
            threading.Thread(target=self._read, args=(name, pipe), daemon=True)
            for name, pipe in (("out", self._process.stdout), ("err", self._process.stderr))
            if pipe is not None
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        code = self._process.wait()
        with open(self._last_word, "rb") as pipe:
            os.set_blocking(self._last_word, False)
            return code, (pipe.read() or b"").decode("utf-8", "replace")

    def _read(self, name: str, pipe: IO[bytes]) -> None:
        assert self._write is not None
        with pipe:
            for line in pipe:
                self._write(name, line.decode("utf-8", "replace").rstrip("\r\n"))
