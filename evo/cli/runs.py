"""`evo runs`: list, delete and rename the runs of a database. Listing is safe while a run writes. `evo export`: a run's
iterations as training traces."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from evo.cli.options import db_option, json_option, named_weights_option, open_wide_console, paint_table, print_json
from evo.errors import BadInput, at_file
from evo.progress.model import JudgedWeights, open_runs
from evo.progress.rows import make_table, run_row
from evo.whole_file import write_whole
from islands.comparisons import delete_runs, rename_runs, rivals_of, runs_named
from islands.groups import export_groups
from islands.runs import RunOverview, by_comparison, overview
from islands.store import Store
from islands.training import checkpoints
from problems.address import name_few
from problems.objectives import FITNESS
from problems.redaction import redact

_SHOWN = 20


@click.group("runs", invoke_without_command=True)
@click.option("--all", "rivals", is_flag=True, help="List also the runs that evo verify made.")
@db_option
@json_option
@click.pass_context
def runs_command(context: click.Context, rivals: bool, db: str, as_json: bool) -> None:
    """List the runs in a database; delete or rename them; upgrade the database."""
    if context.invoked_subcommand is not None:
        return
    with Store.open(db, read_only=True) as store:
        lines = overview(store, rivals=rivals)
    if as_json:
        groups = by_comparison(lines)
        print_json([_to_dict(line, groups[line.run.listed_name]) for line in reversed(lines)])
        return
    if not lines:
        click.echo(f"{redact(db)} holds no runs yet; start one with: evo run maze:test --limit 10")
        return
    _print(lines)


def _to_dict(line: RunOverview, among: Sequence[RunOverview]) -> dict[str, Any]:
    """among: all runs of its comparison"""
    row = run_row(line.run.name, [line], among)
    told = {key: value for key, value in vars(line.run).items() if key not in ("id", "config", "summary")}
    counts = {"problems": line.problems, "solved": row["solved"].value, "failed": line.failed, "groups": line.groups}
    told |= {"policy": line.run.config.get("policy"), **counts, "candidates": line.candidates}
    measure = row["best"].measure or FITNESS
    told |= {"mean_best": row["best"].value, "measure": measure.name}
    return {**told, "direction": "min" if measure.lower else "max"}


def _print(lines: Sequence[RunOverview]) -> None:
    """A line for each run and comparison, the newest first."""
    console = open_wide_console()
    rows = [run_row(name, runs) for name, runs in by_comparison(lines).items()]
    paint_table(console, make_table("runs", "", [{title: row[key] for key, title in TITLES.items()} for row in rows]))
    for line in lines:
        if line.run.status == "failed" and line.run.reason:
            console.print(f"{line.run.name} failed: {line.run.reason}", soft_wrap=True)


TITLES = {
    **{"run": "run", "state": "status", "problem": "problem", "solved": "solved", "best": "best"},
    **{"iterations": "iterations", "started": "started", "policy": "policy"},
}
"""Of the columns, by the names of their cells."""


def _choose_db(context: click.Context, db: str) -> str:
    """The database of `evo runs delete --db URL`, or of `evo runs --db URL delete`."""
    above = context.parent
    given = context.get_parameter_source("db")
    return above.params["db"] if above is not None and given is ParameterSource.DEFAULT else db


@runs_command.command()
@click.argument("names", metavar="RUN...", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@db_option
@click.pass_context
def delete(context: click.Context, names: tuple[str, ...], yes: bool, db: str) -> None:
    """Delete RUN, a run or a comparison with all its runs, from the database, with all its iterations and answers, and
    with the runs that evo verify made for it. A run that is being written is refused. Checkpoints that it trained are
    kept. evo resume searches a deleted run of a comparison again."""
    with Store.open(_choose_db(context, db), must_exist=True) as store:
        found = [run for name in dict.fromkeys(names) for run in runs_named(store, name)]
        run_ids = {run.id for run in (*found, *rivals_of(store, found))}
        chosen = [line for line in overview(store, rivals=True) if line.run.id in run_ids]
        what = f"{len(chosen)} run{'s' * (len(chosen) != 1)} with {sum(line.groups for line in chosen):,} iterations"
        if not yes:
            _confirm(chosen, f"Delete {what} from {store.address}?")
        saved = [place for line in chosen for place in checkpoints(store, line.run.id)]
        emptied = delete_runs(store, [line.run for line in chosen])
    click.echo(f"deleted {what}")
    for comparison in dict.fromkeys(run.comparison for run in emptied):
        again = name_few([run.name for run in emptied if run.comparison == comparison], 3)
        click.echo(f"evo resume {comparison} searches {again} again")
    if saved:
        click.echo(f"their checkpoints were kept: {saved[-1]}" + (" and others" if len(saved) > 1 else ""))


def _confirm(chosen: Sequence[RunOverview], question: str) -> None:
    _print(chosen[:_SHOWN])
    if len(chosen) > _SHOWN:
        click.echo(f"... and {len(chosen) - _SHOWN} more")
    if not sys.stdin.isatty():
        raise BadInput(f"{question} Pass --yes to confirm")
    click.confirm(f"{question} This cannot be undone.", abort=True)


@runs_command.command()
@click.argument("old", metavar="RUN")
@click.argument("new", metavar="NAME")
@db_option
@click.pass_context
def rename(context: click.Context, old: str, new: str, db: str) -> None:
    """Give RUN, a run or a comparison, the name NAME. A run that is being written is refused."""
    with Store.open(_choose_db(context, db), must_exist=True) as store:
        renamed = runs_named(store, old)
        if renamed[0].comparison is not None and renamed[0].comparison != old:
            raise BadInput(f"{old} is a run of the comparison {renamed[0].comparison}; rename that")
        rename_runs(store, renamed, new)
    click.echo(f"renamed {old} to {new}" + (f", with its {len(renamed)} runs" if renamed[0].comparison else ""))


@runs_command.command("upgrade")
@db_option
@click.pass_context
def upgrade_database(context: click.Context, db: str) -> None:
    """Upgrade a database of an older evo to the schema of this one. Commands that write do this by themselves."""
    with Store.open(_choose_db(context, db), must_exist=True) as store:
        click.echo(f"{store.address} has the schema of this evo")


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
    with open_runs(db, [name], weights) as store:
        runs, reweighed = runs_named(store, name), store.reweighed
        if not path.parent.is_dir():
            raise BadInput(f"-o {output}: there is no directory {path.parent}")
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
