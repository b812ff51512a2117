"""Tables from CSV and Parquet files: columns of numbers, checked before a search, with notes of all that was changed.

Every fault of a file is one line that says its place and what to do (BadTable).
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_Else = TypeVar("_Else")


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
    file = _read_parquet(path) if is_parquet else _read_csv(path, header)
    heads, names, notes = file.heads, file.names, file.notes
    if len(file.places) < least:
        raise BadTable(f"{path} has {len(file.places)} rows of data; at least {least} are needed")
    if target is None:
        raise BadTable(f"name the column to explain with --target; {path} has {name_few(heads, 12)}")
    goal = range(len(names))[target] if isinstance(target, int) else file.place_of(target, " for the target")
    weigh = [] if weights is None else [file.place_of(weights, " for --weights")]
    for place, what in ((goal, "target"), *((place, "weights column") for place in weigh)):
        if file.columns[place].is_text:
            raise BadTable(f"{path}: the {what} {heads[place]!r} is text, such as {file.columns[place].text}")
    given = [file.place_of(name, " for --columns") for name in columns]
    chosen = [k for k in dict.fromkeys(given or range(len(names))) if k not in (goal, *weigh)]
    chosen = file.keep_numbers(chosen, bool(given))
    if not chosen:
        raise BadTable(f"{path} has no usable column besides the target {heads[goal]!r}.{' '.join(['', *notes])}")
    rows = file.complete_rows([*chosen, goal, *weigh], drop_missing)
    if len(rows) < least:
        raise BadTable(f"{path} has {len(rows)} complete rows; at least {least} are needed")
    if len(rows) > most:
        notes.append(f"Drew {most:,} of {len(rows):,} rows at random (seed {seed}).")
        rows = rows[np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False))]
    values = {k: file.columns[k].values[rows] for k in (*chosen, goal, *weigh)}
    constant = [k for k in chosen if float(np.ptp(values[k])) == 0]
    if float(np.ptp(values[goal])) == 0:
        raise BadTable(f"{path}: the target {heads[goal]!r} is {values[goal][0]:g} in every row")
    if constant:
        notes.append(f"Left out {name_few([heads[k] for k in constant], 8)}: the same value in every row.")
    chosen = [k for k in chosen if k not in constant]
    if not chosen:
        raise BadTable(f"{path}: all columns besides the target have the same value in every row")
    for k in (*chosen, goal):
        try:
            check_size(values[k], heads[k], TARGETS if k == goal else COLUMNS)
        except ValueError as fault:
            raise BadTable(f"{path}: {fault}") from None
    for k in weigh:
        if not (values[k] >= 0).all() or not values[k].sum() > 0:
            raise BadTable(f"{path}: the weights of {weights!r} must be at least 0, and not all 0")
    renamed = [(heads[k], k) for k in (*chosen, goal) if names[k] != heads[k]]
    if renamed:
        pairs = [f"{repr(head) if head else f'column {k + 1}'} to {names[k]}" for head, k in renamed]
        notes.append(f"Renamed {name_few(pairs, 8)}.")
    return DataTable(
        tuple(names[k] for k in chosen),
        names[goal],
        {head: names[k] for k in (*chosen, goal) for head in (file.columns[k].head.strip(), heads[k])},
        tuple(file.units[k] for k in (*chosen, goal)),
        np.column_stack([values[k] for k in chosen]),
        values[goal],
        values[weigh[0]] if weigh else None,
        len(file.places),
        tuple(notes),
    )


@dataclass
class _Column:
    """A column of a file. texts: how many cells are neither numbers nor missing; text: the first of them, and where;
    of_rows: whether it holds the names of rows, as its place in the file says"""

    head: str
    values: Reals
    texts: int = 0
    text: str = ""
    of_rows: bool = False
    odd: list[tuple[int, str]] = field(default_factory=list)  # cells that are not read yet, with their rows

    @property
    def is_text(self) -> bool:
        return self.texts > _TEXT_SHARE * (int(np.isfinite(self.values).sum()) + self.texts)


class _File:
    """Columns with the names and units of their heads. place, places: for messages, what a row is called and where
    each is; notes: as in DataTable"""

    def __init__(
        self, path: Path, columns: list[_Column], place: str, places: Sequence[int], notes: list[str] | None = None
    ) -> None:
        self.path, self.columns, self.place, self.places, self.notes = path, columns, place, places, notes or []
        printable = ["".join(c if c.isprintable() else "?" for c in column.head.strip()) for column in columns]
        split = [_HEAD.fullmatch(head) for head in printable]
        stems = [match["stem"] if match else head for match, head in zip(split, printable, strict=True)]
        self.heads, self.units = list(printable), [""] * len(printable)
        for k, match in enumerate(split):
            alone = stems.count(stems[k]) == 1
            if match and (match["named"] is not None or alone and is_unit(match["given"])):
                self.heads[k] = stems[k] if alone else printable[k]
                self.units[k] = (match["named"] or match["given"] or "").strip()
        try:
            self.names = plain_names(self.heads)
        except ValueError as fault:
            raise BadTable(f"{path}: {fault}") from None

    def place_of(self, name: str, what: str) -> int:
        """Where a column is, by the file's name or the formula's."""
        for known in (self.heads, [c.head for c in self.columns], self.names):
            if name.strip() in known:
                return known.index(name.strip())
        shown = [head or plain for head, plain in zip(self.heads, self.names, strict=True)]
        same = [known for known in shown if known.casefold() == name.strip().casefold()]
        hint = (
            f"; did you mean {same[0]}?" if same else did_you_mean(name, shown) or f"; there is {name_few(shown, 12)}"
        )
        raise BadTable(f"{self.path} has no column {name!r}{what}{hint}")

    def keep_numbers(self, places: Iterable[int], given: bool) -> list[int]:
        """The columns of numbers, without those that name or number the rows. given: whether the user named them"""
        kept, left_out = [], dict[int, str]()
        rows = {} if given else self._name_rows(places)
        for k in places:
            column = self.columns[k]
            if column.is_text and given:
                raise BadTable(f"{self.path}: column {self.heads[k]!r} is text, such as {column.text}")
            if column.is_text:
                left_out[k] = f"text, such as {column.text}"
            elif not np.isfinite(column.values).any():
                left_out[k] = "no values"
            elif k in rows:
                left_out[k] = rows[k]
            else:
                kept.append(k)
        for reason in dict.fromkeys(left_out.values()):
            named = [
                self.heads[k] or f"column {k + 1} ({self.names[k]})" for k, why in left_out.items() if why == reason
            ]
            self.notes.append(f"Left out {name_few(named, 8)}: {reason}.")
        return kept

    def _name_rows(self, places: Iterable[int]) -> dict[int, str]:
        """The columns that name or number the rows, with why: those by place, a first column of different whole numbers
        under a head that programs give to row names, and one that counts the rows from 0 or 1. A head that may be a
        variable's (X, index, a name) is one if nothing else is."""
        found, doubtful, others = dict[int, str](), dict[int, str](), False
        for k in places:
            values, head = self.columns[k].values, self.heads[k]
            whole = bool(np.isfinite(values).all() and (values == np.floor(values)).all())
            steps = whole and len(values) > 1 and values[0] in (0, 1) and bool((np.diff(values) == 1).all())
            keep = "; name it in --columns to keep it"
            named = k == 0 and whole and _ROW_NAMES.fullmatch(head) and len(np.unique(values)) == len(values)
            if self.columns[k].of_rows or (named and not _VARIABLES.fullmatch(head)):
                found[k] = f"it names the rows{keep}"
            elif named:
                doubtful[k] = f"it names the rows{keep}"
            elif steps and not self.units[k] and not _MEASURED.fullmatch(head):
                doubtful[k] = f"it numbers the rows{keep}"
            else:
                finite = values[np.isfinite(values)]
                others |= not self.columns[k].is_text and len(finite) > 0 and bool(np.ptp(finite) > 0)
        return {**found, **(doubtful if others else {})}

    def complete_rows(self, places: Sequence[int], drop_missing: bool) -> npt.NDArray[np.intp]:
        """The rows with finite numbers in all of these columns."""
        finite = {k: np.isfinite(self.columns[k].values) for k in places}
        whole = np.logical_and.reduce(list(finite.values()))
        missing = int((~whole).sum())
        if missing and not drop_missing:
            described = []
            for k in (k for k, mask in finite.items() if not mask.all()):
                rows = np.flatnonzero(~finite[k]).tolist()
                at = ", ".join([*(str(self.places[i]) for i in rows[:3]), *["..."] * (len(rows) > 3)])
                text = f": {self.columns[k].text}" if self.columns[k].texts else ""
                described.append(f"{self.heads[k]} ({self.place}{'s' * (len(rows) > 1)} {at}{text})")
            raise BadTable(
                f"{self.path}: {missing:,} of {len(whole):,} rows {'lacks' if missing == 1 else 'lack'} a finite "
                f"number: {name_few(described, 4)}. Leave these rows or columns out: evo fit has --drop-missing and "
                "--columns"
            )
        if missing:
            self.notes.append(f"Left out {missing:,} of {len(whole):,} rows: missing or infinite values.")
        return np.flatnonzero(whole)


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
    index = (read.schema.pandas_metadata or {}).get("index_columns", ())  # a dict describes one that is not stored
    columns = [_arrow_column(arrow, name, read.column(k)) for k, name in enumerate(read.column_names)]
    for column in columns:
        column.of_rows = column.head in {name for name in index if isinstance(name, str)}
    notes = list[str]()
    _read_odd_cells(path, columns, "row", range(1, read.num_rows + 1), notes)
    return _File(path, columns, "row", range(1, read.num_rows + 1), notes)


