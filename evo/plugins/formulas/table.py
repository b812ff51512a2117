"""Tables from CSV and Parquet files: columns of numbers, checked before a search, with notes of all that was changed.

Every fault of a file is one line that says where it is and what to do (BadTable).
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas.evaluation import Array, check_size
from evo.plugins.formulas.writing import plain_names
from problems.address import did_you_mean
from problems.contract import BadAddress

LEAST_ROWS = 10
MOST_ROWS = 20_000
"""Rows that are kept of a table; of a longer one, this many are drawn."""
_TEXT_SHARE = 0.05
"""A column is text if more of its cells than this are neither numbers nor missing."""
_DELIMITERS = (",", ";", "\t", "|", " ")
_NAMED_CELLS = {
    **dict.fromkeys(("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "?", "."), math.nan),
    **{"true": 1.0, "false": 0.0, "inf": math.inf, "+inf": math.inf, "infinity": math.inf, "+infinity": math.inf},
}
_CHUNK = 10_000
_Else = TypeVar("_Else")


class BadTable(BadAddress):
    """A file that is no usable table: one line that says where and what to do."""


@dataclass(frozen=True)
class DataTable:
    """The rows that a formula is fitted to.

    names: of the variables, as formulas write them
    units: of the variables and, last, of the target, empty if unknown
    x: (n, d)
    y: (n,)
    weights: (n,) of the squared errors, or None
    rows: of the file
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

    columns: names of the variables, all other columns by default
    weights: the column of weights
    header: whether the first line holds names
    least, most: rows that are needed and kept
    seed: of the rows that are drawn from more
    """

    columns: tuple[str, ...] = ()
    weights: str | None = None
    drop_missing: bool = False
    header: bool = True
    least: int = LEAST_ROWS
    most: int = MOST_ROWS
    seed: int = 0


@dataclass
class _Column:
    """A column of a file. texts: cells that are neither numbers nor missing: how many, and the first with its line"""

    head: str
    values: Array = field(default_factory=lambda: np.empty(0))
    texts: int = 0
    text: str = ""
    text_line: int = 0


@dataclass
class _File:
    """Columns and, for messages, where each row is."""

    path: Path
    columns: list[_Column]
    place: str
    places: Sequence[int]
    notes: list[str] = field(default_factory=list)


def hash_file(path: Path) -> str:
    """SHA-256 of the bytes. Raises BadTable if the file cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BadTable(f"cannot read {path}: {error.strerror or error}") from None


def read_table(path: Path, target: str | int | None, options: TableOptions | None = None) -> DataTable:
    """The table of a CSV or Parquet file. A head such as `mass [kg]` gives a name and a unit. Raises BadTable.

    target: the column to explain, by name or place; None is allowed for a message that lists the columns
    """
    options = options or TableOptions()
    is_parquet = path.suffix.lower() in (".parquet", ".pq")
    file = _read_parquet(path) if is_parquet else _read_csv(path, options.header)
    rows = len(file.columns[0].values)
    if rows < options.least:
        raise BadTable(f"{path} has {rows} rows of data; at least {options.least} are needed")
    return _Choice(file, options).table(target)


# -- files -------------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path) -> _File:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise BadTable(f"reading {path} needs pyarrow: pip install 'evo-search[parquet]', or save it as CSV") from None
    try:
        read = parquet.read_table(path)
    except (OSError, arrow.ArrowException) as error:
        raise BadTable(f"cannot read {path}: {' '.join(str(error).split())[:200]}") from None
    if not read.num_columns:
        raise BadTable(f"{path} has no columns")
    columns = [_arrow_column(arrow, name, read.column(k)) for k, name in enumerate(read.column_names)]
    return _File(path, columns, "row", range(1, read.num_rows + 1))


def _arrow_column(arrow: Any, name: str, cells: Any) -> _Column:
    try:
        if arrow.types.is_boolean(cells.type):
            cells = cells.cast(arrow.int8())
        return _Column(name, np.asarray(cells.cast(arrow.float64()).to_numpy(), dtype=np.float64))
    except (arrow.ArrowException, ValueError, TypeError):
        example = next((str(cell) for cell in cells.slice(0, 100).to_pylist() if cell is not None), "")
        return _Column(name, np.full(len(cells), math.nan), len(cells), repr(example[:30]), 1)


