"""`evo.compare`: several policies search the same problems under the same budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from evo.api.arguments import (
    FLAGS,
    Problems,
    Score,
    call_text,
    check_by_name,
    check_keywords,
    check_run_name,
    database,
    open_function,
    plain,
    settings_of_run,
    split_problems,
    take_scorer_settings,
)
from evo.api.background import Background
from evo.api.drive import run_comparison
from evo.api.results import ComparisonResult, read_comparison
from evo.api.run import comparison_result_of
from evo.comparison.plan import begin, planned_runs
from evo.config.compare import OF_EACH_ARM, OWN
from evo.config.compare import load_comparison as load_settings
from evo.config.parse import parse
from evo.config.run import RunConfig, ScorerSettings
from evo.errors import BadInput
from evo.runs.preflight import check_new_comparison
from islands.names import check_name
from problems.registry import given

Arm = str | PathLike[str] | Mapping[str, Any]
"""A policy's address, or a mapping with `policy` and settings of this arm."""


def compare(
    address: Problems | None = None,
    *,
    arms: Mapping[str, Arm] | None = None,
    iterations: int | None = None,
    seeds: int | None = None,
    baselines: str | Sequence[str] | None = None,
    score: Score | None = None,
    name: str | None = None,
    db: str | None = None,
    config: str | None = None,
    progress: bool = True,
    ray: str | None = None,
    **settings: Any,
) -> ComparisonResult:
    """Let several policies search the same problems under one budget of answers, with the same islands, prompts and
    seeds, as `evo compare` does.

    Args:
        address: what to search, as for `evo.run`.
        arms: name -> policy, or name -> {"policy": ..., "answers": 3, "temperature": 0.8, "fresh": ..., "population":
            {...}, "train": METHOD}.
        iterations: iterations per problem, 100 by default. In each, every arm gives the same number of answers,
            in chains of the arm's length.
        seeds: how many seeds, from `seed` on; 3 by default.
        baselines: "best-of-n" (the default), "hill", "scs", each of the first arm or as in "hill=ARM", and "classic"
            for mazes; [] for none.
        score: your own function instead of the address, as for `evo.run`, with the same settings. All arms then search
            in this process.
        name: the comparison's name; by default a readable one is made up.
        db: the database, "sqlite:///evo.db" by default, or EVO_DB.
        config: a YAML file with the same settings, which arguments override.
        progress: False shows nothing.
        ray: a Ray cluster that searches the runs: "local", "auto" or "HOST:PORT", with options as "?cpus=2".
        settings: every other flag of `evo compare` by its name: against (the reference arm), answers_per_iteration,
            processes, limit, seed, answers, temperature, until_solved, max_answers, islands ...

    Returns:
        The verdict, with metrics and tables; everything is in the database.

    Raises:
        SearchFailed: a run of an arm failed. The others as `evo.run`.

    Example:
        result = evo.compare("maze:hard", arms={"grpo": "embedded:grpo", "vpo": "embedded:vpo"},
                            limit=20, iterations=100, seeds=3)
        print(result.verdict)          # vpo - grpo = +0.12 [0.03, 0.21]
        result.report("comparison.html")
    """
    check_keywords(compare, settings, set(RunConfig.model_fields) - set(OF_EACH_ARM), ScorerSettings, FLAGS, OWN)
    if name is not None:
        check_run_name(name)
    if not arms and config is None:
        raise BadInput('a comparison needs arms, as in arms={"grpo": "embedded:grpo", "vpo": "embedded:vpo"}')
    if address is None and score is None and config is None:
        raise BadInput('evo.compare: no problem named; give an address, as in "maze:hard", a problem, or score=')
    given_settings: dict[str, Any] = dict(settings)
    command = call_text(
        "compare", address, arms=arms, iterations=iterations, seeds=seeds, baselines=baselines, score=score,
        config=config, **settings,
    )  # fmt: skip
    addresses, objects = split_problems(address)
    declared = take_scorer_settings("compare", score, given_settings)
    of_comparison = {key: plain(given_settings.pop(key)) for key in list(given_settings) if key in OWN}
    shared = settings_of_run({**given_settings, "iterations": iterations})
    training = {key.removeprefix("train."): shared.pop(key) for key in list(shared) if key.startswith("train.")}
    if score is not None:
        if addresses:
            raise BadInput("give an address or score=, not both")
        objects = [open_function(score, declared or {}, shared.get("sandbox", "auto"))]
        addresses, shared = [objects[0].name], {**shared, "scorer": declared}
    planned = load_settings(
        plain(config),
        {**shared, "problems": addresses or None},
        arms=_arms(arms) if arms is not None else None,
        seeds=plain(seeds),
        baselines=[baselines] if isinstance(baselines, str) else plain(baselines),
        **{**of_comparison, "training": {**of_comparison.get("training", {}), **training} or None},
    )
    db, processes = database(db), planned.processes
    if objects:
        if (processes or 1) > 1:
            raise BadInput("problems that are objects of this process are searched in it: leave out processes=")
        processes = 1
    if name is not None:
        check_name(name)
    with given(objects):
        runs = planned_runs(planned)
    configs = [parse(RunConfig, run.config, run.arm) for run in runs]
    check_new_comparison(configs, db, name)
    if ray is not None:
        check_by_name(objects)
    with given(objects):
        outcome = run_comparison(
            lambda: begin(db, name, runs, command),
            configs,
            Background(progress),
            db,
            processes=processes,
            ray=ray,
        )
    assert outcome is not None  # the driver raises Interrupted
    return comparison_result_of(outcome, db, planned.against)


def load_comparison(name: str, *, db: str | None = None, against: str | None = None) -> ComparisonResult:
    """A stored comparison, finished or not.

    Args:
        name: the comparison's name.
        db: the database, "sqlite:///evo.db" by default, or EVO_DB.
        against: the arm that the others are measured against; "grpo" or the first by default.

    Raises:
        UnknownRun: with close names. DatabaseUnavailable: there is no such database. ValueError: an unknown arm.

    Example:
        evo.load_comparison("calm-otter", against="base").verdict
    """
    check_run_name(name)
    return read_comparison(name, database(db), against)


def _arms(arms: Mapping[str, Arm]) -> dict[str, Any]:
    """Arms as a comparison's settings take them. Raises TypeError for anything but a mapping."""
    if not isinstance(arms, Mapping):
        raise TypeError(f'arms maps names to policies, as in arms={{"vpo": "embedded:vpo"}}, not {arms!r}')
    return {str(name): plain(arm) if isinstance(arm, Mapping) else {"policy": plain(arm)} for name, arm in arms.items()}
