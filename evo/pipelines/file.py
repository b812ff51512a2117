"""A pipeline's file, read and validated: its stages in their order, each with its settings and references.

A stage takes the keys of its command: train, search and compare those of `--config FILE` of evo train, evo run and evo
compare; evaluate and report the options of their commands, with underscores for dashes. compare also takes its options
`against` and `processes`. In these settings `${STAGE}` is replaced by the result of an earlier stage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from evo.config.compare import CompareOptions
from evo.config.parse import StrictModel, parse, read_yaml
from evo.config.run import EvaluateConfig, PromptConfig, RunConfig
from evo.config.trackers import check_trackers
from evo.config.train import TrainRun
from evo.errors import BadInput, not_trainable
from evo.prompts.registry import open_format
from evo.runs.preflight import prompt_format_at
from evo.search.resources import problems_at
from problems.address import did_you_mean
from problems.contract import BadAddress
from vpo.policies.address import OwnOptions, parse_address, split_policies

POLICY, RUN, FILE = "policy", "run", "file"


class ReportSettings(StrictModel):
    """The argument and the options of `evo report`."""

    run: str
    against: str | None = None


@dataclass(frozen=True)
class StageKind:
    """settings: the model of its keys; gives: what a reference to such a stage means, "" for nothing
    folder, ending: of its output in the pipeline's directory; "" for runs, which are in the database
    """

    settings: type[BaseModel]
    gives: str = ""
    folder: str = ""
    ending: str = ""


KINDS: Mapping[str, StageKind] = {
    "train": StageKind(TrainRun, POLICY, "policies"),
    "evaluate": StageKind(EvaluateConfig, FILE, "evaluations", ".json"),
    "search": StageKind(RunConfig, RUN),
    "compare": StageKind(CompareOptions, RUN),
    "report": StageKind(ReportSettings, "", "reports", ".html"),
}
SEARCHES = ("search", "compare")


def read_settings(kind: str, values: Mapping[str, Any], source: str) -> tuple[BaseModel, dict[str, Any]]:
    """(validated settings, the given keys as plain values, which are the same for 1e-3 and 0.001). Raises BadInput in
    one line that names the key."""
    settings = parse(KINDS[kind].settings, values, source)
    if kind == "train" and "method" not in settings.model_fields_set:
        raise BadInput(f"{source}: method is missing, as in method: vpo")
    return settings, settings.model_dump(mode="json", exclude_unset=True)


_REFERENCE = re.compile(r"(?P<before>archive:)?\$\{\s*(?P<stage>[^{}\s]+)\s*\}(?P<after>/[^,]+|\?[^,]*)?")
_AFTER = {POLICY: "?OPTION=VALUE", RUN: "/ARM/sSEED", FILE: "?METRIC=VALUE"}
"""What can follow a reference to each kind of result."""
_PLACES: Mapping[str, str] = {
    **dict.fromkeys(("train.policy", "evaluate.policy", "search.policy", "compare.arms.policy"), POLICY),
    **dict.fromkeys((f"{kind}.problems" for kind in ("train", "evaluate", "search", "compare")), FILE),
    **dict.fromkeys(("train.evaluate", "evaluate.against"), FILE),
    **dict.fromkeys(("train.from_traces", "train.parents_from", "report.run"), RUN),
}
"""The kind of result that a key's value can refer to."""
_LISTS = ("problems", "evaluate")
"""Keys that take addresses of problems; there an evaluation means a list of its problems."""


def find_references(
    kind: str, values: Mapping[str, Any], source: str, kinds: Mapping[str, str], earlier: Collection[str]
) -> tuple[str, ...]:
    """Names of the stages that a stage's validated, plain settings refer to, each once.

    kinds: of all stages of the file; earlier: names of those before this one
    Raises BadInput for a reference that is misplaced, or to the wrong stage.
    """
    found: list[str] = []
    for path, text in _strings(values, ()):
        if "${" not in text:
            continue
        key = ".".join(path)
        place = f"{kind}.arms.{path[-1]}" if path[0] == "arms" else f"{kind}.{path[0]}"
        wants, value = _PLACES.get(place), f"{source}: {key} = {text!r}"
        if wants is None:
            here = ", ".join(name.partition(".")[2] for name in _PLACES if name.startswith(f"{kind}."))
            raise BadInput(f"{value}: a reference is not allowed here; in {kind} it can in {here}")
        for part in split_policies(text) if wants == POLICY else [text]:
            if "${" not in part:
                continue
            matched = _REFERENCE.fullmatch(part)
            if matched is None:
                raise BadInput(f"{value}: a reference must be the whole value, as in policy: ${{STAGE}}")
            before, name, after = matched["before"] or "", matched["stage"], matched["after"] or ""
            if before != (expected := "archive:" if place == "train.parents_from" else ""):
                raise BadInput(f"{value}: expected {expected}${{STAGE}}")
            if after and after[0] != _AFTER[wants][0]:
                raise BadInput(f"{value}: only {_AFTER[wants]} can follow a reference to a {wants}")
            if name not in kinds:
                hint = did_you_mean(name, kinds, most=1) or f"; there are {', '.join(kinds)}"
                raise BadInput(f"{source}: {key}: there is no stage {name}{hint}")
            if name not in earlier:
                raise BadInput(f"{source}: {key}: reads {name}, which does not come before it")
            if (gives := KINDS[kinds[name]].gives) != wants:
                result = f"gives a {gives}" if gives else "gives nothing to read"
                needs = f"this key needs a {wants}; {name} is a {kinds[name]} stage and {result}"
                raise BadInput(f"{source}: {key}: {needs}")
            if after and gives == RUN and kinds[name] != "compare":
                raise BadInput(f"{source}: {key}: {name} is one run; only a comparison's runs have /ARM/sSEED")
            found.append(name)
    return tuple(dict.fromkeys(found))


