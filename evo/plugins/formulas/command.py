"""Find formulas of a table: symbolic regression, without a model."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import shlex
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from evo.cli.flags import GroupedCommand
from evo.cli.options import json_option, open_wide_console, plain_option, print_json, print_table, read_command
from evo.errors import INTERRUPTED, BadInput
from evo.plugins.formulas import fit as fits
from evo.plugins.formulas.fit import FitSettings, SavedFit, SplitTable
from evo.plugins.formulas.front import FrontRow
from evo.plugins.formulas.search import LOSSES
from evo.plugins.formulas.table import BadTable
from evo.plugins.formulas.writing import latex_name, write_sympy
from evo.process import handling
from evo.provenance import source_commit
from evo.search.status import clock
from evo.tui.child import can_show
from evo.tui.line import cut_to as shorten

LINE_SECONDS = 3.0
"""Between two plain lines."""
PICTURES = (".png", ".svg", ".pdf")
_FORMS = ("table", "text", "latex", "sympy", "python", "json")
_FIXED = {
    **{key: f"--{key}" for key in ("target", "columns", "weights", "seed", "name")},
    **{"loss": "--loss", "test_share": "--test-share", "drop_missing": "--drop-missing", "header": "--no-header"},
}
"""What a resumed fit keeps: settings, and their flags."""
_REASONS = {
    "exact": "Stopped: a formula fits to rounding",
    "evaluations": "Stopped: the evaluations are spent",
    "seconds": "Stopped: the time is over",
    "callback": "Interrupted",
    "": "Killed or still running",
}


class FitGroup(click.Group):
    """`evo fit FILE`, and `evo fit show`: the first argument decides. A file that has the name of a subcommand is given
    as ./show."""

    def __init__(self, main: click.Command) -> None:
        super().__init__("fit", params=main.params, help=main.help)
        self._main = main

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in self.commands:
            name = f"{info_name} {args[0]}"
            return self.commands[args[0]].make_context(name, args[1:], parent, **extra)
        return self._main.make_context(info_name, args, parent, **extra)


def _names(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


@click.command(
    "fit",
    cls=GroupedCommand,
    sections={
        "Data": ("target", "columns", "weights", "test_share", "drop_missing", "header"),
        "Search": ("loss", "seconds", "evaluations", "max_size", "functions", "guesses", "units", "seed"),
        "Execution and output": ("name", "resume", "plot", "plain", "as_json"),
    },
    epilog="`evo fit show` lists the saved fits; `evo fit show NAME --row 3 --as python` prints a row.",
)
@click.argument("file", metavar="FILE", required=False, type=click.Path(path_type=Path))
@click.option("--target", "-y", metavar="COLUMN", help="The column that the formula gives.")
@click.option(
    "--columns",
    callback=_names,
    metavar="A,B,...",
    help="The columns that may occur in the formula; all others by default.",
)
@click.option("--weights", metavar="COLUMN", help="The column with the weight of each row's squared error.")
@click.option(
    "--test-share",
    type=click.FloatRange(0, 0.9),
    help="The share of the rows that is held out; no formula is fitted to them or chosen by them.  [default: 0.2]",
)
@click.option("--drop-missing", flag_value=True, default=None, help="Leave out rows with missing or infinite values.")
@click.option(
    "--no-header",
    "header",
    flag_value=False,
    default=None,
    help="Read the first line as data, and name the columns x1, x2, ...",
)
@click.option(
    "--loss",
    type=click.Choice(LOSSES),
    help="What is made small: the squared errors, or the squares of the errors as shares of the target.  "
    "[default: squared]",
)
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="Seconds of the search, at most. [default: 60]"
)
@click.option(
    "--evaluations",
    type=click.IntRange(1),
    help="The most passes of a formula over the rows; without --seconds, one seed then gives one front.",
)
@click.option("--max-size", type=click.IntRange(1, 1000), help="The most nodes of a formula.  [default: 50]")
@click.option(
    "--functions",
    callback=_names,
    metavar="NAME,...",
    help="The functions that may occur, such as /,**,sqrt,exp,log,sin; + - * always may.  [default: 15 of them]",
)
@click.option("--guess", "guesses", multiple=True, metavar="FORMULA", help="A formula to start from; repeatable.")
@click.option(
    "--units",
    metavar="NAME=UNIT,...|header",
    help="The units of columns, or `header` for those of the header; a formula that breaks them is left out.",
)
@click.option("--seed", type=int, help="The seed of the held-out rows and of the search.  [default: 0]")
@click.option("--name", help="The name of the fit; by default the file's and the target's.")
@click.option("--resume", metavar="NAME", help="Continue a saved fit instead of starting one.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE.png", help="Save the plots as a picture.")
@plain_option
@json_option
def _fit(
    file: Path | None,
    name: str | None,
    resume: str | None,
    plot: Path | None,
    plain: bool,
    as_json: bool,
    **given: Any,
) -> int:
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
    changes = {key: value for key, value in given.items() if value not in (None, ())}
    if "seconds" in changes or "evaluations" in changes:
        changes = {"seconds": None, "evaluations": None, **changes}
    saved, path, parts = (
        _begin(file, name, changes)
        if resume is None
        else _reopen(file, resume, changes | ({} if name is None else {"name": name}))
    )
    for line in (*saved.data["notes"], describe_data(saved)):
        console.print(line, soft_wrap=True, markup=False)
    interrupted: list[int] = []

    def interrupt(number: int) -> None:
        if interrupted:  # the second ends the process
            raise KeyboardInterrupt
        interrupted.append(number)

    with handling(interrupt, signal.SIGINT, signal.SIGTERM):
        ended = _search(saved, parts, path, console, plain, interrupted)
    if plot is not None and ended.recommended is not None:
        _save_plot(ended, parts, plot, ended.recommended)
    if as_json:
        print_json(ended.record())
    else:
        print_fit(console, ended, ended.recommended)
        shown, row = shlex.quote(ended.name), 1 if ended.best is None else ended.best + 1
        console.print(f"\nSaved in {path}. Next:", soft_wrap=True, markup=False)
        console.print(f"  evo fit show {shown} --row {row} --as python", soft_wrap=True, markup=False)
        console.print(f"  evo fit --resume {shown} --seconds 300", soft_wrap=True, markup=False)
    return INTERRUPTED if interrupted else 0


def _begin(file: Path | None, name: str | None, changes: dict[str, Any]) -> tuple[SavedFit, Path, SplitTable]:
    if file is None:
        raise BadInput("name a CSV or Parquet file, as in evo fit data.csv --target y (see evo fit --help)")
    if not file.exists():
        raise BadInput(f"there is no file {file}")
    if name is not None and (Path(name).name != name or name.startswith(".")):
        raise BadInput(f"--name {name!r} cannot be the name of a file")
    if name is not None and name in fits.list_fits():
        raise BadInput(f"there is a fit {name!r} already; continue it with --resume {name}, or choose another --name")
    made_by = {"commit": source_commit(), "command": read_command()}
    saved, parts = fits.begin_fit(file, FitSettings(**{"target": None, **changes}), name, made_by)
    return saved, fits.FITS_FOLDER / f"{saved.name}.json", parts


def _reopen(file: Path | None, name: str, changes: dict[str, Any]) -> tuple[SavedFit, Path, SplitTable]:
    named = [flag for key, flag in _FIXED.items() if key in changes]
    if file is not None or named:
        raise BadInput(f"a fit is resumed with its own file and settings; leave out {', '.join(named) or file}")
    saved, path = fits.load_fit(name)
    saved = replace(saved, settings=replace(saved.settings, **changes))
    return saved, path, fits.reopen_fit(saved)


def _search(
    saved: SavedFit, parts: SplitTable, path: Path, console: Console, plain: bool, interrupted: list[int]
) -> SavedFit:
    """Search, and show how far it is: one line that changes, or further lines."""
    last = -math.inf
    text = "searching; Ctrl-C ends the search and keeps its front"
    with contextlib.nullcontext() if plain or not can_show(console) else console.status(text) as status:

        def watch(fit: SavedFit) -> bool:
            nonlocal last
            now, line = time.monotonic(), progress_line(fit)
            if status is not None:
                status.update(shorten(line, console.width - 3))
            elif now - last >= LINE_SECONDS:
                console.print(line, soft_wrap=True, markup=False)
                last = now
            return bool(interrupted)

        return fits.run_fit(saved, parts, path, watch)


# -- printing ----------------------------------------------------------------------------------------------------------


def describe_data(fit: SavedFit) -> str:
    """What is fitted, in one line."""
    data = fit.data
    columns = f"{len(fit.names)} column{'s' if len(fit.names) > 1 else ''}"
    held = f"{data['held_out']:,}" if data["held_out"] else "none"
    return f"{Path(data['path']).name}: {fit.target} from {columns}; {data['fitted']:,} rows fitted, {held} held out"


def write_r2(value: float | None) -> str:
    """An R2 as text: nines are counted if there are many."""
    if value is None:
        return "-"
    if abs(value) < 5e-5:
        return "0.0000"
    if value > 0.999:
        return f"{value:.6f}" if 1 - value > 5e-7 else "1.000000"
    return f"{value:.4f}" if value > -9.5 else f"{value:.2g}"


def progress_line(fit: SavedFit) -> str:
    """The state of a running search in one line."""
    session, row = fit.sessions[-1], fit.recommended
    parts = [clock(session.seconds), _count(session.evaluations, "evaluation"), _count(len(fit.rows), "row")]
    if row is not None:
        held = "" if row.test_r2 is None else f", held-out {write_r2(row.test_r2)}"
        measured = f"recommended: size {row.complexity}, R2 {write_r2(row.r2)}{held}"
        parts.append(f"{measured}: {fit.target} = {row.text()}")
    return "  ".join(parts)


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' * (number != 1)}"


def print_fit(console: Console, fit: SavedFit, row: FrontRow | None) -> None:
    """Why the search ended, what it took, its front with the recommended row marked, and the row's formula."""
    seconds, evaluations = sum(each.seconds for each in fit.sessions), sum(each.evaluations for each in fit.sessions)
    sessions = f" in {len(fit.sessions)} sessions" if len(fit.sessions) > 1 else ""
    reason = _REASONS[fit.sessions[-1].stopped] if fit.sessions else "The search has not begun"
    console.print(
        f"{reason}; {seconds:.1f} s, {_count(evaluations, 'evaluation')}{sessions}.\n", soft_wrap=True, markup=False
    )
    loss_title = {"squared": "RMSE", "relative": "relative RMSE"}[fit.settings.loss]
    titles = ("", "row", "size", loss_title, "score", "R2", "held-out R2", f"{fit.target} =")
    rows = []
    for k, each in enumerate(fit.rows):
        loss, score = f"{math.sqrt(each.loss):.4g}", f"{each.score:.3f}" if k else "-"
        measured = (str(each.complexity), loss, score, write_r2(each.r2), write_r2(each.test_r2))
        rows.append(("*" if k == fit.best else "", str(k + 1), *measured, each.text()))
    print_table(console, titles, rows, right=titles[1:-1])
    if row is not None:
        which = "Recommended" if row is fit.recommended else f"Row {fit.rows.index(row) + 1}"
        for line in (f"\n{which}: {fit.target} = {row.text()}", *remarks(fit, row)):
            console.print(line, soft_wrap=True, markup=False, highlight=False)


