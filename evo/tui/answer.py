"""Answers as pictures: a maze with the way through it, a program with its syntax coloured."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax

from evo.monitor.snapshot import Walk
from evo.tui.line import PLAIN, Line, Lines, clean
from evo.tui.palette import BAD, DIM, GOOD, STRONG, WARN

FLOOR, WALL, LAVA, ENDS = ".", "#", "L", "SE"
MOST_COLOURED = 2_000
"""Lines of a program; a longer one is shown plain, since colouring takes a millisecond for some ten lines."""
WALKED = (
    "→ the way out of a cell, when it was left last; letters in bold: collected,",
    "dim: missed; a reversed L: lava stepped on",
)


def draw_walk(walk: Walk, width: int) -> Lines:
    """The board, two cells wide a tile; below it what the signs mean."""
    size = len(walk.rows)
    left = {
        cell: arrow
        for cell, to in zip(walk.cells, walk.cells[1:], strict=False)
        if (arrow := {1: "→", -1: "←", size: "↓", -size: "↑"}.get(to - cell, ""))
    }
    walked = set(walk.cells)
    lines: Lines = []
    for number, row in enumerate(walk.rows):
        line = Line(width).gap(2)
        for column, tile in enumerate(row):
            cell = number * size + column
            sign, style = _tile(tile, cell in walked, left.get(cell, "·"))
            line.add(sign, style)
            joined = cell in walked and cell + 1 in walked and (left.get(cell) == "→" or left.get(cell + 1) == "←")
            line.add("█" if tile == WALL and row[column + 1 : column + 2] == WALL else "─" if joined else " ", DIM)
        lines.append(line)
    return [*lines, *(Line(width).gap(2).add(text, DIM) for text in WALKED)]


def _tile(tile: str, walked: bool, arrow: str) -> tuple[str, Style]:
    if tile == WALL:
        return "█", DIM
    if tile == FLOOR:
        return (arrow, STRONG) if walked else (".", DIM)
    if tile in ENDS:
        return tile, STRONG
    if tile == LAVA:
        return tile, BAD + Style(reverse=True) if walked else BAD
    return tile, GOOD if walked else WARN + Style(bold=False, dim=True)


def draw_program(text: str, width: int) -> Lines:
    """Python with its syntax coloured in the terminal's own colours, cut at the width; every line of it is clean."""
    source = "\n".join(clean(line) for line in text.splitlines())
    room = max(10, width - 2)
    if source.count("\n") > MOST_COLOURED:
        return [Line(width).gap(2).add(line) for line in source.split("\n")]
    console = Console(file=StringIO(), width=room, color_system="truecolor", force_terminal=True)
    coloured = Syntax(source, "python", theme="ansi_dark", background_color="default").highlight(source)
    lines: Lines = []
    for row in coloured.split("\n", allow_blank=False):
        for piece in row.divide(range(room, len(row), room)):
            segments = [Segment(part.text, part.style or PLAIN) for part in piece.render(console) if part.text != "\n"]
            lines.append(Line(width).gap(2).extend(segments))
    return lines
