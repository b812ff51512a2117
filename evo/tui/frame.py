"""The screen as a pure function: a snapshot, what the viewer has chosen, a size and a time make the same frame always.

Small screens (80x24) show the head and one panel, tab goes through the others; taller ones keep the curves above it;
wide ones show everything in two columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment

from evo.comparison.survival import Curve
from evo.monitor.snapshot import Snapshot
from evo.tui import head, side_panels
from evo.tui.detail import draw_detail
from evo.tui.help_page import draw_help
from evo.tui.line import Line, Lines, text_of
from evo.tui.operators_panel import draw_operators
from evo.tui.palette import BAD, DIM, SELECTED, STRONG, look, spell
from evo.tui.plot import Drawn, draw_plot
from evo.tui.problem_table import draw_problem_table, visible
from evo.tui.view import View, panels

LEAST_WIDTH, LEAST_HEIGHT = 40, 8
WIDE, TALL = 116, 34
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
class Frame:
    """Lines of segments, each exactly as wide as the screen; `page` is how many problems its table shows."""

    lines: list[list[Segment]]
    page: int

    def text(self) -> str:
        """Without styles and trailing spaces."""
        return "\n".join(text_of(line).rstrip() for line in self.lines) + "\n"

    def spell(self, encoding: str | None) -> Frame:
        """The frame as a terminal of that encoding can show it."""
        lines = [[Segment(spell(text, encoding), style) for text, style, _ in line] for line in self.lines]
        return Frame(lines, self.page)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._segments()

    def _segments(self) -> Iterator[Segment]:
        for line in self.lines:
            yield from line
            yield Segment.line()


def draw_frame(snapshot: Snapshot, view: View, width: int, height: int, now: float) -> Frame:
    """The whole screen, `height` lines of `width` cells."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        lines = [Line(width).add(snapshot.name, STRONG), Line(width).add(f"{snapshot.groups:,}/{snapshot.planned:,}")]
        lines.append(Line(width).add("too small", DIM))
        return _filled(lines, width, height, 1)
    # what was chosen may be gone: another comparison of that name has fewer problems
    chosen = max(0, min(view.problem, len(snapshot.problems) - 1))
    view = replace(view, problem=chosen, detail=view.detail and bool(snapshot.problems))
    if view.help:
        return _filled([*draw_help(view, width, height - 1)], width, height, 1, _footer(snapshot, view, width))
    top = head.header(snapshot, view, width, now)
    if snapshot.fault:
        top.append(Line(width).add(snapshot.fault, BAD))
    if view.detail and height < 40:
        body, page = _detail(snapshot, view, width, height - len(top) - 1)
        return _filled(top + body, width, height, page, _footer(snapshot, view, width))
    top += head.arms(snapshot, width, max(2, min(len(snapshot.arms) + 1, height // 3)))
    others = len(snapshot.arms) - 1
    if others:
        top += head.verdict(snapshot, width, min(others, max(1, (height - len(top)) // 5)))
    room = height - len(top) - 1
    if view.detail:
        body, page = _detail(snapshot, view, width, room)
    elif width >= WIDE and room >= 12:
        body, page = _wide(snapshot, view, width, room, now)
    else:
        body, page = _narrow(snapshot, view, width, room, now)
    return _filled(top + body, width, height, page, _footer(snapshot, view, width))


def _filled(lines: Lines, width: int, height: int, page: int, footer: Line | None = None) -> Frame:
    """Cut or filled up to the height, the footer last."""
    room = height - (footer is not None)
    lines = lines[:room] + [Line(width) for _ in range(room - len(lines))]
    return Frame([line.done() for line in (lines if footer is None else [*lines, footer])], page)


def _detail(snapshot: Snapshot, view: View, width: int, room: int) -> tuple[Lines, int]:
    """The chosen answer below a rule; a page is what scrolls by at once."""
    return [Line(width).add("─" * width, DIM), *draw_detail(snapshot, view, width, room - 1)], max(1, room - 4)


def _narrow(snapshot: Snapshot, view: View, width: int, room: int, now: float) -> tuple[Lines, int]:
    """One panel below a line of tabs; on tall screens the curves stay above it."""
    body: Lines = []
    order = panels(snapshot)
    if room >= TALL - 8 and view.panel != "curves":
        tall = min(18, room * 2 // 5)
        body += [_title(snapshot, view, "curves", width), *_panel(snapshot, view, "curves", width, tall - 1, now)]
        body += [Line(width) for _ in range(tall - len(body))]
    panel = view.panel if view.panel in order else "problems"
    height = room - len(body) - 1
    body.append(_tabs(snapshot, view, panel, order, width, height - 1))
    return body + _panel(snapshot, view, panel, width, height, now), max(1, height - 1)


def _wide(snapshot: Snapshot, view: View, width: int, room: int, now: float) -> tuple[Lines, int]:
    """Curves above the problems on the left, the other panels on the right."""
    left = max(72, min(width * 5 // 8, width - 48))
    right = width - left - 2
    spare = min(26, room - len(snapshot.problems) - 3)  # below few problems there would be nothing
    tall = max(9, min(20, room * 2 // 5), spare) if room >= 20 else 0
    first: Lines = []
    if tall:
        first += [_title(snapshot, view, "curves", left), *_panel(snapshot, view, "curves", left, tall - 1, now)]
        first += [Line(left) for _ in range(tall - len(first))]
    page = max(1, room - len(first) - 2)
    first.append(_problems_title(snapshot, view, left, page))
    first += _panel(snapshot, view, "problems", left, room - len(first), now)
    second: Lines = []
    others = [panel for panel in panels(snapshot) if panel not in ("problems", "curves")]
    if not tall:
        others = ["curves", *others]
    # the last improvements take what the others leave
    made = {
        panel: _panel(snapshot, view, panel, right, max(7, room // 2) if panel == "curves" else room, now)
        for panel in others
        if panel != "improvements"
    }
    spare = max(4, room - sum(len(panel) + 2 for panel in made.values()) - 1)
    for panel in others:
        rows = room - len(second) - 1
        if rows < 2:
            break
        body = made.get(panel) or _panel(snapshot, view, panel, right, min(spare, rows), now)
        second += [_title(snapshot, view, panel, right), *body[:rows]]
        if len(second) < room:
            second.append(Line(right))
    lines: Lines = []
    for at in range(room):
        line = Line(width).extend((first[at] if at < len(first) else Line(left)).done()).gap(2)
        lines.append(line.extend((second[at] if at < len(second) else Line(right)).done()))
    return lines, page


def _panel(snapshot: Snapshot, view: View, panel: str, width: int, height: int, now: float) -> Lines:
    """At most `height` lines."""
    if height < 1:
        return []
    match panel:
        case "problems":
            return draw_problem_table(snapshot, view, width, height)
        case "curves":
            return _curves(snapshot, width, height)
        case "population":
            return side_panels.draw_population(snapshot, view, width, height)
        case "operators":
            return draw_operators(snapshot, width, height)
        case "training":
            return side_panels.draw_training(snapshot, view, width, height)
        case "improvements":
            return side_panels.draw_improvements(snapshot, view, width, height, now)
    return side_panels.draw_errors(snapshot, view, width, height)


def _curves(snapshot: Snapshot, width: int, height: int) -> Lines:
    drawn = tuple((number, arm.name, arm.curve) for number, arm in enumerate(snapshot.arms) if arm.curve is not None)
    if not drawn or height < 4:
        return [Line(width).add("no curve yet", DIM)][:height]
    return _plotted(drawn, snapshot.axis, snapshot.axis_unit, width, min(height, 24), snapshot.has_targets)


@lru_cache(maxsize=4)  # curves change far less often than the figures beside them
def _plotted(
    curves: tuple[tuple[int, str, Curve], ...], axis: tuple[int, ...], unit: str, width: int, height: int, share: bool
) -> Lines:
    drawn = [Drawn(name, look(number), curve.mean, curve.low, curve.high) for number, name, curve in curves]
    return draw_plot(drawn, axis, unit, width, height, share=share)


def _titled(snapshot: Snapshot, panel: str) -> str:
    if panel == "curves":
        return "solve rate" if snapshot.has_targets else "mean best fitness"
    return TITLES[panel]


def _title(snapshot: Snapshot, view: View, panel: str, width: int) -> Line:
    line = Line(width).add(_titled(snapshot, panel), STRONG).gap()
    return line.add("─" * line.room, DIM)


def _problems_title(snapshot: Snapshot, view: View, width: int, page: int) -> Line:
    line = Line(width).add("problems", STRONG).gap().add(_span(snapshot, view, page), DIM).gap()
    return line.add("─" * line.room, DIM)


def _span(snapshot: Snapshot, view: View, page: int) -> str:
    shown = visible(view.problem, len(snapshot.problems), page)
    if len(shown) == len(snapshot.problems):
        return ""
    return f"{shown.start + 1}–{shown.stop} of {len(snapshot.problems):,}"


def _tabs(snapshot: Snapshot, view: View, panel: str, order: Sequence[str], width: int, page: int) -> Line:
    line = Line(width)
    names = {"operators": "operators"} | ({"improvements": "improved"} if width < 100 else {})
    for name in order:
        text = f" {names.get(name, _titled(snapshot, name))} "
        line.add(text, SELECTED if name == panel else DIM)
    if panel == "problems":
        line.flush(_span(snapshot, view, page), DIM)
    return line


def _footer(snapshot: Snapshot, view: View, width: int) -> Line:
    """The keys that do something now."""
    keys = [("q", "stop" if view.live else "quit")]
    if view.help:
        keys = [("any key", "back"), *keys]
    elif view.detail:
        keys = [("esc", "back"), ("←→", "arm"), ("n b", "problem"), ("↑↓", "scroll"), *keys]
        if len(snapshot.arms) == 1:
            keys = [key for key in keys if key[1] != "arm"]
    else:
        if not (width >= WIDE):
            keys.append(("tab", "panel"))
        keys += [("↑↓", "problem"), ("enter", "best answer")] if snapshot.problems else []
        if not snapshot.ended or view.paused:
            verb = "go on" if view.paused else "pause" if view.live else "hold"
            keys.append(("p", verb))
        keys.append(("?", "help"))
    line = Line(width)
    for key, what in keys:
        line.add(key, STRONG).add(f" {what}   ", DIM)
    return line
