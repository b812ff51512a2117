"""What the grammars of the token languages share: the rows of a batch and what may come next in each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Self

import torch


class RowGrammar(ABC):
    """A vpo.embedded.dialects.AnswerGrammar over tables and states.

    tables: each (rows, ...), what the row's prompt says; they stay
    state: (rows, columns) integers, which `advance` replaces by `_move_to`
    """

    def __init__(self, tables: Sequence[torch.Tensor], state: torch.Tensor) -> None:
        self._tables = list(tables)
        self._state = state
        self._allowed: torch.Tensor | None = None  # of the state, once it was asked for

    def allowed(self) -> torch.Tensor:
        """(rows, words) bool: the words that may come next. Not to be written to."""
        if self._allowed is None:
            self._allowed = self._find_allowed()
        return self._allowed

    @abstractmethod
    def _find_allowed(self) -> torch.Tensor: ...

    @abstractmethod
    def advance(self, tokens: torch.Tensor) -> None:
        """Each row has this word next. tokens: (rows,)"""

    def _move_to(self, state: torch.Tensor) -> None:
        self._state, self._allowed = state, None

    def state_after(self, words: Iterable[int]) -> list[int]:
        """The state of the only row after these words, with which a prompt may begin its answer."""
        for word in words:
            self.advance(torch.tensor([int(word)]))
        state: list[int] = self._state[0].tolist()
        return state

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all rows but these."""
        self._tables = [table[rows] for table in self._tables]
        self._move_to(self._state[rows])

    def join(self, other: Self) -> None:
        """Append another grammar's rows."""
        self._tables = [torch.cat(pair) for pair in zip(self._tables, other._tables, strict=True)]
        self._move_to(torch.cat([self._state, other._state]))
