"""A fit as text: its front as a table, the recommended formula, and a picture."""

from __future__ import annotations

import math
import time
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.text import Text

from evo.plugins.formulas.fit import FitRow, SavedFit, SplitTable
from evo.plugins.formulas.grammar import write
from evo.search.status import clock
from evo.tui.line import fit as cut

DIGITS = 4
"""Of the numbers in formulas that are only looked at."""


def short_formula(fit: SavedFit, row: FitRow) -> str:
    """The row's formula with DIGITS digits, to look at."""
    return write(row.front.formula, fit.names, digits=DIGITS)


def number(value: float | None) -> str:
    """An R2 as text: nines are counted where there are many."""
    if value is None:
        return "-"
    if abs(value) < 5e-5:
        return "0.0000"
    if value > 0.999:
        return f"{value:.6f}" if 1 - value > 5e-7 else "1.000000"
    return f"{value:.4f}" if value > -9.5 else f"{value:.2g}"


def front_table(fit: SavedFit, width: int | None = None, most: int | None = None) -> list[Text]:
    """Titles and a line a row of the front, the recommended one marked with *.

    width: that formulas are cut to, None for whole formulas; most: lines, a window around the recommended row
    """
    squared = fit.settings.loss is None
    titles = ("row", "size", "RMSE" if squared else "loss", "R2", "held-out R2")
    rows = list(enumerate(fit.rows))
    if most is not None and len(rows) > most:
        middle = len(rows) // 2 if fit.best is None else fit.best
        begin = min(max(0, middle - most // 2), len(rows) - most)
        rows = rows[begin : begin + most]
    cells = [
        (
            str(k + 1),
            str(row.front.complexity),
            f"{math.sqrt(row.front.loss) if squared else row.front.loss:.4g}",
            number(row.front.r2),
            number(row.test_r2),
        )
        for k, row in rows
    ]
    sizes = [max(len(line[k]) for line in (titles, *cells)) for k in range(len(titles))]
    head = "  " + "  ".join(text.rjust(size) for text, size in zip(titles, sizes, strict=True))
    lines = [Text(f"{head}  {fit.target} =", "bold")]
    for (k, row), line in zip(rows, cells, strict=True):
        mark = "*" if k == fit.best else " "
        text = f"{mark} " + "  ".join(cell.rjust(size) for cell, size in zip(line, sizes, strict=True)) + "  "
        formula = short_formula(fit, row)
        formula = formula if width is None else cut(formula, max(8, width - len(text)))
        lines.append(Text(text + formula, "bold green" if k == fit.best else ""))
    return lines


def describe_data(fit: SavedFit) -> str:
    """What is fitted, in one line."""
    data = fit.data
    columns = f"{len(fit.names)} column{'s' if len(fit.names) > 1 else ''}"
    held = f", {data['held_out']:,} held out" if data["held_out"] else ", none held out"
    return f"{Path(data['path']).name}: {fit.target} from {columns}; {data['fitted']:,} rows fitted{held}"


def describe_end(fit: SavedFit) -> str:
    """Why the search ended, and what it took."""
    if not fit.sessions:
        return "The search has not begun."
    last = fit.sessions[-1]
    reasons = {
        "exact": "Stopped: a formula fits to rounding",
        "evaluations": "Stopped: the evaluations are spent",
        "seconds": "Stopped: the time is over",
        "callback": "Interrupted",
        "": "Killed or still running",
    }
    seconds = sum(session.seconds for session in fit.sessions)
    evaluations = sum(session.evaluations for session in fit.sessions)
    sessions = f" in {len(fit.sessions)} sessions" if len(fit.sessions) > 1 else ""
    return f"{reasons[last.stopped]}; {seconds:.1f} s, {evaluations:,} evaluations{sessions}."


def progress_line(fit: SavedFit) -> str:
    """The state of a running search in one line."""
    session = fit.sessions[-1]
    parts = [clock(session.seconds), f"{session.evaluations:,} evaluations", f"{len(fit.rows)} rows"]
    row = fit.recommended
    if row is not None:
        held = "" if row.test_r2 is None else f", held-out {number(row.test_r2)}"
        measured = f"recommended: size {row.front.complexity}, R2 {number(row.front.r2)}{held}"
        parts.append(f"{measured}: {fit.target} = {short_formula(fit, row)}")
    return "  ".join(parts)


class LiveView:
    """The screen of a running search: how far it is, and its front so far."""

    def __init__(self, console: Console, fit: SavedFit) -> None:
        self._console, self.fit = console, fit
        self._begun = time.monotonic()

    def __rich__(self) -> RenderableType:
        settings = self.fit.settings
        elapsed = clock(time.monotonic() - self._begun)
        limit = "" if settings.seconds is None else f" of {clock(settings.seconds)}"
        most = "" if settings.evaluations is None else f" of {settings.evaluations:,}"
        done = self.fit.sessions[-1].evaluations if self.fit.sessions else 0
        width = self._console.width
        head = f"{elapsed}{limit}  {done:,}{most} evaluations  Ctrl-C ends it and keeps the front"
        lines = [Text(cut(describe_data(self.fit), width), "bold"), Text(cut(head, width), "dim")]
        if self.fit.rows:
            room = max(3, self._console.height - 5)
            lines += front_table(self.fit, width - 3, room)  # an echoed ^C wraps no line
        return Group(*lines)


def save_plot(fit: SavedFit, parts: SplitTable, row: FitRow, path: Path) -> None:
    """The front, the fit and its residuals as a picture, of the format of the suffix. Raises OSError and ValueError."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    errors, against, residuals = figure.subplots(1, 3)
    fitted, held = row.front(parts.x), row.front(parts.test_x)
    errors.semilogy(
        [r.front.complexity for r in fit.rows],
        [max(1 - r.front.r2, 1e-16) for r in fit.rows],
        "o-",
        label="fitted rows",
    )
    pairs = [(r.front.complexity, max(1 - r.test_r2, 1e-16)) for r in fit.rows if r.test_r2 is not None]
    if pairs:
        errors.semilogy([size for size, _ in pairs], [error for _, error in pairs], "s--", label="held-out rows")
    errors.axvline(row.front.complexity, color="grey", linewidth=0.8)
    errors.set(xlabel="size (nodes)", ylabel="1 - R2")
    for x, y, label in ((fitted, parts.y, "fitted rows"), (held, parts.test_y, "held-out rows")):
        if len(y):
            against.plot(y, x, ".", markersize=4, label=label)
            residuals.plot(x, y - x, ".", markersize=4, label=label)
    against.axline((float(parts.y.mean()), float(parts.y.mean())), slope=1, color="grey", linewidth=0.8)
    residuals.axhline(0, color="grey", linewidth=0.8)
    against.set(xlabel=f"measured {fit.target}", ylabel=f"predicted {fit.target}")
    residuals.set(xlabel=f"predicted {fit.target}", ylabel="residual")
    for axes in (errors, against):
        axes.legend()
    formula = cut(f"{fit.target} = {short_formula(fit, row)}", 150)
    figure.suptitle(formula, parse_math=False, fontsize=10)
    figure.savefig(path, dpi=120)


def print_fit(console: Console, fit: SavedFit, row: FitRow | None, head: bool = True) -> None:
    """The whole outcome: data, end, front, the row's formula. head: whether the first line describes the data"""
    width = console.width if console.is_terminal else None

    def say(line: str | Text) -> None:
        console.print(line, soft_wrap=True, markup=False, highlight=False)

    if head:
        say(Text(describe_data(fit), "bold"))
    say(describe_end(fit))
    say("")
    for line in front_table(fit, width):
        say(line)
    if row is None:
        return
    say("")
    which = "Recommended" if row is fit.recommended else f"Row {fit.rows.index(row) + 1}"
    say(f"{which}: {fit.target} = {short_formula(fit, row)}")
    for remark in remarks(fit, row):
        say(remark)


def remarks(fit: SavedFit, row: FitRow) -> list[str]:
    """Warnings about a formula, a sentence each."""
    said = []
    constants = len(row.front.formula.fitted)
    if 5 * constants > fit.data["fitted"]:
        said.append(f"It has {constants} constants for {fit.data['fitted']} fitted rows: smaller rows are safer.")
    if 0 < fit.data["held_out"] < 20:
        said.append(f"Only {fit.data['held_out']} rows are held out: the held-out R2 is rough.")
    if row.undefined:
        said.append(f"It has no finite value on {row.undefined} held-out row{'s' if row.undefined > 1 else ''}.")
    if row.test_r2 is None:
        return said
    if row.front.r2 - row.test_r2 > max(0.25 * row.front.r2, 0.05):
        said.append("Its held-out R2 is far below its R2 on the fitted rows.")
    allowed = 1.05 * (1 - row.test_r2) + 1e-12
    for number_, other in enumerate(fit.rows, 1):
        if other.front.complexity > 0.7 * row.front.complexity:
            break
        if other.test_r2 is not None and 1 - other.test_r2 <= allowed:
            size = other.front.complexity
            said.append(
                f"Row {number_} (size {size}) is about as good on the held-out rows: R2 {number(other.test_r2)}."
            )
            break
    return said
