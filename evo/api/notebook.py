"""What results give to a notebook: tables for pandas, which is an extra; and HTML with curves."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evo.encoding import visible
from evo.progress.model import Progress
from islands.browse import candidates_table
from islands.store import Store
from islands.types import RunRecord
from problems.retired import NAMES, replace_hint

if TYPE_CHECKING:
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


def draw_curves(db: str, name: str, against: str | None = None) -> str:
    """Solve rate, if there are targets, and mean best fitness, as SVG: the curves of the report's page."""
    from evo.report.page import draw_progress

    with Store.open(db, read_only=True) as store:
        return "".join(f"<figure>{plot.svg}</figure>" for plot in draw_progress(Progress.open(store, name, against)))


def retired_method(result: object, name: str) -> AttributeError:
    """The error for an attribute that a result lacks."""
    kind = type(result).__name__
    return AttributeError(replace_hint(NAMES, f"{kind}.{name}") or f"{kind!r} object has no attribute {name!r}")


def html_table(line: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A line of text above a table. Every text is escaped, and every character of it visible."""
    top = "".join(f"<th>{_escape(title)}</th>" for title in head)
    body = "".join(f"<tr>{''.join(f'<td>{_escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<p>{_escape(line)}</p><table><tr>{top}</tr>{body}</table>"


def _escape(text: str) -> str:
    return html.escape(visible(text)).replace("\n", "<br>")
