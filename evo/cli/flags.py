"""Flags made from the fields of settings: one place for a setting's type, bounds, default and help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import annotated_types
import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from evo.config.run import RunConfig

F = TypeVar("F", bound=Callable[..., Any])


class GroupedCommand(click.Command):
    """A command whose help lists its options in sections.

    sections: title -> names of parameters, in order; options that are in none of them come last
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
    """A click option for one setting. It defaults to None, which says that the flag was not given.

    key: of the field; dots reach into sections, as in `population.islands`
    name: of the flag; default: the key's last part, with dashes
    changes: arguments of click.option that replace what the field says
    """
    field = _field(model, key)
    name = name or "--" + key.rpartition(".")[2].replace("_", "-")
    kind, bounds = _unwrapped(field.annotation, list(field.metadata))
    settings: dict[str, Any] = {"default": None, "help": _help(field)}
    if kind is bool:
        name = f"{name}/--no-{name.removeprefix('--')}"
    elif get_origin(kind) is list:
        settings |= {"multiple": True, "type": _type(*_unwrapped(get_args(kind)[0], []))}
    elif get_origin(kind) is tuple:
        settings |= {"nargs": len(get_args(kind)), "type": _type(get_args(kind)[0], bounds)}
    else:
        settings["type"] = _type(kind, bounds)
    return click.option(name, key.replace(".", "__"), **{**settings, **changes})


def flags(model: type[BaseModel], keys: Sequence[str]) -> Callable[[F], F]:
    """An option for each of the keys, in their order."""
    return together([flag(model, key) for key in keys])


def together(options: Sequence[Callable[[Any], Any]]) -> Callable[[F], F]:
    """Several options as one decorator."""

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


def _field(model: type[BaseModel], key: str) -> FieldInfo:
    section, dot, rest = key.partition(".")
    if not dot:
        return model.model_fields[section]
    kind, _ = _unwrapped(model.model_fields[section].annotation, [])
    return _field(kind, rest)


def _unwrapped(kind: Any, bounds: list[object]) -> tuple[Any, list[object]]:
    """The type without `| None` and Annotated, and all bounds on it."""
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        inner = [bound for note in notes for bound in (note.metadata if isinstance(note, FieldInfo) else [note])]
        return _unwrapped(kind, bounds + inner)
    if isinstance(kind, UnionType) or type(None) in get_args(kind):
        return _unwrapped(next(one for one in get_args(kind) if one is not type(None)), bounds)
    return kind, bounds


def _type(kind: Any, bounds: Sequence[object]) -> Any:
    if get_origin(kind) is Literal:
        return click.Choice([str(one) for one in get_args(kind)])
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


def _help(field: FieldInfo) -> str | None:
    """The description, with the default if there is one."""
    default, shown = field.default, ""
    if default is True:
        shown = "on"
    elif isinstance(default, tuple):
        shown = " ".join(map(str, default))
    elif isinstance(default, int | float | str) and default is not False:
        shown = f"{default:g}" if isinstance(default, float) else str(default)
    parts = (field.description, f"[default: {shown}]" if shown else "")
    return "  ".join(filter(None, parts)) or None


_ASKED = ("answers", "seed", "limit", "temperature", "top_p", "max_new_tokens", "sandbox", "device", "dtype")
_SEARCHED = together(
    [
        flag(RunConfig, "iterations"),
        flag(RunConfig, "population.islands"),
        flag(RunConfig, "population.strategy"),
        flag(RunConfig, "prompt.fresh", metavar="SHARE|auto", type=str),
        flag(RunConfig, "prompt.prefill", metavar="SHARE"),
        flag(RunConfig, "feedback.policy", "--reflect", metavar="POLICY"),
        flag(RunConfig, "start", metavar="FILE"),
        flags(RunConfig, ("until_solved", "patience", "max_answers", "max_total_tokens", "max_cost", "max_seconds")),
        flags(RunConfig, ("max_unanswered", "parallel", "lag")),
    ]
)
_METHOD = flag(RunConfig, "train.method", "--train", metavar="METHOD")
_TRAINED = together(
    [
        flag(RunConfig, "train.every", "--train-every"),
        flag(RunConfig, "train.steps", "--train-steps"),
        flag(RunConfig, "train.unsolved", "--train-unsolved"),
        flag(RunConfig, "train.reward", "--train-reward"),
        flag(RunConfig, "train.check", "--train-check", metavar="SET"),
        flag(RunConfig, "train.lr"),
        flag(RunConfig, "train.kl"),
    ]
)

sampling_flags = flags(RunConfig, ("policy", *_ASKED))
"""The policy and how it samples, without a search."""

search_flags = together([sampling_flags, flags(RunConfig, ("rollouts",)), _SEARCHED, _METHOD, _TRAINED])
"""Everything that decides a run; each overrides the same key of --config."""

shared_search_flags = together([flags(RunConfig, _ASKED), _SEARCHED, _TRAINED])
"""Those that all arms of a comparison share: all but the policy, its rollouts, and the method that trains it."""

BUDGET = (
    *("max_answers", "max_total_tokens", "max_cost", "max_seconds"),
    *("max_unanswered", "until_solved", "patience"),
)
SEARCH = (
    *("population__islands", "population__strategy", "prompt__fresh", "prompt__prefill", "feedback__policy"),
    *("start", "parallel", "lag"),
)
SAMPLING = ("temperature", "top_p", "max_new_tokens", "device", "dtype")
TRAINING = (
    *("train__every", "train__steps", "train__unsolved", "train__reward", "train__check", "train__lr", "train__kl"),
)
"""Sections of the help of commands that search."""
