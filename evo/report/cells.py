"""A table of the page as plain values: cells with their texts and sort keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evo.stats import Difference
from vpo.metrics import Interval

NONE = "–"


@dataclass(frozen=True)
class TableCell:
    """sort: a number, or the text in lower case; None comes last in both orders. mark: a class of the style sheet;
    note: small type below the text; link: the id of an element of the page; arm: the place of the arm that it names."""

    text: str
    sort: float | str | None = None
    mark: str = ""
    note: str = ""
    link: str = ""
    arm: int | None = None


@dataclass(frozen=True)
class Column:
    title: str
    hint: str = ""
    number: bool = True
    arm: int | None = None


@dataclass(frozen=True)
class Table:
    """name: its id on the page. filterable: it has a field that filters rows by their text.

    flags: filters for rows, (flag, label, number of rows); flagged: the flags of each row
    totals: a last row that is not sorted; below: a text under the table
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    filterable: bool = False
    flags: tuple[tuple[str, str, int], ...] = ()
    flagged: tuple[frozenset[str], ...] = ()
    totals: tuple[TableCell, ...] = ()
    below: str = ""


TitledCell = tuple[Column, TableCell]
"""A cell with its column."""


def titled_table(name: str, caption: str, rows: Sequence[Sequence[TitledCell]]) -> Table:
    """A table of one row or more. All rows have the same columns."""
    columns = tuple(column for column, _ in rows[0])
    return Table(name, caption, columns, tuple(tuple(cell for _, cell in row) for row in rows))


def without_empty(table: Table) -> Table:
    """The table without the columns that hold no value in any row."""
    kept = [place for place in range(len(table.columns)) if any(row[place].text != NONE for row in table.rows)]
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[place] for place in kept), rows=rows)


def word(text: str, mark: str = "") -> TableCell:
    return TableCell(text, text.lower(), mark)


def arm_name(name: str, place: int) -> TableCell:
    return TableCell(name, name.lower(), "arm", arm=place)


def number(value: float | None, form: str = ".3f", mark: str = "") -> TableCell:
    if value is None or not math.isfinite(value):
        return TableCell(NONE)
    return TableCell(format(value + 0.0, form), round(float(value), 9), mark)


def interval(value: Interval | None, form: str = ".3f") -> TableCell:
    if value is None:
        return TableCell(NONE)
    return TableCell(f"{value.mean:{form}}", round(value.mean, 9), note=value.ends(form).strip())


def difference_cells(gap: Difference) -> tuple[TableCell, ...]:
    """The columns difference, p, problems and result."""
    text = f"{gap.interval.mean:+.3f}{gap.interval.ends('+.3f')}"
    return (
        TableCell(text, round(gap.interval.mean, 9), "shown" if gap.shown else ""),
        number(gap.p, ".2g"),
        number(gap.pairs, ".0f"),
        word("shown" if gap.shown else "no difference shown", "shown" if gap.shown else "faint"),
    )
