"""A vLLM engine from its settings: what is left open there, by the model and by whether this vLLM is for CPUs or GPUs.

Runs in the engine's own process (vpo.vllm.process).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vpo.policies.encoding import context_of
from vpo.vllm.address import EngineSettings
from vpo.vllm.transfer import BACKEND

CPU_CONTEXT, GPU_CONTEXT = 8192, 32768
CPU_SEQUENCES, GPU_SEQUENCES = 64, 256
CPU_CACHE = 2 << 30


@dataclass(frozen=True)
class Ready:
    """What an engine came to.

    device: "cpu" or "cuda"; context: most tokens of prompt and answer; slots: rollouts that it decodes at once
    sleeps: whether the device's memory can be lent to a trainer; transfers: whether weights can be put into it running
    """

    device: str
    dtype: str
    context: int
    sleeps: bool
    transfers: bool = False
    slots: int = 0


def build_engine(settings: EngineSettings) -> tuple[Any, Ready]:
    """An LLMEngine in this process, and what it came to."""
    import torch._dynamo.config
    from transformers import AutoConfig
    from vllm.platforms import current_platform

    options, on_cpu = settings.options, bool(current_platform.is_cpu())
    eager = options.compile == "off" or (options.compile == "auto" and on_cpu)
    # Before vLLM's sampler is imported, whose small compiled parts would cost seconds at the first draw
    torch._dynamo.config.disable = eager
    from vllm import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    asked = (settings.device or ("cpu" if on_cpu else "cuda")).partition(":")[0]
    if (asked == "cpu") != on_cpu:
        raise ValueError(
            f"device {settings.device} cannot be used: this vLLM is built for {current_platform.device_name}"
        )
    dtype = settings.dtype or ("float32" if on_cpu else "bfloat16")
    longest = context_of(AutoConfig.from_pretrained(settings.model))
    context = min(longest, options.context or (CPU_CONTEXT if on_cpu else GPU_CONTEXT))
    sleeps = not on_cpu and options.sleep != "off"
    transfers = not on_cpu and options.transfer != "off" and options.gpus == 1 and settings.adapter is None
    arguments: dict[str, Any] = {
        "model": settings.weights or settings.model,
        "skip_tokenizer_init": True,
        "dtype": dtype,
        "max_model_len": context,
        "max_num_seqs": options.sequences or (CPU_SEQUENCES if on_cpu else GPU_SEQUENCES),
        "enable_prefix_caching": options.prefix_cache == "on",
        "enforce_eager": eager,
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": 1,
        "tensor_parallel_size": options.gpus,
        "disable_log_stats": True,
        "seed": 0,
        "kv_cache_memory_bytes": int(options.cache_gib * (1 << 30)) if options.cache_gib else None,
    }
    if settings.adapter is not None:
        arguments |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": settings.adapter.rank}
    if on_cpu:
        arguments |= {
            # A prompt that is computed in parts draws once a part from its own random stream, which a CPU generator
            # cannot take back (it fails): whole prompts alone, all of which must fit into one step
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(context, 2048),
            "kv_cache_memory_bytes": arguments["kv_cache_memory_bytes"] or min(CPU_CACHE, _free_memory() // 4),
        }
    else:
        arguments |= {"gpu_memory_utilization": options.gpu_memory, "enable_sleep_mode": sleeps}
    if transfers:
        from vllm.config import WeightTransferConfig

        arguments["weight_transfer_config"] = WeightTransferConfig(backend=BACKEND)
    engine = LLMEngine.from_engine_args(EngineArgs(**arguments))
    return engine, Ready("cpu" if on_cpu else "cuda", dtype, context, sleeps, transfers, arguments["max_num_seqs"])


def _free_memory() -> int:
    import psutil  # one of vLLM's own requirements

    return int(psutil.virtual_memory().available)
