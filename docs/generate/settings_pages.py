"""The page of YAML keys, from the pydantic models that read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from markdown_table import plain, table
from pydantic import BaseModel

from evo.config.compare import CompareOptions
from evo.config.run import EvaluateConfig, RunConfig
from evo.config.train import TrainRun
from evo.pipelines.file import ReportSettings

INTRODUCTION = """# Settings

This page is made from the models that read the settings. Every key is a key of `--config FILE.yaml`, and of a
pipeline's stage. Most have a flag of the same name, with dashes for underscores. A flag takes precedence over the file.
A key that is not listed here is refused, with the keys that there are.
"""
MODELS: Mapping[str, tuple[type[BaseModel], str]] = {
    "run": (RunConfig, "`evo run --config`, and `search` in a pipeline."),
    "compare": (
        CompareOptions,
        "`evo compare --config`, and `compare` in a pipeline. The keys of a run stand beside these; "
        "`policy`, `rollouts` and `train` belong to the arms. `NAME: POLICY` is an arm in short.",
    ),
    "train": (TrainRun, "`evo train --config`, and `train` in a pipeline."),
    "evaluate": (EvaluateConfig, "Flags of `evo evaluate`, and `evaluate` in a pipeline."),
    "report": (ReportSettings, "The argument and options of `evo report`, and `report` in a pipeline."),
}


def settings_page() -> str:
    """One section a command, then one for each section of keys that they share."""
    parts, shared = [INTRODUCTION.strip()], dict[str, Any]()
    for name, (model, about) in MODELS.items():
        schema = model.model_json_schema()
        shared |= schema.get("$defs", {})
        inherited = RunConfig.model_fields if name == "compare" else ()
        properties = {key: value for key, value in schema["properties"].items() if key not in inherited}
        parts += [f"## {name}", about, _table(properties, schema)]
    for name in sorted(shared):
        if "properties" in shared[name]:
            parts += [f"## {name}", _about(shared[name]), _table(shared[name]["properties"], shared[name])]
    return "\n\n".join(parts) + "\n"


def _about(schema: Mapping[str, Any]) -> str:
    return plain(" ".join(str(schema.get("description", "")).split()))


def _table(properties: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return table(
        ("key", "value", "default", "meaning"),
        [
            (f"`{key}`", _kind(value), _default(value, key in required), plain(str(value.get("description", ""))))
            for key, value in properties.items()
        ],
    )


def _default(value: Mapping[str, Any], required: bool) -> str:
    if required:
        return "required"
    default = value.get("default")
    if default is None:
        return ""
    return f"`{default}`" if isinstance(default, int | float | str) else f"`{default!r}`"


def _kind(value: Mapping[str, Any]) -> str:
    """A JSON schema in words."""
    if "anyOf" in value:
        return " or ".join(_kind(one) for one in value["anyOf"] if one.get("type") != "null")
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    if value.get("type") == "array":
        inner = value.get("items") or (value.get("prefixItems") or [{}])[0]
        return f"list of {_kind(inner)}"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        return f"name: {_kind(inner)}" if isinstance(inner, dict) else "keys and values"
    return " ".join([str(value.get("type", "any")), *_bounds(value)])


def _bounds(value: Mapping[str, Any]) -> Iterator[str]:
    for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")):
        if key in value:
            yield f"{sign} {value[key]:g}"
