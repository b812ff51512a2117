"""Tables from CSV and Parquet files: columns of numbers, checked before a search, with notes of all that was changed.

Three steps with a value between them: a file gives `TableCells`; by their commas and texts these are `TableColumns`
with names and units; of these come the target, the variables and the rows, a `DataTable`. Every fault of a file is one
line that says its place and what to do (BadTable).
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas.evaluation import COLUMNS, TARGETS, Reals, check_size
from evo.plugins.formulas.units import is_unit
from evo.plugins.formulas.writing import plain_names
from problems.address import did_you_mean, name_few
from problems.contract import BadAddress

LEAST_ROWS, MOST_ROWS = 10, 20_000
"""Rows that a table needs, and rows that are kept of it; of a longer one, this many are drawn."""
_TEXT_SHARE = 0.05
"""A column is text if more of its cells than this are neither numbers nor missing."""
_DELIMITERS = (",", ";", "\t", "|", " ")
_NAMED_CELLS = {
    **dict.fromkeys(("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "?", "."), math.nan),
    **{"inf": math.inf, "+inf": math.inf, "infinity": math.inf, "+infinity": math.inf},
}
_ROW_NAMES = re.compile(
    r"|unnamed: \d+(\.\d+)*|row[._ ]?names?|x(\.\d+)?|\.\.\.1|index|level_0|__index_level_\d+__", re.I
)
"""Heads that R, pandas and polars give to a first column of row names."""
_VARIABLES = re.compile(r"x(\.\d+)?|index", re.I)
"""Those of them that are names of variables, too."""
_MEASURED = re.compile(r"[^\W\d_]|.*(time|zeit|date|year|month|week|day|hour|minute|second|age)s?", re.I)
"""Heads of a column that may count 1, 2, 3, ... because it was measured so."""
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?(e[+-]?\d+)?", re.I)
"""A number in which commas may separate thousands."""
_COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?", re.I)
_EUROPEAN = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+", re.I)
_HEAD = re.compile(r"(?P<stem>.*?)\s*(?:\[(?P<named>.*)\]|\((?P<given>[^()]*)\))")
"""A name with its unit."""


class BadTable(BadAddress):
    """A file that is no usable table: one line that says where and what to do."""


@dataclass(frozen=True)
class DataTable:
    """The rows that a formula is fitted to.

    names: of the variables, as formulas write them
    spellings: the name of each of these columns by its head, with and without a unit
    units: of the variables and, last, of the target, empty if unknown
    x: (n, d)
    y: (n,)
    weights: (n,) of the squared errors, or None
    rows: of the file
    notes: what was left out, renamed or sampled, one sentence each
    """

    names: tuple[str, ...]
    target: str
    spellings: Mapping[str, str]
    units: tuple[str, ...]
    x: Reals
    y: Reals
    weights: Reals | None
    rows: int
    notes: tuple[str, ...]


def read_table(
    path: Path,
    target: str | int | None,
    *,
    columns: Sequence[str] = (),
    weights: str | None = None,
    drop_missing: bool = False,
    header: bool = True,
    least: int = LEAST_ROWS,
    most: int = MOST_ROWS,
    seed: int = 0,
) -> DataTable:
    """The table of a CSV or Parquet file. A head such as `mass [kg]` gives a name and a unit. Raises BadTable.

    target: the column to explain, by name or place; None is allowed for a message that lists the columns
    columns: names of the variables, all other columns by default
    weights: the column of weights
    header: whether the first line holds names
    least, most: rows that are needed and kept
    seed: of the rows that are drawn from more
    """
    is_parquet = path.suffix.lower() in (".parquet", ".pq")
    found = read_columns(_read_parquet(path) if is_parquet else _read_csv(path, header))
    if len(found.places) < least:
        raise BadTable(f"{path} has {len(found.places)} rows of data; at least {least} are needed")
    if target is None:
        raise BadTable(f"name the column to explain with --target; {path} has {name_few(found.labels, 12)}")
    goal = found.columns[target] if isinstance(target, int) else found.find(target, " for the target")
    weight = None if weights is None else found.find(weights, " for --weights")
    taken = [goal] if weight is None else [goal, weight]
    for column, what in zip(taken, ("target", "weights column"), strict=False):
        if column.is_text:
            raise BadTable(f"{path}: the {what} {column.label!r} is text, such as {column.text}")
    given = [found.find(name, " for --columns") for name in columns]
    variables = [column for column in (given or found.columns) if column not in taken]
    variables = found.keep_numbers(list(dict.fromkeys(variables)), bool(given))
    notes = found.notes
    if not variables:
        raise BadTable(f"{path} has no usable column besides the target {goal.label!r}.{' '.join(['', *notes])}")
    rows = found.complete_rows([*variables, *taken], drop_missing)
    if len(rows) < least:
        raise BadTable(f"{path} has {len(rows)} complete rows; at least {least} are needed")
    if len(rows) > most:
        notes.append(f"Drew {most:,} of {len(rows):,} rows at random (seed {seed}).")
        rows = rows[np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False))]
    return _take_rows(found, variables, goal, weight, rows)


def _take_rows(
    found: TableColumns,
    variables: Sequence[FieldColumn],
    goal: FieldColumn,
    weight: FieldColumn | None,
    rows: npt.NDArray[np.intp],
) -> DataTable:
    """These rows of the columns, without variables that are constant there."""
    path, notes, y = found.path, found.notes, goal.values[rows]
    if float(np.ptp(y)) == 0:
        raise BadTable(f"{path}: the target {goal.label!r} is {y[0]:g} in every row")
    constant = [column for column in variables if float(np.ptp(column.values[rows])) == 0]
    if constant:
        notes.append(f"Left out {name_few([column.label for column in constant], 8)}: the same value in every row.")
    kept = [column for column in variables if column not in constant]
    if not kept:
        raise BadTable(f"{path}: all columns besides the target have the same value in every row")
    for column in (*kept, goal):
        try:
            check_size(column.values[rows], column.label, TARGETS if column is goal else COLUMNS)
        except ValueError as fault:
            raise BadTable(f"{path}: {fault}") from None
    weights = None if weight is None else weight.values[rows]
    if weight is not None and weights is not None and not ((weights >= 0).all() and weights.sum() > 0):
        raise BadTable(f"{path}: the weights of {weight.label!r} must be at least 0, and not all 0")
    renamed = [column for column in (*kept, goal) if column.name != column.label]
    if renamed:
        pairs = [f"{repr(one.label) if one.label else f'column {one.place + 1}'} to {one.name}" for one in renamed]
        notes.append(f"Renamed {name_few(pairs, 8)}.")
    return DataTable(
        tuple(column.name for column in kept),
        goal.name,
        {head: column.name for column in (*kept, goal) for head in (column.head.strip(), column.label)},
        tuple(column.unit for column in (*kept, goal)),
        np.column_stack([column.values[rows] for column in kept]),
        y,
        weights,
        len(found.places),
        tuple(notes),
    )


# -- columns -----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class FieldColumn:
    """A column of numbers, read from cells.

    place: its index in the file; head: as the file has it; label: without what cannot be printed, and without the unit
    if the rest is a name; name: as formulas write it
    texts: how many cells are neither numbers nor missing; text: the first of them, and its place
    names_rows: whether it holds the names of rows, as its place in the file says
    """

    place: int
    head: str
    label: str
    name: str
    unit: str
    values: Reals
    texts: int
    text: str
    names_rows: bool

    @property
    def is_text(self) -> bool:
        return self.texts > _TEXT_SHARE * (int(np.isfinite(self.values).sum()) + self.texts)


@dataclass(frozen=True)
class TableColumns:
    """The columns of a file. row: the word for a row in messages; places: of the rows; notes: as in DataTable"""

    path: Path
    columns: tuple[FieldColumn, ...]
    row: str
    places: Sequence[int]
    notes: list[str]

    @property
    def labels(self) -> list[str]:
        return [column.label for column in self.columns]

    def find(self, name: str, what: str) -> FieldColumn:
        """A column by the file's name or the formula's. what: it is for, in the message"""
        name = name.strip()
        for names in (self.labels, [column.head for column in self.columns], [column.name for column in self.columns]):
            if name in names:
                return self.columns[names.index(name)]
        shown = [column.label or column.name for column in self.columns]
        same = [known for known in shown if known.casefold() == name.casefold()]
        hint = (
            f"; did you mean {same[0]}?" if same else did_you_mean(name, shown) or f"; there is {name_few(shown, 12)}"
        )
        raise BadTable(f"{self.path} has no column {name!r}{what}{hint}")

    def keep_numbers(self, columns: Sequence[FieldColumn], given: bool) -> list[FieldColumn]:
        """The columns of numbers, without those that name or number the rows. given: whether the user named them"""
        left_out = dict[FieldColumn, str]()
        of_rows = {} if given else self._name_rows(columns)
        for column in columns:
            if column.is_text and given:
                raise BadTable(f"{self.path}: column {column.label!r} is text, such as {column.text}")
            if column.is_text:
                left_out[column] = f"text, such as {column.text}"
            elif not np.isfinite(column.values).any():
                left_out[column] = "no values"
            elif column in of_rows:
                left_out[column] = of_rows[column]
        for reason in dict.fromkeys(left_out.values()):
            alike = [column for column, why in left_out.items() if why == reason]
            named = [column.label or f"column {column.place + 1} ({column.name})" for column in alike]
            self.notes.append(f"Left out {name_few(named, 8)}: {reason}.")
        return [column for column in columns if column not in left_out]

    def _name_rows(self, columns: Sequence[FieldColumn]) -> dict[FieldColumn, str]:
        """The columns that name or number the rows, with why: those by place, a first column of different whole numbers
        under a head that programs give to row names, and one that counts the rows from 0 or 1. A head that may be a
        variable's (X, index, a name) is one if nothing else is."""
        found, doubtful, others = dict[FieldColumn, str](), dict[FieldColumn, str](), False
        for column in columns:
            values, head = column.values, column.label
            whole = bool(np.isfinite(values).all() and (values == np.floor(values)).all())
            steps = whole and len(values) > 1 and values[0] in (0, 1) and bool((np.diff(values) == 1).all())
            keep = "; name it in --columns to keep it"
            named = whole and column.place == 0 and _ROW_NAMES.fullmatch(head) and len(np.unique(values)) == len(values)
            if column.names_rows or (named and not _VARIABLES.fullmatch(head)):
                found[column] = f"it names the rows{keep}"
            elif named:
                doubtful[column] = f"it names the rows{keep}"
            elif steps and not column.unit and not _MEASURED.fullmatch(head):
                doubtful[column] = f"it numbers the rows{keep}"
            else:
                finite = values[np.isfinite(values)]
                others |= not column.is_text and len(finite) > 0 and bool(np.ptp(finite) > 0)
        return {**found, **(doubtful if others else {})}

    def complete_rows(self, columns: Sequence[FieldColumn], drop_missing: bool) -> npt.NDArray[np.intp]:
        """The rows with finite numbers in all of these columns."""
        finite = {column: np.isfinite(column.values) for column in columns}
        whole = np.logical_and.reduce(list(finite.values()))
        missing = int((~whole).sum())
        if missing and not drop_missing:
            described = []
            for column, mask in finite.items():
                if not mask.all():
                    rows = np.flatnonzero(~mask).tolist()
                    at = ", ".join([*(str(self.places[i]) for i in rows[:3]), *["..."] * (len(rows) > 3)])
                    text = f": {column.text}" if column.texts else ""
                    described.append(f"{column.label} ({self.row}{'s' * (len(rows) > 1)} {at}{text})")
            raise BadTable(
                f"{self.path}: {missing:,} of {len(whole):,} rows {'lacks' if missing == 1 else 'lack'} a finite "
                f"number: {name_few(described, 4)}. Leave these rows or columns out: evo fit has --drop-missing and "
                "--columns"
            )
        if missing:
            self.notes.append(f"Left out {missing:,} of {len(whole):,} rows: missing or infinite values.")
        return np.flatnonzero(whole)


