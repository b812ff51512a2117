"""Which words may come next in an answer of `formula-edit`, for many rows at once.

All that decides it is in the prompt's words: the variables, the parent's nodes, the terms with names, the number of
answers. So sampling and training derive the same grammar from the same token ids, and the log-probabilities of a
training are those of the sampling.

An answer opens, names a node if there is a parent, and continues with prefix words until no argument is missing. A
word may come only if the rest can still end within MOST_WORDS words and the formula within MOST_NODES nodes. The node
itself may not be all that replaces it. The chain ends after as many answers as the prompt requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt
import torch

from evo.plugins.formulas.edits import words as w
from evo.plugins.formulas.grammar import MIN, arity
from vpo.languages.contract import MOST_ANSWERS, PARENT, STOP, AnswerGrammar

_ID = {word: number for number, word in enumerate(w.WORDS)}
_REQUESTS = {f"m{answers}": answers for answers in range(1, MOST_ANSWERS + 1)}
_ARITY = {word: arity(code) for word, code in w.CODES.items()}
_BESIDE_ROWS = frozenset((PARENT, w.AT, *_REQUESTS))
"""The words that end the part of a prompt about the rows."""
_NEVER = 10_000
"""The size of a word that no answer may have."""
_OPEN, _PLACE, _PREFIX, _FREE = range(4)
"""What a row waits for: the opening of an answer or the end; a node of the parent; a prefix word; anything."""


@dataclass(frozen=True)
class _Shown:
    """What a prompt's words say. sizes, places: by word, its nodes in an answer and the parent's node that it means (-1
    if none); parent: nodes"""

    sizes: Sequence[int]
    places: Sequence[int]
    parent: int
    answers: int


def _length_of_prefix(words: Sequence[str]) -> int:
    """How many words the formula has that `words` begins with. Raises ValueError if it does not end."""
    missing = 1
    for count, word in enumerate(words, 1):
        missing += _ARITY.get(word, 0) - 1
        if not missing:
            return count
    raise ValueError("a formula without an end")


def _read(ids: npt.NDArray[np.int32], functions: Sequence[str]) -> _Shown:
    """functions: words of those that may be in an answer. Raises ValueError for what is no prompt of the language."""
    words = [w.WORDS[number] for number in ids]
    if not words or words[-1] not in _REQUESTS:
        raise ValueError("a prompt without a number of answers at its end")
    sizes, places = [_NEVER] * len(w.WORDS), [-1] * len(w.WORDS)
    of_rows = takewhile(lambda word: word not in _BESIDE_ROWS, words)
    for word in (*functions, *w.NUMBERS, *w.CONSTANTS, *(word for word in of_rows if word in w.VARIABLES)):
        sizes[_ID[word]] = 1
    parent = 0
    if PARENT in words:
        written = words[words.index(PARENT) + 2 : words.index(w.ERRORS) : 2]
        parent = len(written)
        for place, node in enumerate(w.NODES[:parent]):
            sizes[_ID[node]], places[_ID[node]] = _length_of_prefix(written[place:]), place
    for at, name in enumerate(words[:-1]):
        if name in w.TERMS:
            sizes[_ID[name]] = _length_of_prefix(words[at + 1 : -1])
        elif name in w.OTHERS and words[at - 1] == w.AT:
            meant = _ID[words[at + 1]]
            sizes[_ID[name]], places[_ID[name]] = sizes[meant], places[meant]
    return _Shown(sizes, places, parent, _REQUESTS[words[-1]])


class FormulaGrammar(AnswerGrammar):
    """The grammar of rows that are being written.

    A row whose prompt is not of the language, or that has left it, may have any word.

    functions: the words of those that may be in an answer; most_nodes: of the formula that it makes
    """

    functions: Sequence[str] = w.FUNCTION_WORDS[:MIN]
    most_nodes = w.MOST_NODES

    def __init__(self, prompts: Sequence[npt.NDArray[np.int32]], row: torch.Tensor) -> None:
        sizes: list[Sequence[int]] = []
        places: list[Sequence[int]] = []
        states: list[list[int]] = []
        for ids in prompts:
            try:
                shown = _read(ids, self.functions)
            except ValueError:
                shown = _Shown([0] * len(w.WORDS), [-1] * len(w.WORDS), 0, 0)
                states.append([_FREE, 0, 0, 0, 0, -1, 0])
            else:
                states.append([_OPEN, 0, 0, 0, shown.answers, -1, shown.parent])
            sizes.append(shown.sizes)
            places.append(shown.places)
        device = row.device
        self._arity = torch.tensor([_ARITY.get(word, 0) for word in w.WORDS], device=device)
        # Columns: what the row waits for; missing prefix words; words and nodes that are left; answers that are left;
        # the node that is being replaced, until its first word is there; nodes of the parent
        state = torch.tensor(states, device=device)[row]
        super().__init__([torch.tensor(table, device=device)[row] for table in (sizes, places)], state)

    def _find_allowed(self) -> torch.Tensor:
        sizes, places = self._tables
        waits, missing, words, nodes, answers, place, _ = self._state[:, :, None].unbind(1)
        fits = (missing + self._arity <= words) & (sizes + missing - 1 + self._arity <= nodes)
        fits = fits & ((place < 0) | (places != place))
        allowed = torch.where(waits == _PREFIX, fits, waits == _FREE)
        allowed = torch.where(waits == _PLACE, places >= 0, allowed)
        opens = waits[:, 0] == _OPEN
        allowed[:, _ID[w.ANSWER]] |= opens & (answers[:, 0] > 0)
        allowed[:, _ID[STOP]] |= opens & (answers[:, 0] <= 0)
        return allowed

    def advance(self, tokens: torch.Tensor) -> None:
        """Each row has this word next. tokens: (rows,)"""
        sizes, places_of = self._tables
        at = tokens[:, None]
        legal = self.allowed().gather(1, at).squeeze(1)
        waits, missing, words, nodes, answers, place, parent = self._state.unbind(1)
        opens, places, writes = waits == _OPEN, waits == _PLACE, waits == _PREFIX
        size, meant = sizes.gather(1, at).squeeze(1), places_of.gather(1, at).squeeze(1)
        missing = torch.where(writes, missing - 1 + self._arity[tokens], 1)
        to_place = opens & (parent > 0)
        then = torch.where(to_place, _PLACE, torch.where(writes & (missing == 0), _OPEN, _PREFIX))
        then = torch.where(~legal | (waits == _FREE) | (tokens == _ID[STOP]), _FREE, then)
        words = torch.where(writes, words - 1, w.MOST_WORDS)
        most = self.most_nodes
        nodes = torch.where(places, most - parent + size, torch.where(writes, nodes - size, most))
        answers = answers - opens.long()
        place = torch.where(places, meant, -1)
        self._move_to(torch.stack([then, missing, words, nodes, answers, place, parent], dim=1))
