"""`evo problems pick`: those problems that evaluations found hard, for a search to go on with."""

from __future__ import annotations

import json
from pathlib import Path

import click

from evo.cli.options import json_option
from evo.config.parse import OPTIONS, parse
from evo.config.pick import PickConfig
from evo.evaluation.file import check_writable
from evo.evaluation.pick import pick_problems, write_list


@click.command()
@click.argument("evaluations", metavar="EVALUATION...", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="FILE", help="the list; list:FILE names its problems")
@click.option("--metric", default="best@30", show_default=True, help="of each problem, as evaluations call it")
@click.option("--at-most", type=float, default=0.0, show_default=True, help="its largest value, in every EVALUATION")
@click.option("--limit", type=click.IntRange(1), help="only the first K of them")
@json_option
def pick(
    evaluations: tuple[str, ...], output: str, metric: str, at_most: float, limit: int | None, as_json: bool
) -> None:
    """Write a list of the problems on which every EVALUATION, a file that `evo evaluate -o` wrote, found at most that
    much: by default those on which the best of 30 answers scores 0."""
    given = {"evaluations": list(evaluations), "metric": metric, "at_most": at_most, "limit": limit}
    config = parse(PickConfig, given, OPTIONS)
    check_writable(output)
    picked = pick_problems(config)
    write_list(Path(output), picked, config)
    if as_json:
        click.echo(json.dumps({"output": output, "problems": picked.names, "of": picked.of}))
    else:
        click.echo(f"{output}: {len(picked.names)} of {picked.of} problems; search them as list:{output}")
