"""Answers in numbered tags: `<route_1>...</route_1>`, `<answer_1>...</answer_1>`, as small models write them in
practice."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FAMILIES = {
    "route": ("route", "answer", "path"),
    "text": ("answer", "response", "solution"),
    "python": ("answer", "code", "program", "solution", "response"),
}
_PLACEHOLDERS = {"", "...", "…"}
_FENCE = re.compile(r"(`{3,}+|~{3,}+)[^\n`]*+\n")

_WORDS = {"UP": "U", "DOWN": "D", "LEFT": "L", "RIGHT": "R", "↑": "U", "↓": "D", "←": "L", "→": "R"}
_MOVE = re.compile(r"[UDLR]+")
_BETWEEN_MOVES = re.compile(r"[\s,;.|/\"'`()\[\]-]+")


@dataclass(frozen=True)
class Tagged:
    """The contents of one tag. closed: it ended with a closing tag or at the next opening one, not with the text."""

    number: str
    content: str
    closed: bool


def read_tags(text: str, answer_format: str) -> list[Tagged]:
    """The contents of the format's tags in order of appearance; numbers are reported, not relied on.

    The format's tag name is tried first, its usual substitutes only if it is absent. An opening
    tag ends an unclosed one before it, any closing tag of the family ends the open one. At the end of the text a
    tag may lack its last character.
    """
    for name in _FAMILIES[answer_format]:
        tagged = _scan(text, name)
        if tagged:
            return tagged
    return []


def _scan(text: str, name: str) -> list[Tagged]:
    tagged: list[Tagged] = []
    opened: re.Match[str] | None = None
    for tag in re.finditer(rf"<\s*+(/?+)\s*+{name}[\s_#-]*+(\d*+)\s*+(?:>|\Z)", text, re.IGNORECASE):
        if opened:
            tagged.append(Tagged(opened[2], _unwrap(text[opened.end() : tag.start()]), True))
        opened = None if tag[1] else tag
    if opened:
        tagged.append(Tagged(opened[2], _unwrap(text[opened.end() :]), False))
    # "write <route_1>...</route_1>" repeated from the prompt is not an answer
    return [piece for piece in tagged if piece.content not in _PLACEHOLDERS]


def _unwrap(content: str) -> str:
    """Content without blank edges and without a code fence or quotes around the whole of it."""
    content = content.strip("\r\n").strip() if "\n" not in content.strip() else content.strip("\n").rstrip()
    bare = content.strip()
    fence = _FENCE.match(bare)
    if not fence or len(bare) < fence.end() + len(fence[1]) or not bare.endswith(fence[1]):
        return content
    return bare[fence.end() : -len(fence[1])].rstrip(" \t").strip("\n")


def moves(content: str) -> str | None:
    """A route as its letters, "RRDL", or None if it holds anything but moves.

    Reads letters in any case, with or without separators, the words up, down, left, right, and arrows.
    """
    letters = []
    for arrow in "↑↓←→":
        content = content.replace(arrow, f" {arrow} ")
    for token in _BETWEEN_MOVES.split(content.upper()):
        token = _WORDS.get(token, token)
        if token and not _MOVE.fullmatch(token):
            return None
        letters.append(token)
    return "".join(letters) or None
