"""A transformers policy from its address: its checkpoint, device and precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from problems.contract import BadAddress
from vpo.hf.cache import leave_cudnn_attention
from vpo.hf.decoding import refusal
from vpo.hf.policy import TransformersPolicy
from vpo.languages.contract import DIALECT_KEY
from vpo.policies.address import PolicyAddress, PolicySettings
from vpo.policies.checkpoint import check_checkpoint, find_base, load_adapter, trained_format, without_bars
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.encoding import named_prompt_format
from vpo.policies.fingerprint import fingerprint
from vpo.policies.prompt_formats import CHAT


def load_transformers(address: PolicyAddress, settings: PolicySettings) -> TransformersPolicy:
    """The policy of a directory, a hub id, or an embedded checkpoint. Raises BadAddress in one line."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    cached = check_checkpoint(address)
    (source, adapters), name = find_base(address), address.plain
    device = _device(settings.device)
    kind = _dtype(settings.dtype, device)
    leave_cudnn_attention()
    try:
        with without_bars():
            if AutoConfig.from_pretrained(source, local_files_only=cached).is_encoder_decoder:
                raise refusal(name, "an encoder reads the prompt and another model writes, so it is no causal model")
            tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=cached)
            model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=kind, local_files_only=cached)
            if getattr(model.config, "rescale_every", 0):  # RWKV halves its weights where it samples; they are saved so
                model.config.rescale_every = 0
            form = address.common.format
            if form is None and adapters and named_prompt_format(model.config) == CHAT:
                form = trained_format(adapters[-1])
            if form is not None:
                setattr(model.config, DIALECT_KEY, form)  # checked with the address, or by the policy
            # as an adapter that is trained on it names its base
            model.name_or_path = address.plain if address.kind == "embedded" else _absolute(source)
            for adapter in adapters:
                model = load_adapter(model, adapter)
            model = torch.nn.Module.to(model, device)
    except BadAddress:
        raise
    except torch.OutOfMemoryError as error:
        raise PolicyUnavailable(f"policy {name!r} does not fit on {device}: {error}") from None
    except Exception as error:  # a foreign checkpoint can make the library raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BadAddress(f"policy {name!r} cannot be loaded: {reason[:300]}") from error
    prints = [fingerprint(source, model.config), *(fingerprint(folder) for folder in adapters)]
    return TransformersPolicy(
        model,
        tokenizer,
        version=f"{name}@{'+'.join(prints)}",
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_tokens=settings.max_tokens,
        batch=settings.batch,
        threads=settings.threads,
    )


def _absolute(source: str) -> str:
    """A directory's path from the root; a hub id as it is."""
    return str(Path(source).resolve()) if Path(source).is_dir() else source


def _device(name: str | None) -> torch.device:
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise BadAddress(f"device {name!r} cannot be used: {str(error).splitlines()[0]}") from None


def _dtype(name: str | None, device: torch.device) -> torch.dtype:
    if name is None:
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name not in known:
        raise BadAddress(f"dtype {name!r} is not one of {', '.join(known)}")
    return known[name]
