"""The screen as a pure function: a board, what the viewer has chosen, a size and a time make the same frame always.

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
from evo.monitor.snapshot import Board
from evo.tui import head, side_panels
from evo.tui.detail import detail
from evo.tui.help_page import help_page
from evo.tui.line import Line, Lines, text_of
from evo.tui.palette import BAD, DIM, SELECTED, STRONG, look, spelled
from evo.tui.plot import Drawn, plot
from evo.tui.problem_table import problem_table, visible
from evo.tui.view import View, panels

LEAST_WIDTH, LEAST_HEIGHT = 40, 8
WIDE, TALL = 116, 34
TITLES = {
    "problems": "problems",
    "curves": "curves",
    "population": "population",
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

    def spelled(self, encoding: str | None) -> Frame:
        """The frame as a terminal of that encoding can show it."""
        lines = [[Segment(spelled(text, encoding), style) for text, style, _ in line] for line in self.lines]
        return Frame(lines, self.page)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._segments()

    def _segments(self) -> Iterator[Segment]:
        for line in self.lines:
            yield from line
            yield Segment.line()


def frame(board: Board, view: View, width: int, height: int, now: float) -> Frame:
    """The whole screen, `height` lines of `width` cells."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        lines = [Line(width).add(board.name, STRONG), Line(width).add(f"{board.groups:,}/{board.planned:,}")]
        lines.append(Line(width).add("too small", DIM))
        return _filled(lines, width, height, 1)
    # what was chosen may be gone: another comparison of that name has fewer problems
    chosen = max(0, min(view.problem, len(board.problems) - 1))
    view = replace(view, problem=chosen, detail=view.detail and bool(board.problems))
    if view.help:
        return _filled([*help_page(view, width, height - 1)], width, height, 1, _footer(board, view, width))
    top = head.header(board, view, width, now)
    if board.fault:
        top.append(Line(width).add(board.fault, BAD))
    if view.detail and height < 40:
        body, page = _detail(board, view, width, height - len(top) - 1)
        return _filled(top + body, width, height, page, _footer(board, view, width))
    top += head.arms(board, width, max(2, min(len(board.arms) + 1, height // 3)))
    others = len(board.arms) - 1
    if others:
        top += head.verdict(board, width, min(others, max(1, (height - len(top)) // 5)))
    room = height - len(top) - 1
    if view.detail:
        body, page = _detail(board, view, width, room)
    elif width >= WIDE and room >= 12:
        body, page = _wide(board, view, width, room, now)
    else:
        body, page = _narrow(board, view, width, room, now)
    return _filled(top + body, width, height, page, _footer(board, view, width))


def _filled(lines: Lines, width: int, height: int, page: int, footer: Line | None = None) -> Frame:
    """Cut or filled up to the height, the footer last."""
    room = height - (footer is not None)
    lines = lines[:room] + [Line(width) for _ in range(room - len(lines))]
    return Frame([line.done() for line in (lines if footer is None else [*lines, footer])], page)


def _detail(board: Board, view: View, width: int, room: int) -> tuple[Lines, int]:
    """The chosen answer below a rule; a page is what scrolls by at once."""
    return [Line(width).add("─" * width, DIM), *detail(board, view, width, room - 1)], max(1, room - 4)


def _narrow(board: Board, view: View, width: int, room: int, now: float) -> tuple[Lines, int]:
    """One panel below a line of tabs; on tall screens the curves stay above it."""
    body: Lines = []
    order = panels(board)
    if room >= TALL - 8 and view.panel != "curves":
        tall = min(18, room * 2 // 5)
        body += [_title(board, view, "curves", width), *_panel(board, view, "curves", width, tall - 1, now)]
        body += [Line(width) for _ in range(tall - len(body))]
    panel = view.panel if view.panel in order else "problems"
    height = room - len(body) - 1
    body.append(_tabs(board, view, panel, order, width, height - 1))
    return body + _panel(board, view, panel, width, height, now), max(1, height - 1)


def _wide(board: Board, view: View, width: int, room: int, now: float) -> tuple[Lines, int]:
    """Curves above the problems on the left, the other panels on the right."""
    left = max(72, min(width * 5 // 8, width - 48))
    right = width - left - 2
    spare = min(26, room - len(board.problems) - 3)  # below few problems there would be nothing
    tall = max(9, min(20, room * 2 // 5), spare) if room >= 20 else 0
    first: Lines = []
    if tall:
        first += [_title(board, view, "curves", left), *_panel(board, view, "curves", left, tall - 1, now)]
        first += [Line(left) for _ in range(tall - len(first))]
    page = max(1, room - len(first) - 2)
    first.append(_problems_title(board, view, left, page))
    first += _panel(board, view, "problems", left, room - len(first), now)
    second: Lines = []
    others = [panel for panel in panels(board) if panel not in ("problems", "curves")]
    if not tall:
        others = ["curves", *others]
    # the last improvements take what the others leave
    made = {
        panel: _panel(board, view, panel, right, max(7, room // 2) if panel == "curves" else room, now)
        for panel in others
        if panel != "improvements"
    }
    spare = max(4, room - sum(len(panel) + 2 for panel in made.values()) - 1)
    for panel in others:
        rows = room - len(second) - 1
        if rows < 2:
            break
        body = made.get(panel) or _panel(board, view, panel, right, min(spare, rows), now)
        second += [_title(board, view, panel, right), *body[:rows]]
        if len(second) < room:
            second.append(Line(right))
    lines: Lines = []
    for at in range(room):
        line = Line(width).extend((first[at] if at < len(first) else Line(left)).done()).gap(2)
        lines.append(line.extend((second[at] if at < len(second) else Line(right)).done()))
    return lines, page


def _panel(board: Board, view: View, panel: str, width: int, height: int, now: float) -> Lines:
    """At most `height` lines."""
    if height < 1:
        return []
    match panel:
        case "problems":
            return problem_table(board, view, width, height)
        case "curves":
            return _curves(board, width, height)
        case "population":
            return side_panels.population(board, view, width, height)
        case "training":
            return side_panels.training(board, view, width, height)
        case "improvements":
            return side_panels.improvements(board, view, width, height, now)
    return side_panels.errors(board, view, width, height)


def _curves(board: Board, width: int, height: int) -> Lines:
    drawn = tuple((number, arm.name, arm.curve) for number, arm in enumerate(board.arms) if arm.curve is not None)
    if not drawn or height < 4:
        return [Line(width).add("no curve yet", DIM)][:height]
    return _plotted(drawn, board.axis, board.axis_unit, width, min(height, 24), board.has_targets)


@lru_cache(maxsize=4)  # curves change far less often than the figures beside them
def _plotted(
    curves: tuple[tuple[int, str, Curve], ...], axis: tuple[int, ...], unit: str, width: int, height: int, share: bool
) -> Lines:
    drawn = [Drawn(name, look(number), curve.mean, curve.low, curve.high) for number, name, curve in curves]
    return plot(drawn, axis, unit, width, height, share=share)


def _titled(board: Board, panel: str) -> str:
    if panel == "curves":
        return "solve rate" if board.has_targets else "mean best fitness"
    return TITLES[panel]


def _title(board: Board, view: View, panel: str, width: int) -> Line:
    line = Line(width).add(_titled(board, panel), STRONG).gap()
    return line.add("─" * line.room, DIM)


def _problems_title(board: Board, view: View, width: int, page: int) -> Line:
    line = Line(width).add("problems", STRONG).gap().add(_span(board, view, page), DIM).gap()
    return line.add("─" * line.room, DIM)


def _span(board: Board, view: View, page: int) -> str:
    shown = visible(view.problem, len(board.problems), page)
    if len(shown) == len(board.problems):
        return ""
    return f"{shown.start + 1}–{shown.stop} of {len(board.problems):,}"


def _tabs(board: Board, view: View, panel: str, order: Sequence[str], width: int, page: int) -> Line:
    line = Line(width)
    names = {"improvements": "improved"} if width < 100 else {}
    for name in order:
        text = f" {names.get(name, _titled(board, name))} "
        line.add(text, SELECTED if name == panel else DIM)
    if panel == "problems":
        line.flush(_span(board, view, page), DIM)
    return line


def _footer(board: Board, view: View, width: int) -> Line:
    """The keys that do something now."""
    keys = [("q", "stop" if view.live else "quit")]
    if view.help:
        keys = [("any key", "back"), *keys]
    elif view.detail:
        keys = [("esc", "back"), ("←→", "arm"), ("n b", "problem"), ("↑↓", "scroll"), *keys]
        if len(board.arms) == 1:
            keys = [key for key in keys if key[1] != "arm"]
    else:
        if not (width >= WIDE):
            keys.append(("tab", "panel"))
        keys += [("↑↓", "problem"), ("enter", "best answer")] if board.problems else []
        if not board.ended or view.paused:
            verb = "go on" if view.paused else "pause" if view.live else "hold"
            keys.append(("p", verb))
        keys.append(("?", "help"))
    line = Line(width)
    for key, what in keys:
        line.add(key, STRONG).add(f" {what}   ", DIM)
    return line
