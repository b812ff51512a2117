"""`evo.compare`: several policies search the same problems under the same budget."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from evo.api.arguments import (
    ProblemSources,
    ScoreFunction,
    add_function,
    call_text,
    check_by_name,
    check_run_name,
    database,
    plain_value,
    settings_of_run,
    split_problems,
    take_scorer,
)
from evo.api.drive import new_comparison, plan_comparison, python_driver
from evo.api.results import ComparisonResult
from evo.api.run import NO_PROBLEM, comparison_result_of
from evo.config.compare import read_comparison
from evo.errors import BadInput
from problems.registry import given

_Arm = str | PathLike[str] | Mapping[str, Any]
"""A policy's address, or a mapping with `policy` and settings of this arm."""


def compare(
    address: ProblemSources | None = None,
    *,
    arms: Mapping[str, _Arm] | None = None,
    score: ScoreFunction | None = None,
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
        score: your own function instead of the address, as for `evo.run`, with the same settings. All arms then search
            in this process.
        name: the comparison's name; by default a readable one is made up.
        db: the database, "sqlite:///evo.db" by default, or EVO_DB.
        config: a YAML file with the same settings, which arguments override.
        progress: False shows nothing.
        ray: a Ray cluster that searches the runs: "local", "auto" or "HOST:PORT", with options as "?cpus=2".
        settings: every other flag of `evo compare` by its name: iterations (per problem, 100; in each, every arm gives
            the same number of answers, in chains of the arm's length), seeds (how many, from `seed` on; 3), baselines
            ("best-of-n", the default, "hill", "scs", each of the first arm or as in "hill=ARM", and "classic" for
            mazes; [] for none), against (the reference arm), answers_per_iteration, processes, limit, weights, seed,
            answers, temperature, until_solved, max_answers, islands ...

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
    check_run_name(name, optional=True)
    if not arms and config is None:
        raise BadInput('a comparison needs arms, as in arms={"grpo": "embedded:grpo", "vpo": "embedded:vpo"}')
    if address is None and score is None and config is None:
        raise BadInput(NO_PROBLEM.format("compare"))
    command = call_text("compare", address, arms=arms, score=score, config=config, **settings)
    addresses, objects = split_problems(address)
    score, declared = take_scorer("compare", score, settings)
    if not isinstance(arms, Mapping | None):
        raise TypeError(f'arms maps names to policies, as in arms={{"vpo": "embedded:vpo"}}, not {arms!r}')
    named = arms and {
        str(arm): plain_value(of if isinstance(of, Mapping) else {"policy": of}) for arm, of in arms.items()
    }
    options = read_comparison(
        plain_value(config), {**settings_of_run(settings), "arms": named, "problems": addresses or None}
    )
    if score is not None:
        options, problem = add_function(options, score, declared)
        objects = [problem]
    db, processes = database(db), 1 if objects else options.processes
    if objects and (options.processes or 1) > 1:
        raise BadInput("problems that are objects of this process are searched in it: leave out processes=")
    with given(objects):
        plan = plan_comparison(options, db, name, command)
        check_by_name(objects, ray)
        driver = python_driver(progress)
        outcome = driver.drive(new_comparison(plan, driver, db, processes=processes, ray=ray))
    return comparison_result_of(outcome, db, options.against)
