"""The operators of a run or a comparison as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from evo.comparison.operators import BINS, MEANING, OperatorShares
from islands.types import QUARTERS

RATES = (*(f"refined {BINS[quarter]}" for quarter in range(QUARTERS)), "kept", "copies", "repeats", "alone")
TITLES = (*(BINS[quarter] for quarter in range(QUARTERS)), "kept", "copies", "repeats", "alone")
LEGEND = "kept: of the parent; copies: of what was shown; alone: without a parent shown"


def print_operators(console: Console, operators: Sequence[OperatorShares]) -> None:
    """A line for each; nothing where none has an answer counted."""
    if not operators:
        return
    console.print(f"\n{MEANING}:", soft_wrap=True, markup=False)
    table = Table(box=None, pad_edge=False)
    for title in ("operator", *TITLES):
        named = title == "operator"  # a long name is wrapped before a figure is cut
        table.add_column(title, justify="left" if named else "right", no_wrap=not named, overflow="fold")
    for one in operators:
        table.add_row(short_label(one.name), *(share_text(one.shares.get(name)) for name in RATES))
    console.print(table, markup=False)
    console.print(LEGEND, style="dim", soft_wrap=True, markup=False)


def short_label(name: str) -> str:
    """One of several operators of an arm, without the kind of its address."""
    arm, parted, policy = name.partition(": ")
    return f"{arm}: {policy.partition(':')[2] or policy}" if parted else name


def share_text(value: float | None) -> str:
    """.043, 1.00, "-"."""
    if value is None:
        return "-"
    return f"{value:.2f}" if value >= 0.9995 else f"{value:.3f}"[1:]
