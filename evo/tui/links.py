"""Pieces of text that do something when they are clicked."""

from __future__ import annotations

from functools import lru_cache

from rich.style import Style


@lru_cache(maxsize=4_096)
def link(style: Style, action: str) -> Style:
    """The style, and what a click on it does: an action of the screen, as `choose(3)`."""
    return style + Style.from_meta({"@click": f"app.{action}"})
