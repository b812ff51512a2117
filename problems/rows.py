"""Data from files in JSON, JSON Lines, Parquet or YAML, and from the Hugging Face hub."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from problems.contract import BadAddress

HUB_SECONDS = 5.0
"""How long the hub may take to answer: the library that loads from it asks one out of reach for minutes."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Every row, in order. Raises BadAddress, one line, naming the file and the line."""
    return [row for _, row in rows_of(path)]


def rows_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of a file (JSON Lines, such a file packed by gzip, a JSON list, Parquet) and its place, one at a
    time where the file has a line for each. Raises BadAddress, one line, naming the file and the line."""
    empty = True
    try:
        for where, row in _places(path):
            if not isinstance(row, dict):
                raise BadAddress(f"{where}: a {type(row).__name__}, not an object with keys")
            empty = False
            yield where, row
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BadAddress(f"cannot read {path}: {error}") from None
    if empty:
        raise BadAddress(f"{path} holds no rows")


def _places(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".parquet":
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(_parquet(path)))
        return
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
        first = True
        for number, line in enumerate(stream, 1):
            if first and line.lstrip().startswith("["):
                rows = _parsed(line + stream.read(), str(path))
                yield from ((f"{path}, row {at}", row) for at, row in enumerate(rows))
            elif line.strip():
                yield f"{path}:{number}", _parsed(line, f"{path}:{number}")
            first = first and not line.strip()


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadAddress(f"{where}: not JSON: {error}") from None


def _parquet(path: Path) -> list[dict[str, Any]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ImportError:
        raise BadAddress(f"{path}: Parquet files need pyarrow: pip install 'evo-search[parquet]'") from None
    try:
        rows: list[dict[str, Any]] = read_table(path).to_pylist()
    except ArrowException as error:
        raise BadAddress(f"cannot read {path}: {' '.join(str(error).split())}") from None
    return rows


def read_mapping(path: Path) -> dict[str, Any]:
    """The keys of a YAML file and their values, none for an empty one. Raises BadAddress, one line."""
    import yaml

    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"cannot read {path}: {error}") from None
    except yaml.YAMLError as error:
        raise BadAddress(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(read, dict | None):
        raise BadAddress(f"{path} holds a {type(read).__name__}, not keys with values")
    return read or {}


def field_of(row: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    """row[name], checked. Raises BadAddress naming the row and the field."""
    if not isinstance(row, Mapping):
        raise BadAddress(f"{where}: {name} is requested of a {type(row).__name__}, where an object with keys was due")
    value = row.get(name)
    if not isinstance(value, kind):
        fault = "is missing" if value is None else f"is a {type(value).__name__}, not a {kind.__name__}"
        raise BadAddress(f"{where}: {name} {fault}")
    return value


def read_hub(data_set: str, split: str, instead: str) -> list[dict[str, Any]]:
    """A split of a data set on the Hugging Face hub, in order.

    instead: what to do if the hub cannot be reached, as the end of a sentence
    Raises BadAddress, one line, if `datasets` is not installed, or the hub does not answer or lacks it.
    """
    try:
        from datasets import load_dataset
        from huggingface_hub import constants, get_session
    except ImportError:
        raise BadAddress(
            f"the hub's {data_set} needs the package datasets (pip install 'evo-search[hub]'); or {instead}"
        ) from None
    try:
        if not (constants.HF_HUB_OFFLINE or os.environ.get("HF_DATASETS_OFFLINE")):
            get_session().head(f"{constants.ENDPOINT}/api/datasets/{data_set}", timeout=HUB_SECONDS).raise_for_status()
        return [dict(row) for row in load_dataset(data_set, split=split)]
    except Exception as error:  # noqa: BLE001 - whatever the libraries of today raise
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise BadAddress(f"the hub's {data_set} cannot be loaded ({reason}); {instead}") from None