def replace_references(value: Any, given: Callable[[str], str]) -> Any:
    """The same values with each reference replaced by the stage's result in `given`."""
    if isinstance(value, str):
        return ",".join(_replaced(part, given) for part in split_policies(value)) if "${" in value else value
    if isinstance(value, Mapping):
        return {
            key: replace_references(inner, (lambda name: f"list:{given(name)}") if key in _LISTS else given)
            for key, inner in value.items()
        }
    return [replace_references(inner, given) for inner in value] if isinstance(value, list | tuple) else value


def stage_named(policy: str) -> str | None:
    """The stage that an address refers to, or None."""
    matched = _REFERENCE.fullmatch(policy)
    return matched["stage"] if matched else None


def _replaced(part: str, given: Callable[[str], str]) -> str:
    matched = _REFERENCE.fullmatch(part)
    if matched is None:
        return part
    return (matched["before"] or "") + given(matched["stage"]) + (matched["after"] or "")


def _strings(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping | list | tuple):
        for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _strings(inner, (*path, str(key)))


STAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


class _File(StrictModel):
    db: str | None = None
    stages: dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """settings: validated, with references as they were written; given: the keys of the file as plain values; reads:
    names of the stages that it reads."""

    name: str
    kind: str
    settings: Any
    given: Mapping[str, Any]
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Pipeline:
    """stages: by name, in their order; db: the database, if the file names one."""

    stages: Mapping[str, Stage]
    db: str | None


def read_pipeline(path: str) -> Pipeline:
    """Read a pipeline. Raises BadInput in one line that names the file, the stage and the key."""
    try:
        file = parse(_File, read_yaml(path, path), path)
    except BadInput as error:
        if "not YAML" in str(error) and "${" in str(error):
            raise BadInput(f'{error}; inside [ ] and {{ }} a reference is quoted: "${{STAGE}}"') from error
        raise
    if not file.stages:
        raise BadInput(f"{path}: has no stages; a stage is a name with a kind below it ({', '.join(KINDS)})")
    kinds = {name: _kind(path, name, content) for name, content in file.stages.items()}
    stages: dict[str, Stage] = {}
    for name, kind in kinds.items():
        values, source = file.stages[name][kind] or {}, f"{path}: stage {name}: {kind}"
        if not isinstance(values, dict):
            raise BadInput(f"{source}: expected keys and values, found {type(values).__name__}")
        settings, given = read_settings(kind, {str(key): value for key, value in values.items()}, source)
        stage = Stage(name, kind, settings, given, find_references(kind, given, source, kinds, stages))
        try:
            _check_inputs(stage, stages)
        except (BadInput, BadAddress) as error:
            message = " ".join(str(error).split()).removeprefix("the options: ")
            raise BadInput(f"{source}: {message}") from error
        stages[name] = stage
    return Pipeline(stages, file.db)


def _check_inputs(stage: Stage, earlier: Mapping[str, Stage]) -> None:
    """Whether the problem sets and policies exist and fit each other, as far as that can be told without a model and
    before the earlier stages. Raises BadInput, BadAddress."""
    given = stage.given
    check_trackers(given.get("report_to", ()))
    if stage.kind != "report" and not given.get("problems") and not given.get("from_traces"):
        raise BadInput("problems: name problems")
    addresses = [*given.get("problems", ()), *given.get("evaluate", ())] if stage.kind != "report" else []
    named = [address for address in addresses if stage_named(address) is None]
    problems = problems_at(named, 1, given.get("weights"))
    own = stage.settings.policy if stage.kind in ("train", "evaluate") else given.get("policy")
    policies = [own, *(arm["policy"] for arm in given.get("arms", {}).values())]
    for policy in [part for named in filter(None, policies) for part in split_policies(named)]:
        start = policy
        while (name := stage_named(start)) is not None:  # a policy is asked as the one that its training starts from
            parse_address(start).own_options(OwnOptions)
            start = earlier[name].settings.policy
        if stage.kind == "train" and not parse_address(start).has_weights:
            raise not_trainable(start)
        for problem in problems:
            open_format(problem, prompt_format_at(start), PromptConfig(), 1)


def _kind(path: str, name: str, content: object) -> str:
    source = f"{path}: stage {name}"
    if not STAGE_NAME.fullmatch(name):
        raise BadInput(f"{source}: no name for a stage: up to 40 letters, digits, dashes and underscores")
    if not isinstance(content, dict):
        raise BadInput(f"{source}: expected a kind with its settings below it")
    if len(content) != 1:
        found = ", ".join(map(str, content)) or "nothing"
        raise BadInput(f"{source}: expected one kind ({', '.join(KINDS)}) with its settings below it, found {found}")
    (kind,) = content
    if kind not in KINDS:
        hint = did_you_mean(str(kind), KINDS, most=1) or f"; there is {', '.join(KINDS)}"
        raise BadInput(f"{source}: no kind {kind!r}{hint}")
    return str(kind)
