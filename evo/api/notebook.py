"""What results give to a notebook: tables for pandas, which is an extra; figures of matplotlib; and HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evo.comparison.load import gather, load_results
from evo.comparison.verdict import farthest, summarise
from evo.encoding import visible
from evo.errors import BadInput
from islands.browse import candidates_table
from islands.store import Store
from islands.types import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


NULLABLE = {"iteration": "Int64", "parent": "Int64", "solved_at": "Int64", "solved": "boolean"}
"""Columns that keep their type although a value, or every value, may be missing."""
TIMES = ("created",)
"""Columns of seconds since 1970, which become datetimes in UTC."""


def data_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> DataFrame:
    """rows as a DataFrame: numbers that are whole stay so where values are missing (Int64), and times are datetimes.
    columns: those of a table without rows. Raises ImportError naming the package to install."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError('frame() needs pandas: pip install pandas, or pip install "evo-search[pandas]"') from error
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row) or columns
    frame = pandas.DataFrame(rows, columns=list(names))
    for name in names:
        kinds = {type(row.get(name)) for row in rows}
        if name in TIMES:
            frame[name] = pandas.to_datetime(frame[name], unit="s", utc=True)
        elif name in NULLABLE or kinds == {int, type(None)}:
            frame[name] = frame[name].astype(NULLABLE.get(name, "Int64"))
    return frame


def candidate_rows(store: Store, runs: Iterable[RunRecord]) -> list[dict[str, Any]]:
    """A row for every candidate of the runs: its reward vector and features in separate columns."""
    rows = []
    for run in runs:
        of_run = {"arm": run.arm, "seed": run.seed} if run.arm else {}
        for candidate in candidates_table(store, run.id):
            values = vars(candidate)
            rewards = {f"reward.{name}": value for name, value in candidate.rewards.items()}
            features = {f"feature.{name}": value for name, value in candidate.features.items()}
            kept = {name: value for name, value in values.items() if name not in ("rewards", "features")}
            rows.append({**of_run, **kept, **rewards, **features})
    return rows


def curves_figure(db: str, name: str, against: str | None = None) -> Figure:
    """Solve rate, if there are targets, and mean best fitness over iterations: the first charts of the report. Raises
    UnknownRun, DatabaseUnavailable; BadInput before the first iteration."""
    from evo.report.charts import row_width, solve_charts
    from evo.report.plot import figure_of, styled

    with Store.open(db, read_only=True) as store:
        comparison = gather(store, name, against)
        results = load_results(store, comparison)
    if not any(arm.done.any() for arm in results.values()):
        raise BadInput(f"{name} has nothing to plot yet: no iteration is committed")
    level, horizon = results, 0
    try:
        summary = summarise(results, comparison.reference, crossed_seeds=comparison.crossed_seeds)
        level, horizon = farthest(results), summary.horizon or summary.best_horizon
    except ValueError:
        pass  # the arms do not compare: their curves are drawn as they are
    with styled():
        charts, _ = solve_charts(results, level, horizon, comparison.crossed_seeds)
        return figure_of(charts, (row_width(charts), 3.9), len(charts))


def html_table(line: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A line of text above a table. Every text is escaped, and every character of it visible."""
    top = "".join(f"<th>{_escape(title)}</th>" for title in head)
    body = "".join(f"<tr>{''.join(f'<td>{_escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<p>{_escape(line)}</p><table><tr>{top}</tr>{body}</table>"


def _escape(text: str) -> str:
    return html.escape(visible(text)).replace("\n", "<br>")
