"""The screen of a training folder: held-out curves, and every metric with its meaning. It only reads."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from evo.progress.training import TrainingProgress
from evo.tui.line import clean
from evo.tui.numbers import sparkcurve
from evo.tui.palette import STRONG, TERMINAL, Palette
from evo.tui.plot import draw_plot

CURVES = ("solve@30", "best@30", "best@1")
PLOT_LINES, WIDE = 14, 116


def draw_training(
    training: TrainingProgress, width: int, height: int, palette: Palette = TERMINAL, *, explained: bool = False
) -> RenderableType:
    """The whole screen: how far it is, what it gained, the held-out curves if there is room, a line for each metric.
    explained: with the metrics' meanings, which a wide screen always has"""
    mood = {"done": "good", "stopped": "warn"}.get(training.state, "")
    parts: list[RenderableType] = [
        Text(clean(training.title), STRONG, no_wrap=True, overflow="ellipsis"),
        Text(training.standing, palette.mood(mood)),
        *[Text(training.gain, STRONG)] * bool(training.gain),
    ]
    drawn = [(at, name, training.curve(name)) for at, name in enumerate(CURVES) if name in training.metrics]
    room = min(PLOT_LINES, height - len(parts) - len(training.metrics) - 4)
    narrow = width < WIDE
    if room >= 6 and not (narrow and explained) and drawn and len(drawn[0][2].at) > 1:
        parts += [Text("\nheld out", STRONG), draw_plot(drawn, True, width, room, palette)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=palette.muted)
    titles = ["metric", "first", "last", *["curve"] * (not narrow or not explained)]
    for title in (shown := [*titles, *["meaning"] * (not narrow or explained)]):
        number = title in ("first", "last")
        table.add_column(title, justify="right" if number else "left", no_wrap=title != "meaning")
    for name, meaning in training.metrics.items():
        values = training.curve(name).mean
        spark = Text(sparkcurve(values, min(24, width - 44), min(values), max(values)), palette.good)
        cells: dict[str, str | Text] = {
            "metric": name,
            "first": f"{values[0]:.4g}",
            "last": f"{values[-1]:.4g}",
            "curve": spark,
        }
        table.add_row(*(cells.get(title, meaning) for title in shown))
    return Group(*parts, Text(""), table)


class TrainingScreen(App[None]):
    """The screen of a training folder while it trains, or after. folder: of `evo train -o`"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,ctrl+c", "quit", "Quit; the training continues", key_display="q"),
        Binding("question_mark", "explain", "What the metrics mean", key_display="?"),
    ]
    ENABLE_COMMAND_PALETTE = False
    CSS = "VerticalScroll { padding: 0 1 }"

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder, self.explained = folder, False

    def compose(self) -> ComposeResult:
        yield VerticalScroll(Static(id="training"))
        yield Footer()

    def on_mount(self) -> None:
        self.set_interval(1.0, self.draw)
        self.call_after_refresh(self.draw)

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Show what is written now."""
        training, width, height = TrainingProgress.open(self.folder), self.size.width - 4, self.size.height - 1
        for part in self.query("#training").results(Static):  # none before it is composed
            part.update(draw_training(training, width, height, explained=self.explained))

    def action_explain(self) -> None:
        self.explained = not self.explained
        self.draw()
