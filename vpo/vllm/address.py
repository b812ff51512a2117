"""Addresses of vLLM policies, `vllm:ID[?OPTION=VALUE&...]`, and the settings of the engine that one asks for.

ID is a hub id, a directory, embedded:NAME, or a directory with a PEFT adapter (adapter_config.json), which is served as
a LoRA adapter over the base model that it names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from problems.address import user_path
from problems.contract import BadAddress
from vpo.policies.address import PolicyAddress, parse_address
from vpo.policies.checkpoint import ADAPTER, read_adapter, trained_format
from vpo.policies.hub import only_cached
from vpo.policies.prompt_formats import CHAT
from vpo.policies.registry import PolicySettings

_DTYPES = ("float32", "bfloat16", "float16")
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM has kernels for; an adapter is padded to the next one."""


class EngineOptions(BaseModel):
    """What may stand after the question mark, beside vpo.policies.address.CommonOptions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    context: int | None = Field(
        None,
        ge=128,
        description="most tokens of prompt and answer; by default the model's, up to 8,192 (CPU) or 32,768",
    )
    sequences: int | None = Field(
        None, ge=1, le=4096, description="rollouts decoded at a time; by default 64 on a CPU, 256 on a GPU"
    )
    cache_gib: float | None = Field(
        None,
        gt=0.0,
        description="GiB of the key-value cache; on a CPU 2, or a quarter of the free memory if less",
    )
    gpu_memory: float = Field(
        0.8, gt=0.0, le=1.0, description="share of a GPU's memory for weights and cache; 0.4 next to a trainer"
    )
    compile: Literal["auto", "on", "off"] = Field("auto", description="torch.compile and CUDA graphs; auto: on a GPU")
    prefix_cache: Literal["on", "off"] = Field("on", description="keep the cache of shared beginnings of prompts")
    sleep: Literal["auto", "on", "off"] = Field(
        "auto", description="free the GPU while a trainer works; auto: on a GPU"
    )
    transfer: Literal["auto", "off"] = Field(
        "auto", description="a trainer's weights go into the running engine (one GPU); off: the engine is built again"
    )
    gpus: int = Field(1, ge=1, le=64, description="GPUs that share the model's layers (tensor parallel)")
    replicas: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="engines that share the prompts, each on that many GPUs; with --ray on its nodes",
    )


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter: where it lies, and the rank that the engine makes room for."""

    folder: str
    rank: int


@dataclass(frozen=True)
class EngineSettings:
    """What decides an engine; policies that agree in it share one.

    model: directory or hub id; weights: a directory that replaces the model's weights, "" for its own
    device: "cpu", "cuda", "cuda:1", None for what this vLLM is built for; dtype: None by the device
    threads: of a CPU; None: OMP_NUM_THREADS, else one a core, or 1 for a small model
    """

    model: str
    adapter: Adapter | None
    device: str | None
    dtype: str | None
    threads: int | None
    options: EngineOptions
    weights: str = ""

    def with_weights(self, folder: str) -> EngineSettings:
        """The same engine over other weights of the whole model, an adapter's share among them."""
        return replace(self, weights=folder, adapter=None)


def engine_settings(address: PolicyAddress, settings: PolicySettings) -> EngineSettings:
    """The engine that the address asks for. Raises BadAddress, one line."""
    if settings.dtype is not None and settings.dtype not in _DTYPES:
        raise BadAddress(f"dtype {settings.dtype!r} is not one of {', '.join(_DTYPES)}")
    if settings.device is not None and settings.device.partition(":")[0] not in ("cpu", "cuda"):
        raise BadAddress(f"device {settings.device!r} cannot be used: vLLM policies run on cpu, cuda or cuda:N")
    options = address.own_options(EngineOptions)
    model, adapter = _source(address.model)
    return EngineSettings(model, adapter, settings.device, settings.dtype, settings.threads, options)


def check_vllm(address: PolicyAddress, settings: PolicySettings) -> None:
    """What can be told before the engine begins. Raises BadAddress if there is no such model."""
    model = engine_settings(address, settings).model
    if not Path(model).is_dir():
        only_cached(model)


def _source(name: str) -> tuple[str, Adapter | None]:
    """The model's directory or hub id, and the adapter over it."""
    if not name or any(character.isspace() for character in name) or "://" in name:
        raise BadAddress(f"policy 'vllm:{name}' is not an address: vllm:ID, with a hub id or a directory")
    if name.startswith("embedded:"):
        return str(parse_address(name).folder), None
    folder = user_path(name)
    if folder.is_dir():
        if (folder / ADAPTER).is_file():
            return _read_adapter(name, folder)
        if not (folder / "config.json").is_file():
            raise BadAddress(f"policy 'vllm:{name}': the directory holds no config.json, so it is no model checkpoint")
        return str(folder.resolve()), None
    if folder.exists() or name.startswith(("/", ".", "~")) or name.count("/") > 1 or name.endswith("/") or ":" in name:
        raise BadAddress(f"policy 'vllm:{name}': no such directory")
    return name, None


def _read_adapter(name: str, folder: Path) -> tuple[str, Adapter]:
    base, rank = read_adapter(f"vllm:{name}", folder, plain=True)
    padded = next((known for known in _RANKS if known >= rank), None)
    if padded is None:
        raise BadAddress(f"policy 'vllm:{name}': an adapter of rank {rank} is beyond the {_RANKS[-1]} of vLLM")
    if (form := trained_format(folder)) not in (None, CHAT):
        raise BadAddress(
            f"policy 'vllm:{name}': the adapter was trained in the prompt format {form!r}, and vLLM reads the format "
            "of its base; use the checkpoint that the adapter was saved with"
        )
    model, under = _source(base)
    if under is not None:
        raise BadAddress(f"policy 'vllm:{name}': its base {base} is an adapter itself; merge one of them")
    return model, Adapter(str(folder.resolve()), padded)