def read_columns(cells: TableCells) -> TableColumns:
    """The columns that cells make. Raises BadTable for commas that may be either mark, and for names given twice."""
    commas = _read_commas(cells)
    printable = ["".join(c if c.isprintable() else "?" for c in each.head.strip()) for each in cells.columns]
    split = [_HEAD.fullmatch(head) for head in printable]
    stems = [match["stem"] if match else head for match, head in zip(split, printable, strict=True)]
    labels, units = list(printable), [""] * len(printable)
    for k, match in enumerate(split):
        alone = stems.count(stems[k]) == 1
        if match and (match["named"] is not None or alone and is_unit(match["given"])):
            labels[k] = stems[k] if alone else printable[k]
            units[k] = (match["named"] or match["given"] or "").strip()
    try:
        names = plain_names(labels)
    except ValueError as fault:
        raise BadTable(f"{cells.path}: {fault}") from None
    columns = []
    for k, each in enumerate(cells.columns):
        texts = [(row, text) for row, text in each.unread if (k, row) not in commas]
        first = f"{texts[0][1][:30]!r} in {cells.row} {cells.places[texts[0][0]]}" if texts else ""
        columns.append(
            FieldColumn(k, each.head, labels[k], names[k], units[k], each.values, len(texts), first, each.names_rows)
        )
    return TableColumns(cells.path, tuple(columns), cells.row, cells.places, cells.notes)


