"""Counts and rates as a screen shows them: short, and of one width whatever their size. Values are written by
evo.values."""

from __future__ import annotations


def ago(seconds: float) -> str:
    """now, 12s, 3m, 2h, 5d."""
    if seconds < 1:
        return "now"
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{letter}"
    return f"{int(seconds)}s"


def count(value: float | None) -> str:
    """Five cells at most: 999, 9,999, 12.3k, 4.5M; "-" if it is not known."""
    if value is None:
        return "-"
    if value < 9_999.5:
        return f"{value:,.0f}"
    for size, letter in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        if value < size * 999.5:
            scaled = value / size
            return f"{scaled:.1f}{letter}" if scaled < 99.95 else f"{scaled:.0f}{letter}"
    return f"{value:.0e}"


def rate(value: float | None) -> str:
    """The rate like `count`, with a decimal below ten."""
    return f"{value:.1f}" if value is not None and value < 9.95 else count(value)
