"""Columns of CSV and Parquet files: delimiter, header and missing cells; a file at fault is one line (BadTable)."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evo.plugins.formulas.evaluation import Array
from problems.contract import BadAddress

_DELIMITERS = (",", ";", "\t", "|", " ")
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "?", "."}
_TRUTH = {"true": 1.0, "false": 0.0}
_SAMPLE = 1 << 16
_CHUNK = 10_000


class BadTable(BadAddress):
    """A file that is no usable table: one line that says where and what to do."""


@dataclass
class TableColumn:
    """A column of a file.

    head: as the file has it; values: (n,) nan for missing cells; text: the first cell that is neither a number nor
    missing, quoted; text_line: where it is; texts: how many there are
    """

    head: str
    values: Array
    text: str = ""
    text_line: int = 0
    texts: int = 0


@dataclass
class TableFile:
    """Columns and, for messages, where each row is."""

    path: Path
    columns: list[TableColumn]
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


def read_file(path: Path, delimiter: str | None = None, header: bool = True) -> TableFile:
    """The columns of a CSV or Parquet file. Raises BadTable.

    delimiter: of a CSV file, detected by default; header: whether its first line holds names
    """
    if path.suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(path)
    return _read_csv(path, delimiter, header)


def _read_parquet(path: Path) -> TableFile:
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
    return TableFile(path, columns, "row", range(1, read.num_rows + 1))


def _arrow_column(arrow: Any, name: str, cells: Any) -> TableColumn:
    try:
        if arrow.types.is_boolean(cells.type):
            cells = cells.cast(arrow.int8())
        return TableColumn(name, np.asarray(cells.cast(arrow.float64()).to_numpy(), dtype=np.float64))
    except (arrow.ArrowException, ValueError, TypeError):
        example = next((str(cell) for cell in cells.slice(0, 100).to_pylist() if cell is not None), "")
        return TableColumn(name, np.full(len(cells), math.nan), repr(example[:30]), 1, len(cells))


def _read_csv(path: Path, given: str | None, header: bool) -> TableFile:
    text, notes = _decode(path)
    if not text.strip():
        raise BadTable(f"{path} is empty")
    delimiter = given or _find_delimiter(text[:_SAMPLE])
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=False)
        heads = next(row for row in rows if any(cell.strip() for cell in row))
        heads = [" ".join(head.split()) for head in heads]
        if delimiter == " " and heads[-1] == "":
            heads.pop()
        first: list[str] = []
        if not header:
            first, heads = heads, [f"x{k}" for k in range(1, len(heads) + 1)]
        elif len(heads) > 1 and all(math.isfinite(_number(head, delimiter, math.inf)) for head in heads):
            shown = delimiter.join(heads)
            raise BadTable(
                f"{path} has no header: its first line is {shown[:40]!r}. Add a line of names, or pass --no-header for "
                "the names x1, x2, ..."
            )
        if len(heads) == 1:
            other = _find_delimiter(text[:_SAMPLE])
            hint = f" if it is split at {delimiter!r}; try --delimiter {other!r}" if other != delimiter else ""
            raise BadTable(f"a fit needs a target and a variable: {path} has only one column, {heads[0][:60]!r}{hint}")
        columns, lines = _parse_cells(path, rows, heads, first, delimiter)
    except csv.Error as error:
        raise BadTable(f"cannot read {path} as CSV: {error}") from None
    if delimiter not in (",", "\t") and given is None:
        notes.append(f"The delimiter is {delimiter!r}.")
    return TableFile(path, columns, "line", lines, notes)


def _decode(path: Path) -> tuple[str, list[str]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadTable(f"cannot read {path}: {error.strerror or error}") from None
    for encoding in ("utf-16", "utf-8-sig") if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig",):
        try:
            return content.decode(encoding), []
        except UnicodeDecodeError:
            pass
    if b"\0" in content[:_SAMPLE]:
        raise BadTable(f"{path} is not a text file; CSV and Parquet (.parquet) are read")
    return content.decode("cp1252", errors="replace"), ["The file is not UTF-8; it was read as Windows-1252."]


def _find_delimiter(sample: str) -> str:
    """The delimiter that splits the first lines into the same number of cells, at least two."""
    lines = [line for line in sample.splitlines()[:21] if line.strip()]
    lines = lines[:-1] if len(lines) == 21 else lines  # the last may be cut
    best, most = ",", 1
    for delimiter in _DELIMITERS:
        try:
            widths = {
                len([cell for cell in row if cell or delimiter != " "])
                for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
            }
        except csv.Error:
            continue
        if len(widths) == 1 and (width := widths.pop()) > most:
            if delimiter == " " and most > 1:
                continue
            best, most = delimiter, width
    return best


def _number(cell: str, delimiter: str, otherwise: float) -> float:
    """A cell as a number; nan if it is missing, `otherwise` if it is text."""
    text = cell.strip()
    low = text.lower()
    if low in _MISSING:
        return math.nan
    try:
        return float(text)
    except ValueError:
        pass
    if low in _TRUTH:
        return _TRUTH[low]
    if delimiter != "," and re.fullmatch(r"[+-]?\d*,\d+(e[+-]?\d+)?", low):
        return float(low.replace(",", "."))
    return otherwise


def _parse_cells(
    path: Path, rows: Any, heads: Sequence[str], first: Sequence[str], delimiter: str
) -> tuple[list[TableColumn], Sequence[int]]:
    """The columns, and the line of each row."""
    numbers = [array("d") for _ in heads]
    columns = [TableColumn(head, np.empty(0)) for head in heads]
    lines = array("q")
    for chunk, places in _chunks(path, rows, len(heads), first):
        for column, held, cells in zip(columns, numbers, zip(*chunk, strict=True), strict=True):
            try:
                held.extend(map(float, cells))
                continue
            except ValueError:
                del held[len(lines) :]
            for place, cell in zip(places, cells, strict=True):
                value = _number(cell, delimiter, math.inf)
                if value == math.inf and cell.strip().lower().lstrip("+") not in ("inf", "infinity"):
                    if not column.texts:
                        column.text, column.text_line = repr(cell.strip()[:30]), place
                    column.texts += 1
                    value = math.nan
                held.append(value)
        lines.extend(places)
    for column, held in zip(columns, numbers, strict=True):
        column.values = np.frombuffer(held, dtype=np.float64).copy() if len(held) else np.empty(0)
    return columns, lines


def _chunks(path: Path, rows: Any, width: int, first: Sequence[str]) -> Iterator[tuple[list[Sequence[str]], list[int]]]:
    chunk: list[Sequence[str]] = [first] if first else []
    places = [1] if first else []
    for row in rows:
        if len(row) != width:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) == width + 1 and row[-1] == "":  # a delimiter at the end of the line
                row = row[:-1]
            else:
                raise BadTable(
                    f"{path}, line {rows.line_num}: there are {len(row)} cells, and {width} in the header; if the "
                    "delimiter is wrong, name it with --delimiter"
                )
        chunk.append(row)
        places.append(rows.line_num)
        if len(chunk) == _CHUNK:
            yield chunk, places
            chunk, places = [], []
    if chunk:
        yield chunk, places