def _read_commas(cells: TableCells) -> set[tuple[int, int]]:
    """Read the cells with commas by one rule for the whole file: the column and row of each."""
    commas = [
        (k, row, text)
        for k, column in enumerate(cells.columns)
        for row, text in column.unread
        if _COMMA.fullmatch(text) or _GROUPED.fullmatch(text) or _EUROPEAN.fullmatch(text)
    ]
    if not commas:
        return set()
    k, row, first = commas[0]
    grouped = all(_GROUPED.fullmatch(text) for _, _, text in commas)
    # commas that may all separate thousands do if some numbers of these columns have none, or a point
    several = any(text.count(",") > 1 or "." in text for _, _, text in commas)
    if grouped and not several and not any(np.isfinite(cells.columns[k].values).any() for k, _, _ in commas):
        raise BadTable(
            f"{cells.path}: {first} in {cells.row} {cells.places[row]} of {cells.columns[k].head!r} may be "
            f"{first.replace(',', '')} or {first.replace(',', '.')}; write it without the comma, or with more or fewer "
            "digits after it"
        )

    def plain(text: str) -> str:
        return text.replace(",", "") if grouped else text.replace(".", "").replace(",", ".")

    for k, row, text in commas:
        cells.columns[k].values[row] = float(plain(text))
    cells.notes.append(f"Read {first} as {plain(first)}, and other commas likewise.")
    return {(k, row) for k, row, _ in commas}


