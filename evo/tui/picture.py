"""The screen as a picture: text for a pipe, an SVG for a page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from evo.monitor.snapshot import Snapshot
from evo.tui.app import ScreenApp
from evo.tui.arrange import arrange
from evo.tui.view import View

SVG_SIZE = (160, 50)


def draw_text(snapshot: Snapshot, width: int, height: int, now: float) -> str:
    """At most `height` lines without the keys; the last one is not empty."""
    made = arrange(snapshot, View(), width, height + 1, now)
    lines = made.text(height + 1).rpartition("\n")[0].rpartition("\n")[0]
    return lines.rstrip() + "\n"


def save_svg(snapshot: Snapshot, now: float, size: tuple[int, int] = SVG_SIZE) -> str:
    """An SVG of the screen at that many columns and rows, colours and marks as on a terminal."""
    return asyncio.run(_saved(snapshot, now, size))


class _Picture(ScreenApp):
    """Without scrollbars, which a picture has no use for."""

    CSS = ScreenApp.CSS + "LinesView { scrollbar-size-vertical: 0 }"


async def _saved(snapshot: Snapshot, now: float, size: tuple[int, int]) -> str:
    app = _Picture(lambda: Still(snapshot), now=lambda: now)
    async with app.run_test(size=size) as pilot:
        await app.opened()
        await pilot.pause()
        return app.export_screenshot(title=f"evo watch {snapshot.name}", simplify=True)


class Still:
    """A source of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.failure: Exception | None = None
        self.changed: Callable[[], None] = lambda: None

    def start(self) -> None:
        pass

    def look(self, problem: int, arm: str | None) -> None:
        pass

    def close(self) -> None:
        pass
