"""Checks the arguments of public functions by the command line's models, and opens scoring functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from evo.config.compare import CompareOptions
from evo.config.parse import OPTIONS, fields_for, parse
from evo.config.run import FLAGS, RunConfig, ScorerSettings
from evo.errors import BadInput
from islands.names import DEFAULT_DB, hide_in_argument
from islands.types import RunRecord
from problems.address import did_you_mean
from problems.contract import Problem
from problems.custom.scorer_file import NEAR
from problems.custom.scorer_function import KIND, ScorerFunctionProblem, name_of
from problems.redaction import redact
from problems.sandbox import set_sandbox_mode, shared_sandbox
from problems.sandbox.contract import Mode

ProblemSources = str | os.PathLike[str] | Problem | Iterable[str | os.PathLike[str] | Problem]
"""Addresses (as the command line takes them), problems, or several of either."""

_Searched = TypeVar("_Searched", bound=RunConfig)

_NO_PROBLEM = "a problem is an address, or an object of a subclass of problems.Problem; this is neither: {!r}"
_NO_TASK = "evo.{}: score= needs statement= (the task in English, for a model), seed_answer= (where it starts), or both"


def settings_of_run(given: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings by their dotted keys, without those not given; `train="vpo"` is the method."""
    settings = plain_settings(given)
    if not isinstance(settings.get("train", {}), dict):
        settings["train.method"] = settings.pop("train")
    within = {FLAGS[name]: settings.pop(name) for name in FLAGS if name in settings}
    return {**settings, **within}  # keys of a section come after the section itself


def resumed_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a resume by their dotted keys. Raises BadInput for one that it may not change."""
    changes = fields_for(CompareOptions, "resume")
    if fixed := given.keys() - set(changes):
        raise BadInput(f"a resume keeps {min(fixed)}; it may change {', '.join(changes)}")
    return settings_of_run(given)


def plain_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name as a command takes them, without those not given."""
    return {name: plain_value(value) for name, value in given.items() if value is not None}


