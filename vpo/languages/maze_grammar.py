"""Which words may come next in an answer of `maze-edit`, for many rows at once.

All that decides it is in the prompt's words: the board, the budget, the parent's route, the number of answers. So
sampling and training derive the same grammar from the same token ids, and the log-probabilities of a training are those
of the sampling.

An answer opens at S and ends at E. A word may come only if the answer can still reach E within the budget and, if it
edits a parent, within MOST_NEW new steps: every new step goes to a neighbour that is no wall, or is written as a bump,
and a copy needs a parent that comes through the route's cell. Which of these answers is good is the policy's business.
The chain ends after as many answers as the prompt requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import torch

from problems.maze.board import END, MOVES, SIZE, START, WALL, beside
from problems.maze.generator import LARGE_SIZE
from vpo.languages.contract import LONGEST_CHAIN, STOP, AnswerGrammar
from vpo.languages.maze_words import (
    BUDGETS,
    COPY,
    COUNTED,
    EDIT_DIALECT,
    MOST_NEW,
    REST,
    Shown,
    grid_of,
    size_of,
    vocabulary,
)

_Array = npt.NDArray[np.int16]

_WORDS = vocabulary(EDIT_DIALECT)
"""The longest of the vocabularies; the others are its beginning."""
_ID = {word: number for number, word in enumerate(_WORDS)}
_REQUESTS = {f"m{answers}": answers for answers in range(1, LONGEST_CHAIN + 1)}
_BOARDS = (SIZE, LARGE_SIZE)
_CELLS = _BOARDS[-1] ** 2
_FAR = 1_000
"""More steps than any budget."""
_BUMPS = torch.tensor([_ID["^" + move] for move in MOVES])
_FIRST_COPY = _ID[f"{COPY}{COUNTED[0]}"]
_OTHER, _CELL, _BUMP, _COPY, _REST, _OPENING = range(6)


@cache
def _word_tables() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """names (boards, cells): the word of a cell; kinds (words,); cells (boards, words): the cell that a word names;
    copied (words,): the step of the parent that a copy ends at."""
    names = torch.zeros((len(_BOARDS), _CELLS), dtype=torch.long)
    kinds = torch.full((len(_WORDS),), _OTHER)
    cells = torch.zeros((len(_BOARDS), len(_WORDS)), dtype=torch.long)
    copied = torch.zeros(len(_WORDS), dtype=torch.long)
    for board, size in enumerate(_BOARDS):
        for cell, name in enumerate(grid_of(size).names):
            names[board, cell], kinds[_ID[name]], cells[board, _ID[name]] = _ID[name], _CELL, cell
    kinds[_BUMPS], kinds[_ID[REST]] = _BUMP, _REST
    kinds[[number for word, number in _ID.items() if word[0] == ">"]] = _OPENING
    for step in COUNTED:
        kinds[_ID[f"{COPY}{step}"]], copied[_ID[f"{COPY}{step}"]] = _COPY, step
    return names, kinds, cells, copied


@cache
def _beside(size: int) -> npt.NDArray[np.int64]:
    """(cells, moves) the cell next to each, the cell itself beyond the border."""
    table = np.repeat(np.arange(size * size)[:, None], len(MOVES), axis=1)
    for cell, around in enumerate(beside(size)):
        for move, other in around:
            table[cell, MOVES.index(move)] = other
    return table


def _read(words: Sequence[str]) -> tuple[_Array, _Array, _Array, _Array, _Array]:
    """What a prompt shows. words: to its number of answers

    facts (8,): the place of its size in _BOARDS, the word that opens an answer, S, E, the budget, the steps of the
    parent, whether it reaches E, whether new steps are counted
    ways (cells, moves): the cell that a move leads to, the cell itself for a bump
    need (new steps that are left + 1, cells): the fewest steps from a cell to E
    first (cells,): the parent's step that first reaches a cell, _FAR if none does
    route (steps with a word + 1,): the parent's cells

    Raises ValueError, KeyError or IndexError for what is no prompt of the language, and ValueError for a board on which
    no answer is possible.
    """
    size = size_of(" ".join(words[:2]))
    numbers, cells = grid_of(size).numbers, size * size
    if (words[0][0], words[1][0], words[2][0]) != (START, END, "t"):
        raise ValueError("a prompt without a board")
    start, end, budget = numbers[words[0][1:]], numbers[words[1][1:]], int(words[2][1:])
    walls = np.zeros(cells, dtype=bool)
    walls[[numbers[word[1:]] for word in words if word[0] == WALL]] = True
    ways = np.where(walls[_beside(size)], np.arange(cells)[:, None], _beside(size))
    parent = Shown.of(" ".join(words))
    first, route = np.full(_CELLS, _FAR, dtype=np.int16), np.zeros(len(COUNTED) + 1, dtype=np.int16)
    length, edits, whole = 0, False, False
    if parent is not None:
        length, edits, whole = len(parent.moves), parent.editable, parent.cells[-1] == end
        first[list(parent.cells[::-1])] = np.arange(length, -1, -1)
        route[: length + 1] = parent.cells[: len(route)]
    need = np.full((MOST_NEW + 1, _CELLS), _FAR, dtype=np.int16)
    last = np.where(first[:cells] < _FAR, length - first[:cells], _FAR) if edits else np.full(cells, _FAR)
    last[end] = 0
    need[0, :cells] = last
    for left in range(1, (MOST_NEW if edits else cells) + 1):
        before, last = last, np.minimum(last, 1 + last[ways].min(axis=1))
        if edits:
            need[left, :cells] = last
        elif (before == last).all():
            need[:, :cells] = last
            break
    if need[-1, start] > budget:
        raise ValueError("no way to E within the budget")
    most = budget if budget < BUDGETS[-1] else _FAR - 1  # the greatest word stands for greater budgets too
    facts = [_BOARDS.index(size), _ID[">" + words[0][1:]], start, end, most, length, whole, edits]
    every = np.zeros((_CELLS, len(MOVES)), dtype=np.int16)
    every[:cells] = ways
    return np.array(facts, dtype=np.int16), every, need, first, route


class MazeGrammar(AnswerGrammar):
    """The grammar of rows that are being written.

    A row whose prompt is not of the language, or that has left it, may have any word. words: of the vocabulary
    """

    def __init__(self, words: int, prompts: Sequence[npt.NDArray[np.int32]], row: torch.Tensor) -> None:
        tables: list[tuple[_Array, ...]] = []
        states: list[list[int]] = []
        for ids in prompts:
            written = [_WORDS[number] for number in ids]
            try:
                shown, answers = _read(written), _REQUESTS[written[-1]]
            except (ValueError, KeyError, IndexError):
                shown, state = _nothing(), [1, 0, 0, 0, 0, 0]
            else:
                state = [0, int(shown[0][3]), 0, MOST_NEW, 0, answers]
            tables.append(shown)
            states.append(state)
        self._words = words
        said = [torch.from_numpy(np.stack(part)).to(row.device)[row] for part in zip(*tables, strict=True)]
        # Columns: whether any word may come; the route's cell, E between answers; its steps; the new steps that are
        # left; whether the cell may be named, after a copy; the answers that are left
        super().__init__(said, torch.tensor(states, device=row.device)[row])

    def _find_allowed(self) -> torch.Tensor:
        facts, ways, need, first, route = self._tables
        board, opening, _, end, budget, length, whole, _ = facts.long().unbind(1)
        free, at, steps, left, named, answers = self._state.unbind(1)
        names = _word_tables()[0].to(at.device)[board]
        rows = torch.arange(len(at), device=at.device)
        found = (free > 0)[:, None].repeat(1, self._words)
        ended = (at == end) & (free == 0)
        found[rows, opening] |= ended & (answers > 0)
        found[:, _ID[STOP]] |= ended & (answers <= 0)
        found[rows, names[rows, at]] |= (named > 0) & (free == 0)
        walks = (~ended & (free == 0))[:, None]
        spare = (budget - steps)[:, None]
        # a new step
        to = ways[rows, at].long()
        then = need[rows[:, None], (left - 1).clamp(min=0)[:, None], to]
        columns = torch.where(to == at[:, None], _BUMPS.to(at.device), names.gather(1, to))
        found.scatter_(1, columns, found.gather(1, columns) | walks & (left > 0)[:, None] & (1 + then <= spare))
        # a copy
        place = first[rows, at].long()[:, None]
        step = torch.arange(1, route.shape[1], device=at.device)
        then = need[rows[:, None], left[:, None], route[:, 1:].long()]
        fits = walks & (step > place) & (step <= length[:, None]) & (step - place + then <= spare)
        found[:, _FIRST_COPY : _FIRST_COPY + len(step)] |= fits
        ends = walks & (whole > 0)[:, None] & (place < length[:, None]) & (length[:, None] - place <= spare)
        found[:, _ID[REST]] |= ends[:, 0]
        return found

    def advance(self, tokens: torch.Tensor) -> None:
        """Each row has this word next. tokens: (rows,)"""
        facts, _, _, first, route = self._tables
        board, _, start, end, _, length, _, edits = facts.long().unbind(1)
        free, at, steps, left, named, answers = self._state.unbind(1)
        _, kinds, cells, copied = (table.to(at.device) for table in _word_tables())
        rows = torch.arange(len(at), device=at.device)
        kind, cell = kinds[tokens], cells[board, tokens]
        opens, rest, copies = kind == _OPENING, kind == _REST, kind == _COPY
        moves = (kind == _BUMP) | (kind == _CELL) & ~((named > 0) & (cell == at))
        reached = torch.where(rest, length, copied[tokens])
        target = torch.where(kind == _CELL, cell, at)
        target = torch.where(copies, route[rows, copied[tokens]].long(), torch.where(rest, end, target))
        taken = torch.where(copies | rest, reached - first[rows, at], moves.long())
        then = [
            free,
            torch.where(opens, start, target),
            torch.where(opens, 0, steps + taken),
            torch.where(opens, MOST_NEW, left - moves.long() * edits),
            copies.long(),
            answers - opens.long(),
        ]
        legal = self.allowed().gather(1, tokens[:, None]) & (free == 0)[:, None] & (tokens != _ID[STOP])[:, None]
        state = torch.where(legal, torch.stack(then, 1), self._state)
        state[:, 0] = torch.where(legal[:, 0], 0, 1)
        self._move_to(state)


@cache
def _nothing() -> tuple[_Array, _Array, _Array, _Array, _Array]:
    """What a text shows that is no prompt of the language."""
    shapes = ((8,), (_CELLS, len(MOVES)), (MOST_NEW + 1, _CELLS), (_CELLS,), (len(COUNTED) + 1,))
    facts, ways, need, first, route = (np.zeros(shape, dtype=np.int16) for shape in shapes)
    return facts, ways, need, first, route
