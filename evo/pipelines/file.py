"""A pipeline's file, read and validated: its stages in their order, each with its settings and references.

A stage takes the keys of its command: train, search and compare those of `--config FILE` of evo train, evo run and evo
compare; evaluate and report the options of their commands, with underscores for dashes. compare also takes its options
`against` and `processes`. In these settings `${STAGE}` is replaced by the result of an earlier stage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from evo.config.compare import CompareOptions
from evo.config.parse import StrictModel, parse, read_yaml
from evo.config.run import EvaluateConfig, PromptConfig, RunConfig, check_trackers
from evo.config.train import TrainRun
from evo.errors import BadInput, not_trainable
from evo.prompts.registry import open_format
from evo.runs.preflight import prompt_format_at
from evo.search.resources import problems_at
from problems.address import did_you_mean
from problems.contract import BadAddress
from vpo.policies.address import OwnOptions, parse_address, split_policies

_POLICY, _RUN, _FILE = "policy", "run", "file"


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


STAGE_KINDS: Mapping[str, StageKind] = {
    "train": StageKind(TrainRun, _POLICY, "policies"),
    "evaluate": StageKind(EvaluateConfig, _FILE, "evaluations", ".json"),
    "search": StageKind(RunConfig, _RUN),
    "compare": StageKind(CompareOptions, _RUN),
    "report": StageKind(ReportSettings, "", "reports", ".html"),
}
SEARCHES = ("search", "compare")


def read_settings(kind: str, values: Mapping[str, Any], source: str) -> tuple[BaseModel, dict[str, Any]]:
    """(validated settings, the given keys as plain values, which are the same for 1e-3 and 0.001). Raises BadInput in
    one line that names the key."""
    settings = parse(STAGE_KINDS[kind].settings, values, source)
    if kind == "train" and "method" not in settings.model_fields_set:
        raise BadInput(f"{source}: method is missing, as in method: vpo")
    return settings, settings.model_dump(mode="json", exclude_unset=True)


_REFERENCE = re.compile(r"\$\{\s*([^{}\s]+)\s*\}")
_WANTED: Mapping[str, str] = {
    **dict.fromkeys(("policy", "arms"), _POLICY),
    **dict.fromkeys(("problems", "evaluate", "evaluate.against"), _FILE),
    **dict.fromkeys(("from_traces", "parents_from", "run"), _RUN),
}
"""The kind of result that a key's value can refer to."""
_LISTS = ("problems", "evaluate")
"""Keys that take addresses of problems; there an evaluation means a list of its problems."""


def find_references(kind: str, values: Mapping[str, Any], source: str, earlier: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the stages that a stage's validated, plain settings refer to, each once.

    earlier: kinds of the stages before this one, by name
    Raises BadInput for a reference in another key, or to the wrong stage.
    """
    found: dict[str, None] = {}
    for key, text in _strings(values, ""):
        top = key.partition(".")[0]
        wanted = _WANTED.get(top) or _WANTED.get(f"{kind}.{top}")
        for name in _REFERENCE.findall(text):
            if wanted is None:
                raise BadInput(f"{source}: {key} = {text!r}: a reference is not allowed here")
            if name not in earlier:
                hint = did_you_mean(name, earlier, most=1) or f"; before it: {', '.join(earlier) or 'none'}"
                raise BadInput(f"{source}: {key}: there is no stage {name} before it{hint}")
            if (gives := STAGE_KINDS[earlier[name]].gives) != wanted:
                result = f"gives a {gives}" if gives else "gives nothing to read"
                raise BadInput(
                    f"{source}: {key}: this key needs a {wanted}; {name} is a {earlier[name]} stage and {result}"
                )
            found[name] = None
    return tuple(found)


def replace_references(values: Mapping[str, Any], result: Callable[[str], str]) -> dict[str, Any]:
    """The same values with each reference replaced by the stage's result."""

    def replaced(value: Any, before: str) -> Any:
        if isinstance(value, str):
            return _REFERENCE.sub(lambda matched: before + result(matched[1]), value)
        if isinstance(value, Mapping):
            return {key: replaced(inner, before) for key, inner in value.items()}
        return [replaced(inner, before) for inner in value] if isinstance(value, list | tuple) else value

    return {key: replaced(value, "list:" * (key in _LISTS)) for key, value in values.items()}


def _strings(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """(its key, joined by dots, text) of each text in plain values."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping | list | tuple):
        for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _strings(inner, f"{key}.{name}" if key else str(name))


_STAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


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
        raise BadInput(f"{path}: has no stages; a stage is a name with a kind below it ({', '.join(STAGE_KINDS)})")
    stages: dict[str, Stage] = {}
    for name, content in file.stages.items():
        kind = _kind(path, name, content)
        values, source = content[kind] or {}, f"{path}: stage {name}: {kind}"
        if not isinstance(values, dict):
            raise BadInput(f"{source}: expected keys and values, found {type(values).__name__}")
        settings, given = read_settings(kind, {str(key): value for key, value in values.items()}, source)
        reads = find_references(kind, given, source, {other.name: other.kind for other in stages.values()})
        stage = Stage(name, kind, settings, given, reads)
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
    if stage.kind == "report":
        return
    if not given.get("problems") and not given.get("from_traces"):
        raise BadInput("problems: name problems")
    addresses = [*given.get("problems", ()), *given.get("evaluate", ())]
    problems = problems_at([one for one in addresses if "${" not in one], 1, given.get("weights"))
    own = stage.settings.policy if stage.kind in ("train", "evaluate") else given.get("policy")
    policies = [own, *(arm["policy"] for arm in given.get("arms", {}).values())]
    for start in [part for named in filter(None, policies) for part in split_policies(named)]:
        while matched := _REFERENCE.match(start):  # a policy is asked as the one that its training starts from
            if start[matched.end() :][:1] not in ("", "?"):
                raise BadInput(f"policy: {start}: only ?OPTION=VALUE can follow a reference to a policy")
            parse_address(start).own_options(OwnOptions)
            start = earlier[matched[1]].settings.policy
        if stage.kind == "train" and not parse_address(start).has_weights:
            raise not_trainable(start)
        for problem in problems:
            open_format(problem, prompt_format_at(start), PromptConfig(), 1)


def _kind(path: str, name: str, content: object) -> str:
    source = f"{path}: stage {name}"
    if not _STAGE_NAME.fullmatch(name):
        raise BadInput(f"{source}: no name for a stage: up to 40 letters, digits, dashes and underscores")
    if not isinstance(content, dict) or len(content) != 1:
        raise BadInput(f"{source}: expected one kind ({', '.join(STAGE_KINDS)}) with its settings below it")
    (kind,) = content
    if kind not in STAGE_KINDS:
        hint = did_you_mean(str(kind), STAGE_KINDS, most=1) or f"; there is {', '.join(STAGE_KINDS)}"
        raise BadInput(f"{source}: no kind {kind!r}{hint}")
    return str(kind)
