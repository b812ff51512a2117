"""`evo.run`: search problems with a policy."""

from __future__ import annotations

from typing import Any

from evo.api.arguments import (
    FLAGS,
    OF_RUNS,
    OF_SCORERS,
    Problems,
    call_text,
    check_names,
    database,
    plain,
    settings_of_run,
    split_problems,
)
from evo.api.cluster import check_by_name, search_on_cluster
from evo.api.result import RunResult, read_run
from evo.api.scorer import BatchScorer, Score, choose_scorer, open_function, take_scorer_settings
from evo.api.search import search
from evo.config.parse import OPTIONS, parse
from evo.config.run import RunConfig, load_config
from evo.errors import BadInput
from evo.runs.launch import launch, plan_run
from evo.runs.preflight import check_new_run
from evo.search.resources import Resources


def run(
    address: Problems | None = None,
    *,
    score: Score | None = None,
    batch_scorer: BatchScorer | None = None,
    policy: str | None = None,
    iterations: int | None = None,
    name: str | None = None,
    db: str | None = None,
    config: str | None = None,
    progress: bool = True,
    ray: str | None = None,
    **settings: Any,
) -> RunResult:
    """Search problems with a policy, as `evo run` does.

    Args:
        address: what to search: "maze:hard", "programs:easy", "my_scorer.py", an OpenEvolve directory, a problem
            object, or several of these. Or leave it out and give `score`.
        score: a function of your own: an answer (text) -> a number, or a mapping of names to numbers, higher is
            better. A closure is fine. It runs in a sandboxed process of its own. Say more of it by `statement` (the
            task in English), `seed_answer` (where the search starts), `target` (the fitness that solves it),
            `answer_format` ("text" or "python"), `objectives`, `directions` (name -> "min" or "max"), `weights`,
            `timeout` (seconds an answer, 30), `readable` (files it reads), `isolated=False` (trusted, no sandbox),
            `resources` (what it takes, as in {"gpus": 1}).
        batch_scorer: in the place of `score`, a function of a list of answers that gives a list of scores: it may hand
            them to a queue of jobs or a service, and take its time. It runs without a sandbox.
        policy: who answers: a hub id or directory, "vllm:ID", "openai:MODEL@URL", "embedded:NAME" (mazes alone),
            "scripted:mutate" (no model: random changes of what scored well). By default "embedded:base" for mazes,
            "scripted:mutate" for everything else.
        iterations: prompt groups per problem, 100 by default.
        name: of the run; a readable one is made up.
        db: the database, "sqlite:///evo.db" by default, or EVO_DB.
        config: a YAML file with the same settings, which arguments override.
        progress: off shows nothing.
        ray: a Ray cluster that does the work: "local", "auto" or "HOST:PORT", with "?cpus=2&shards=8" and the like.
        settings: every other flag of `evo run` by its name: answers, rollouts, seed, limit, temperature, until_solved,
            max_answers, max_tokens, max_cost, max_seconds (of searching), islands, strategy, fresh, prefill, reflect,
            train (a method), train_every, sandbox, device ...; and the sections of --config: population, prompt,
            feedback, train, as mappings.

    Returns:
        What it has come to; everything is in the database.

    Raises:
        ValueError: something given cannot be used; one line, the command line's.
        TypeError: an unknown argument.
        ScorerFault: the scorer itself failed (not on an answer's account), on all problems; with its line.
        Interrupted: a KeyboardInterrupt, after what was in flight is committed; `evo.resume(name)` goes on.
        SearchFailed, PolicyUnavailable, DatabaseUnavailable, RunExists: the policy or the database is gone, the name
            is taken.

    Example:
        def near(answer):
            return {"close": -abs(float(answer) - 2**0.5), "short": 1 / len(answer)}

        result = evo.run(score=near, statement="A number near the root of two.", seed_answer="1",
                         policy="Qwen/Qwen2.5-Coder-0.5B-Instruct", iterations=20)
        result.best_answer.text, result.frame()
    """
    check_names("run", settings, OF_RUNS | FLAGS.keys() | OF_SCORERS)
    given = batch_scorer if score is None else score
    command = call_text("run", address, score=given, policy=policy, iterations=iterations, config=config, **settings)
    addresses, objects = split_problems(address)
    score = choose_scorer("run", score, batch_scorer, settings)
    declared = take_scorer_settings("run", score, settings)
    overrides = settings_of_run({**settings, "policy": policy, "iterations": iterations})
    loaded = load_config(plain(config), {**overrides, "problems": addresses or None})
    if score is not None:
        if loaded.problems:
            raise BadInput("give an address or score=, not both")
        problem = open_function(score, declared or {}, loaded.sandbox)
        objects = [problem]
        of_function = {"problems": [problem.name], "scorer": declared}
        loaded = parse(RunConfig, {**loaded.model_dump(exclude_unset=True), **of_function}, OPTIONS)
    db = database(db)
    if ray is not None:
        check_by_name(objects)
        parts = Resources()
        check_new_run(loaded, parts, db, name)
        return search_on_cluster(
            lambda: plan_run(loaded, parts, db=db, name=name, command=command),
            [loaded], ray, db=db, progress=progress,
        )  # fmt: skip
    return search(lambda: launch(loaded, db=db, name=name, command=command), objects, db=db, progress=progress)


def load_run(name: str, *, db: str | None = None) -> RunResult:
    """A stored run, finished or not.

    Args:
        name: of the run; a comparison's are NAME/ARM/sSEED.
        db: the database, "sqlite:///evo.db" by default, or EVO_DB.

    Raises:
        UnknownRun: with close names. DatabaseUnavailable: there is no such database.

    Example:
        evo.load_run("calm-otter").best
    """
    return read_run(name, database(db))