def _read_csv(path: Path, header: bool) -> _File:
    lines, notes = _decode(path)
    delimiter = ""
    if mark := re.fullmatch(r"sep=(.)", lines[0].strip("\r\n")) if lines else None:  # Excel's
        delimiter, lines[0] = mark[1], ""
    head_line = ""
    for k, line in enumerate(lines):
        if line.lstrip().startswith("#"):
            lines[k] = "\n"
            head_line = line.lstrip().lstrip("#").strip()
        elif line.strip():
            break
    lines[:] = ["\n" if line.lstrip().startswith("#") else line for line in lines]
    sample = [line for line in lines[:200] if line.strip()][:20]
    if not sample:
        raise BadTable(f"{path} is empty")
    delimiter = delimiter or _find_delimiter(sample)
    try:
        rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        cells = next(row for row in rows if any(cell.strip() for cell in row))
        is_data = len(cells) > 1 and all(math.isfinite(_number(cell, delimiter, math.inf)) for cell in cells)
        above = next(csv.reader([head_line], delimiter=delimiter, skipinitialspace=True), [])
        first: list[str] = []
        if not header:
            first, cells = cells, [f"x{k}" for k in range(1, len(cells) + 1)]
        elif is_data and len(above) == len(cells):  # numpy.savetxt's
            first, cells = cells, above
        elif is_data:
            raise BadTable(
                f"{path} has no header: its first line is {delimiter.join(cells)[:40]!r}. Add a line of names, or pass "
                "--no-header for the names x1, x2, ..."
            )
        heads = [" ".join(cell.split()) for cell in cells]
        if delimiter == " " and heads[-1] == "":
            heads.pop()
        if len(heads) == 1:
            raise BadTable(f"a fit needs a target and a variable: {path} has only one column, {heads[0][:60]!r}")
        columns, places = _parse_cells(path, rows, heads, first, delimiter)
    except csv.Error as error:
        raise BadTable(f"cannot read {path} as CSV: {error}") from None
    if delimiter not in (",", "\t"):
        notes.append(f"The delimiter is {delimiter!r}.")
    return _File(path, columns, "line", places, notes)


def _decode(path: Path) -> tuple[list[str], list[str]]:
    """The lines of a text, and notes."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadTable(f"cannot read {path}: {error.strerror or error}") from None
    notes: list[str] = []
    try:
        text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        if b"\0" in content[: 1 << 16]:
            raise BadTable(f"{path} is not a text file; CSV and Parquet (.parquet) are read") from None
        text = content.decode("cp1252", errors="replace")
        notes.append("The file is not UTF-8; it was read as Windows-1252.")
    return text.replace("\r\n", "\n").replace("\r", "\n").splitlines(keepends=True), notes


def _find_delimiter(sample: Sequence[str]) -> str:
    """The delimiter that splits the first lines into the same number of cells, at least two."""
    best, most = ",", 1
    for delimiter in _DELIMITERS:
        try:
            rows = list(csv.reader(sample, delimiter=delimiter, skipinitialspace=True))
        except csv.Error:
            continue
        widths = {len([cell for cell in row if cell or delimiter != " "]) for row in rows}
        if len(widths) == 1 and (width := widths.pop()) > most and not (delimiter == " " and most > 1):
            best, most = delimiter, width
    return best


def _number(cell: str, delimiter: str, otherwise: _Else) -> float | _Else:
    """A cell as a number, nan if it is missing; `otherwise` if it is text."""
    text = cell.strip().lower()
    if text in _NAMED_CELLS:
        return _NAMED_CELLS[text]
    if delimiter != "," and re.fullmatch(r"[+-]?\d*,\d+(e[+-]?\d+)?", text):
        text = text.replace(",", ".")
    try:
        return float(text)
    except ValueError:
        return otherwise


def _parse_cells(
    path: Path, rows: Any, heads: Sequence[str], first: Sequence[str], delimiter: str
) -> tuple[list[_Column], Sequence[int]]:
    """The columns, and the line of each row."""
    columns, held, places = [_Column(head) for head in heads], [array("d") for _ in heads], array("q")
    lines = _whole_rows(path, rows, len(heads), first)
    while chunk := list(islice(lines, _CHUNK)):
        for column, numbers, cells in zip(columns, held, zip(*(row for _, row in chunk), strict=True), strict=True):
            try:
                numbers.extend(map(float, cells))
                continue
            except ValueError:
                del numbers[len(places) :]
            for (place, _row), cell in zip(chunk, cells, strict=True):
                value = _number(cell, delimiter, None)
                if value is None:
                    if not column.texts:
                        column.text, column.text_line = repr(cell.strip()[:30]), place
                    column.texts += 1
                numbers.append(math.nan if value is None else value)
        places.extend(place for place, _row in chunk)
    for column, numbers in zip(columns, held, strict=True):
        column.values = np.array(numbers, dtype=np.float64)
    return columns, places


def _whole_rows(path: Path, rows: Any, width: int, first: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Rows with their lines. Raises BadTable for one of another width."""
    if first:
        yield rows.line_num, first[:width]
    for row in rows:
        if len(row) == width + 1 and row[-1] == "":  # a delimiter at the end of the line
            row = row[:-1]
        if len(row) == width:
            yield rows.line_num, row
        elif any(cell.strip() for cell in row):
            raise BadTable(
                f"{path}, line {rows.line_num}: there are {len(row)} cells, and {width} in the header; if the "
                f"delimiter is not {rows.dialect.delimiter!r}, name it in a first line, as in sep=;"
            )


