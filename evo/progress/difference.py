"""The difference of two answers, bounded in lines and in characters whatever a model wrote."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

COMPARED_LINES, COMPARED_CHARS = 400, 40_000
"""The part of a text that is compared: matching takes quadratic time."""
SHOWN_LINES, SHOWN_CHARS, LINE_CHARS = 160, 6_000, 400
CONTEXT = 2


@dataclass(frozen=True)
class Piece:
    """A part of a difference. kind: same, new, old, or gap for omitted text."""

    kind: str
    text: str


def unit_of(answer_format: str, old: str, new: str) -> str:
    """The unit in which two answers are compared: lines for programs and texts of several lines, characters for single
    words, as routes are, words for others."""
    if answer_format == "python" or "\n" in old.strip() + new.strip():
        return "lines"
    return "words" if len(old.split()) > 1 or len(new.split()) > 1 else "characters"


def diff_answers(old: str, new: str, unit: str, room: int = SHOWN_CHARS) -> list[Piece]:
    """The changes from old to new in characters, words, or lines with a few equal lines around each change; about
    `room` characters at most."""
    together = unit != "lines"
    a, b = (_units(text, unit) for text in (old, new))
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    pieces: list[Piece] = []
    for number, group in enumerate(matcher.get_grouped_opcodes(len(a) + len(b) + 1 if together else CONTEXT)):
        if number:
            pieces.append(Piece("gap", "…"))
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                pieces += [Piece("same", part) for part in b[j:j_end]]
            else:
                pieces += [Piece("old", part) for part in a[i:i_end]]
                pieces += [Piece("new", part) for part in b[j:j_end]]
    if together:
        pieces = _join(pieces, " " if unit == "words" else "")
    shown: list[Piece] = []
    for number, piece in enumerate(pieces):
        if number == SHOWN_LINES or room <= 0:
            return [*shown, Piece("gap", f"… and {len(pieces) - number} more")]
        shown.append(piece if len(piece.text) <= room else Piece(piece.kind, piece.text[:room] + "…"))
        room -= len(piece.text)
    return shown


def _units(text: str, unit: str) -> list[str]:
    if unit == "characters":
        return list(text.strip()[: 2 * COMPARED_LINES])
    units = text[:COMPARED_CHARS].split() if unit == "words" else text[:COMPARED_CHARS].splitlines()
    return [part if len(part) <= LINE_CHARS else part[: LINE_CHARS - 1] + "…" for part in units[:COMPARED_LINES]]


def _join(pieces: Sequence[Piece], by: str) -> list[Piece]:
    """Merge adjacent pieces of one kind."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].kind == piece.kind:
            joined[-1] = Piece(piece.kind, joined[-1].text + by + piece.text)
        else:
            joined.append(piece)
    return joined
