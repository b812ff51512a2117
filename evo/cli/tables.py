"""Tables of names that people and programs read whole: nothing is cut, and a terminal's edge breaks no word."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

from rich.cells import cell_len
from rich.console import Console

from evo.tui.line import clean

GAP, INDENT, LEAST = 2, 4, 24
"""Columns between two cells, before a text below its row, and the fewest for a text that wraps in its row."""


def print_table(
    console: Console, titles: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> None:
    """The table, as wide as the terminal if there is one. right: titles of right-aligned columns"""
    width = Console().width if console.is_terminal else None
    for number, line in enumerate(draw_table(titles, rows, right, width)):
        console.print(line, style="bold" if number == 0 else "", soft_wrap=True, markup=False, highlight=False)


def draw_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), width: int | None = None
) -> list[str]:
    """Lines of the table, the titles first. What is wider than `width` has its last column wrapped by words, in
    its row if the others leave it room, else below. width: in terminal columns; None: no limit"""
    titles, *rows = ([clean(" ".join(text.splitlines())) for text in row] for row in (titles, *rows))
    sizes = [max(cell_len(text) for text in column) for column in zip(titles, *rows, strict=True)]
    beside = sum(sizes[:-1]) + GAP * (len(sizes) - 1)
    if width is None or beside + sizes[-1] <= width:
        return [_line(row, sizes, titles, right) for row in (titles, *rows)]
    if width - beside >= LEAST:
        return [line for row in (titles, *rows) for line in _beside(row, sizes, titles, right, width - beside)]
    return [line for row in (titles, *rows) for line in _below(row, sizes, titles, right, width)]


def _line(row: Sequence[str], sizes: Sequence[int], titles: Sequence[str], right: Collection[str]) -> str:
    cells = []
    for text, size, title in zip(row, sizes, titles, strict=False):
        room = " " * (size - cell_len(text))
        cells.append(room + text if title in right else text + room)
    return (" " * GAP).join(cells).rstrip()


def _beside(
    row: Sequence[str], sizes: Sequence[int], titles: Sequence[str], right: Collection[str], room: int
) -> list[str]:
    first, *others = textwrap.wrap(row[-1], room) or [""]
    edge = " " * (sum(sizes[:-1]) + GAP * (len(sizes) - 1))
    return [_line((*row[:-1], first), sizes, titles, right), *(edge + text for text in others)]


def _below(
    row: Sequence[str], sizes: Sequence[int], titles: Sequence[str], right: Collection[str], width: int
) -> list[str]:
    edge = " " * INDENT
    wrapped = textwrap.wrap(row[-1], width, initial_indent=edge, subsequent_indent=edge)
    return [_line(row[:-1], sizes, titles, right), *wrapped]
