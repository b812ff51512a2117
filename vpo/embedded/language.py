"""The compact maze languages that the embedded policies read and write: one token a fact.

"maze-compact":

    S00 E88 t27 #10 #12 ... D07 D15 ... L43 ... G60 ...      the board: start, end, budget, walls and items by cell
    par >00 01 02 12 ... 88 ok g0 d2 l1                      a parent route and its reward vector as counts (optional)
    m3                                                       the number of answers asked for; the prompt ends here
    >00 10 20 ... 88 >00 01 02 ... 88 <eos>                  the chain: `>` and the start cell open an answer

"maze-edit" is the same and can copy from the parent:

    par >00 k1 01 k2 02 k3 12 ... 88 ok g0 d2 l1 +5          the parent with its steps counted, and the steps that it
                                                             leaves of the budget
    >00 k3 12 22 32 42 = >00 10 20 ... <eos>                 `k3 12`: on as the parent goes, up to its step 3, to 12;
                                                             `=`: on as the parent goes from here, to its end

An answer with a copy is an edit: what stands between the copies is new, the route is stored in full. From where a
route has come to, the parent goes on as after its first visit there. Where the parent shown reaches E, an answer has at
most MOST_NEW new steps and ends before another: it cannot do without the parent. With any other prompt a route may be
fresh from beginning to end.

A cell is two digits, row and column from 0. A route is written as the cells that it enters, which keeps its position
in plain sight of the model; a bump into a wall is `^U`, `^D`, `^L` or `^R`. The bonus tile, on every board in the
centre and worth nothing, is not written. A prompt is 23 to 40 tokens without a parent and at most about 90 with one.
The words of maze-edit follow those of maze-compact, so that a checkpoint of the one can be taken on in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from problems.maze.board import MOVES, SIZE, Maze, Walk, beside, simulate
from problems.maze.rules import DIAMOND, END, GOLD, LAVA, PAPER, START, WALL
from vpo.policies.prompt_formats import MAZE_FORMATS

DIALECT, EDIT_DIALECT = MAZE_FORMATS
PAD, UNKNOWN, STOP = "<pad>", "<unk>", "<eos>"
SPECIAL = (PAD, UNKNOWN, STOP)
PARENT, REACHED, FAILED = "par", "ok", "fail"
COPY, REST = "k", "="
MOST_ANSWERS = 5
MOST_ITEMS = 5
BUDGETS = range(16, 49)
"""Budgets that have a token; another board's budget is written as the nearest."""
COUNTED = range(1, BUDGETS[-1] + 1)
"""Steps of a parent that have a token."""
MOST_NEW = 12
"""New steps of an edit. Random edits of this size solve as many of maze:hard in 200 iterations as unbounded ones."""
LEFT = range(33)
"""Steps left by a parent that have a token; other numbers are written as the nearest."""

_CELLS = [f"{row}{column}" for row in range(SIZE) for column in range(SIZE)]
_CORNERS = (0, SIZE - 1, SIZE * (SIZE - 1), SIZE * SIZE - 1)
_ON_CELLS = ("", WALL, GOLD, DIAMOND, LAVA)  # roles that any cell can have; "" = entered by a route
_ON_CORNERS = (START, END, ">")
_COUNTED = {GOLD: "g", DIAMOND: "d", LAVA: "l"}
_NUMBER = {name: cell for cell, name in enumerate(_CELLS)}
_MOVE = {(cell, other): move for cell, around in enumerate(beside(SIZE)) for move, other in around}


def vocabulary(dialect: str = DIALECT) -> list[str]:
    """Every token of a language, in the order of its id."""
    words = [
        *SPECIAL,
        *(role + name for role in _ON_CELLS for name in _CELLS),
        *(role + _CELLS[corner] for role in _ON_CORNERS for corner in _CORNERS),
        *("^" + move for move in MOVES),
        *(f"t{budget}" for budget in BUDGETS),
        *(f"m{answers}" for answers in range(1, MOST_ANSWERS + 1)),
        *(letter + str(count) for letter in _COUNTED.values() for count in range(MOST_ITEMS + 1)),
        PARENT,
        REACHED,
        FAILED,
    ]
    if dialect == EDIT_DIALECT:
        words += [*(f"{COPY}{step}" for step in COUNTED), REST, *(f"+{steps}" for steps in LEFT)]
    return words


