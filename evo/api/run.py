"""`evo.run` and `evo.compare` search problems with one policy or several; `evo.resume` continues a stored search."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
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
    reopen_function,
    resumed_settings,
    settings_of_run,
    split_problems,
    take_scorer,
)
from evo.api.drive import (
    ComparisonOutcome,
    new_comparison,
    new_search,
    plan_comparison,
    python_driver,
    resumed_search,
)
from evo.api.results import ComparisonResult, RunResult, ScorerWarning, load_comparison, load_run
from evo.config.compare import read_comparison
from evo.config.run import RunConfig, load_config
from evo.errors import BadInput, SearchFailed
from evo.runs.finish import SearchOutcome
from evo.runs.preflight import check_new_run
from evo.runs.resume import plan_resume
from evo.search.resources import Resources
from problems.contract import Problem, ScorerFault
from problems.registry import given
from vpo.policies.address import parse_addresses

_NO_PROBLEM_NAMED = 'evo.{}: no problem named; give an address, as in "maze:hard", a problem, or score='


def run(
    address: ProblemSources | None = None,
    *,
    score: ScoreFunction | None = None,
    name: str | None = None,
    db: str | None = None,
    config: str | RunConfig | None = None,
    progress: bool = True,
    **settings: Any,
) -> RunResult:
    """Search problems with a policy, as `evo run` does.

    Args:
        address: what to search: "maze:hard", "programs:easy", "my_scorer.py", an OpenEvolve directory, a problem
            object, or several of these. Or leave it out and give `score`.
        score: your own function: an answer (text) -> a number, or a mapping of names to numbers, higher is better. It
            may be a closure. It runs in a sandboxed process. Describe it by `statement` (the task in English),
            `seed_answer` (where the search starts), `target` (the fitness that solves it), `answer_format` ("text" or
            "python"), `objectives`, `directions` (name -> "min" or "max"), `weights`, `timeout` (seconds per answer,
            30), `readable` (files it reads), `isolated=False` (trusted, no sandbox).
        name: the run's name; by default a readable one is made up.
        db: the database, "sqlite:///evo.db" by default, or EVO_DB.
        config: a YAML file with the same settings, or an evo.RunConfig, which arguments override.
        progress: False shows nothing.
        settings: every flag of `evo run` by its name: policy (the model that answers: a hub id or directory,
            "vllm:ID", "openai:MODEL@URL", "embedded:NAME" for mazes, or "scripted:mutate", random edits of good
            answers; by default "embedded:base" for mazes, "scripted:gp" for rules, else "scripted:mutate"), iterations
            (100, of each problem), answers, rollouts, seed, limit, weights (of the objectives in the fitness, as in
            {"gold": 3, "diamond": 1}), temperature, until_solved, max_answers,
            max_total_tokens, max_cost, max_seconds (of searching), islands, strategy, fresh, set, train (a method),
            train_every, sandbox, device ...; and the sections of --config: population, prompt, train, as mappings.

    Returns:
        The run's result; everything is in the database.

    Raises:
        ValueError: an argument is unknown or cannot be used; one line, the same as the command line's.
        ScorerFault: the scorer itself failed (not because of an answer) on all problems; with the line.
        Interrupted: a KeyboardInterrupt, after the groups in flight are committed; `evo.resume(name)` continues.
        SearchFailed, PolicyUnavailable, DatabaseUnavailable, RunExists: the policy or the database is gone, or the
            name is taken.

    Example:
        def near(answer):
            return {"close": -abs(float(answer) - 2**0.5), "short": 1 / len(answer)}

        result = evo.run(score=near, statement="A number near the root of two.", seed_answer="1",
                         policy="Qwen/Qwen2.5-Coder-0.5B-Instruct", iterations=20)
        result.best_answer.text, result.frame()
    """
    check_run_name(name, optional=True)
    command = call_text("run", address, score=score, config=config, **settings)
    loaded, objects = configure("run", address, score, config, settings)
    db, resources = database(db), Resources()
    with given(objects):
        check_new_run(loaded, resources, db, name)
        driver = python_driver(progress)
        outcome = driver.drive(new_search(loaded, driver, db, name, command, resources))
    return result_of(outcome, db)


def configure(
    function: str,
    address: ProblemSources | None,
    score: ScoreFunction | None,
    config: str | RunConfig | None,
    settings: dict[str, Any],
) -> tuple[RunConfig, list[Problem]]:
    """A run's configuration, and the problems among those given that are objects. Raises as `evo.run` does."""
    addresses, objects = split_problems(address)
    scored_by, declared = take_scorer(function, score, settings)
    loaded = load_config(plain_value(config), {**settings_of_run(settings), "problems": addresses or None})
    if scored_by is None:
        if not loaded.problems:
            raise BadInput(_NO_PROBLEM_NAMED.format(function))
        return loaded, objects
    loaded, problem = add_function(loaded, scored_by, declared)
    if function == "run" and "policy" in loaded.model_fields_set and "statement" not in declared:
        # random edits need no task
        for model in [policy for policy in parse_addresses(loaded.policy) if policy.kind != "scripted"][:1]:
            told = f"{model.plain} is only told to score well on {', '.join(problem.objectives)}"
            warnings.warn(f"no statement=: {told}; describe the task to it", stacklevel=2)
    return loaded, [problem]


