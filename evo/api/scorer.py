"""The problem of a scoring function that the caller gave, and its settings in the run's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evo.api.arguments import OF_SCORERS, plain
from evo.config.parse import OPTIONS, parse
from evo.config.scorer import ScorerSettings
from evo.errors import BadInput
from islands.types import RunRecord
from problems.contract import Problem
from problems.custom.scorer_function import KIND, ScorerFunctionProblem
from problems.registry import shared_sandbox
from problems.sandbox.contract import Mode
from problems.sandbox.shared import set_sandbox_mode

BatchScorer = Callable[[list[str]], Any]
"""Answers -> as many scores, each as a Score gives one."""
Score = Callable[[Any], Any]
"""An answer -> a number, a mapping of names to numbers, or a problems.Score (problems.custom.scorer_file)."""


def take_scorer_settings(function: str, score: Score | None, given: dict[str, Any]) -> dict[str, Any] | None:
    """Takes what is declared of a scoring function out of `given`, checked; None without one. Raises BadInput."""
    named = {name: plain(given.pop(name)) for name in list(given) if name in OF_SCORERS}
    named = {name: value for name, value in named.items() if value is not None}
    if score is None:
        if named:
            raise BadInput(f"evo.{function}: {', '.join(sorted(named))} says more of a scoring function: give score=")
        return None
    return parse(ScorerSettings, named, OPTIONS).model_dump(exclude_unset=True)


def choose_scorer(
    function: str, score: Score | None, batch_scorer: BatchScorer | None, settings: dict[str, Any]
) -> Score | None:
    """The one of the two that is given; of a batch scorer that is told in `settings`. Raises BadInput for both."""
    if batch_scorer is None:
        return score
    if score is not None:
        raise BadInput(f"evo.{function}: give score= or batch_scorer=, not both")
    if settings.setdefault("isolated", False):
        raise BadInput(
            "a batch scorer hands answers to other machines, which no sandbox lets it reach: leave out isolated"
        )
    settings["batched"] = True
    return batch_scorer


def open_function(score: Score, declared: Mapping[str, Any], sandbox: Mode) -> Problem:
    """Ready to be scored. Raises BadAddress, or ScorerFault where it cannot score its own seed answer."""
    set_sandbox_mode(sandbox)
    # all of it, whatever was left unsaid: what a run keeps is complete too, and its fingerprint must be the same
    complete = ScorerSettings.model_validate(declared).model_dump()
    problem = ScorerFunctionProblem(score, complete, shared_sandbox, batched=complete["batched"])
    if problem.fault is not None:
        raise problem.fault
    return problem


def reopen_function(score: Score | None, run: RunRecord, resume: str) -> list[Problem]:
    """The function of a stored run, under the name that it had there; nothing for a run without one. Raises BadInput
    where the run has one and none is given, or the other way round. resume: the name to say in that"""
    name = next((one for one in run.config["problems"] if str(one).startswith(f"{KIND}:")), None)
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
