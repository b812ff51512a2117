"""`evo export`: a run's iterations as training traces."""

from __future__ import annotations

import json
from pathlib import Path

import click

from evo.cli.options import db_option, named_weights_option
from evo.errors import BadInput, at_file
from evo.progress.weighing import JudgedWeights, open_runs
from evo.whole_file import write_whole
from islands.comparisons import runs_named
from islands.groups import export_groups


@click.command("export")
@click.argument("name", metavar="RUN")
@click.option("-o", "--output", metavar="FILE.jsonl", required=True, help="Write to this file.")
@click.option("--no-tokens", is_flag=True, help="Leave out token ids and log-probabilities.")
@named_weights_option
@db_option
def export_command(name: str, output: str, no_tokens: bool, weights: JudgedWeights, db: str) -> None:
    """Write one JSON line per iteration of RUN, a run or a comparison: prompt, rollouts, answers, values as the
    scorer measured them, rewards, fitness, errors, token ids and behaviour log-probabilities."""
    path = Path(output)
    if path.suffix != ".jsonl":
        raise BadInput(f"-o {output}: name a FILE.jsonl (pandas.read_json(FILE, lines=True) reads it)")
    if not path.parent.is_dir():
        raise BadInput(f"-o {output}: there is no directory {path.parent}")
    with open_runs(db, [name], weights) as store:
        runs, reweighed = runs_named(store, name), store.reweighed
        lines = (
            json.dumps({**row, "run": run.name, "arm": run.arm})
            for run in runs
            for row in export_groups(store, run.id, tokens=not no_tokens)
        )
        with at_file(f"-o {output}"):
            count = write_whole(path, lines=lines)
    click.echo(f"{path}: {count:,} iterations of {name}")
    for line in () if reweighed is None else reweighed.lines:
        click.echo(line)
