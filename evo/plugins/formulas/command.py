"""Find formulas of a table: symbolic regression, without a model."""

from __future__ import annotations

import contextlib
import shlex
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from evo.cli.flags import GroupedCommand
from evo.cli.options import json_option, open_wide_console, plain_option, print_json, read_command
from evo.cli.tables import print_table
from evo.errors import INTERRUPTED, BadInput
from evo.plugins.formulas import fit as fits
from evo.plugins.formulas.fit import FitSettings, SavedFit, SplitTable
from evo.plugins.formulas.fit_view import (
    LiveView,
    describe_data,
    number,
    print_fit,
    progress_line,
    save_plot,
    short_formula,
)
from evo.plugins.formulas.grammar import variable
from evo.plugins.formulas.rules import read_functions
from evo.plugins.formulas.table import BadTable
from evo.plugins.formulas.writing import to_latex
from evo.tui.terminal import can_show
from problems.retired import COMMANDS, replace_hint

NEWS_SECONDS, LINE_SECONDS = 1.0, 10.0
"""Between two plain lines, at least if the front is better, and at most if it is not."""
PICTURES = (".png", ".svg", ".pdf")
_LARGE_FILE = 10_000_000
"""Bytes of a file whose reading takes seconds."""
FORMS = ("table", "text", "latex", "sympy", "python", "json")


class FitGroup(click.Group):
    """`evo fit FILE`, and subcommands: the first argument decides. A file that has the name of a subcommand is given as
    ./show."""

    def __init__(self, main: click.Command) -> None:
        super().__init__("fit", params=main.params, help=main.help)
        self._main = main

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and (retired := replace_hint(COMMANDS, f"fit {args[0]}")) and not Path(args[0]).exists():
            raise BadInput(retired)
        if args and args[0] in self.commands:
            name = f"{info_name} {args[0]}"
            return self.commands[args[0]].make_context(name, args[1:], parent, **extra)
        return self._main.make_context(info_name, args, parent, **extra)


@click.command(
    "fit",
    cls=GroupedCommand,
    sections={
        "Data": ("target", "columns", "weights", "test_share", "drop_missing", "no_header"),
        "Search": ("seconds", "evaluations", "max_size", "functions", "guesses", "units", "loss", "seed"),
        "Execution and output": ("name", "resume", "plot", "plain", "as_json"),
    },
    epilog="`evo fit show` lists the saved fits; `evo fit show NAME --row 3 --as python` prints a row.",
)
@click.argument("file", metavar="FILE", required=False, type=click.Path(path_type=Path))
@click.option("--target", "-y", metavar="COLUMN", help="The column that the formula gives.")
@click.option("--columns", metavar="A,B,...", help="The columns that may occur in the formula; all others by default.")
@click.option("--weights", metavar="COLUMN", help="The column with the weight of each row's squared error.")
@click.option(
    "--test-share",
    type=click.FloatRange(0, 0.9),
    help="The share of the rows that is held out; no formula is fitted to them or chosen by them.  [default: 0.2]",
)
@click.option("--drop-missing", is_flag=True, help="Leave out rows with missing or infinite values.")
@click.option("--no-header", is_flag=True, help="Read the first line as data, and name the columns x1, x2, ...")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="The most seconds of the search.  [default: 60]"
)
@click.option(
    "--evaluations",
    type=click.IntRange(1),
    help="The most passes of a formula over the rows; without --seconds, one seed then gives one front.",
)
@click.option("--max-size", type=click.IntRange(1, 1000), help="The most nodes of a formula.  [default: 50]")
@click.option(
    "--functions",
    metavar="NAME,...",
    help="The functions that may occur, such as /,**,sqrt,exp,log,sin; + - * always may.  [default: 15 of them]",
)
@click.option("--guess", "guesses", multiple=True, metavar="FORMULA", help="A formula to start from; repeatable.")
@click.option(
    "--units",
    metavar="NAME=UNIT,...|header",
    help="The units of columns, or `header` for those of the header; a formula that breaks them is left out.",
)
@click.option(
    "--loss",
    metavar="NAME",
    help="The loss of a row: squared_error, absolute_error, log_cosh, huber(1.0), quantile(0.5)"
    "  [default: squared_error]",
)
@click.option("--seed", type=int, help="The seed of the held-out rows and of the search.  [default: 0]")
@click.option("--name", help="The name of the fit; by default the file's and the target's.")
@click.option("--resume", metavar="NAME", help="Continue a saved fit instead of starting one.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE.png", help="Save the plots as a picture.")
@plain_option
@json_option
def _fit(file: Path | None, resume: str | None, plot: Path | None, plain: bool, as_json: bool, **given: Any) -> int:
    """Find formulas y = f(x) of the columns of FILE, a CSV or Parquet table with a line of names.

    The result is a front: for each size the formula with the smallest error, and one recommended row. It is saved in
    fits/NAME.json after every tick, so a killed fit can be resumed. No model and no network are used.

    \b
    evo fit data.csv --target y
    evo fit show data-y --row 5 --as python
    evo fit --resume data-y --seconds 300
    """
    console = Console(stderr=as_json, highlight=False, emoji=False)
    _check_plot(plot)
    if resume is not None:
        saved, path, parts = _reopen(file, resume, given)
    else:
        saved, path, parts = _begin(file, given, console)
    for note in saved.data["notes"]:
        console.print(note, soft_wrap=True, markup=False)
    plain = plain or not can_show(console)
    with _interruptible() as interrupted:
        ended = _search(saved, parts, path, console, plain, interrupted)
    if plot is not None and ended.recommended is not None:
        _save_plot(ended, parts, plot, ended.recommended)
    if as_json:
        print_json(ended.record())
    else:
        print_fit(console, ended, ended.recommended, head=not plain)
        _print_hints(console, ended, path)
    return INTERRUPTED if interrupted[0] else 0


