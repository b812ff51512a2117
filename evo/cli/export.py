"""`evo export`: a run's iterations as training traces. `evo import`: OpenEvolve's programs as a finished run."""

from __future__ import annotations

import asyncio
import json
from itertools import dropwhile
from pathlib import Path

import click

from evo.cli.flags import flag
from evo.cli.options import (
    db_option,
    format_arguments,
    json_option,
    named_weights_option,
    print_json,
    read_command,
)
from evo.config.parse import parse
from evo.config.run import RunConfig
from evo.errors import BadInput, at_file
from evo.progress.weighing import JudgedWeights, open_runs
from evo.provenance import source_commit
from evo.search.defaults import population_config, resolve_settings, to_stored, workers
from evo.search.resources import resolve_problems
from islands.comparisons import check_free, runs_named
from islands.groups import export_groups
from islands.names import check_name
from islands.openevolve import (
    FITNESS,
    POLICY,
    ImportPlan,
    OpenEvolveProgram,
    import_programs,
    read_programs,
    score_of,
)
from islands.store import Store
from problems.contract import Problem, Score
from problems.scoring import Scorer


@click.command()
@click.argument("name", metavar="RUN")
@click.option("-o", "--output", metavar="FILE.jsonl", required=True, help="Write to this file.")
@click.option("--no-tokens", is_flag=True, help="Leave out token ids and log-probabilities.")
@named_weights_option
@db_option
def export(name: str, output: str, no_tokens: bool, weights: JudgedWeights, db: str) -> None:
    """Write one JSON line per iteration of RUN, a run or a comparison: prompt, rollouts, answers, values as the
    scorer measured them, rewards, fitness, errors, token ids and behaviour log-probabilities."""
    path = Path(output)
    if path.suffix != ".jsonl":
        raise BadInput(f"-o {output}: name a FILE.jsonl (pandas.read_json(FILE, lines=True) reads it)")
    if not path.parent.is_dir():
        raise BadInput(f"-o {output}: there is no directory {path.parent}")
    with open_runs(db, [name], weights) as store:
        runs, reweighed = runs_named(store, name), store.reweighed
        rows = (
            {**row, "run": run.name, "arm": run.arm}
            for run in runs
            for row in export_groups(store, run.id, tokens=not no_tokens)
        )
        partial = path.with_name(path.name + ".partial")
        count = 0
        try:
            with at_file(f"-o {output}"):
                with partial.open("w", encoding="utf-8") as file:
                    for row in rows:
                        file.write(json.dumps(row) + "\n")
                        count += 1
                partial.replace(path)  # a file of this name is always whole
        finally:
            partial.unlink(missing_ok=True)
    click.echo(f"{path}: {count:,} iterations of {name}")
    for line in () if reweighed is None else reweighed.lines:
        click.echo(line)


@click.command("import")
@click.argument("source", metavar="DIR|TRACE.jsonl")
@click.option(
    "--problem", required=True, metavar="ADDRESS", help="The problem of the programs, by an address as for evo run."
)
@click.option("--name", help="The run's name; by default a readable one is made up.")
@click.option(
    "--score",
    "scoring",
    type=click.Choice(["none", "missing", "all"]),
    default="none",
    show_default=True,
    help="Score programs again in the sandbox: those whose metrics give no score (missing), or all.",
)
@flag(RunConfig, "sandbox", default="auto")
@db_option
@json_option
def import_(source: str, problem: str, name: str | None, scoring: str, sandbox: str, db: str, as_json: bool) -> None:
    """Make a finished run of the programs of OpenEvolve: of the checkpoint DIR, of the newest one in the output folder
    DIR, or of a trace that its evolution_trace wrote with include_code. All of it is stored, or nothing.

    \b
    evo import openevolve_output --problem examples/valley --name valley
    evo best valley -o best.py
    evo run examples/valley --start best.py
    """
    command = read_command()
    path = Path(source)
    if name is not None:
        check_name(name)
    programs = read_programs(path)
    config = parse(RunConfig, {"problems": [problem], "policy": POLICY, "sandbox": sandbox}, "the options")
    (subject, *others) = resolve_problems(config)
    if others:
        raise BadInput(f"--problem {problem}: {1 + len(others):,} problems; an import has one, as in {problem}/0")
    if subject.fault is not None:  # the objectives of an OpenEvolve directory are unknown if its seed has no score
        raise subject.fault
    scores = [None if scoring == "all" else score_of(program, subject) for program in programs]
    if scoring == "none":
        _check_scored(path, programs, scores, subject)
    config = resolve_settings(config, [subject])
    islands = max(program.island for program in programs) + 1
    asked = len(list(dropwhile(lambda program: program.parent is None, programs)))  # those before are its seeds
    decided = {"population": {"islands": islands}, "iterations": max(1, asked)}
    config = parse(RunConfig, {**config.model_dump(exclude_unset=True), **decided}, source)
    with Store.open(db) as store:
        if name is not None:
            check_free(store, name)
        known = asyncio.run(_score_missing(programs, scores, subject, config))
        plan = ImportPlan(name, command, source_commit(), config.seed, to_stored(config, [subject.name]))
        grid = population_config(config, subject)
        imported = import_programs(store, plan, path, programs, known, subject, grid)
    if as_json:
        counts = {key: value for key, value in vars(imported).items() if isinstance(value, int)}
        print_json({"run": imported.run.name, "problem": subject.name, **counts})
        return
    told = ((imported.failed, "failed"), (imported.repeats, "repeats"))
    details = ", ".join(f"{count:,} {what}" for count, what in told if count)
    shown, named = f" ({details})" if details else "", format_arguments(imported.run.name, db)
    click.echo(f"{imported.run.name}: {imported.programs:,} programs as {imported.candidates:,} candidates{shown}")
    click.echo(f"Next: evo show {named}, evo best {named}")


def _check_scored(path: Path, programs: list[OpenEvolveProgram], scores: list[Score | None], problem: Problem) -> None:
    """Raise BadInput if metrics give no score, or are those of another problem."""
    missing = [program for program, score in zip(programs, scores, strict=True) if score is None]
    named = {name for program in programs for name in program.metrics} - {"error", "timeout"}
    objectives = ", ".join(problem.objectives[:8])
    if named - {FITNESS} and not named & set(problem.objectives):
        metrics = ", ".join(sorted(named - {FITNESS})[:8])
        raise BadInput(
            f"{path} is of another problem: its metrics ({metrics}) are none of the objectives of "
            f"{problem.name} ({objectives}); --score all scores it again"
        )
    if missing:
        had = ", ".join(sorted(missing[0].metrics)) or "no metrics"
        raise BadInput(
            f"{path}: {len(missing):,} of {len(scores):,} programs have no score on {problem.name} by their metrics "
            f"(program {missing[0].id} has {had}; the objectives are {objectives}); --score missing scores them in the "
            "sandbox"
        )


async def _score_missing(
    programs: list[OpenEvolveProgram], scores: list[Score | None], problem: Problem, config: RunConfig
) -> list[Score]:
    missing = [number for number, score in enumerate(scores) if score is None]
    scorer = Scorer(workers(config, [problem]))
    try:
        judged = await scorer.score(problem, [programs[number].code for number in missing]) if missing else []
    finally:
        scorer.close()
    new = {number: score for number, (score, _) in zip(missing, judged, strict=True)}
    return [new[number] if score is None else score for number, score in enumerate(scores)]
