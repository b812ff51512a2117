"""Tables from CSV and Parquet files: columns of numbers, checked before a search, with notes of all that was changed.

Every fault of a file is one line that says where it is and what to do (BadTable).
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas.evaluation import Array
from evo.plugins.formulas.table_file import BadTable, TableFile, read_file
from problems.address import did_you_mean

LEAST_ROWS = 10
MOST_ROWS = 20_000
"""Rows that are kept of a table; of a longer one, this many are drawn."""
_TEXT_SHARE = 0.05
"""A column is text if more of its cells than this are neither numbers nor missing."""
_RESERVED = {"pi", "e", "E", "np", "numpy", "math", "sp", "sympy", "True", "False", "None"}


@dataclass(frozen=True)
class DataTable:
    """The rows that a formula is fitted to.

    names: of the variables, as formulas write them; units: of the variables and, last, of the target, empty if unknown
    x: (n, d); y: (n,); weights: (n,) of the squared errors, or None; rows: of the file
    notes: what was left out, renamed or sampled, one sentence each
    """

    names: tuple[str, ...]
    target: str
    units: tuple[str, ...]
    x: Array
    y: Array
    weights: Array | None
    rows: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class TableOptions:
    """How a file is read.

    columns: names of the variables, all other columns by default; weights: the column of weights; header: whether the
    first line holds names; delimiter: of a CSV file, detected by default; least, most: rows that are needed and kept
    seed: of the rows that are drawn from more
    """

    columns: tuple[str, ...] = ()
    weights: str | None = None
    drop_missing: bool = False
    delimiter: str | None = None
    header: bool = True
    least: int = LEAST_ROWS
    most: int = MOST_ROWS
    seed: int = 0


def read_table(path: Path, target: str | int | None, options: TableOptions | None = None) -> DataTable:
    """The table of a CSV or Parquet file. A head such as `mass [kg]` gives a name and a unit. Raises BadTable.

    target: the column to explain, by name or place; None is allowed for a message that lists the columns
    """
    options = options or TableOptions()
    file = read_file(path, options.delimiter, options.header)
    rows = len(file.columns[0].values)
    if rows < options.least:
        raise BadTable(f"{path} has {rows} rows of data; at least {options.least} are needed")
    return _Choice(file, options).table(target)


# -- the choice of columns and rows ------------------------------------------------------------------------------------


class _Choice:
    """Columns by name, and the rows that have a number in all of them."""

    def __init__(self, file: TableFile, options: TableOptions) -> None:
        self.path, self.file, self.options = file.path, file, options
        self.notes = list(file.notes)
        split = [re.fullmatch(r"(.*?)\s*(?:\[(.*)\])?", _printable(column.head.strip())) for column in file.columns]
        heads = [match[1] if match else "" for match in split]
        self.units = [(match[2] or "").strip() if match else "" for match in split]
        twice = sorted({head for head in heads if head and heads.count(head) > 1})
        if twice:
            raise BadTable(f"{self.path} has several columns with the name {twice[0]!r}; columns need different names")
        self.names = self._rename(heads)
        self.heads = heads

    def _rename(self, heads: Sequence[str]) -> list[str]:
        """Names that formulas can write."""
        names: list[str] = []
        for place, head in enumerate(heads):
            name = plain_name(head, place)
            taken = {*names, *(other for other in heads[place + 1 :] if other == name)}
            if name in taken:
                name = next(tried for k in range(2, 10**6) if (tried := f"{name}_{k}") not in taken)
            names.append(name)
        return names

    def _note_new_names(self, places: Sequence[int]) -> None:
        changed = [
            f"{self.heads[k]!r} to {self.names[k]}" if self.heads[k] else f"column {k + 1} to {self.names[k]}"
            for k in places
            if self.names[k] != self.heads[k]
        ]
        if changed:
            self.notes.append(f"Renamed {_list(changed)}.")

    def place_of(self, name: str, what: str) -> int:
        """Where a column is, by the file's name or the formula's."""
        for known in (self.heads, [c.head for c in self.file.columns], self.names):
            if name.strip() in known:
                return known.index(name.strip())
        shown = [head or plain for head, plain in zip(self.heads, self.names, strict=True)]
        same = [known for known in shown if known.casefold() == name.strip().casefold()]
        hint = f"; did you mean {same[0]}?" if same else did_you_mean(name, shown) or f"; there is {_list(shown, 12)}"
        raise BadTable(f"{self.path} has no column {name!r}{what}{hint}")

    def table(self, target: str | int | None) -> DataTable:
        """See `read_table`."""
        if target is None:
            raise BadTable(f"name the column to explain with --target; {self.path} has {_list(self.heads, 12)}")
        goal = range(len(self.names))[target] if isinstance(target, int) else self.place_of(target, " for the target")
        weigh = None if self.options.weights is None else self.place_of(self.options.weights, " for --weights")
        for place, what in ((goal, "target"), (weigh, "weights column")):
            if place is not None and self._is_text(place):
                raise BadTable(
                    f"{self.path}: the {what} {self.heads[place]!r} is text, such as {self._show_text(place)}"
                )
        given = [self.place_of(name, " for --columns") for name in self.options.columns]
        chosen = [k for k in dict.fromkeys(given or range(len(self.names))) if k not in (goal, weigh)]
        chosen = self._numeric(chosen, bool(given))
        if not chosen:
            reasons = " ".join(["", *self.notes])
            raise BadTable(f"{self.path} has no usable column besides the target {self.heads[goal]!r}.{reasons}")
        rows = self._whole_rows([*chosen, goal, *([] if weigh is None else [weigh])])
        if len(rows) < self.options.least:
            raise BadTable(f"{self.path} has {len(rows)} complete rows; at least {self.options.least} are needed")
        rows = self._draw(rows)
        y = self.file.columns[goal].values[rows]
        if float(np.ptp(y)) == 0:
            raise BadTable(f"{self.path}: the target {self.heads[goal]!r} is {y[0]:g} in every row")
        constant = [k for k in chosen if float(np.ptp(self.file.columns[k].values[rows])) == 0]
        if constant:
            self.notes.append(f"Left out {_list([self.heads[k] for k in constant])}: the same value in every row.")
            chosen = [k for k in chosen if k not in constant]
        if not chosen:
            raise BadTable(f"{self.path}: all columns besides the target have the same value in every row")
        self._note_new_names([*chosen, goal])
        return DataTable(
            tuple(self.names[k] for k in chosen),
            self.names[goal],
            tuple(self.units[k] for k in (*chosen, goal)),
            np.column_stack([self.file.columns[k].values[rows] for k in chosen]),
            y,
            None if weigh is None else self._weights(self.file.columns[weigh].values[rows]),
            len(self.file.columns[0].values),
            tuple(self.notes),
        )

    def _is_text(self, place: int) -> bool:
        column = self.file.columns[place]
        known = int(np.isfinite(column.values).sum()) + column.texts
        return column.texts > _TEXT_SHARE * known

    def _show_text(self, place: int) -> str:
        column = self.file.columns[place]
        return f"{column.text} in {self.file.place} {column.text_line}"

    def _numeric(self, places: Iterable[int], given: bool) -> list[int]:
        kept, text, empty, counts = [], [], [], []
        for k in places:
            values = self.file.columns[k].values
            if self._is_text(k):
                text.append(k)
            elif not np.isfinite(values).any():
                empty.append(k)
            elif not given and not self.heads[k] and _counts_rows(values):
                counts.append(k)
            else:
                kept.append(k)
        if text and given:
            raise BadTable(f"{self.path}: column {self.heads[text[0]]!r} is text, such as {self._show_text(text[0])}")
        if text:
            self.notes.append(f"Left out {_list([self.heads[k] or self.names[k] for k in text])}: text.")
        if empty:
            self.notes.append(f"Left out {_list([self.heads[k] or self.names[k] for k in empty])}: no values.")
        if counts:
            self.notes.append(f"Left out column {counts[0] + 1}: it has no name and numbers the rows.")
        return kept

    def _whole_rows(self, places: Sequence[int]) -> npt.NDArray[np.intp]:
        """The rows with finite numbers in all of these columns."""
        finite = {k: np.isfinite(self.file.columns[k].values) for k in places}
        whole = np.logical_and.reduce(list(finite.values()))
        missing = int((~whole).sum())
        if missing and not self.options.drop_missing:
            described = []
            for k, mask in finite.items():
                if not mask.all():
                    at = [str(self.file.places[i]) for i in np.flatnonzero(~mask)[:3].tolist()]
                    more = ", ..." if int((~mask).sum()) > 3 else ""
                    plural = "s" if len(at) > 1 else ""
                    text = f": {self.file.columns[k].text}" if self.file.columns[k].texts else ""
                    described.append(f"{self.heads[k]} ({self.file.place}{plural} {', '.join(at)}{more}{text})")
            lack = "lacks" if missing == 1 else "lack"
            raise BadTable(
                f"{self.path}: {missing:,} of {len(whole):,} rows {lack} a finite number: {_list(described, 4)}. "
                "Leave these rows or columns out: evo fit has --drop-missing and --columns"
            )
        if missing:
            self.notes.append(f"Left out {missing:,} of {len(whole):,} rows: missing or infinite values.")
        return np.flatnonzero(whole)

    def _draw(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        most = self.options.most
        if len(rows) <= most:
            return rows
        self.notes.append(f"Drew {most:,} of {len(rows):,} rows at random (seed {self.options.seed}).")
        drawn = np.random.default_rng(self.options.seed).choice(len(rows), most, replace=False)
        return rows[np.sort(drawn)]

    def _weights(self, values: Array) -> Array:
        if not (values >= 0).all() or not values.sum() > 0:
            raise BadTable(f"{self.path}: the weights of {self.options.weights!r} must be at least 0, and not all 0")
        return values


def _printable(text: str) -> str:
    """Heads are printed as they are: an escape sequence in one would reach the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


def plain_name(head: str, place: int) -> str:
    """A column's head as a name of the grammar. place: from 0, for a head without letters"""
    name = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", head.strip()))
    if not name.strip("_"):
        return f"x{place + 1}"
    name = name if name == head else name.strip("_")
    name = f"_{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) or name in _RESERVED else name


def _counts_rows(values: Array) -> bool:
    return bool(np.isfinite(values).all()) and bool((np.diff(values) == 1).all())


def _list(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
