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
_BUMPS = np.array([_ID["^" + move] for move in MOVES])
_FIRST_COPY = _ID[f"{COPY}{COUNTED[0]}"]
_JUMPS = len(COUNTED) + 1
"""Words that go along the parent's route: to one of its steps, or to its end."""
_OTHER, _OPENING, _CELL, _BUMP, _COPY, _REST = range(6)


_NAMES = np.array([[_ID[name] for name in grid_of(size).names] + [0] * (_CELLS - size**2) for size in _BOARDS])
"""(boards, cells): the word of a cell."""


@cache
def _word_effects() -> torch.Tensor:
    """(boards, words, 3): the kind of a word, the cell that it names, and which of the jumps it is."""
    effects = torch.zeros((len(_BOARDS), len(_WORDS), 3), dtype=torch.long)
    effects[..., 0] = _OTHER
    for board, size in enumerate(_BOARDS):
        for cell, name in enumerate(grid_of(size).names):
            effects[:, _ID[name], 0], effects[board, _ID[name], 1] = _CELL, cell
    effects[:, _BUMPS, 0] = _BUMP
    effects[:, [number for word, number in _ID.items() if word[0] == ">"], 0] = _OPENING
    for jump, step in enumerate(COUNTED):
        effects[:, _ID[f"{COPY}{step}"], ::2] = torch.tensor([_COPY, jump])
    effects[:, _ID[REST], ::2] = torch.tensor([_REST, _JUMPS - 1])
    return effects


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


def _tables_of(shown: Sequence[tuple[_Array, ...]]) -> tuple[npt.NDArray[np.int16 | np.int64], ...]:
    """What a grammar looks up of each prompt, made of what `_read` found.

    facts, ways, first: as in `_read`
    words (prompts, cells, 3 + moves): the word that opens an answer, the stop, the cell's name, that of each new step
    new (prompts, new steps that are left + 1, cells): the fewest steps by a new step to a cell and on to E
    jumps (prompts, new steps that are left + 1, jumps): the steps of the route up to where a jump ends, and the fewest
    on to E
    reached, landing (prompts, jumps): those steps alone, and the cell
    """
    facts, ways, need, first, route = (np.stack(part) for part in zip(*shown, strict=True))
    facts, ways, first, route = (table.astype(np.int64) for table in (facts, ways, first, route))
    opening, end, length, whole = (facts[:, [column]] for column in (1, 3, 5, 6))
    names = _NAMES[facts[:, 0]]
    words = np.empty((*ways.shape[:2], 3 + len(MOVES)), dtype=np.int64)
    words[..., 0], words[..., 1], words[..., 2] = opening, _ID[STOP], names
    named = np.take_along_axis(names, ways.reshape(len(ways), -1), 1).reshape(ways.shape)
    words[..., 3:] = np.where(ways == np.arange(_CELLS)[:, None], _BUMPS, named)
    new = np.full_like(need, _FAR)
    new[:, 1:] = 1 + need[:, :-1]
    steps = np.arange(1, _JUMPS, dtype=np.int16)
    reached, landing = np.append(np.broadcast_to(steps, route[:, 1:].shape), length, 1), np.append(route[:, 1:], end, 1)
    jumps = np.empty((*need.shape[:2], _JUMPS), dtype=np.int16)
    onward = np.take_along_axis(need, route[:, None, 1:], 2)
    jumps[..., :-1] = np.where(steps <= length[..., None], steps + onward, 2 * _FAR)
    jumps[..., -1] = np.where(whole, length, 2 * _FAR)
    return facts, words, ways, new, first, jumps, reached, landing


class MazeGrammar(AnswerGrammar):
    """The grammar of rows that are being written.

    A row whose prompt is not of the language, or that has left it, may have any word. words: of the vocabulary
    """

    def __init__(self, words: int, prompts: Sequence[npt.NDArray[np.int32]], row: torch.Tensor) -> None:
        read: list[tuple[_Array, ...]] = []
        states: list[list[int]] = []
        for ids in prompts:
            written = [_WORDS[number] for number in ids]
            try:
                shown, answers = _read(written), _REQUESTS[written[-1]]
            except (ValueError, KeyError, IndexError):
                shown, state = _nothing(), [1, 0, 0, 0, 0, 0]
            else:
                state = [0, int(shown[0][3]), 0, MOST_NEW, 0, answers]
            read.append(shown)
            states.append(state)
        self._words, self._effects = words, _word_effects().to(row.device)
        said = [torch.from_numpy(table).to(row.device)[row] for table in _tables_of(read)]
        # Columns: whether any word may come; the route's cell, E between answers; its steps; the new steps that are
        # left; whether the cell may be named, after a copy; the answers that are left
        super().__init__(said, torch.tensor(states, device=row.device)[row])

    def _find_allowed(self) -> torch.Tensor:
        facts, words, ways, new, first, jumps, reached, _ = self._tables
        _, _, _, end, budget, _, _, _ = facts.unbind(1)
        free, at, steps, left, named, answers = self._state.unbind(1)
        rows, any_word = torch.arange(len(at), device=at.device), (free > 0)[:, None]
        ended = at == end
        spare = torch.where(ended, -1, budget - steps)[:, None]
        single = torch.stack((ended & (answers > 0), ended & (answers <= 0), named > 0), 1)
        moves = new[rows[:, None], left[:, None], ways[rows, at]] <= spare
        place = first[rows, at][:, None]
        fits = (jumps[rows, left] <= spare + place) & (reached > place) | any_word
        allowed = any_word.repeat(1, self._words)
        allowed.scatter_(1, words[rows, at], torch.cat((single, moves), 1) | any_word)
        allowed[:, _FIRST_COPY : _FIRST_COPY + _JUMPS - 1] = fits[:, :-1]
        allowed[:, _ID[REST]] = fits[:, -1]
        return allowed

    def advance(self, tokens: torch.Tensor) -> None:
        """Each row has this word next. tokens: (rows,)"""
        facts, _, _, _, first, _, reached, landing = self._tables
        board, _, start, _, _, _, _, edits = facts.unbind(1)
        free, at, steps, left, named, answers = self._state.unbind(1)
        rows = torch.arange(len(at), device=at.device)
        kind, cell, jump = self._effects[board, tokens].unbind(1)
        opens, names, jumps = kind == _OPENING, kind == _CELL, kind >= _COPY
        moves = ((kind == _BUMP) | names & ~((named > 0) & (cell == at))).long()
        target = torch.where(jumps, landing[rows, jump], torch.where(names, cell, at))
        taken = torch.where(jumps, reached[rows, jump] - first[rows, at], moves)
        then = [
            free,
            torch.where(opens, start, target),
            torch.where(opens, 0, steps + taken),
            torch.where(opens, MOST_NEW, left - moves * edits),
            (kind == _COPY).long(),
            answers - opens.long(),
        ]
        legal = self.allowed().gather(1, tokens[:, None]) & ((free == 0) & (tokens != _ID[STOP]))[:, None]
        state = torch.where(legal, torch.stack(then, 1), self._state)
        state[:, 0] = ~legal[:, 0]
        self._move_to(state)


@cache
def _nothing() -> tuple[_Array, _Array, _Array, _Array, _Array]:
    """What a text shows that is no prompt of the language."""
    shapes = ((8,), (_CELLS, len(MOVES)), (MOST_NEW + 1, _CELLS), (_CELLS,), (len(COUNTED) + 1,))
    facts, ways, need, first, route = (np.zeros(shape, dtype=np.int16) for shape in shapes)
    return facts, ways, need, first, route
