"""Policies by address, as the command line writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from problems.contract import BadAddress
from vpo.policies.contract import Policy

FORMS = "embedded:NAME, a hub id or directory, vllm:ID, openai:MODEL@URL, or scripted:NAME"


def load_policy(
    address: str,
    *,
    temperature: float = 1.0,
    top_p: float = 1.0,
    max_tokens: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    batch: int | None = None,
    threads: int | None = None,
) -> Policy:
    """The policy that `address` names, ready to sample.

    temperature: 0 takes the likeliest token always
    top_p: keep the likeliest tokens up to this mass
    max_tokens: limit of one rollout; None lets the policy choose (vpo.chain.default_max_tokens is what the engine sets)
    device: "cuda", "cpu"; None takes a GPU where there is one
    dtype: "float32", "bfloat16"; None is bfloat16 on a GPU and float32 on a CPU. In bfloat16 rounding depends on the
        shape of the batch, so what shares a rollout's batch can change it; in float32 it does not
    batch: prompts per call; None chooses by the model's size
    threads: CPU threads of the model's arithmetic; None takes one for a small model, else torch's own choice
    Raises BadAddress, one line, on an address that names nothing, settings that cannot be, or a missing extra.
    """
    if not 0.0 <= temperature <= 100.0:
        raise BadAddress(f"temperature {temperature} must lie between 0 and 100")
    if not 0.0 < top_p <= 1.0:
        raise BadAddress(f"top-p {top_p} must lie above 0 and at most 1")
    for name, value in (("max tokens", max_tokens), ("batch", batch), ("threads", threads)):
        if value is not None and value < 1:
            raise BadAddress(f"{name} {value} must be 1 or more")
    kind, _, rest = address.partition(":")
    if kind == "scripted":
        from vpo.policies.scripted import scripted_policy

        return scripted_policy(rest, temperature=temperature, batch=batch)
    if kind == "openai":
        from vpo.openai.policy import load_openai

        return load_openai(rest, temperature=temperature, top_p=top_p, max_tokens=max_tokens, batch=batch)
    settings: dict[str, Any] = {
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": max_tokens,
        "device": device,
        "dtype": dtype,
        "batch": batch,
        "threads": threads,
    }
    if kind == "vllm":
        from vpo.vllm.policy import load_vllm

        return load_vllm(rest, **settings)
    if kind == "embedded":
        from vpo.embedded import checkpoint_path

        return _transformers(str(checkpoint_path(rest)), address, settings)
    if not address or any(character.isspace() for character in address) or "://" in address or ":" in address:
        raise BadAddress(f"policy {address!r} is not an address: {FORMS}")
    return _transformers(_checkpoint(address), address, settings)


def _checkpoint(address: str) -> str:
    """A directory that holds a model, or a hub id that has the form of one."""
    from vpo.embedded import shipped

    folder = Path(address).expanduser()
    if address in shipped() and not (folder / "config.json").is_file():
        raise BadAddress(f"policy {address!r}: no such checkpoint; embedded:{address} ships with the package")
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise BadAddress(f"policy {address!r}: the directory holds no config.json, so it is no model checkpoint")
        return str(folder)
    if folder.exists() or address.startswith(("/", ".", "~")) or address.count("/") > 1 or address.endswith("/"):
        raise BadAddress(f"policy {address!r}: no such directory (a policy is {FORMS})")
    return address


def _transformers(source: str, address: str, settings: dict[str, Any]) -> Policy:
    from vpo.hf.policy import load_transformers

    return load_transformers(source, address=address, **settings)
