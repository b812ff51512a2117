"""`evo report`: a run or a comparison as one self-contained page, with its plots as PNG files."""

from __future__ import annotations

import json
import time

import click

from evo.cli.inspect import open_store
from evo.cli.options import db_option, json_option
from evo.report.files import write_report


@click.command()
@click.argument("name", metavar="RUN")
@click.option("-o", "--output", default="report.html", show_default=True, metavar="FILE", help="the page")
@click.option("--png", metavar="DIR", help="the plots as PNG files  [default: FILE_plots, beside the page]")
@click.option("--against", metavar="ARM", help="the arm to measure the others against  [default: grpo, or the first]")
@db_option
@json_option
def report(name: str, output: str, png: str | None, against: str | None, db: str, as_json: bool) -> None:
    """Write RUN, a run or a comparison, finished or under way, as one HTML page that needs no network."""
    started = time.perf_counter()
    with open_store(db) as store:
        written = write_report(store, name, output, png=png, against=against)
    seconds = time.perf_counter() - started
    if as_json:
        record = {
            "run": name,
            "page": str(written.page),
            "bytes": written.bytes,
            "plots": [str(path) for path in written.plots],
            "seconds": round(seconds, 3),
        }
        click.echo(json.dumps(record))
    else:
        where = f" and {len(written.plots)} plots in {written.plots[0].parent}/" if written.plots else ""
        click.echo(f"{written.page}: {written.bytes / 1e6:.1f} MB{where}, made in {seconds:.1f} s")