# -- cells -------------------------------------------------------------------------------------------------------------


@dataclass
class CellColumn:
    """values: of cells that are numbers, nan for others; unread: the row and text of cells that are neither numbers nor
    missing; names_rows: as in FieldColumn"""

    head: str
    values: Reals
    unread: list[tuple[int, str]] = field(default_factory=list)
    names_rows: bool = False


@dataclass(frozen=True)
class TableCells:
    """What a file holds. row, places, notes: as in TableColumns"""

    path: Path
    columns: Sequence[CellColumn]
    row: str
    places: Sequence[int]
    notes: list[str]


_Else = TypeVar("_Else")


def _number(cell: str, otherwise: _Else) -> float | _Else:
    """A cell as a number, nan if it is missing; `otherwise` if it is text, or has a comma."""
    text = cell.strip().lower()
    if text in _NAMED_CELLS:
        return _NAMED_CELLS[text]
    try:
        return otherwise if "_" in text else float(text)
    except ValueError:
        return otherwise


def _read_parquet(path: Path) -> TableCells:
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
    index = (read.schema.pandas_metadata or {}).get("index_columns", ())  # a dict describes one that is not stored
    columns = [_arrow_column(arrow, name, read.column(k)) for k, name in enumerate(read.column_names)]
    for column in columns:
        column.names_rows = column.head in {name for name in index if isinstance(name, str)}
    return TableCells(path, columns, "row", range(1, read.num_rows + 1), [])


def _arrow_column(arrow: Any, name: str, cells: Any) -> CellColumn:
    """As the same cells of a CSV file are read: whole numbers of any size are rounded, texts may be numbers."""
    is_text = arrow.types.is_string(cells.type) or arrow.types.is_large_string(cells.type)
    try:
        if arrow.types.is_boolean(cells.type):
            cells = cells.cast(arrow.int8())
        if not is_text and not arrow.types.is_dictionary(cells.type):
            values = cells.cast(arrow.float64(), safe=False).to_numpy()
            return CellColumn(name, np.array(values, dtype=np.float64))
    except (arrow.ArrowException, ValueError, TypeError):
        pass
    texts = ["" if cell is None else str(cell) for cell in cells.to_pylist()]
    values = np.array([_number(text, math.nan) for text in texts])
    return CellColumn(name, values, [(row, text) for row, text in enumerate(texts) if _number(text, None) is None])


