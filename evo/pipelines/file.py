"""A pipeline's file, read and validated: its stages in their order, each with what it reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from evo.config.parse import parse
from evo.errors import BadInput
from evo.pipelines.references import Reference, references
from evo.pipelines.settings import GIVES, KINDS, read_settings
from problems.address import did_you_mean

_UNQUOTED = re.compile(r"[\[{].*\$\{")
STAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    db: str | None = None
    stages: dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """settings: validated, references in them still as they were written; given: the keys that the file gives, in
    plain values."""

    name: str
    kind: str
    settings: Any
    given: Mapping[str, Any]
    references: tuple[Reference, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the stages that it reads, each once."""
        return tuple(dict.fromkeys(reference.stage for reference in self.references))


@dataclass(frozen=True)
class Pipeline:
    """path: of the file; stages: by name, in their order; db: where the file names one."""

    path: Path
    stages: Mapping[str, Stage]
    db: str | None

    def readers(self, names: set[str]) -> set[str]:
        """These stages and all that read them, directly or not."""
        found = set(names)
        for stage in self.stages.values():  # in order, so that one pass is enough
            if found & set(stage.reads):
                found.add(stage.name)
        return found


def read_pipeline(path: str) -> Pipeline:
    """Raises BadInput with one line that names the file, the stage and the key."""
    file = parse(_File, _yaml(path), path)
    if not file.stages:
        raise BadInput(f"{path}: has no stages; a stage is a name with a kind below it ({', '.join(KINDS)})")
    stages = {name: _stage(path, name, content) for name, content in file.stages.items()}
    _check_references(path, stages)
    return Pipeline(Path(path), stages, file.db)


class _Loader(yaml.SafeLoader):
    """YAML that takes a key given twice for the mistake it is: the second would silently replace the first."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen = set()
    for key_node, _ in node.value:
        if key_node.value in seen:
            raise yaml.constructor.ConstructorError(None, None, f"{key_node.value} is there twice", key_node.start_mark)
        seen.add(key_node.value if isinstance(key_node.value, str) else id(key_node))
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _yaml(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
        loaded = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not YAML: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = text.splitlines()[mark.line] if mark is not None and mark.line < len(text.splitlines()) else ""
        hint = '; inside [ ] and { } a reference is quoted: "${STAGE}"' if _UNQUOTED.search(line) else ""
        raise BadInput(f"{path}: not YAML: {' '.join(str(error).split())}{hint}") from error
    if not isinstance(loaded, dict):
        raise BadInput(f"{path}: expected `stages:` with stages below it, found {type(loaded).__name__}")
    return {str(key): value for key, value in loaded.items()}


def _stage(path: str, name: str, content: object) -> Stage:
    source = f"{path}: stage {name}"
    if not STAGE_NAME.fullmatch(name):
        raise BadInput(f"{source}: no name for a stage: up to 40 letters, digits, dashes and underscores")
    if not isinstance(content, dict):
        raise BadInput(f"{source}: expected a kind with its settings below it")
    if len(content) != 1:
        found = ", ".join(map(str, content)) or "nothing"
        raise BadInput(f"{source}: expected one kind ({', '.join(KINDS)}) with its settings below it, found {found}")
    ((kind, values),) = content.items()
    if kind not in KINDS:
        hint = did_you_mean(str(kind), KINDS, most=1) or f"; there is {', '.join(KINDS)}"
        raise BadInput(f"{source}: no kind {kind!r}{hint}")
    values = {} if values is None else values
    if not isinstance(values, dict):
        raise BadInput(f"{source}: {kind}: expected keys and values, found {type(values).__name__}")
    settings, given = read_settings(kind, {str(key): value for key, value in values.items()}, f"{source}: {kind}")
    return Stage(name, kind, settings, given, references(kind, given, f"{source}: {kind}"))


def _check_references(path: str, stages: Mapping[str, Stage]) -> None:
    order = list(stages)
    for stage in stages.values():
        for reference in stage.references:
            source = f"{path}: stage {stage.name}: {stage.kind}: {reference.key}"
            if reference.stage not in stages:
                hint = did_you_mean(reference.stage, order, most=1) or f"; there are {', '.join(order)}"
                raise BadInput(f"{source}: there is no stage {reference.stage}{hint}")
            cycle = _way(stages, reference.stage, stage.name)
            if cycle:
                raise BadInput(f"{source}: a cycle: {' reads '.join([stage.name, *cycle])}")
            if order.index(reference.stage) > order.index(stage.name):
                raise BadInput(
                    f"{source}: reads {reference.stage}, which comes later; move {reference.stage} before it"
                )
            kind = stages[reference.stage].kind
            if GIVES.get(kind) != reference.wants:
                gives = f"gives a {GIVES[kind]}" if kind in GIVES else "gives nothing to read"
                raise BadInput(
                    f"{source}: a {reference.wants} is wanted here; {reference.stage} is a {kind} stage and {gives}"
                )
            if reference.part and kind != "compare":
                raise BadInput(f"{source}: {reference.stage} is one run; only a comparison's runs have /ARM/sSEED")


def _way(stages: Mapping[str, Stage], start: str, goal: str) -> list[str]:
    """Stages from `start` to `goal`, each reading the next; [] where there is no such way."""
    trail: list[list[str]] = [[start]]
    seen = {start}
    while trail:
        way = trail.pop(0)
        if way[-1] == goal:
            return way
        for name in stages[way[-1]].reads if way[-1] in stages else ():
            if name not in seen:
                seen.add(name)
                trail.append([*way, name])
    return []
