"""Import a checkpoint of OpenEvolve as a run: its problem, the scores of its programs, and the configuration of the
search that continues it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from evo.config.parse import parse
from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.search.defaults import iterations_for, population_config, resolve_settings, source_commit, to_stored, workers
from evo.search.resources import resolve_problems
from islands.db.comparisons import check_free
from islands.db.names import check_name
from islands.db.store import Store
from islands.interop.checkpoint import Checkpoint, read_checkpoint
from islands.interop.importing import POLICY, Imported, RunPlan, import_checkpoint
from islands.interop.metrics import failed_elsewhere, feature_names, names_objective, score_of
from islands.interop.timeline import Timeline, timeline
from problems.contract import Problem, Score
from problems.scoring import Scorer

Scoring = Literal["none", "missing", "all"]
"""The programs to score again: none, those whose metrics give no score (missing), or all."""

SCORED_AT_ONCE = 64


async def import_run(
    path: str,
    address: str,
    *,
    db: str,
    name: str | None,
    command: str,
    scoring: Scoring = "none",
    sandbox: str = "auto",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Imported:
    """Import the checkpoint at `path`, or the newest in that output folder. Raises BadCheckpoint, BadInput, BadAddress,
    RunExists, DatabaseUnavailable, each in one line, or ScorerFault; then no run is stored.

    progress: called with the numbers of programs that are scored and to score
    """
    if name is not None:
        check_name(name)
    checkpoint = read_checkpoint(Path(path))
    config = parse(RunConfig, {"problems": [address], "policy": POLICY, "sandbox": sandbox}, "the options")
    problem = resolve_problem(config, address)
    line = timeline(checkpoint, problem.answer_format)
    scores: list[Score | None] = [None] * len(line.first)
    if scoring != "all":
        check_same_problem(checkpoint, problem)
        scores = read_scores(line, problem)
    missing = [number for number, score in enumerate(scores) if score is None]
    if missing and scoring == "none":
        first = line.first[missing[0]]
        had = ", ".join(sorted(first.metrics)) or "no metrics"
        raise BadInput(
            f"{checkpoint.path}: {len(missing):,} of {len(scores):,} programs have no score on {problem.name} by their "
            f"metrics (program {first.id} has {had}; the objectives are {', '.join(problem.objectives)}); "
            "--score missing scores them in the sandbox"
        )
    config = configure_run(config, problem, checkpoint, line)
    with Store.open(db) as store:
        if name is not None:
            check_free(store, name)
        await score_missing(scores, missing, line, problem, config, progress)
        plan = RunPlan(name, command, source_commit(), config.seed, to_stored(config, [problem.name]))
        known = [score for score in scores if score is not None]
        grid = population_config(config, problem)
        return import_checkpoint(store, plan, checkpoint, line, problem, problem.name, known, grid)


def resolve_problem(config: RunConfig, address: str) -> Problem:
    """The problem of an address. Raises BadInput for a set, and ScorerFault for an OpenEvolve directory whose
    objectives are unknown because its seed cannot be scored."""
    problems = resolve_problems(config)
    if len(problems) != 1:
        raise BadInput(f"--problem {address}: {len(problems):,} problems; a checkpoint has one, as in {address}/0")
    if problems[0].fault is not None:
        raise problems[0].fault
    return problems[0]


def check_same_problem(checkpoint: Checkpoint, problem: Problem) -> None:
    """Raise BadInput if programs were evaluated, and none has a metric that is an objective of the problem."""
    evaluated = [program for program in checkpoint.programs if not failed_elsewhere(program, problem)]
    if not evaluated or any(names_objective(program, problem) for program in evaluated):
        return
    names = sorted({name for program in evaluated for name in program.metrics})
    raise BadInput(
        f"{checkpoint.path} is a checkpoint of another problem: its metrics ({', '.join(names[:8]) or 'none'}) are "
        f"none of the objectives of {problem.name} ({', '.join(problem.objectives[:8])}); --score all scores it again"
    )


def read_scores(line: Timeline, problem: Problem) -> list[Score | None]:
    """The score of each candidate by its metrics; None if they give none."""
    features = feature_names(line.first)
    return [score_of(program, problem, features) for program in line.first]


async def score_missing(
    scores: list[Score | None],
    missing: Sequence[int],
    line: Timeline,
    problem: Problem,
    config: RunConfig,
    progress: Callable[[int, int], None],
) -> None:
    """Score the programs of `missing` and put their scores into `scores`."""
    if not missing:
        return
    scorer = Scorer(workers(config, [problem]))
    try:
        for start in range(0, len(missing), SCORED_AT_ONCE):
            progress(start, len(missing))
            numbers = missing[start : start + SCORED_AT_ONCE]
            judged = await scorer.score(problem, [line.first[number].code for number in numbers])
            for number, (score, _) in zip(numbers, judged, strict=True):
                scores[number] = score
    finally:
        scorer.close()


def configure_run(config: RunConfig, problem: Problem, checkpoint: Checkpoint, line: Timeline) -> RunConfig:
    """The configuration of the search that continues the import: the problem's settings, the checkpoint's islands, a
    population that holds all imported programs, and as many further iterations as a new run has."""
    config = resolve_settings(config, [problem])
    done = sum(event.kind == "answer" for event in line.events)
    grid: dict[str, int] = {"islands": checkpoint.islands}
    size = population_config(config, problem).population_size
    members = len(line.events) + checkpoint.islands  # every island has a seed
    if size is not None and size < members:
        grid["population_size"] = members
    changes = {"population": grid, "iterations": done + iterations_for(config, problem)}
    return parse(RunConfig, {**config.model_dump(exclude_unset=True), **changes}, str(checkpoint.path))
