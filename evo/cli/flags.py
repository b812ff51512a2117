"""Flags made from the fields of settings, so that a setting's type, bounds, default and help are defined once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import annotated_types
import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from evo.config.parse import fields_for
from evo.config.run import FLAGS, RunConfig, SamplingConfig

F = TypeVar("F", bound=Callable[..., Any])


class GroupedCommand(click.Command):
    """A command whose help lists its options in sections.

    sections: title -> names of parameters, in order; options of no section come last
    """

    def __init__(self, *arguments: Any, sections: Mapping[str, Sequence[str]], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {option.name: record for option in options if (record := option.get_help_record(ctx))}
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([records.pop(name) for name in names])
        with formatter.section("Other options"):
            formatter.write_dl(list(records.values()))


def flag(model: type[BaseModel], key: str, name: str = "", **changes: Any) -> Callable[[F], F]:
    """A click option for one setting. Its default is None, which means that the flag was not given.

    key: of the field; dots separate sections, as in `population.islands`
    name: of the flag; default: the key's last part, with dashes
    changes: arguments of click.option that replace those taken from the field
    """
    *sections, last = key.split(".")
    for section in sections:
        model, _ = _unwrap(model.model_fields[section].annotation, [])
    field = model.model_fields[last]
    name = name or "--" + last.replace("_", "-")
    kind, bounds = _unwrap(field.annotation, list(field.metadata))
    settings: dict[str, Any] = {"default": None, "help": _describe(field)}
    if kind is bool:
        name = f"{name}/--no-{name.removeprefix('--')}"
    elif get_origin(kind) is list:
        settings |= {"multiple": True, "type": _to_click_type(*_unwrap(get_args(kind)[0], []))}
    elif get_origin(kind) is tuple:
        settings |= {"nargs": len(get_args(kind)), "type": _to_click_type(get_args(kind)[0], bounds)}
    else:
        settings["type"] = _to_click_type(kind, bounds)
    return click.option(name, key.replace(".", "__"), **{**settings, **changes})


def flags(model: type[BaseModel], keys: Sequence[str], others: Iterable[Callable[[Any], Any]] = ()) -> Callable[[F], F]:
    """An option for each of the keys, in their order, then the others."""
    options = [*(flag(model, key, **_CHANGED.get(key, {})) for key in keys), *others]

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def collect_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among `options` that the user named, by their dotted keys."""
    return {
        key.replace("__", "."): list(value) if isinstance(value, tuple) else value
        for key, value in options.items()
        if value is not None and value != ()
    }


def _unwrap(kind: Any, bounds: list[object]) -> tuple[Any, list[object]]:
    """The type without `| None` and Annotated, and all its bounds."""
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        inner = [bound for note in notes for bound in (note.metadata if isinstance(note, FieldInfo) else [note])]
        return _unwrap(kind, bounds + inner)
    if isinstance(kind, UnionType) or type(None) in get_args(kind):
        return _unwrap(next(part for part in get_args(kind) if part is not type(None)), bounds)
    return kind, bounds


def _to_click_type(kind: Any, bounds: Sequence[object]) -> Any:
    if get_origin(kind) is Literal:
        return click.Choice([str(choice) for choice in get_args(kind)])
    limits: dict[str, Any] = {}
    for bound in bounds:
        if isinstance(bound, annotated_types.Ge):
            limits["min"] = bound.ge
        elif isinstance(bound, annotated_types.Gt):
            limits |= {"min": bound.gt, "min_open": True}
        elif isinstance(bound, annotated_types.Le):
            limits["max"] = bound.le
        elif isinstance(bound, annotated_types.Lt):
            limits |= {"max": bound.lt, "max_open": True}
    if limits and kind is int:
        return click.IntRange(**limits)
    return click.FloatRange(**limits) if limits and kind is float else kind


def _describe(field: FieldInfo) -> str | None:
    """The field's description, with its default if it has one."""
    default, shown = field.default, ""
    if default is True:
        shown = "on"
    elif isinstance(default, tuple):
        shown = " ".join(map(str, default))
    elif isinstance(default, int | float | str) and default is not False:
        shown = f"{default:g}" if isinstance(default, float) else str(default)
    parts = (field.description, f"[default: {shown}]" if shown else "")
    return "  ".join(filter(None, parts)) or None


_CHANGED: dict[str, dict[str, Any]] = {
    "weights": {"metavar": "NAME=NUMBER,...", "type": str},
    "fresh": {"metavar": "SHARE|auto", "type": str},
    "set": {"metavar": "K"},
    "start": {"metavar": "FILE"},
    "report_to": {"metavar": "TRACKER"},
    "db": {"envvar": "EVO_DB"},
}
"""What the command line says otherwise than the field of this name."""
_SAMPLED = [key for key in SamplingConfig.model_fields if key not in ("problems", "policy")]
_BUDGET = fields_for(RunConfig, "budget")
_NAMED = {key.replace(".", "__"): flag(RunConfig, key, "--" + name.replace("_", "-"), **_CHANGED.get(name, {}))
          for name, key in FLAGS.items()}  # fmt: skip
_SEARCHED = (*_SAMPLED, "iterations", *_BUDGET, "parallel", "lag", "start_anyway", "start", "report_to")

sampling_flags = flags(SamplingConfig, ("policy", *_SAMPLED))
"""The policy and how it samples, without a search."""

_TRAINED = flag(RunConfig, "train.method", "--train", metavar="METHOD")
search_flags = flags(RunConfig, ("policy", "rollouts", *_SEARCHED), [*_NAMED.values(), _TRAINED])
"""All settings of a run; each flag overrides the same key of --config."""

shared_search_flags = flags(RunConfig, _SEARCHED, _NAMED.values())
"""The settings that all arms of a comparison share: all but the policy, its rollouts, and its training method."""

SEARCH_SECTIONS: dict[str, Sequence[str]] = {
    "Budget": _BUDGET,
    "Search": (
        *("weights", *(name for name in _NAMED if not name.startswith("train__"))),
        *("start", "start_anyway", "parallel", "lag"),
    ),
    "Policy": fields_for(SamplingConfig, "sampling"),
    "Training during the search": [name for name in _NAMED if name.startswith("train__")],
}
"""Of the help of commands that search."""
