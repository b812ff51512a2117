"""What several processes that train together share, and where metrics go beside the run's own files."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from evo.config.train import TrainRun
from evo.errors import BadInput
from vpo.training.distribution import ShardSettings

if TYPE_CHECKING:
    from accelerate import Accelerator


def shard_settings(run: TrainRun, accelerator: Accelerator | None) -> ShardSettings | None:
    """How the model is shared out over processes: by --fsdp, or as accelerate launch was asked (--use_fsdp and its
    flags); None = every process holds all of it. Raises BadInput where that cannot be."""
    asked = _is_on("ACCELERATE_USE_FSDP")
    if not run.fsdp and not asked:
        if run.fsdp_offload:
            raise BadInput("--fsdp-offload says more of --fsdp, which is not given")
        return None
    if accelerator is None or accelerator.num_processes == 1:
        raise BadInput("--fsdp shares the model over processes: accelerate launch --num_processes 8 -m evo train ...")
    if run.lora_rank:
        raise BadInput("--lora-rank trains an adapter, which --fsdp does not share out; leave out one of the two")
    if asked and os.environ.get("FSDP_VERSION", "2") != "2":
        raise BadInput("only FSDP2 can be used: accelerate launch --use_fsdp --fsdp_version 2")
    return ShardSettings(
        offload=run.fsdp_offload or _is_on("FSDP_OFFLOAD_PARAMS"),
        reshard=_is_on("FSDP_RESHARD_AFTER_FORWARD", "true"),
    )


def recomputes(run: TrainRun) -> bool:
    """Whether activations are recomputed: by --gradient-checkpointing, or as accelerate launch was asked."""
    return run.gradient_checkpointing or (_is_on("ACCELERATE_USE_FSDP") and _is_on("FSDP_ACTIVATION_CHECKPOINTING"))


def _is_on(name: str, default: str = "false") -> bool:
    return os.environ.get(name, default).lower() in ("1", "true", "yes")


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