# -- the choice of columns and rows ------------------------------------------------------------------------------------


class _Choice:
    """Columns by name, and the rows that have a number in all of them."""

    def __init__(self, file: _File, options: TableOptions) -> None:
        self.path, self.file, self.options, self.notes = file.path, file, options, list(file.notes)
        printable = ["".join(c if c.isprintable() else "?" for c in column.head.strip()) for column in file.columns]
        split = [re.fullmatch(r"(.*?)\s*(?:\[(.*)\])?", head) for head in printable]
        self.heads = [match[1] if match else "" for match in split]
        self.units = [(match[2] or "").strip() if match else "" for match in split]
        twice = sorted({head for head in self.heads if head and self.heads.count(head) > 1})
        if twice:
            raise BadTable(f"{self.path} has several columns with the name {twice[0]!r}; columns need different names")
        self.names = plain_names(self.heads)

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
        rows = self._draw(self._complete_rows([*chosen, goal, *([] if weigh is None else [weigh])]))
        values = {k: self.file.columns[k].values[rows] for k in (*chosen, goal)}
        constant = [k for k in chosen if float(np.ptp(values[k])) == 0]
        if float(np.ptp(values[goal])) == 0:
            raise BadTable(f"{self.path}: the target {self.heads[goal]!r} is {values[goal][0]:g} in every row")
        if constant:
            self.notes.append(f"Left out {_list([self.heads[k] for k in constant])}: the same value in every row.")
        chosen = [k for k in chosen if k not in constant]
        if not chosen:
            raise BadTable(f"{self.path}: all columns besides the target have the same value in every row")
        for k in (*chosen, goal):
            try:
                check_size(values[k], self.heads[k])
            except ValueError as fault:
                raise BadTable(f"{self.path}: {fault}") from None
        renamed = [
            f"{self.heads[k]!r} to {self.names[k]}" if self.heads[k] else f"column {k + 1} to {self.names[k]}"
            for k in (*chosen, goal)
            if self.names[k] != self.heads[k]
        ]
        if renamed:
            self.notes.append(f"Renamed {_list(renamed)}.")
        return DataTable(
            tuple(self.names[k] for k in chosen),
            self.names[goal],
            tuple(self.units[k] for k in (*chosen, goal)),
            np.column_stack([values[k] for k in chosen]),
            values[goal],
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
        """The columns of numbers, without one that numbers the rows."""
        kept, left_out = [], dict[int, str]()
        for k in places:
            values = self.file.columns[k].values
            if self._is_text(k):
                if given:
                    raise BadTable(f"{self.path}: column {self.heads[k]!r} is text, such as {self._show_text(k)}")
                left_out[k] = f"text, such as {self._show_text(k)}"
            elif not np.isfinite(values).any():
                left_out[k] = "no values"
            elif not given and not self.heads[k] and bool((np.diff(values) == 1).all()):
                left_out[k] = "it has no name and numbers the rows"
            else:
                kept.append(k)
        for reason in dict.fromkeys(left_out.values()):
            named = [self.heads[k] or f"column {k + 1}" for k, why in left_out.items() if why == reason]
            self.notes.append(f"Left out {_list(named)}: {reason}.")
        return kept

    def _complete_rows(self, places: Sequence[int]) -> npt.NDArray[np.intp]:
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
                    text = f": {self.file.columns[k].text}" if self.file.columns[k].texts else ""
                    plural = "s" if len(at) > 1 else ""
                    described.append(f"{self.heads[k]} ({self.file.place}{plural} {', '.join(at)}{more}{text})")
            raise BadTable(
                f"{self.path}: {missing:,} of {len(whole):,} rows {'lacks' if missing == 1 else 'lack'} a finite "
                f"number: {_list(described, 4)}. Leave these rows or columns out: evo fit has --drop-missing and "
                "--columns"
            )
        if missing:
            self.notes.append(f"Left out {missing:,} of {len(whole):,} rows: missing or infinite values.")
        rows = np.flatnonzero(whole)
        if len(rows) < self.options.least:
            raise BadTable(f"{self.path} has {len(rows)} complete rows; at least {self.options.least} are needed")
        return rows

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


def _list(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