def _begin(file: Path | None, given: dict[str, Any], console: Console) -> tuple[SavedFit, Path, SplitTable]:
    if file is None:
        raise BadInput("name a CSV or Parquet file, as in evo fit data.csv --target y (see evo fit --help)")
    if not file.exists():
        raise BadInput(f"there is no file {file}")
    settings = FitSettings(
        given["target"],
        tuple(_names(given["columns"])),
        given["weights"],
        given["drop_missing"],
        not given["no_header"],
        seed=given["seed"] or 0,
        test_share=0.2 if given["test_share"] is None else given["test_share"],
    )
    settings = _change(settings, given)
    if file.stat().st_size > _LARGE_FILE:
        console.print(f"Reading {file} ({file.stat().st_size / 1e6:.0f} MB) ...", soft_wrap=True, markup=False)
    name = given["name"]
    if name is not None and (Path(name).name != name or name.startswith(".")):
        raise BadInput(f"--name {name!r} cannot be the name of a file")
    if name is not None and name in fits.list_fits():
        raise BadInput(f"there is a fit {name!r} already; continue it with --resume {name}, or choose another --name")
    from evo.search.defaults import source_commit  # it loads much of a search by policies

    saved, parts = fits.begin_fit(file, settings, name, {"commit": source_commit(), "command": read_command()})
    return saved, fits.FOLDER / f"{saved.name}.json", parts


def _reopen(file: Path | None, name: str, given: dict[str, Any]) -> tuple[SavedFit, Path, SplitTable]:
    fixed = ("target", "columns", "weights", "test_share", "drop_missing", "no_header", "seed", "name")
    named = [f"--{key.replace('_', '-')}" for key in fixed if given[key] not in (None, False)]
    if file is not None or named:
        raise BadInput(f"a fit is resumed with its own file and settings; leave out {', '.join(named) or file}")
    saved, path = fits.load_fit(name)
    parts = fits.reopen_fit(saved)
    return replace(saved, settings=_change(saved.settings, given)), path, parts


def _change(settings: FitSettings, given: dict[str, Any]) -> FitSettings:
    """The settings of the search that were given."""
    changes: dict[str, Any] = {}
    if given["seconds"] is not None or given["evaluations"] is not None:
        changes |= {"seconds": given["seconds"], "evaluations": given["evaluations"]}
    if given["max_size"] is not None:
        changes["max_size"] = given["max_size"]
    if given["functions"] is not None:
        functions = _names(given["functions"])
        try:
            read_functions(functions)
        except ValueError as error:
            raise BadInput(f"--functions: {error}") from None
        changes["functions"] = tuple(functions)
    if given["loss"] is not None:
        changes["loss"] = None if given["loss"] == "squared_error" else given["loss"]
    if given["units"] is not None:
        changes["units"] = given["units"]
    if given["guesses"]:
        changes["guesses"] = tuple(given["guesses"])
    return replace(settings, **changes)


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


@contextlib.contextmanager
def _interruptible() -> Iterator[list[bool]]:
    """The first Ctrl-C or TERM signal ends the search and keeps its front; the second ends the process."""
    seen = [False]

    def interrupt(_number: int, _frame: object) -> None:
        if seen[0]:
            raise KeyboardInterrupt
        seen[0] = True

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _search(
    saved: SavedFit, parts: SplitTable, path: Path, console: Console, plain: bool, interrupted: list[bool]
) -> SavedFit:
    """Search, and show it."""
    if plain:
        begun = time.monotonic()
        last, shown = [-NEWS_SECONDS], [""]

        def watch(fit: SavedFit) -> bool:
            elapsed = time.monotonic() - begun
            line = progress_line(fit)
            news = line.partition(" rows")[2]
            pause = NEWS_SECONDS if news != shown[0] else LINE_SECONDS
            if elapsed - last[0] >= pause:
                console.print(line, soft_wrap=True, markup=False)
                last[0], shown[0] = elapsed, news
            return interrupted[0]

        console.print(describe_data(saved), soft_wrap=True, markup=False)
        return fits.run_fit(saved, parts, path, watch)
    view = LiveView(console, saved)

    def watch_live(fit: SavedFit) -> bool:
        view.fit = fit
        return interrupted[0]

    with Live(view, console=console, refresh_per_second=4, transient=True):
        return fits.run_fit(saved, parts, path, watch_live)