def _read_csv(path: Path, header: bool) -> TableCells:
    lines, notes = _decode(path)
    delimiter, comments = "", list[str]()
    if mark := re.fullmatch(r"sep=(.)", lines[0].strip("\r\n")) if lines else None:  # Excel's
        delimiter, lines[0] = mark[1], ""
    first = next((k for k, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), 0)
    commented = 0
    for k, line in enumerate(lines):
        if line.lstrip().startswith("#"):
            lines[k] = "\n"
            comments += [line.lstrip().lstrip("#").strip()] if k < first else []
            commented += k > first
    sample = [line for line in lines[:200] if line.strip()][:20]
    if not sample:
        raise BadTable(f"{path} is empty")
    if len(sample) == 1 and commented:
        raise BadTable(f"{path}: all lines below the header begin with #, which makes them comments; take the # away")
    delimiter = delimiter or _find_delimiter(sample)
    if delimiter == " ":  # the mark of a comment cannot be a part of a cell
        lines = [re.sub(r"\s+#.*", "", line) for line in lines]
    try:
        rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        cells = next(row for row in rows if any(cell.strip() for cell in row))
        is_data = len(cells) > 1 and _are_numbers(cells)
        above = list(csv.reader(comments, delimiter=delimiter, skipinitialspace=True))
        named = [row for row in above if len(row) == len(cells) and not _are_numbers(row)]
        data: list[str] = []
        if not header:
            data, cells = cells, [f"x{k}" for k in range(1, len(cells) + 1)]
        elif is_data and named:  # numpy.savetxt's
            data, cells = cells, named[-1]
        elif is_data:
            raise BadTable(
                f"{path} has no header: its first line is {delimiter.join(cells)[:40]!r}. Add a line of names, or pass "
                "--no-header for the names x1, x2, ..."
            )
        heads = [" ".join(cell.split()) for cell in cells]
        if delimiter == " " and heads[-1] == "":
            heads.pop()
        named_rows = header and not data and _names_rows(_cells_of(sample, delimiter))
        heads = [""] * named_rows + heads  # as R writes row names
        if len(heads) == 1:
            raise BadTable(f"a fit needs a target and a variable: {path} has only one column, {heads[0][:60]!r}")
        columns, places = _parse_cells(path, rows, heads, data)
        columns[0].names_rows = named_rows
    except csv.Error as error:
        raise BadTable(f"cannot read {path} as CSV: {error}") from None
    if delimiter not in (",", "\t"):
        notes.append(f"The delimiter is {delimiter!r}.")
    return TableCells(path, columns, "line", places, notes)


def _parse_cells(
    path: Path, rows: Any, heads: Sequence[str], first: Sequence[str]
) -> tuple[list[CellColumn], Sequence[int]]:
    """The columns, and the line of each row."""
    columns, numbers, places = [CellColumn(head, np.empty(0)) for head in heads], array("d"), array("q")
    for place, row in _whole_rows(path, rows, len(heads), first):
        places.append(place)
        try:
            if "_" not in "".join(row):  # 1_000 is a number in Python alone
                numbers.extend(list(map(float, row)))
                continue
        except ValueError:
            pass
        values = [_number(cell, None) for cell in row]
        for column, cell, value in zip(columns, row, values, strict=True):
            column.unread += [(len(places) - 1, cell.strip())] if value is None else []
        numbers.extend(math.nan if value is None else value for value in values)
    table = np.array(numbers, dtype=np.float64).reshape(-1, len(heads)).T
    for column, held in zip(columns, table, strict=True):
        column.values = np.ascontiguousarray(held)
    return columns, places


def _whole_rows(path: Path, rows: Any, width: int, first: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Rows with their lines. Raises BadTable for one of another width."""
    if first:
        yield rows.line_num, first[:width]
    for row in rows:
        if len(row) > width and (
            row[width].startswith("#") or row[width:] == [""]
        ):  # a comment, or a delimiter, ends it
            row = row[:width]
        if len(row) == width:
            yield rows.line_num, row
        elif any(cell.strip() for cell in row):
            raise BadTable(
                f"{path}, line {rows.line_num}: there are {len(row)} cells, and {width} in the header; if the "
                f"delimiter is not {rows.dialect.delimiter!r}, name it in a first line, as in sep=;"
            )


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
    for named_rows in (False, True):  # the header of a table with names of rows may be a cell shorter
        for delimiter in _DELIMITERS:
            try:
                rows = _cells_of(sample, delimiter)
            except csv.Error:
                continue
            head = len(rows[0]) if rows else 0
            fits = head > 1 and _names_rows(rows) if named_rows else {len(row) for row in rows} <= {head}
            if fits and head > most and not (delimiter == " " and most > 1):
                best, most = delimiter, head
        if most > 1:
            break
    return best


def _cells_of(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of each line that has any."""
    if delimiter == " ":
        lines = [re.sub(r"\s+#.*", "", line) for line in lines]
    rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    return [[cell for cell in row if cell or delimiter != " "] for row in rows if any(map(str.strip, row))]


def _names_rows(rows: Sequence[Sequence[str]]) -> bool:
    """Whether all rows have a cell more than the header, and not merely a delimiter at their end."""
    head, *below = rows
    longer = {len(row) for row in below} == {len(head) + 1}
    return longer and any(row[-1].strip() for row in below)


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(math.isfinite(_number(cell.replace(",", "."), math.inf)) for cell in cells)
