"""The models of an OpenEvolve config.yaml as a policy's address: its models, servers and weights.

`llm.models`, or `primary_model` and `secondary_model`, each with its own settings over those of `llm`. A key comes from
the environment: `api_key: ${NAME}` names the variable, and a key that is written out is not used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from problems.contract import BadAddress

OF_MODELS = ("models", "primary_model", "primary_model_weight", "secondary_model", "secondary_model_weight")
"""Keys of `llm` that name models."""
OF_THE_SERVER = ("api_base", "api_key", "timeout", "retries", "reasoning_effort")
"""Keys of `llm` that each model takes over; they mean something only if a model is named."""
_OF_ONE_MODEL = (*OF_THE_SERVER, "name", "weight", "provider", "temperature", "top_p", "max_tokens")
_DEFAULT_KEY = "OPENAI_API_KEY"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OURS = re.compile(r"(?:openai|vllm|embedded|scripted|command):")
"""An address of a policy as a model's name (evo.openevolve.client)."""


def policy_address(llm: Mapping[str, Any], where: str) -> tuple[str, set[str]]:
    """The policies that the section `llm` names, with commas between, "" for none; and which of its keys do nothing.

    where: the file, for messages. Raises BadAddress, in one line, for a value of the wrong kind.
    """
    keys = llm.keys() & {*OF_MODELS, *OF_THE_SERVER}
    models = [(key, model) for key, model in _named(llm, where) if _number(model, "weight", key, where) != 0]
    if not models:
        return "", keys
    ignored = {"api_key"} if "api_key" in keys and _key_variable(llm.get("api_key")) is None else set()
    shared = {name: llm[name] for name in OF_THE_SERVER if llm.get(name) is not None}
    addresses = []
    for key, model in models:
        ignored |= {key + name for name in model.keys() - {*_OF_ONE_MODEL}}
        if model.get("api_key") is not None and _key_variable(model["api_key"]) is None:
            ignored.add(f"{key}api_key")
        addresses.append(_address({**shared, **model}, key, where, weighted=len(models) > 1))
    return ",".join(addresses), ignored


def _named(llm: Mapping[str, Any], where: str) -> list[tuple[str, dict[str, Any]]]:
    """(the prefix of its keys, the model's settings)."""
    listed = llm.get("models")
    if listed is not None:
        if not isinstance(listed, list):
            raise BadAddress(f"{where}: llm.models is {listed!r}; it must be a list of models")
        models = [{"name": model} if isinstance(model, str) else model for model in listed]
        for model in models:
            if not isinstance(model, dict) or not isinstance(model.get("name"), str) or not model["name"].strip():
                raise BadAddress(f"{where}: llm.models holds {model!r}; each model needs a name")
        return [(f"models.{model['name']}.", model) for model in models]
    named: list[tuple[str, dict[str, Any]]] = []
    for role in ("primary_model", "secondary_model"):
        name = llm.get(role)
        if name is None:
            continue
        if not isinstance(name, str) or not name.strip():
            raise BadAddress(f"{where}: llm.{role} is {name!r}; it must be a model's name")
        weight = llm.get(f"{role}_weight")
        named.append((f"{role}.", {"name": name} | ({} if weight is None else {"weight": weight})))
    return named


def _address(model: Mapping[str, Any], key: str, where: str, weighted: bool) -> str:
    name = str(model["name"]).strip()
    options: dict[str, Any] = {}
    if weighted:
        options["weight"] = f"{_number(model, 'weight', key, where, 1.0):g}"
    for setting in ("temperature", "top_p"):
        if model.get(setting) is not None:
            options[setting] = f"{_number(model, setting, key, where):g}"
    if model.get("max_tokens") is not None:
        options["max_tokens"] = int(_number(model, "max_tokens", key, where))
    if model.get("provider") == "evo" or _OURS.match(name):
        return name + (("&" if "?" in name else "?") + urlencode(options) if options else "")
    base = model.get("api_base")
    if base is not None and not isinstance(base, str):
        raise BadAddress(f"{where}: llm.{key}api_base is {base!r}; it must be the URL of a server")
    url = _VARIABLE.sub(lambda matched: os.environ.get(matched[1], ""), base or "").strip()
    variable = _key_variable(model.get("api_key"))
    if variable not in (None, _DEFAULT_KEY):
        options["key"] = variable
    if model.get("timeout") is not None:
        options["timeout"] = f"{_number(model, 'timeout', key, where):g}"
    if model.get("retries") is not None:
        options["retries"] = int(_number(model, "retries", key, where))
    if model.get("reasoning_effort") is not None:
        options["reasoning_effort"] = model["reasoning_effort"]
    query = urlencode(options)
    return f"openai:{name}{f'@{url}' if url else ''}{f'?{query}' if query else ''}"


def _key_variable(value: Any) -> str | None:
    """The environment variable that an api_key names."""
    matched = _VARIABLE.fullmatch(value.strip()) if isinstance(value, str) else None
    return matched[1] if matched else None


def _number(model: Mapping[str, Any], name: str, key: str, where: str, default: float = 1.0) -> float:
    value = model.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise BadAddress(f"{where}: llm.{key}{name} is {value!r}; it must be a number of at least 0")
    return float(value)
