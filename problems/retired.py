"""What users could type once and cannot any more: one line each, which names what replaces it.

A row says what to do instead, as the end of "X was removed; ...". The rows are in retired.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from problems.contract import BadAddress

_ROWS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
COMMANDS: dict[str, str] = _ROWS["commands"]
"""Commands of `evo`, as `pretrain` or `problems fuzz`."""
FLAGS: dict[str, str] = _ROWS["flags"]
"""Flags of any command, as `--reflect`, or of one, as `fit --policy`."""
KEYS: dict[str, tuple[str, list[Any]]] = _ROWS["keys"]
"""Dotted keys of settings: what replaces one, and the values that meant "not used".

A stored run with one of these values is read without the key. One with another value used what is gone: refused."""
OPTIONS: dict[str, str] = _ROWS["options"]
"""Options of addresses, as in ?horizon=true."""
STAGE_KINDS: dict[str, str] = _ROWS["stage_kinds"]
"""Kinds of a pipeline's stages."""
NAMES: dict[str, str] = _ROWS["names"]
"""Values and addresses by their text: methods, strategies, policies, formats, problem sets."""
for _key, _row in _ROWS["training"].items():  # of `evo train`, of a search's section `train`, and flags of both
    KEYS[_key] = KEYS[f"train.{_key}"] = _row
    FLAGS[f"--{_key.replace('_', '-')}"] = FLAGS[f"--train-{_key.replace('_', '-')}"] = _row[0]


def replace_hint(kind: Mapping[str, str | tuple[str, list[Any]]], name: str) -> str:
    """The line for `name` if it was removed, else an empty text."""
    if name not in kind:
        return ""
    row = kind[name]
    return f"{name} was removed; {row if isinstance(row, str) else row[0]}"


def refuse_retired(name: str) -> None:
    """Raise BadAddress if the value or address `name` was removed."""
    if line := replace_hint(NAMES, name):
        raise BadAddress(line)


def drop_retired(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Stored settings without the keys that are gone and were not used; those that were used stay, so that they are
    refused by name where the settings are validated."""
    kept: dict[str, Any] = {}
    for key, value in values.items():
        path = prefix + key
        if path in KEYS and value in KEYS[path][1]:
            continue
        kept[key] = drop_retired(value, path + ".") if isinstance(value, Mapping) else value
    return kept