def remarks(fit: SavedFit, row: FrontRow) -> list[str]:
    """Warnings about a formula, a sentence each."""
    warnings, constants = [], len(row.formula.fitted)
    if 5 * constants > fit.data["fitted"]:
        warnings.append(f"It has {constants} constants for {fit.data['fitted']} fitted rows: smaller rows are safer.")
    if row.undefined:
        warnings.append(f"It has no finite value on {row.undefined} held-out row{'s' if row.undefined > 1 else ''}.")
    if row.test_r2 is not None and row.r2 - row.test_r2 > max(0.25 * row.r2, 0.05):
        warnings.append("Its held-out R2 is far below its R2 on the fitted rows.")
    if fit.advice and row is fit.recommended:
        warnings.append(fit.advice)
    return warnings


def _check_plot(plot: Path | None) -> None:
    """Refuse a picture that cannot be written, before the search."""
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise BadInput(f"--plot {plot}: the name must end in {', '.join(PICTURES)}")
    if plot is not None and not plot.absolute().parent.is_dir():
        raise BadInput(f"--plot {plot}: there is no folder {plot.parent}")
    if plot is not None:
        _check_package("matplotlib", "--plot")


def _check_package(package: str, option: str) -> None:
    """Refuse what an extra is missing for, before the work."""
    if importlib.util.find_spec(package) is None:
        raise BadInput(f"{option} needs {package}: pip install 'evo-search[formulas]'")


