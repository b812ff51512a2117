"""The words of the screen and of the page, explained once, in glossary.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_TEXTS: Mapping[str, Mapping[str, str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
WORDS = _TEXTS["words"]
"""Titles of tables are among them."""
SIGNS = _TEXTS["signs"]
"""Of the screen."""
TRAINING_METRICS = _TEXTS["training"]
"""The metrics of a training that its watchers see, in their order."""
COLUMN_HINTS = _TEXTS["columns"]
"""Titles of the page's tables that need other words than WORDS has."""