def cell_of(token: str) -> int | None:
    """The cell that a token is about, None where it is about none."""
    name = token[1:] if token[:1] in (WALL, GOLD, DIAMOND, LAVA, START, END, ">") else token
    return _NUMBER.get(name)


def encode_prompt(
    maze: Maze,
    parent: str | None = None,
    parent_rewards: Sequence[float] | None = None,
    answers: int = 3,
    dialect: str = DIALECT,
) -> str:
    """The token string that asks for `answers` routes.

    parent: a move list (letters of MOVES); without it the prompt shows no parent
    parent_rewards: (4,) its reward vector; None = worked out from the walk
    Raises ValueError for a board that the language has no words for (not 9x9, S or E off the corners) and for a number
    of answers outside 1..5.
    """
    if maze.size != SIZE or maze.rules != PAPER or maze.start not in _CORNERS or maze.end not in _CORNERS:
        raise ValueError(f"the embedded policy reads {SIZE}x{SIZE} boards with S and E in corners only")
    if not 1 <= answers <= MOST_ANSWERS:
        raise ValueError(f"the embedded policy writes 1 to {MOST_ANSWERS} answers a chain, not {answers}")
    budget = min(max(maze.budget, BUDGETS[0]), BUDGETS[-1])
    words = [START + _CELLS[maze.start], END + _CELLS[maze.end], f"t{budget}"]
    words += [tile + _CELLS[c] for c, tile in enumerate(maze.tiles) if tile in (WALL, GOLD, DIAMOND, LAVA)]
    if parent:
        walk = simulate(maze, parent)
        shown = encode_walk(walk, parent)
        if dialect == EDIT_DIALECT:
            counts = [[f"{COPY}{step}"] * (step in COUNTED) for step in range(len(shown))]
            shown = [word for count, step in zip(counts, shown, strict=True) for word in (*count, step)]
        words += [PARENT, *shown, *encode_rewards(maze, walk.rewards, parent_rewards)]
        if dialect == EDIT_DIALECT:
            words.append(f"+{min(max(maze.budget - walk.steps, LEFT[0]), LEFT[-1])}")
    words.append(f"m{answers}")
    return " ".join(words)


def encode_walk(walk: Walk, moves: str) -> list[str]:
    """The tokens of one route, as far as it was walked."""
    bumps = set(walk.bumps)
    words = [">" + _CELLS[walk.cells[0]]]
    for step, cell in enumerate(walk.cells[1:], 1):
        words.append("^" + moves[step - 1] if step in bumps else _CELLS[cell])
    return words


def encode_rewards(maze: Maze, walked: Sequence[float], given: Sequence[float] | None = None) -> list[str]:
    """A reward vector as counts: `ok g2 d0 l1`, or `fail` where E was not reached."""
    completion, gold, diamond, safety = walked if given is None else given
    if completion <= 0:
        return [FAILED]
    shares = zip((gold, diamond), maze.treasures, strict=True)
    counts = (*(share * len(cells) for share, cells in shares), (1 - safety) * len(maze.lava))
    return [
        REACHED,
        *(f"{letter}{min(max(round(n), 0), MOST_ITEMS)}" for letter, n in zip(_COUNTED.values(), counts, strict=True)),
    ]


def encode_chain(paths: Sequence[Sequence[int]]) -> list[str]:
    """The tokens of a chain of routes, each given as its cells, the start first; STOP at the end."""
    words: list[str] = []
    for path in paths:
        words.append(">" + _CELLS[path[0]])
        words.extend(_CELLS[cell] for cell in path[1:])
    return [*words, STOP]