def _check_plot(plot: Path | None) -> None:
    """Refuse a picture that cannot be written, before the search."""
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise BadInput(f"--plot {plot}: the name must end in {', '.join(PICTURES)}")
    if plot is not None and not plot.absolute().parent.is_dir():
        raise BadInput(f"--plot {plot}: there is no folder {plot.parent}")


def _save_plot(saved: SavedFit, parts: SplitTable, plot: Path, row: fits.FitRow) -> None:
    try:
        save_plot(saved, parts, row, plot)
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot write {plot}: {error}; the fit itself is saved as {saved.name}") from None


def _print_hints(console: Console, saved: SavedFit, path: Path) -> None:
    name = shlex.quote(saved.name)
    console.print("")
    console.print(f"Saved in {path}. Next:", soft_wrap=True, markup=False)
    row = 1 if saved.best is None else saved.best + 1
    console.print(f"  evo fit show {name} --row {row} --as python", soft_wrap=True, markup=False)
    console.print(f"  evo fit --resume {name} --seconds 300", soft_wrap=True, markup=False)


fit = FitGroup(_fit)


@fit.command("show")
@click.argument("name", metavar="NAME", required=False)
@click.option(
    "--row", default="best", metavar="K|best|all", show_default=True, help="The row of the front, as the table counts."
)
@click.option("--as", "form", type=click.Choice(FORMS), default="table", show_default=True, help="The form of the row.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE.png", help="Save the plots as a picture.")
def _show(name: str | None, row: str, form: str, plot: Path | None) -> None:
    """Print a saved fit, or rows of it as text, LaTeX, sympy, Python functions or JSON; without NAME, list the fits."""
    if name is None:
        _list(as_json=form == "json")
        return
    saved, _path = fits.load_fit(name)
    rows = list(saved.rows)
    if row == "best":
        rows = [] if saved.recommended is None else [saved.recommended]
    elif row != "all":
        if not row.isdecimal() or not 1 <= int(row) <= len(rows):
            raise BadInput(f"--row {row}: {name} has the rows 1 to {len(rows)}, `best` and `all`")
        rows = [rows[int(row) - 1]]
    if not rows:
        raise BadInput(f"{name} has no formula yet; continue it with: evo fit --resume {name}")
    _check_plot(plot)
    if plot is not None:
        _save_plot(saved, fits.reopen_fit(saved), plot, rows[0])
    if form == "json":
        record = saved.record()
        print_json(record if row == "all" else record["rows"][saved.rows.index(rows[0])])
    elif form == "table":
        print_fit(Console(highlight=False, emoji=False), saved, rows[0])
    else:
        for each in rows:
            click.echo(_write(saved, each, form, several=row == "all"))


def _write(saved: SavedFit, row: fits.FitRow, form: str, several: bool) -> str:
    """several: whether other rows are written too, so that each function needs a name of its own"""
    if form == "latex":
        return f"{to_latex(variable(0), [saved.target])} = {row.front.latex(6)}"
    if form == "python":
        return row.front.python(f"{saved.target}_{saved.rows.index(row) + 1}" if several else saved.target)
    return str(row.front.sympy()) if form == "sympy" else row.front.equation


def _list(as_json: bool) -> None:
    """The saved fits, the newest last."""
    saved = []
    for name in fits.list_fits():
        try:
            saved.append(fits.load_fit(name)[0])
        except BadTable as fault:
            click.echo(f"evo: {fault}", err=True)
    if as_json:
        print_json([{key: value for key, value in each.record().items() if key != "rows"} for each in saved])
        return
    if not saved:
        click.echo(f"{fits.FOLDER}/ holds no fits yet; start one with: evo fit data.csv --target y")
        return
    rows = []
    for each in saved:
        row, cells = each.recommended, ("-", "-", "-", "-")
        if row is not None:
            law = f"{each.target} = {short_formula(each, row)}"
            cells = (str(row.front.complexity), number(row.front.r2), number(row.test_r2), law)
        rows.append((each.name, f"{sum(session.seconds for session in each.sessions):.0f}", *cells))
    titles = ("fit", "seconds", "size", "R2", "held-out R2", "recommended")
    print_table(open_wide_console(), titles, rows, right=("seconds", "size", "R2", "held-out R2"))
