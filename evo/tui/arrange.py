"""The text of each part of the screen: a pure function of a snapshot, the viewer's choices, a size and a time.

Narrow screens (80x24) show the head, the curves and one panel, and tab goes through the others; wide ones show
everything in two columns, and tab focuses one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rich.style import Style

from evo.chart import MEAN_BEST, SOLVE_RATE, Axis, Chart, curve_series
from evo.comparison.survival import Curve
from evo.monitor.snapshot import Snapshot
from evo.tui import head, side_panels
from evo.tui.detail import draw_detail, draw_detail_head
from evo.tui.line import Line, Lines, fit
from evo.tui.palette import BAD, DIM, SELECTED, STRONG, link
from evo.tui.plot import draw_plot
from evo.tui.problem_table import ProblemTable, StandingsCache, describe
from evo.tui.side_panels import draw_operators
from evo.tui.view import SIDE, View, panels

WIDE = 116
LEAST_BOTH, ROOMY = 12, 20
"""Lines for a plot above the table: LOW_PLOT of them from LEAST_BOTH on, more from ROOMY on."""
LOW_PLOT = 7
TITLES = {
    "problems": "problems",
    "curves": "curves",
    "population": "population",
    "operators": "better than the parent, by its share of the target",
    "improvements": "last improvements",
    "training": "training",
    "errors": "errors",
}


@dataclass(frozen=True)
class Arranged:
    """The screen in parts, from the top. Empty parts take no room; the scrolling ones take the rest.

    head: as tall as it is; all of the width
    left: cells of the left column, which is the only one if `side` is empty
    curves, titles: at the top of the left column, titles being tabs or the table's head
    table: below them, scrolling by rows; None if something else is shown
    panel: in its place, scrolling
    side: the right column, scrolling
    footer: the keys, one line
    parts: the panels that tab goes through; focus: what the arrow keys move: table, panel or side
    """

    head: Lines
    left: int
    curves: Lines
    titles: Lines
    table: ProblemTable | None
    panel: Lines
    side: Lines
    footer: Line
    parts: tuple[str, ...] = ()
    focus: str = "table"

    def text(self, height: int) -> str:
        """Without styles, as if nothing was scrolled: for looking at, and for tests."""
        rows: Lines = []
        if self.table is not None:
            rows = [self.table.row(place) for place in range(min(height, len(self.table.rows)))]
        first, second = [*self.curves, *self.titles, *rows, *self.panel], self.side
        lines = [line.text() for line in self.head]
        for at in range(min(height - len(lines) - 1, max(len(first), len(second)))):
            left = first[at].text() if at < len(first) else ""
            right = second[at].text() if at < len(second) else ""
            lines.append(f"{left:<{self.left}}  {right}" if second else left)
        lines += [""] * (height - len(lines) - 1)
        return "\n".join(line.rstrip() for line in [*lines[: height - 1], self.footer.text()]) + "\n"


def arrange(
    snapshot: Snapshot, view: View, width: int, height: int, now: float, standings: StandingsCache | None = None
) -> Arranged:
    """The parts of a screen of `height` lines of `width` cells. standings: kept from one call to the next."""
    # the chosen problem may be gone: another comparison of that name has fewer problems
    chosen = max(0, min(view.problem, len(snapshot.problems) - 1))
    view = replace(view, problem=chosen, detail=view.detail and bool(snapshot.problems))
    footer = _footer(snapshot, view, width)
    top = head.header(snapshot, view, width, now)
    if snapshot.fault:
        top.append(Line(width).add(snapshot.fault, BAD))
    short = view.detail and height < 40
    if not short:
        top += head.arms(snapshot, width, max(2, min(len(snapshot.arms) + 1, height // 3)))
    if not short and len(snapshot.arms) > 1:
        top += head.verdict(snapshot, width, min(2 * len(snapshot.arms) - 2, max(1, (height - len(top) - 6) // 5)))
    room = height - len(top) - 1
    if view.detail:
        top += [Line(width).add("─" * width, DIM), draw_detail_head(snapshot, view, width)]
        body = draw_detail(snapshot, view, width - 1)
        return Arranged(top, width, [], [], None, body, [], footer, focus="panel")
    cache = standings or StandingsCache()
    is_wide = width >= WIDE and room >= 12
    left = max(72, min(width * 5 // 8, width - 48)) if is_wide else width
    table = ProblemTable(snapshot, cache.of(snapshot), view, left - 1, cache.curves)
    if is_wide:
        return _wide(snapshot, view, table, top, width, room, now, footer)
    return _narrow(snapshot, view, table, top, width, room, now, footer)


def _narrow(
    snapshot: Snapshot, view: View, table: ProblemTable, top: Lines, width: int, room: int, now: float, footer: Line
) -> Arranged:
    """One panel below a line of tabs; the curves stay above it unless the screen is very low."""
    curves: Lines = []
    order = panels(snapshot)
    if room >= LEAST_BOTH and view.panel != "curves":
        tall = LOW_PLOT if room < ROOMY else min(18, room * 2 // 5)
        tall = max(tall, min(18, room - len(table.rows) - 5))  # below few problems there would be nothing
        curves = [_title(snapshot, "curves", width), *_curves(snapshot, width, tall - 2)]
        curves += [Line(width) for _ in range(tall - len(curves))]
    panel = view.panel if view.panel in order else "problems"
    titles = [_tabs(snapshot, view, panel, order, width, len(table.rows))]
    if panel == "problems":
        left = room - len(curves)
        titles += table.head(3 if left >= 9 else 2 if left >= 6 else 1)
        return Arranged(top, width, curves, titles, table, [], [], footer, tuple(order))
    rows = room - len(curves) - 1 if panel == "curves" else 1_000
    body = _panel(snapshot, view, panel, width - 1, rows, now)
    return Arranged(top, width, curves, titles, None, body, [], footer, tuple(order), "panel")


def _wide(
    snapshot: Snapshot, view: View, table: ProblemTable, top: Lines, width: int, room: int, now: float, footer: Line
) -> Arranged:
    """Curves above the problems on the left, the other panels on the right."""
    left = table.width + 1
    right = width - left - 2
    spare = min(26, room - len(table.rows) - 5)  # below few problems there would be nothing
    tall = max(9, min(20, room * 2 // 5), spare) if room >= 20 else 0
    curves: Lines = []
    if tall:
        curves = [_title(snapshot, "curves", left), *_curves(snapshot, left, tall - 2)]
        curves += [Line(left) for _ in range(tall - len(curves))]
    focus = SIDE if view.panel == SIDE else "table"
    title = Line(left).add(*_focused("problems", focus)).gap().add(describe(view, snapshot, len(table.rows)), DIM).gap()
    titles = [title.add("─" * title.room, DIM), *table.head(3)]
    others = [panel for panel in panels(snapshot) if panel not in ("problems", "curves")]
    if not tall:
        others = ["curves", *others]
    # the last improvements take the remaining rows
    made = {
        panel: _panel(snapshot, view, panel, right - 1, max(7, room // 2) if panel == "curves" else 1_000, now)
        for panel in others
        if panel != "improvements"
    }
    if sum(len(body) + 2 for body in made.values()) + 6 > room and len(snapshot.problems) > 1:
        made["population"] = made["population"][: len(snapshot.arms) + 1]  # without the chosen problem's
    spare = max(4, room - sum(len(body) + 2 for body in made.values()) - 1)
    side: Lines = []
    for panel in others:
        body = made.get(panel) or _panel(snapshot, view, panel, right - 1, spare, now)
        name = _focused(_titled(snapshot, panel), focus, SIDE)
        title = Line(right - 1).add(*name).gap()
        side += [*([Line(right)] if side else []), title.add("─" * title.room, DIM), *body]
    return Arranged(top, left, curves, titles, table, [], side, footer, ("problems", SIDE), focus)


def _focused(title: str, focus: str, part: str = "table") -> tuple[str, Style]:
    """The title of a part and its style, which shows whether the arrow keys move the part."""
    return (f" {title} ", SELECTED) if focus == part else (title, STRONG)


def _panel(snapshot: Snapshot, view: View, panel: str, width: int, height: int, now: float) -> Lines:
    """Curves and improvements fill the height, the others are as long as they are."""
    match panel:
        case "curves":
            return _curves(snapshot, width, height)
        case "population":
            return side_panels.draw_population(snapshot, view, width, 1_000)
        case "operators":
            return draw_operators(snapshot, width, 1_000)
        case "training":
            return side_panels.draw_training(snapshot, view, width, 1_000)
        case "improvements":
            return side_panels.draw_improvements(snapshot, view, width, height, now)
    return side_panels.draw_errors(snapshot, view, width, 1_000)


def _curves(snapshot: Snapshot, width: int, height: int) -> Lines:
    series = tuple((number, arm.name, arm.curve) for number, arm in enumerate(snapshot.arms) if arm.curve is not None)
    if not series or height < 4:
        return [Line(width).add("no curve yet", DIM)][: max(0, height)]
    return _plotted(series, snapshot.axis_unit, snapshot.has_targets, width, min(height, 24))


@lru_cache(maxsize=4)  # curves change far less often than the parts drawn with them
def _plotted(curves: tuple[tuple[int, str, Curve], ...], unit: str, share: bool, width: int, height: int) -> Lines:
    series = tuple(curve_series(arm, name, curve) for arm, name, curve in curves)
    title = SOLVE_RATE if share else MEAN_BEST
    return draw_plot(Chart("curves", title, Axis(unit), Axis(title, share=share), series), width, height)


def _titled(snapshot: Snapshot, panel: str) -> str:
    if panel == "curves":
        return SOLVE_RATE if snapshot.has_targets else MEAN_BEST
    return TITLES[panel]


def _title(snapshot: Snapshot, panel: str, width: int) -> Line:
    line = Line(width).add(_titled(snapshot, panel), STRONG).gap()
    return line.add("─" * line.room, DIM)


def _tabs(snapshot: Snapshot, view: View, panel: str, order: Sequence[str], width: int, shown: int) -> Line:
    line = Line(width)
    names = {"operators": "operators"} | ({"improvements": "improved"} if width < 100 else {})
    for name in order:
        text = f" {names.get(name, _titled(snapshot, name))} "
        line.add(text, link(SELECTED if name == panel else DIM, f"view('show_panel', {name!r})"))
    if panel == "problems":
        line.flush(fit(describe(view, snapshot, shown), line.room - 1), DIM)
    return line


def _footer(snapshot: Snapshot, view: View, width: int) -> Line:
    """The keys that do something now; each can be clicked too."""
    keys = [("q", "stop" if view.live else "quit", "leave")]
    hold = [("p", "resume" if view.paused else "pause" if view.live else "hold", "hold")]
    if snapshot.ended and not view.paused:
        hold = []
    if view.detail:
        keys = [("esc", "back", "step_back"), ("n b", "problem", "view('step', 1)"), ("↑↓", "scroll", ""), *keys]
        keys += [("←→", "arm", "view('turn', 1)")] if len(snapshot.arms) > 1 else []
        keys += [("y", "copy", "copy"), ("?", "help", "help")]
    elif not snapshot.problems:
        keys += [*hold, ("?", "help", "help")]
    else:
        keys += [("?", "help", "help")]
        keys += [("tab", "panel", "next_panel(1)")]
        keys += [("enter", "answer", "view('open')"), ("/", "search", "search")]
        keys += [("u", "unsolved", "view('toggle', 'unsolved')")]
        keys += [("d", "differing", "view('toggle', 'differing')")] if len(snapshot.arms) > 1 else []
        keys += [("s", "set", "view('next_part')"), ("o", "order", "view('next_order')")]
        keys += [("y", "copy", "copy"), ("e", "picture", "export")]
        keys = [*keys[:2], *hold, *keys[2:]]
    keys.insert(2, ("^p", "commands", "command_palette"))
    line = Line(width)
    for key, what, action in keys:
        if len(key) + len(what) + 2 > line.room:
            break
        line.add(key, link(STRONG, action) if action else STRONG)
        line.add(f" {what}  ", link(DIM, action) if action else DIM)
    return line