def _save_plot(fit: SavedFit, parts: SplitTable, plot: Path, row: FrontRow) -> None:
    """The front, the fit and its residuals as a picture, of the format of the suffix."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    errors, against, residuals = figure.subplots(1, 3)
    sizes = [each.complexity for each in fit.rows]
    errors.semilogy(sizes, [max(1 - each.r2, 1e-16) for each in fit.rows], "o-", label="fitted rows")
    held = [math.nan if each.test_r2 is None else max(1 - each.test_r2, 1e-16) for each in fit.rows]
    errors.semilogy(sizes, held, "s--", label="held-out rows")
    errors.axvline(row.complexity, color="grey", linewidth=0.8)
    errors.set(xlabel="size (nodes)", ylabel="1 - R2")
    for x, y, label in ((parts.x, parts.y, "fitted rows"), (parts.test_x, parts.test_y, "held-out rows")):
        if len(y):
            predicted = row(x)
            against.plot(y, predicted, ".", markersize=4, label=label)
            residuals.plot(predicted, y - predicted, ".", markersize=4, label=label)
    against.axline((float(parts.y.mean()), float(parts.y.mean())), slope=1, color="grey", linewidth=0.8)
    residuals.axhline(0, color="grey", linewidth=0.8)
    against.set(xlabel=f"measured {fit.target}", ylabel=f"predicted {fit.target}")
    residuals.set(xlabel=f"predicted {fit.target}", ylabel="residual")
    errors.legend()
    against.legend()
    title = shorten(f"{fit.target} = {row.text()}", 150)
    figure.suptitle(title, parse_math=False, fontsize=10)
    try:
        figure.savefig(plot, dpi=120)
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot write {plot}: {error}; the fit itself is saved as {fit.name}") from None


# -- evo fit show ------------------------------------------------------------------------------------------------------

fit = FitGroup(_fit)


@fit.command("show")
@click.argument("name", metavar="NAME", required=False)
@click.option(
    "--row", default="best", metavar="K|best|all", show_default=True, help="The row of the front, as the table counts."
)
@click.option(
    "--as", "form", type=click.Choice(_FORMS), default="table", show_default=True, help="The form of the row."
)
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE.png", help="Save the plots as a picture.")
def _show(name: str | None, row: str, form: str, plot: Path | None) -> None:
    """Print a saved fit, or rows of it as text, LaTeX, sympy, Python functions or JSON; without NAME, list the fits."""
    if name is None:
        _list(as_json=form == "json")
        return
    if form in ("sympy", "latex"):
        _check_package("sympy", f"--as {form}")
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
        console = Console(highlight=False, emoji=False)
        console.print(describe_data(saved), soft_wrap=True, markup=False)
        print_fit(console, saved, rows[0])
    else:
        for each in rows:
            # one of several functions needs a name of its own
            name = f"{saved.target}_{saved.rows.index(each) + 1}" if row == "all" else saved.target
            click.echo(
                f"{latex_name(saved.target)} = {each.latex(6)}" if form == "latex"
                else each.python(name) if form == "python"
                else write_sympy(each.formula, each.names) if form == "sympy"
                else each.equation
            )  # fmt: skip


def _list(as_json: bool) -> None:
    """The saved fits, the newest last."""
    saved = _saved_fits()
    if as_json:
        print_json([{key: value for key, value in each.record().items() if key != "rows"} for each in saved])
    elif not saved:
        click.echo(f"{fits.FITS_FOLDER}/ holds no fits yet; start one with: evo fit data.csv --target y")
    else:
        print_table(open_wide_console(), *tabulate_fits(), right=("seconds", "size", "R2", "held-out R2"))


def _saved_fits() -> list[SavedFit]:
    saved = []
    for name in fits.list_fits():
        try:
            saved.append(fits.load_fit(name)[0])
        except BadTable as fault:
            click.echo(f"evo: {fault}", err=True)
    return saved


def tabulate_fits() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """(titles, rows) of the saved fits, for a list of this folder's work."""
    rows = list[tuple[str, ...]]()
    for each in _saved_fits():
        row, cells = each.recommended, ("-", "-", "-", "-")
        if row is not None:
            law = f"{each.target} = {row.text()}"
            cells = (str(row.complexity), write_r2(row.r2), write_r2(row.test_r2), law)
        rows.append((each.name, f"{sum(session.seconds for session in each.sessions):.0f}", *cells))
    return ("fit", "seconds", "size", "R2", "held-out R2", "recommended"), rows
