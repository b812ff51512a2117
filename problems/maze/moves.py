"""Reading a move list as people and models write it: "RRD", "R, R, D", "right right down", arrows."""

from __future__ import annotations

import re

from problems.maze.board import MOVES

MOST_CHARACTERS = 20_000
"""Longer answers are refused unread; a list of 2,000 spelled-out moves is shorter."""

_NAMES = {"UP": "U", "DOWN": "D", "LEFT": "L", "RIGHT": "R"}
_ARROWS = str.maketrans(
    {
        arrow: f" {move} "
        for arrows, move in (("↑⬆⇧", "U"), ("↓⬇⇩", "D"), ("←⬅⇦", "L"), ("→➡⇨", "R"))
        for arrow in arrows
    }
    | {"\ufe0f": " "}  # the mark that turns an arrow into an emoji
)
_PLAIN = re.compile(f"[{MOVES}]+")
_WORD = re.compile(r"[^\s,;|\[\](){}'\"`<>.\-]+")
_COUNTER = re.compile(r"(?<!\d)\d++[.):]")  # a long number is gone through once, not again from each of its digits


class UnreadableRoute(ValueError):
    """The text is not a move list; the message names the wrong word."""


def parse_moves(text: str) -> str:
    """The moves in `text` as letters of MOVES.

    Words (up, Down), letters in any case, runs of letters and arrows may be mixed; white space, commas, brackets,
    quotes, dashes and counters ("1.") separate. Anything else raises UnreadableRoute, and so does a text without a
    move: guessing moves out of prose would score a route that no one wrote.
    """
    if _PLAIN.fullmatch(text):
        return text
    if len(text) > MOST_CHARACTERS:
        raise UnreadableRoute(f"the route is {len(text)} characters long; at most {MOST_CHARACTERS} are read")
    moves = []
    for word in _WORD.findall(_COUNTER.sub(" ", text.translate(_ARROWS)).upper()):
        letters = _NAMES.get(word, word)
        if not _PLAIN.fullmatch(letters):
            raise UnreadableRoute(f"{word[:30]!r} is not a move; write moves as {', '.join(MOVES)}")
        moves.append(letters)
    if not moves:
        raise UnreadableRoute(f"the route holds no moves; write moves as {', '.join(MOVES)}")
    return "".join(moves)
