"""Pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def plain(text: str) -> str:
    """A text that is no Markdown, as one that shows it."""
    for mark in "\\[]*`":
        text = text.replace(mark, "\\" + mark)
    return text.replace("<", "&lt;")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown cells; bars and line breaks within a cell are escaped."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)
