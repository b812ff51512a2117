"""An OpenEvolve config.yaml in this engine's terms: its effect here, and its ignored keys.

OpenEvolve's Config does not know which keys were written, and importing it loads its whole controller; so the file is
read as it is, and each honoured key is checked by a type and carried over under the engine's name.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from problems.contract import BadAddress
from problems.rows import read_mapping


def _is_number(value: object, whole: bool = False) -> bool:
    return isinstance(value, int if whole else int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value, whole=True) and value > 0


def _maps_names(value: object, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(isinstance(k, str) and fits(item) for k, item in value.items())


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "whole number": (
        _is_count,
        "max_iterations max_code_length max_solution_length llm.max_tokens database.num_islands "
        "database.population_size database.archive_size database.diversity_reference_size database.migration_interval "
        "evaluator.memory_limit_mb evaluator.parallel_evaluations",
    ),
    "whole number or 0": (
        lambda v: _is_number(v, whole=True) and v >= 0,
        "random_seed prompt.num_top_programs prompt.num_diverse_programs",
    ),
    "number": (lambda v: _is_number(v) and v >= 0, "llm.temperature"),
    "positive number": (lambda v: _is_number(v) and v > 0, "evaluator.timeout"),
    "share between 0 and 1": (
        lambda v: _is_number(v) and 0 <= v <= 1,
        "llm.top_p database.elite_selection_ratio database.exploration_ratio database.exploitation_ratio "
        "database.migration_rate",
    ),
    "true or false": (
        lambda v: isinstance(v, bool),
        "diff_based_evolution diff_based_generation prompt.include_artifacts evaluator.cascade_evaluation "
        "evaluator.enable_artifacts",
    ),
    "text": (lambda v: isinstance(v, str), "language file_suffix prompt.system_message prompt.template_dir"),
    "list of names": (
        lambda v: isinstance(v, list) and all(isinstance(item, str) for item in v),
        "database.feature_dimensions objectives readable",
    ),
    "list of numbers": (lambda v: isinstance(v, list) and all(map(_is_number, v)), "evaluator.cascade_thresholds"),
    "whole number, or one per feature": (lambda v: _is_count(v) or _maps_names(v, _is_count), "database.feature_bins"),
    "any number": (_is_number, "target"),
    "mapping of names to max or min": (lambda v: _maps_names(v, lambda item: item in ("max", "min")), "directions"),
}
"""A type by its name, and the keys that are read of this type. Four exist only here: the fitness at which the search
counts as solved, the metrics that are objectives, which of them are better when lower (`directions` of a scorer file),
and further files that the evaluator may read (problems.custom)."""
_HONOURED = {key: kind for kind, (_, keys) in _KINDS.items() for key in keys.split()}
_RENAMED = {
    **{"random_seed": "seed", "database.num_islands": "islands"},
    **{"max_solution_length": "max_code_length", "diff_based_generation": "diff_based_evolution"},  # SkyDiscover's
}
"""What the engine calls a key; the others keep the name after the dot."""

DEFAULTS: Mapping[str, Any] = {
    "timeout": 300.0,
    "cascade_evaluation": True,
    "cascade_thresholds": [0.5, 0.75, 0.9],
    "diff_based_evolution": True,
    "max_code_length": 10_000,
    "file_suffix": ".py",
    "enable_artifacts": True,
}
"""OpenEvolve's defaults, where the engine has no equal default."""
FEATURE_DIMENSIONS = ("complexity", "diversity")
"""OpenEvolve's default of `database.feature_dimensions`."""
TEMPERATURE = 0.7
"""OpenEvolve's default of `llm.temperature`."""
_SECONDARY_WEIGHT = 0.2
"""OpenEvolve's default of `llm.secondary_model_weight`."""


@dataclass(frozen=True)
class OpenEvolveConfig:
    """`settings`: the written keys in the engine's terms, over DEFAULTS. `ignored`: keys that decide nothing here."""

    settings: dict[str, Any] = field(default_factory=lambda: dict(DEFAULTS))
    ignored: tuple[str, ...] = ()

    def warning(self, path: Path) -> str:
        """One line for all ignored keys; "" if there are none."""
        if not self.ignored:
            return ""
        text = f"{path}: not honoured: {', '.join(self.ignored)}"
        if any(key.endswith("api_key") for key in self.ignored):
            text += " (a key is read from the environment: write api_key: ${NAME})"
        return text


def read_config(path: Path) -> OpenEvolveConfig:
    """The file's settings. Raises BadAddress, in one line, if it cannot be read or a value has the wrong kind."""
    written = read_mapping(path)
    settings = dict(DEFAULTS)
    llm = written.get("llm")
    policy, unused = policy_address(llm, str(path)) if isinstance(llm, dict) else ("", set[str]())
    if policy:
        settings |= {"policy": policy, "temperature": TEMPERATURE}
    ignored = sorted(f"llm.{key}" for key in unused)
    of_models = {f"llm.{key}" for key in (*OF_MODELS, *OF_THE_SERVER)}
    for key, value in _flat(written):
        if key in of_models:
            continue
        if key not in _HONOURED:
            if not (key == "enforce_evolve_blocks" and value is True):  # which they always are here
                ignored.append(key)
            continue
        if value is None:
            continue  # "null" asks for the default
        kind = _HONOURED[key]
        if not _KINDS[kind][0](value):
            raise BadAddress(f"{path}: {key} is {value!r}; it must be a {kind}{_hint(value)}")
        settings[_RENAMED.get(key, key.rpartition(".")[2])] = value
    template = settings.get("template_dir")
    if template and not Path(template).is_absolute():
        settings["template_dir"] = str((path.parent / template).resolve())
    explore = settings.get("exploration_ratio", 0.2)
    if explore + settings.get("exploitation_ratio", 0.7) > 1:
        settings["exploitation_ratio"] = 1 - explore  # as OpenEvolve's draw treats it: the rest after exploration
    return OpenEvolveConfig(settings, tuple(ignored))