def _arrow_column(arrow: Any, name: str, cells: Any) -> _Column:
    """As the same cells of a CSV file are read: whole numbers of any size are rounded, texts may be numbers."""
    is_text = arrow.types.is_string(cells.type) or arrow.types.is_large_string(cells.type)
    try:
        if arrow.types.is_boolean(cells.type):
            cells = cells.cast(arrow.int8())
        if not is_text and not arrow.types.is_dictionary(cells.type):
            values = cells.cast(arrow.float64(), safe=False).to_numpy()
            return _Column(name, np.array(values, dtype=np.float64))
    except (arrow.ArrowException, ValueError, TypeError):
        pass
    texts = ["" if cell is None else str(cell) for cell in cells.to_pylist()]
    values = np.array([_number(text, math.nan) for text in texts])
    odd = [(row, text) for row, text in enumerate(texts) if _number(text, None) is None]
    return _Column(name, values, odd=odd)


def _read_csv(path: Path, header: bool) -> _File:
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
        columns, places = _parse_cells(path, rows, heads, data, notes)
        columns[0].of_rows = named_rows
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


def _number(cell: str, otherwise: _Else) -> float | _Else:
    """A cell as a number, nan if it is missing; `otherwise` if it is text, or has a comma."""
    text = cell.strip().lower()
    if text in _NAMED_CELLS:
        return _NAMED_CELLS[text]
    try:
        return otherwise if "_" in text else float(text)
    except ValueError:
        return otherwise


