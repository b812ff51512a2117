"""A trainer's weights into a running engine on the same GPU: vLLM's own weight transfer (0.32, backend "ipc").

The trainer's process exports each weight's memory by a CUDA handle; the engine's process opens it and loads from there,
so nothing is written and nothing is built again. That vLLM calls it done is no evidence: an older path of it was seen
to answer OK over wrong weights. Whoever trains beside a search compares log-probabilities before anything is sampled
(evo.training.colocated), and falls back on building the engine anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BACKEND = "ipc"


def export_weights(weights: Mapping[str, Any], dtype: str) -> tuple[dict[str, Any], list[Any]]:
    """(what receive_weights takes in the engine's process, tensors to keep until it has). Weights may lie anywhere;
    the GPU that the trainer works on holds them meanwhile, in the engine's own precision."""
    import torch
    from torch.multiprocessing.reductions import reduce_tensor

    kind, kept, handles = getattr(torch, dtype), [], []
    gpu = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    for tensor in weights.values():
        kept.append(tensor.detach().to("cuda", kind).contiguous())
        handles.append({gpu: reduce_tensor(kept[-1])[1]})
    torch.cuda.synchronize()
    update = {
        "names": list(weights),
        "dtype_names": [dtype] * len(kept),
        "shapes": [list(tensor.shape) for tensor in kept],
        "ipc_handles": handles,
    }
    return update, kept


def receive_weights(engine: Any, update: dict[str, Any], begun: bool) -> None:
    """In the engine's process: load what export_weights gave, and forget what was cached under the old weights.

    engine: an LLMEngine with nothing in flight; begun: whether it has taken weights before
    """
    if not begun:
        engine.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": {"packed": False}})
    engine.collective_rpc("start_weight_update")
    engine.collective_rpc("update_weights", kwargs={"update_info": update})
    engine.collective_rpc("finish_weight_update")
    engine.reset_prefix_cache()