def _hint(value: object) -> str:
    """How to write a number that YAML 1.1 reads as text, as 7e-1 is for want of a point; "" for another value."""
    texts = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
    number = next((text for text in texts if re.fullmatch(r"[0-9]{1,9}e-?[0-9]", text)), None)
    return "" if number is None else f" (YAML takes {number} for text: write {Decimal(number):f})"


_SECTIONS = ("llm", "prompt", "database", "evaluator", "evolution_trace")


def _flat(written: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys with their section's name before them; a section that is itself no mapping is given as it is."""
    for key, value in written.items():
        if key in _SECTIONS and isinstance(value, dict):
            for inner, item in value.items():
                yield f"{key}.{inner}", item
        else:
            yield str(key), value


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
    named = _named(llm, where)
    models = [(key, model) for key, model in named if _number(model, "weight", key, where) != 0]
    if named and not models:
        raise BadAddress(f"{where}: llm names models, and each has the weight 0")
    if not models:
        return "", keys
    ignored = {"api_key"} if "api_key" in keys and _key_variable(llm.get("api_key")) is None else set()
    shared = {name: llm[name] for name in OF_THE_SERVER if llm.get(name) is not None}
    addresses = []
    for key, model in models:
        ignored |= {key + name for name in model.keys() - {*_OF_ONE_MODEL}}
        if model.get("api_key") is not None and _key_variable(model["api_key"]) is None:
            ignored.add(f"{key}api_key")
        own = {name: value for name, value in model.items() if value is not None}
        addresses.append(_address({**shared, **own}, key, where, weighted=len(models) > 1))
    return ",".join(addresses), ignored


def _named(llm: Mapping[str, Any], where: str) -> list[tuple[str, dict[str, Any]]]:
    """(the prefix of its keys, the model's settings): `models`, then the primary and the secondary one."""
    listed = llm.get("models") or []
    if not isinstance(listed, list):
        raise BadAddress(f"{where}: llm.models is {listed!r}; it must be a list of models")
    named: list[tuple[str, dict[str, Any]]] = []
    for given in listed:
        model = {"name": given} if isinstance(given, str) else given
        if not isinstance(model, dict) or not isinstance(model.get("name"), str) or not model["name"].strip():
            raise BadAddress(f"{where}: llm.models holds {model!r}; each model needs a name")
        named.append((f"models.{model['name']}.", model))
    for role, default in (("primary_model", 1.0), ("secondary_model", _SECONDARY_WEIGHT)):
        name, weight = llm.get(role), llm.get(f"{role}_weight")
        if name in (None, ""):
            continue
        if not isinstance(name, str) or not name.strip():
            raise BadAddress(f"{where}: llm.{role} is {name!r}; it must be a model's name")
        named.append((f"{role}.", {"name": name, "weight": default if weight is None else weight}))
    return named


def _address(model: Mapping[str, Any], key: str, where: str, weighted: bool) -> str:
    name = str(model["name"]).strip()
    options: dict[str, Any] = {}

    def take(*settings: str) -> None:
        for setting in settings:
            if model.get(setting) is not None:
                number = _number(model, setting, key, where)
                options[setting] = int(number) if setting in ("max_tokens", "retries") else f"{number:.12g}"

    if weighted:
        options["weight"] = f"{_number(model, 'weight', key, where):.12g}"
    take("temperature", "top_p", "max_tokens")
    if model.get("provider") == "evo" or _OURS.match(name):
        return name + (("&" if "?" in name else "?") + urlencode(options) if options else "")
    base = model.get("api_base")
    if base is not None and not isinstance(base, str):
        raise BadAddress(f"{where}: llm.{key}api_base is {base!r}; it must be the URL of a server")
    url = _VARIABLE.sub(lambda matched: os.environ.get(matched[1], ""), base or "").strip()
    variable = _key_variable(model.get("api_key"))
    if variable not in (None, _DEFAULT_KEY):
        options["key"] = variable
    take("timeout", "retries")
    if model.get("reasoning_effort") is not None:
        options["reasoning_effort"] = model["reasoning_effort"]
    query = urlencode(options)
    return f"openai:{name}{f'@{url}' if url else ''}{f'?{query}' if query else ''}"


def _key_variable(value: Any) -> str | None:
    """The environment variable that an api_key names."""
    matched = _VARIABLE.fullmatch(value.strip()) if isinstance(value, str) else None
    return matched[1] if matched else None


def _number(model: Mapping[str, Any], name: str, key: str, where: str) -> float:
    value = model.get(name)
    if value is None:
        return 1.0
    if not _is_number(value) or value < 0 or not math.isfinite(value):
        raise BadAddress(f"{where}: llm.{key}{name} is {value!r}; it must be a number of at least 0{_hint(value)}")
    return float(value)
