"""What several processes that train together share, and where metrics go beside the run's own files."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from evo.config.train import TrainRun
from evo.errors import BadInput

if TYPE_CHECKING:
    from accelerate import Accelerator


def is_main(accelerator: Accelerator | None) -> bool:
    """Whether this process writes and prints."""
    return accelerator is None or accelerator.is_main_process


def open_accelerator(run: TrainRun, folder: str) -> Accelerator | None:
    """accelerate's handle where several processes train together (`accelerate launch -m evo train ...`) or metrics go
    to a tracker; None otherwise, which spares its import."""
    for tracker in run.trackers:
        if importlib.util.find_spec(tracker) is None:
            raise BadInput(f"--trackers {tracker} needs the package: pip install {tracker}")
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 and not run.trackers:
        return None
    import torch
    from accelerate import Accelerator

    cpu = run.device == "cpu" or not torch.cuda.is_available()
    accelerator = Accelerator(cpu=cpu, log_with=list(run.trackers) or None, project_dir=folder)
    if run.trackers:
        plain = {k: v if isinstance(v, int | float | str) else str(v) for k, v in run.stored().items()}
        accelerator.init_trackers("evo", config=plain)
    return accelerator
