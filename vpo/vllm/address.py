"""Addresses of vLLM policies, `vllm:ID[?OPTION=VALUE&...]`, and the settings of the engine that one asks for.

ID is a hub id, a directory, embedded:NAME, or a directory with a PEFT adapter (adapter_config.json), which is served as
a LoRA adapter over the base model that it names.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from problems.contract import BadAddress

ADAPTER = "adapter_config.json"
_DTYPES = ("float32", "bfloat16", "float16")
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM has kernels for; an adapter is padded to the next one."""


class Options(BaseModel):
    """What may stand after the question mark."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float | None = Field(None, ge=0.0, le=5.0, description="instead of the search's")
    top_p: float | None = Field(None, gt=0.0, le=1.0, description="instead of the search's")
    dtype: Literal["float32", "bfloat16", "float16"] | None = Field(None, description="instead of --dtype")
    context: int | None = Field(
        None,
        ge=128,
        description="most tokens of prompt and answer; the model's, up to 8,192 (CPU) or 32,768",
    )
    sequences: int | None = Field(
        None, ge=1, le=4096, description="rollouts decoded at once; 64 on a CPU, 256 on a GPU"
    )
    cache_gib: float | None = Field(
        None, gt=0.0, description="memory of the key-value cache; on a CPU 2, or a quarter of what is free if less"
    )
    gpu_memory: float = Field(
        0.8, gt=0.0, le=1.0, description="share of a GPU's memory that weights and cache may have; 0.4 beside a trainer"
    )
    compile: Literal["auto", "on", "off"] = Field("auto", description="torch.compile and CUDA graphs; auto: on a GPU")
    prefix_cache: Literal["on", "off"] = Field("on", description="keep the cache of prompts that others begin with")
    sleep: Literal["auto", "on", "off"] = Field(
        "auto", description="free the GPU while a trainer works; auto: on a GPU"
    )
    threads: int | None = Field(None, ge=1, description="CPU threads; OMP_NUM_THREADS, else one a core, or 1 if small")
    gpus: int = Field(1, ge=1, le=64, description="GPUs that share the model's layers (tensor parallel)")


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
    """

    model: str
    adapter: Adapter | None
    device: str | None
    dtype: str | None
    options: Options
    weights: str = ""

    def with_weights(self, folder: str) -> EngineSettings:
        """The same engine over other weights of the whole model, an adapter's share among them."""
        return replace(self, weights=folder, adapter=None)


def parse(rest: str, *, device: str | None, dtype: str | None, threads: int | None) -> EngineSettings:
    """The engine that `vllm:REST` asks for; options go before arguments. Raises BadAddress, one line."""
    name, _, query = rest.partition("?")
    options = _options(name, query)
    if threads is not None and options.threads is None:
        options = options.model_copy(update={"threads": threads})
    kind = options.dtype or dtype
    if kind is not None and kind not in _DTYPES:
        raise BadAddress(f"dtype {kind!r} is not one of {', '.join(_DTYPES)}")
    if device is not None and device.partition(":")[0] not in ("cpu", "cuda"):
        raise BadAddress(f"device {device!r} cannot be used: vLLM policies run on cpu, cuda or cuda:N")
    model, adapter = _source(name)
    # settings that the sampler takes, not the engine: policies that differ in them alone share it
    own = options.model_copy(update={"temperature": None, "top_p": None, "dtype": None})
    return EngineSettings(model, adapter, device, kind, own)


def sampling_of(rest: str, temperature: float, top_p: float) -> tuple[float, float]:
    """(temperature, top_p) of a policy at `vllm:REST`."""
    name, _, query = rest.partition("?")
    options = _options(name, query)
    return (
        temperature if options.temperature is None else options.temperature,
        top_p if options.top_p is None else options.top_p,
    )


def _source(name: str) -> tuple[str, Adapter | None]:
    """The model's directory or hub id, and the adapter over it."""
    if not name or any(character.isspace() for character in name) or "://" in name:
        raise BadAddress(f"policy 'vllm:{name}' is not an address: vllm:ID, with a hub id or a directory")
    if name.startswith("embedded:"):
        from vpo.embedded import checkpoint_path

        return str(checkpoint_path(name.removeprefix("embedded:"))), None
    folder = Path(name).expanduser()
    if folder.is_dir():
        if (folder / ADAPTER).is_file():
            return _adapted(name, folder)
        if not (folder / "config.json").is_file():
            raise BadAddress(f"policy 'vllm:{name}': the directory holds no config.json, so it is no model checkpoint")
        return str(folder.resolve()), None
    if folder.exists() or name.startswith(("/", ".", "~")) or name.count("/") > 1 or name.endswith("/") or ":" in name:
        raise BadAddress(f"policy 'vllm:{name}': no such directory")
    return name, None


def _adapted(name: str, folder: Path) -> tuple[str, Adapter]:
    try:
        said: dict[str, Any] = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
        base, kind, rank = str(said["base_model_name_or_path"]), said["peft_type"], int(said["r"])
        ranks = [rank, *(int(r) for r in (said.get("rank_pattern") or {}).values())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadAddress(f"policy 'vllm:{name}': {ADAPTER} cannot be read: {error!r}") from None
    if kind != "LORA" or said.get("use_dora"):
        raise BadAddress(f"policy 'vllm:{name}': only plain LoRA adapters can be served, not {kind}")
    padded = next((known for known in _RANKS if known >= max(ranks)), None)
    if padded is None:
        raise BadAddress(f"policy 'vllm:{name}': an adapter of rank {max(ranks)} is beyond the {_RANKS[-1]} of vLLM")
    if (folder / ".." / base).is_dir() and not Path(base).is_dir():
        base = str(folder / ".." / base)  # adapters are often kept beside their base
    model, under = _source(base)
    if under is not None:
        raise BadAddress(f"policy 'vllm:{name}': its base {base} is an adapter itself; merge one of them")
    return model, Adapter(str(folder.resolve()), padded)


def _options(name: str, query: str) -> Options:
    try:
        return Options.model_validate(dict(parse_qsl(query, keep_blank_values=True)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = ", ".join(Options.model_fields)
            raise BadAddress(f"policy 'vllm:{name}': unknown option {key}; there are {known}") from None
        raise BadAddress(f"policy 'vllm:{name}': option {key}: {first['msg']}") from None