def plain_value(value: Any) -> Any:
    """A value as settings take it: paths as text, numpy's numbers as Python's, mappings and sequences copied."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): plain_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_value(part) for part in value]
    if isinstance(value, str | int | float | bool):
        return value
    return value.item() if hasattr(value, "item") else value


def split_problems(problems: ProblemSources | None) -> tuple[list[str], list[Problem]]:
    """(addresses, the problems given as objects; the name of each is among the addresses)."""
    if problems is None:
        return [], []
    if isinstance(problems, str | os.PathLike):
        return [os.fspath(problems)], []
    if isinstance(problems, Problem):
        return [problems.name], [problems]
    if not isinstance(problems, Iterable):
        hint = f"; a scoring function is given as score={name_of(problems)}" if callable(problems) else ""
        raise TypeError(_NO_PROBLEM.format(problems) + hint)
    addresses, objects = [], []
    for given in problems:
        if not isinstance(given, str | os.PathLike | Problem):
            raise TypeError(_NO_PROBLEM.format(given))
        objects += [given] if isinstance(given, Problem) else []
        addresses.append(given.name if isinstance(given, Problem) else os.fspath(given))
    return addresses, objects


def check_by_name(objects: Sequence[Problem], ray: str | None) -> None:
    """BadInput if a cluster is to search a problem that is known only to this process."""
    if objects and ray is not None:
        raise BadInput(
            f"{objects[0].name} is an object of this process: with ray=, name problems that every machine can open, a "
            "set, a scorer file or an OpenEvolve directory"
        )


def check_run_name(name: object, *, optional: bool = False) -> None:
    """TypeError for a name that is no text."""
    if not isinstance(name, str) and not (optional and name is None):
        raise TypeError(f"name is text, as in result.name, not {name!r}")


def database(db: str | None) -> str:
    """The database: as given, else EVO_DB, else the default."""
    return db or os.environ.get("EVO_DB") or DEFAULT_DB


def call_text(function: str, *positional: Any, **given: Any) -> str:
    """The call as it is stored, like a command line: without a password."""
    parts = [_short(argument) for argument in positional if argument is not None]
    parts += [f"{name}={_short(value)}" for name, value in given.items() if value is not None]
    return redact(f"evo.{function}({', '.join(parts)})")


def _short(value: Any) -> str:
    if isinstance(value, Problem):
        return repr(value.name)
    if isinstance(value, Callable):  # type: ignore[arg-type]
        return name_of(value)
    if isinstance(value, list | tuple) and any(isinstance(part, Problem) for part in value):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, str):
        value = hide_in_argument(value)
    text = redact(repr(os.fspath(value) if isinstance(value, os.PathLike) else value))
    return text if len(text) <= 200 else f"{text[:197]}..."


ScoreFunction = Callable[[Any], Any]
"""An answer -> a number, a mapping of names to numbers, or a problems.Score (problems.custom.scorer_file)."""


def take_scorer(
    function: str, score: ScoreFunction | None, given: dict[str, Any]
) -> tuple[ScoreFunction | None, dict[str, Any]]:
    """(the scoring function, its declarations, taken out of `given` and checked); (None, {}) without one. Raises
    BadInput."""
    own = set(ScorerSettings.model_fields)
    if score is None or isinstance(given.get("weights"), str):
        own.discard("weights")  # those of the search then
    taken = {name: plain_value(given.pop(name)) for name in list(given) if name in own}
    for name in given.keys() - {"weights"}:  # another setting of the run looks like none of these
        if hint := did_you_mean(name, ScorerSettings.model_fields, most=1, like=NEAR):
            raise BadInput(f"{OPTIONS}: unknown key {name}{hint}")
    named = {name: value for name, value in taken.items() if value is not None}
    if score is None:
        if named:
            raise BadInput(f"evo.{function}: {', '.join(sorted(named))} describes a scoring function: give score=")
        return None, {}
    if function != "Search" and not named.keys() & {"statement", "seed_answer"}:
        raise BadInput(_NO_TASK.format(function))
    return score, parse(ScorerSettings, named, OPTIONS).model_dump(exclude_unset=True)


def add_function(config: _Searched, score: ScoreFunction, declared: Mapping[str, Any]) -> tuple[_Searched, Problem]:
    """(the settings of a search of the function, the function as a problem). Raises as open_function does."""
    if config.problems:
        raise BadInput("give an address or score=, not both")
    problem = open_function(score, declared, config.sandbox)
    values = {**config.model_dump(exclude_unset=True), "problems": [problem.name], "scorer": declared}
    return parse(type(config), values, OPTIONS), problem


def open_function(score: ScoreFunction, declared: Mapping[str, Any], sandbox: Mode) -> Problem:
    """The function as a problem. Raises BadAddress, or ScorerFault if it cannot score its seed answer."""
    set_sandbox_mode(sandbox)
    # complete, with defaults: a run keeps the complete settings, and the fingerprint must be the same
    complete = ScorerSettings.model_validate(declared).model_dump()
    problem = ScorerFunctionProblem(score, complete, shared_sandbox)
    if problem.fault is not None:
        raise problem.fault
    return problem


def reopen_function(score: ScoreFunction | None, run: RunRecord, resume: str) -> list[Problem]:
    """The function of a stored run, under the name that it had there; nothing for a run without one. Raises BadInput
    if the run has one and none is given, or the reverse. resume: the name for messages"""
    name = next((address for address in run.config["problems"] if str(address).startswith(f"{KIND}:")), None)
    if name is None:
        if score is not None:
            raise BadInput(f"{resume} searched {', '.join(run.config['problems'][:3])}, no function: leave out score=")
        return []
    if score is None:
        raise BadInput(
            f"{resume} was scored by the function {name.partition(':')[2]}, which is not stored; give it again: "
            f"evo.resume({resume!r}, score={name.partition(':')[2]})"
        )
    problem = open_function(score, run.config.get("scorer") or {}, run.config.get("sandbox") or "auto")
    problem.name = name
    return [problem]