def compare(
    address: ProblemSources | None = None,
    *,
    arms: Mapping[str, str | PathLike[str] | Mapping[str, Any]] | None = None,
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
        raise BadInput(_NO_PROBLEM_NAMED.format("compare"))
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


def resume(
    name: str,
    *,
    score: ScoreFunction | None = None,
    problems: Problem | Sequence[Problem] | None = None,
    accept_change: bool = False,
    db: str | None = None,
    progress: bool = True,
    ray: str | None = None,
    **settings: Any,
) -> RunResult | ComparisonResult:
    """Continue a stored run or comparison after its last committed group, on the same seed, as `evo resume` does.

    Args:
        name: the name of a run, or of a comparison, all of whose runs continue.
        score: the function that scored the run, which no database holds.
        problems: the problem objects that the run was given, if their names are not addresses.
        accept_change: continue although the scorer was edited; old scores stay as they are.
        db: the database, "sqlite:///evo.db" by default, or EVO_DB.
        progress: False shows nothing.
        ray: a Ray cluster that searches the runs of a comparison, as for `evo.compare`.
        settings: new budgets, which include what is already spent: iterations (per problem), max_answers,
            max_total_tokens, max_cost, max_seconds; processes (of a comparison); policy: the same with other options.

    Returns:
        A RunResult, or a ComparisonResult for a comparison.

    Raises:
        ValueError: a budget below what is spent, a scorer that was edited, a function that must be given again.
        UnknownRun: no run has that name; and as `evo.run`.

    Example:
        result = evo.resume("calm-otter", iterations=200)
    """
    check_run_name(name)
    changed, db = resumed_settings(settings), database(db)
    processes = changed.pop("processes", None)
    plan = plan_resume(name, db, changed, accept_change=accept_change)
    objects = [*reopen_function(score, plan.runs[0], name), *split_problems(problems)[1]]
    check_by_name(objects, ray)
    with given(objects):
        driver, processes = python_driver(progress), 1 if objects else processes
        outcome = driver.drive(resumed_search(plan, driver, db, processes=processes, ray=ray))
    return result_of(outcome, db) if isinstance(outcome, SearchOutcome) else comparison_result_of(outcome, db)


def result_of(outcome: SearchOutcome, db: str) -> RunResult:
    """The result of a search. Raises what failed it."""
    if outcome.failure is not None:
        raise outcome.failure
    warn_of_faults(outcome.faults, outcome.outcome == "failed", outcome.run)
    return load_run(outcome.run, db=db)


def comparison_result_of(outcome: ComparisonOutcome, db: str, against: str | None = None) -> ComparisonResult:
    """The result of a comparison. Raises SearchFailed if a run of it failed, unless its scorer did."""
    for run_ended in outcome.failed:
        if not run_ended.faults:
            raise SearchFailed(f"{run_ended.run}: {run_ended.reason}; evo.resume({outcome.name!r}) continues")
    all_failed = bool(outcome.failed) and len(outcome.failed) == len(outcome.ended)
    warn_of_faults(outcome.faults, all_failed, outcome.name)
    return load_comparison(outcome.name, db=db, against=against)


def warn_of_faults(faults: Sequence[str], all_failed: bool, name: str) -> None:
    """Scorers that failed: raised as ScorerFault if all problems failed, else a warning for each."""
    messages = [fault.removeprefix("failed: ") for fault in faults]
    if messages and all_failed:
        raise ScorerFault(f"{messages[0]} (run {name})")
    for message in messages:
        warnings.warn(message, ScorerWarning, stacklevel=2)
