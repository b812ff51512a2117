"""Two processes that train together: gloo over a file, with one thread."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

WORLD = 2
SECONDS = 900


def run_in_two_processes(worker: Callable[[int, Path], Any], folder: Path) -> tuple[Any, Any]:
    """What worker(rank, folder) returns in each of two processes that are one process group.

    The worker is a function of a module that both can import by its name. Raises AssertionError with what a process
    wrote if one fails.
    """
    script = (
        f"import {worker.__module__} as module; from support import training_processes; "
        f"training_processes.work(module.{worker.__name__}, {{rank}}, {str(folder)!r})"
    )
    path = os.pathsep.join([str(Path(sys.modules[worker.__module__].__file__ or "").parent), *sys.path])
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script.format(rank=rank)],
            env={**os.environ, **_rank_variables(rank), "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(WORLD)
    ]
    try:
        written = [child.communicate(timeout=SECONDS)[0] for child in children]
    finally:
        for child in children:
            child.kill()
    assert [child.returncode for child in children] == [0] * WORLD, "\n".join(written)
    first, second = (torch.load(folder / f"found-{rank}.pt", weights_only=False) for rank in range(WORLD))
    return first, second


def _rank_variables(rank: int) -> dict[str, str]:
    """What a launcher sets."""
    return {
        **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(WORLD), "LOCAL_WORLD_SIZE": str(WORLD)},
        **{"MASTER_ADDR": "localhost", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    }


def work(worker: Callable[[int, Path], Any], rank: int, folder: str) -> None:
    """Join the other process, which meets this one in a file, since a free port may be taken before it is used."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=WORLD, timeout=timedelta(seconds=SECONDS)
    )
    torch.save(worker(rank, Path(folder)), Path(folder) / f"found-{rank}.pt")
    torch.distributed.destroy_process_group()
