"""Tables for people and programs: no cell is cut, and no word is broken at a terminal's edge."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

from rich.cells import cell_len
from rich.console import Console

from evo.tui.line import clean

GAP, INDENT, LEAST = 2, 4, 24
"""Terminal columns: between two cells, before a text below its row, and at least for a text that wraps in its row."""


def print_table(
    console: Console, titles: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> None:
    """Print the table, as wide as the terminal if there is one. right: titles of right-aligned columns"""
    width = Console().width if console.is_terminal else None
    for number, line in enumerate(draw_table(titles, rows, right, width)):
        console.print(line, style="bold" if number == 0 else "", soft_wrap=True, markup=False, highlight=False)


def draw_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), width: int | None = None
) -> list[str]:
    """Lines of the table, the titles first. If a row is wider than `width`, its last column is wrapped by words: in the
    row if the other columns leave enough space, else below it. width: in terminal columns; None: no limit"""
    titles, *rows = ([clean(" ".join(text.splitlines())) for text in row] for row in (titles, *rows))
    sizes = [max(cell_len(text) for text in column) for column in zip(titles, *rows, strict=True)]
    before_last = sum(sizes[:-1]) + GAP * (len(sizes) - 1)
    if width is None or before_last + sizes[-1] <= width:
        return [_format_row(row, sizes, titles, right) for row in (titles, *rows)]
    if width - before_last >= LEAST:
        return [
            line for row in (titles, *rows) for line in _wrap_in_row(row, sizes, titles, right, width - before_last)
        ]
    return [line for row in (titles, *rows) for line in _wrap_below(row, sizes, titles, right, width)]


def _format_row(row: Sequence[str], sizes: Sequence[int], titles: Sequence[str], right: Collection[str]) -> str:
    cells = []
    for text, size, title in zip(row, sizes, titles, strict=False):
        padding = " " * (size - cell_len(text))
        cells.append(padding + text if title in right else text + padding)
    return (" " * GAP).join(cells).rstrip()


def _wrap_in_row(
    row: Sequence[str], sizes: Sequence[int], titles: Sequence[str], right: Collection[str], space: int
) -> list[str]:
    first, *others = textwrap.wrap(row[-1], space) or [""]
    edge = " " * (sum(sizes[:-1]) + GAP * (len(sizes) - 1))
    return [_format_row((*row[:-1], first), sizes, titles, right), *(edge + text for text in others)]


def _wrap_below(
    row: Sequence[str], sizes: Sequence[int], titles: Sequence[str], right: Collection[str], width: int
) -> list[str]:
    edge = " " * INDENT
    wrapped = textwrap.wrap(row[-1], width, initial_indent=edge, subsequent_indent=edge)
    return [_format_row(row[:-1], sizes, titles, right), *wrapped]
