"""Reads any text of a policy in the maze languages (vpo.embedded.language)."""

from __future__ import annotations

from dataclasses import dataclass

from problems.maze.board import MOVES
from vpo.embedded.words import COPY, FAILED, MOST_NEW, PARENT, REACHED, REST, grid_of, size_of


@dataclass(frozen=True)
class Shown:
    """A parent, as the source of copies.

    moves: its move list as far as it was walked; cells: (len(moves) + 1,) the cell after each, the start first
    editable: reaches E and has its steps counted, so an answer must be an edit of it
    """

    moves: str
    cells: tuple[int, ...]
    editable: bool

    @classmethod
    def of(cls, prompt: str) -> Shown | None:
        """The parent that a prompt shows, None if it shows none."""
        words, grid = prompt.split(), grid_of(size_of(prompt))
        if PARENT not in words:
            return None
        first = words.index(PARENT) + 1
        moves, cells, counted, reached = "", [grid.numbers[words[first][1:]]], False, False
        for word in words[first + 1 :]:
            if word in (REACHED, FAILED):
                reached = word == REACHED
                break
            if word.startswith(COPY):
                counted = True
                continue
            bump = word[0] == "^"
            target = cells[-1] if bump else grid.numbers[word]
            moves += word[1:] if bump else grid.moves[cells[-1], target]
            cells.append(target)
        return cls(moves, tuple(cells), counted and reached)

    def copied(self, cell: int, word: str) -> tuple[str, int]:
        """The moves that a copy adds after the first visit of `cell`, "" for none, and the cell where they end."""
        number = word.removeprefix(COPY)
        end = len(self.moves) if word == REST else int(number) if number.isdecimal() else 0
        if cell not in self.cells or end > len(self.moves):
            return "", cell
        return self.moves[self.cells.index(cell) : end], self.cells[end]


def decode_chain(text: str, prompt: str = "") -> list[str]:
    """The move lists of a chain's answers, in order, empty ones left out.

    An answer ends where the next one opens, or at the first token that no move explains (a cell not adjacent to the
    last one, a copy that the parent does not allow, a new step beyond MOST_NEW, a token outside routes). The last cell
    of a copy may be named after it. Text before the first answer is skipped. prompt: of the chain, for its board's size
    and parent; without it, a 9x9 board and no parent
    """
    parent, grid = Shown.of(prompt), grid_of(size_of(prompt))
    answers: list[str] = []
    moves, at = "", -1  # at: the cell that the route has reached, -1 outside an answer
    copied, new = False, 0
    most = MOST_NEW if parent is not None and parent.editable else len(text)
    for word in text.split():
        if word.startswith(">"):
            answers.append(moves)
            moves, at, new = "", grid.numbers.get(word[1:], -1), 0
        elif at >= 0:
            if copied and word == grid.names[at]:
                copied = False
                continue
            copied = False
            if word == REST or word.startswith(COPY):
                move, target = parent.copied(at, word) if parent is not None else ("", at)
                copied = True
            elif new == most:
                move, target = "", at
            elif word[0] == "^" and word[1:] in MOVES:
                new, move, target = new + 1, word[1:], at
            else:
                new, target = new + 1, grid.numbers.get(word, -1)
                move = grid.moves.get((at, target), "")
            moves, at = (moves + move, target) if move else (moves, -1)
    answers.append(moves)
    return [answer for answer in answers if answer]
