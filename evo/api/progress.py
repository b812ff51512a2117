"""Progress: a bar that is drawn in place in a notebook or on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import importlib
import time
import warnings
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

PLAIN_SECONDS, PLAIN_SECONDS_LATER = 10.0, 30.0
LATER = 60.0
STOPPING = "finishing the groups in flight; press again to stop at once"
BAR_WIDTH = 40


@dataclass(frozen=True)
class Progress:
    """title: names the work; detail: figures next to it; done, total: in `unit`"""

    title: str
    done: int
    total: int
    unit: str
    detail: str = ""

    def __str__(self) -> str:
        """The progress as one plain line."""
        parts = [f"{self.title}: {self.done:,}/{self.total:,} {self.unit}", self.detail]
        return ", ".join(filter(None, parts))


class Display(Protocol):
    """The display of the caller's thread while it waits; used in a `with` block."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *exception: object) -> None: ...

    def update(self, progress: Progress | None, *, stopping: bool = False) -> None:
        """progress: None while it loads. stopping: Ctrl-C was pressed"""
        ...


def open_display(shown: bool) -> Display:
    """The display that suits the output."""
    if not shown:
        return Silent()
    console = Console(highlight=False, stderr=True)
    if console.is_jupyter:
        return Notebook()
    return Bar(console) if console.is_terminal and not console.is_dumb_terminal else Lines(console)


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *exception: object) -> None:
        return

    def update(self, progress: Progress | None, *, stopping: bool = False) -> None:
        """Nothing."""


class Bar(Silent):
    """A line with a bar, on a terminal."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Bar:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def update(self, progress: Progress | None, *, stopping: bool = False) -> None:
        self._live.update(draw(progress, stopping), refresh=True)


class Notebook(Silent):
    """The same below a notebook's cell, drawn by rich and replaced in place. Needs no widgets."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown: tuple[Progress | None, bool] | None = None

    def __enter__(self) -> Notebook:
        with warnings.catch_warnings():  # of transformers' progress bars, which miss their widgets; ours need none
            warnings.simplefilter("ignore")
            with contextlib.suppress(ImportError):
                importlib.import_module("tqdm.auto")
        return self

    def __exit__(self, *exception: object) -> None:
        if self._handle is not None and self._shown is not None and self._shown[0] is None:
            self._handle.update(Text(""))  # it ended early: "loading" would stay

    def update(self, progress: Progress | None, *, stopping: bool = False) -> None:
        if self._shown == (progress, stopping):
            return
        self._shown = (progress, stopping)
        from IPython.display import display  # there, since this is a notebook

        if self._handle is None:
            self._handle = display(draw(progress, stopping), display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(draw(progress, stopping))


class Lines(Silent):
    """A plain line now and then: the first, and the last as soon as it is known."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = self._last = time.monotonic()
        self._told: Progress | None = None
        self._newest: Progress | None = None
        self._stopping = False

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed stream is not a fault of the work
            self._tell(self._newest)

    def update(self, progress: Progress | None, *, stopping: bool = False) -> None:
        now = time.monotonic()
        self._newest = progress or self._newest
        if stopping and not self._stopping:
            self._stopping = True
            self._console.print(f"interrupted; {STOPPING}", soft_wrap=True, markup=False)
        pause = PLAIN_SECONDS if now - self._began < LATER else PLAIN_SECONDS_LATER
        if progress is not None and (self._told is None or now - self._last >= pause):
            self._last = now
            self._tell(progress)

    def _tell(self, progress: Progress | None) -> None:
        if progress is not None and progress != self._told:
            self._told = progress
            self._console.print(str(progress), soft_wrap=True, markup=False)


def draw(progress: Progress | None, stopping: bool) -> RenderableType:
    """A bar with its numbers."""
    grid = Table.grid(padding=(0, 2))
    if progress is None:
        grid.add_row(Text("loading" if not stopping else "stopping", style="dim"))
        return grid
    bar = ProgressBar(total=max(progress.total, 1), completed=progress.done, width=BAR_WIDTH)
    grid.add_row(Text(progress.title, style="bold"), bar, f"{progress.done:,}/{progress.total:,} {progress.unit}")
    outer = Table.grid()
    outer.add_row(grid)
    if progress.detail:
        outer.add_row(Text(progress.detail, style="dim"))
    if stopping:
        outer.add_row(Text(STOPPING, style="yellow"))
    return outer
