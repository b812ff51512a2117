"""Rows of the text tasks: from files in JSON, JSON Lines or Parquet, and from the Hugging Face hub."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from problems.contract import BadAddress

HUB_SECONDS = 5.0
"""How long the hub may take to answer: the library that loads from it asks one out of reach for minutes."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Every row, in order. Raises BadAddress, one line, naming the file and the line."""
    try:
        rows = _parquet(path) if path.suffix == ".parquet" else list(_json(path))
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"cannot read {path}: {error}") from None
    if not rows:
        raise BadAddress(f"{path} holds no rows")
    return rows


def _json(path: Path) -> Iterator[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        parsed = _parsed(text, str(path))
        pairs = [(f"{path}, row {number}", row) for number, row in enumerate(parsed)]
    else:
        lines = enumerate(text.split("\n"), 1)
        pairs = [(f"{path}:{number}", _parsed(line, f"{path}:{number}")) for number, line in lines if line.strip()]
    for where, row in pairs:
        if not isinstance(row, dict):
            raise BadAddress(f"{where}: a {type(row).__name__}, not an object with keys")
        yield row


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


def field_of(row: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    """row[name], checked. Raises BadAddress naming the row and the field."""
    if not isinstance(row, Mapping):
        raise BadAddress(f"{where}: {name} is requested of a {type(row).__name__}, where an object with keys was due")
    value = row.get(name)
    if not isinstance(value, kind):
        fault = "is missing" if value is None else f"is a {type(value).__name__}, not a {kind.__name__}"
        raise BadAddress(f"{where}: {name} {fault}")
    return value


def read_hub(data_set: str, split: str, instead: str, revision: str | None = None) -> list[dict[str, Any]]:
    """A split of a data set on the Hugging Face hub, in order.

    revision: a branch, tag, pull request or commit, if it is not the main branch
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
        return [dict(row) for row in load_dataset(data_set, split=split, revision=revision)]
    except Exception as error:  # noqa: BLE001 - whatever the libraries of today raise
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise BadAddress(f"the hub's {data_set} cannot be loaded ({reason}); {instead}") from None
