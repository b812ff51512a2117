"""Checks what a public function was given: names with a suggestion, values by the models that the command line has."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from evo.config.run import RunConfig
from evo.config.scorer import ScorerSettings
from islands.db.address import DEFAULT_DB, hide_in_argument, hide_password
from problems.close_names import did_you_mean
from problems.contract import Problem, complete_problem
from problems.custom.scorer_function import name_of

Problems = str | os.PathLike[str] | Problem | Iterable[str | os.PathLike[str] | Problem]
"""Addresses (as the command line takes them), problems, or several of either."""

FLAGS: Mapping[str, str] = {
    "islands": "population.islands",
    "strategy": "population.strategy",
    "fresh": "prompt.fresh",
    "prefill": "prompt.prefill",
    "reflect": "feedback.policy",
    "train_every": "train.every",
    "train_steps": "train.steps",
    "train_unsolved": "train.unsolved",
    "train_reward": "train.reward",
    "train_check": "train.check",
    "lr": "train.lr",
    "kl": "train.kl",
}
"""Words of the command line that reach into a section of a run's settings."""

NO_PROBLEM = "a problem is an address, or an object with name, objectives, statement and score; this is neither: {!r}"
OF_RUNS = frozenset(RunConfig.model_fields) - {"problems", "scorer"}
OF_SCORERS = frozenset(ScorerSettings.model_fields)


def check_names(function: str, given: Iterable[str], known: Collection[str]) -> None:
    """TypeError for a name that is not known, with the closest one."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known, most=1) or f"; there are {', '.join(sorted(known))}"
            raise TypeError(f"evo.{function}() has no argument {name}{hint}")


def settings_of_run(given: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings by their dotted keys, those not given left out; `train="vpo"` is the method."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name == "train" and not isinstance(value, Mapping):
            found["train.method"] = plain(value)
        elif name == "train" or name not in FLAGS:
            found[name] = plain(value)
    within = {FLAGS[name]: plain(value) for name, value in given.items() if name in FLAGS and value is not None}
    return {**found, **within}  # what reaches into a section comes after the section itself


def plain(value: Any) -> Any:
    """As settings take it: paths as text, numpy's numbers as Python's, mappings and sequences copied."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, str | int | float | bool):
        return value
    return value.item() if hasattr(value, "item") else value


def split_problems(problems: Problems | None) -> tuple[list[str], list[Problem]]:
    """(addresses, the problems among them that were given as objects, each of which is its own address)."""
    if problems is None:
        return [], []
    if isinstance(problems, str | os.PathLike):
        return [os.fspath(problems)], []
    if (alone := complete_problem(problems)) is not None:
        return [alone.name], [alone]
    if not isinstance(problems, Iterable):
        raise TypeError(NO_PROBLEM.format(problems))
    addresses, objects = [], []
    for one in problems:
        problem = None if isinstance(one, str | os.PathLike) else complete_problem(one)
        if problem is not None:
            objects.append(problem)
        elif not isinstance(one, str | os.PathLike):
            raise TypeError(NO_PROBLEM.format(one))
        addresses.append(problem.name if problem is not None else os.fspath(one))  # type: ignore[arg-type]
    return addresses, objects


def database(db: str | None) -> str:
    """The database: as given, else EVO_DB, else the default, as for the command line."""
    return db or os.environ.get("EVO_DB") or DEFAULT_DB


def call_text(function: str, *positional: Any, **given: Any) -> str:
    """The call as it is stored, as a command line would be: without a password."""
    parts = [_short(one) for one in positional if one is not None]
    parts += [f"{name}={_short(value)}" for name, value in given.items() if value is not None]
    return hide_password(f"evo.{function}({', '.join(parts)})")


def _short(value: Any) -> str:
    if isinstance(value, Problem):
        return repr(value.name)
    if isinstance(value, Callable):  # type: ignore[arg-type]
        return name_of(value)
    if isinstance(value, list | tuple) and any(isinstance(one, Problem) for one in value):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, str):
        value = hide_in_argument(value)
    text = hide_password(repr(os.fspath(value) if isinstance(value, os.PathLike) else value))
    return text if len(text) <= 200 else f"{text[:197]}..."