def _parse_cells(
    path: Path, rows: Any, heads: Sequence[str], first: Sequence[str], notes: list[str]
) -> tuple[list[_Column], Sequence[int]]:
    """The columns, and the line of each row."""
    columns, numbers, places = [_Column(head, np.empty(0)) for head in heads], array("d"), array("q")
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
            column.odd += [(len(places) - 1, cell.strip())] if value is None else []
        numbers.extend(math.nan if value is None else value for value in values)
    table = np.array(numbers, dtype=np.float64).reshape(-1, len(heads)).T
    for column, held in zip(columns, table, strict=True):
        column.values = np.ascontiguousarray(held)
    _read_odd_cells(path, columns, "line", places, notes)
    return columns, places


def _read_odd_cells(
    path: Path, columns: Sequence[_Column], place: str, places: Sequence[int], notes: list[str]
) -> None:
    """Read the cells with commas by one rule for the whole file, and mark the others as text. Raises BadTable where
    commas may be either."""
    commas = [
        (column, row, text) for column in columns for row, text in column.odd
        if _COMMA.fullmatch(text) or _GROUPED.fullmatch(text) or _EUROPEAN.fullmatch(text)
    ]  # fmt: skip
    grouped = all(_GROUPED.fullmatch(text) for _, _, text in commas)
    if commas and grouped and not _are_thousands(commas):
        column, row, text = commas[0]
        raise BadTable(
            f"{path}: {text} in {place} {places[row]} of {column.head!r} may be {text.replace(',', '')} or "
            f"{text.replace(',', '.')}; write it without the comma, or with more or fewer digits after it"
        )
    for column, row, text in commas:
        plain = text.replace(",", "") if grouped else text.replace(".", "").replace(",", ".")
        column.values[row] = float(plain)
    if commas:
        _, _, text = commas[0]
        plain = text.replace(",", "") if grouped else text.replace(".", "").replace(",", ".")
        notes.append(f"Read {text} as {plain}, and other commas likewise.")
    read = {(id(column), row) for column, row, _ in commas}
    for column in columns:
        texts = [(row, text) for row, text in column.odd if (id(column), row) not in read]
        column.texts += len(texts)
        if texts:
            column.text = f"{texts[0][1][:30]!r} in {place} {places[texts[0][0]]}"


def _are_thousands(commas: Sequence[tuple[_Column, int, str]]) -> bool:
    """Whether commas that may all separate thousands do: some numbers of these columns have none, or a point."""
    columns = {id(column): column for column, _, _ in commas}.values()
    several = any(text.count(",") > 1 or "." in text for _, _, text in commas)
    return several or any(bool(np.isfinite(column.values).any()) for column in columns)


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
