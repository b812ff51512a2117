"""The figures of bench/soak.py: its states added up, and in words."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any


def add_up(files: list[Path]) -> dict[str, Any]:
    """Several soaks as one."""
    found = [json.loads(file.read_text()) for file in files]
    total: dict[str, Any] = {
        key: sum(one.get(key, 0) for one in found) for key in ("episodes", "lives", "groups", "scored", "seconds")
    }
    for key in ("kills", "counts"):
        total[key] = dict(sum((Counter(one[key]) for one in found), Counter()))
    return total


def describe(state: dict[str, Any]) -> str:
    """The figures so far."""
    lines = [f"{sum(state['kills'].values()):,} kills in {state['lives']:,} lives of {state['episodes']} episodes, "
             f"{state['groups']:,} groups committed, {state['scored']:,} answers scored under watch, "
             f"{state['seconds'] / 60:.0f} minutes"]  # fmt: skip
    for place, title in enumerate(("work", "database", "who", "where")):
        found: Counter[str] = Counter()
        for key, number in state["kills"].items():
            found[key.split("|")[place]] += number
        lines.append(f"{title}: " + ", ".join(f"{name} {number}" for name, number in found.most_common()))
    lines.append(f"faults: {state['counts'] or 'none'}")
    return "\n".join(lines)
