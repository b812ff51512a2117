"""Reads settings: YAML in, a validated model out, and one line on failure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import GenericAlias
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evo.errors import BadInput, at_file
from problems.address import did_you_mean

OPTIONS = "the options"
"""The source of settings that came as flags."""

_ALTERNATIVE = re.compile(r"str|int|float|bool|(list|tuple|dict|literal)\[.*\]")
"""The part of pydantic's path to an error that names a member of a union, not a key."""

Model = TypeVar("Model", bound=BaseModel)


class StrictModel(BaseModel):
    """Settings without other keys than their own."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


def setting(default: Any, description: str, scopes: str = "", **bounds: Any) -> Any:
    """A field of a model. scopes: the names by which `fields_for` finds it"""
    return Field(default, description=description, json_schema_extra={"scopes": scopes}, **bounds)


def fields_for(model: type[BaseModel], scope: str) -> list[str]:
    """The fields of that scope, in their order."""
    extras: dict[str, Any] = {key: field.json_schema_extra or {} for key, field in model.model_fields.items()}
    return [key for key, extra in extras.items() if scope in extra.get("scopes", "").split()]


def parse(model: type[Model], values: Mapping[str, Any], source: str) -> Model:
    """Validates `values`; a single text for a setting that takes several, as in evaluate="maze:test", is a list of one.
    Raises BadInput with one line on the first wrong key and its fault, which begins with `source`, their origin."""
    several = {key for key, field in model.model_fields.items() if str(field.annotation).startswith("list[str]")}
    single = {key: [value] for key, value in values.items() if key in several and isinstance(value, str)}
    try:
        return model.model_validate({**values, **single})
    except ValidationError as error:
        raise BadInput(_line(error, model, source)) from error


class _Loader(yaml.SafeLoader):
    """YAML in which a repeated key is an error: by default the second silently replaces the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key.value, str)]
        for name in {name for name in names if names.count(name) > 1}:
            raise yaml.constructor.ConstructorError(None, None, f"{name} is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(path: str | None, source: str = "") -> dict[str, Any]:
    """The keys and values of a --config file, or of `source`; none without a file. Raises BadInput with one line."""
    if path is None:
        return {}
    source = source or f"--config {path}"
    try:
        with at_file(source):
            loaded = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"{source}: not YAML: {' '.join(str(error).split())}") from error
    if loaded is not None and not isinstance(loaded, dict):
        raise BadInput(f"{source}: expected keys and values, found {type(loaded).__name__}")
    return loaded or {}


def merge(values: dict[str, Any], overrides: Mapping[str, Any], source: str) -> None:
    """Puts `overrides` over `values`: dotted keys reach into sections; None and () are ignored.

    Raises BadInput if a section of `values` is not a mapping.
    """
    for dotted, value in overrides.items():
        if value is None or value == ():
            continue
        *sections, key = dotted.split(".")
        target = values
        for section in sections:
            inner = target.setdefault(section, {})
            if not isinstance(inner, dict):
                raise BadInput(f"{source}: {section} must be a section")
            target = inner
        target[key] = list(value) if isinstance(value, tuple) else value


def _line(error: ValidationError, model: type[BaseModel], source: str) -> str:
    # a misspelt key is missing too; the unknown key is the better message
    first = min(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
    path = [part for part in map(str, first["loc"]) if not _ALTERNATIVE.fullmatch(part)]
    key, message = ".".join(path), first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        known = set(_keys([model], path[:-1]))
        hint = did_you_mean(path[-1], known, most=1).removeprefix("; ")
        return f"{source}: unknown key {key}; {hint or 'known: ' + ', '.join(sorted(known))}"
    if first["type"] == "missing":
        return f"{source}: {key} is missing"
    if isinstance(first["input"], dict | BaseModel):  # a rule about several keys, whose message names them
        section = f"{key}: " if key else ""
        return message if source == OPTIONS and not key else f"{source}: {section}{message}"
    return f"{source}: {key} = {first['input']!r}: {message}"


def _keys(kinds: Iterable[Any], path: list[str]) -> Iterator[str]:
    """The keys of the section at `path` below types: of models, of mappings to models, of either or nothing."""
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            inner, rest = get_args(kind), path[1:] if isinstance(kind, GenericAlias) else path
            yield from _keys(inner, rest)
        elif not path:
            yield from kind.model_fields
        elif path[0] in kind.model_fields:
            yield from _keys([kind.model_fields[path[0]].annotation], path[1:])
