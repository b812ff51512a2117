"""`evo ARGUMENTS` as a process of its own: a stage of a pipeline, a command on a node of a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def start_command(
    arguments: Sequence[str],
    last_word: int,
    *,
    environment: Mapping[str, str],
    held: Sequence[int] = (),
    **streams: Any,
) -> subprocess.Popen[bytes]:
    """A process that imports what this one imports, and ends with this one (evo.cli.stage_process).

    last_word: a descriptor, which gets the last line that it writes to stderr
    environment: beside this process's own. A database belongs there, where no list of processes shows its password
    held: descriptors that it keeps open; streams: its stdin, stdout and stderr, as subprocess.Popen takes them
    """
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "evo.cli.stage_process", str(os.getpid()), str(last_word), *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        pass_fds=(last_word, *held),
        **streams,
    )