@dataclass(frozen=True)
class Edit:
    """A change of a route: its cells up to place `start`, `middle`, and its cells from place `end` on.

    middle: new cells, with the one at `start` first and the one at `end` last
    end: the first visit of its cell; None where `middle` goes on to E
    """

    start: int
    middle: Sequence[int]
    end: int | None

    def applied(self, parent: Sequence[int]) -> list[int]:
        """The cells of the new route."""
        rest = [] if self.end is None else parent[self.end + 1 :]
        return [*parent[: self.start], *self.middle, *rest]


@dataclass(frozen=True)
class Shown:
    """A parent as copies read it.

    moves: its move list as far as it was walked; cells: (len(moves) + 1,) the cell after each, the start first
    editable: reaches E and has its steps counted, so that an answer has to be an edit of it
    """

    moves: str
    cells: tuple[int, ...]
    editable: bool

    @classmethod
    def of(cls, prompt: str) -> Shown | None:
        """The parent that a prompt shows, None where it shows none."""
        words = prompt.split()
        if PARENT not in words:
            return None
        first = words.index(PARENT) + 1
        moves, cells, counted, reached = "", [_NUMBER[words[first][1:]]], False, False
        for word in words[first + 1 :]:
            if word in (REACHED, FAILED):
                reached = word == REACHED
                break
            if word.startswith(COPY):
                counted = True
                continue
            bump = word[0] == "^"
            target = cells[-1] if bump else _NUMBER[word]
            moves += word[1:] if bump else _MOVE[cells[-1], target]
            cells.append(target)
        return cls(moves, tuple(cells), counted and reached)

    def copied(self, cell: int, word: str) -> tuple[str, int]:
        """The moves that a copy stands for after the first visit of `cell`, "" for none, and the cell they end at."""
        number = word.removeprefix(COPY)
        end = len(self.moves) if word == REST else int(number) if number.isdecimal() else 0
        if cell not in self.cells or end > len(self.moves):
            return "", cell
        return self.moves[self.cells.index(cell) : end], self.cells[end]


def encode_edit(parent: Sequence[int], edit: Edit) -> list[str]:
    """The tokens of a route that keeps parts of `parent`, given as its cells."""
    words = [">" + _CELLS[parent[0]]]
    if edit.start:
        words += [f"{COPY}{edit.start}", _CELLS[parent[edit.start]]]
    words += [_CELLS[cell] for cell in edit.middle[1:]]
    if edit.end is not None:
        words.append(REST)
    return words


def decode_chain(text: str, parent: Shown | None = None) -> list[str]:
    """The move lists of a chain's answers, in order, empty ones left out.

    An answer ends where the next one opens, and no later than a token that no move explains (a cell that is not beside
    the last one, a copy that the parent does not allow, a new step beyond MOST_NEW, a token that is none of a route's).
    The cell that a copy ends at may be named after it. What stands before the first answer is passed over.
    parent: what the prompt showed
    """
    answers: list[str] = []
    moves, at = "", -1  # at: the cell the route has come to, -1 outside an answer
    copied, new = False, 0
    most = MOST_NEW if parent is not None and parent.editable else len(_CELLS) ** 2
    for word in text.split():
        if word.startswith(">"):
            answers.append(moves)
            moves, at, new = "", _NUMBER.get(word[1:], -1), 0
        elif at >= 0:
            if copied and word == _CELLS[at]:
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
                new, target = new + 1, _NUMBER.get(word, -1)
                move = _MOVE.get((at, target), "")
            moves, at = (moves + move, target) if move else (moves, -1)
    answers.append(moves)
    return [answer for answer in answers if answer]


def most_tokens(answers: int) -> int:
    """Tokens that suffice for a chain of `answers` routes on any board with a budget of up to BUDGETS[-1]."""
    return answers * (BUDGETS[-1] + 1) + 1
