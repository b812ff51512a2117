"""Lessons of a base policy: prompts with the chains of a teacher."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


@dataclass(frozen=True)
class Lesson:
    """given: places of the chain that are not learned, since they belong to the prompt"""

    prompt: list[str]
    chain: list[str]
    given: frozenset[int] = frozenset()


Subject = TypeVar("Subject")


class Teacher(Protocol):
    """An endless stream of lessons, the same for the same seed."""

    def batch(self, size: int) -> list[Lesson]: ...

    def shuffle(self, things: list[Any]) -> None:
        """Shuffle `things` with this stream's randomness."""
        ...


class PooledTeacher(ABC, Generic[Subject]):
    """Lessons on subjects (boards, questions) from a pool in which new ones replace the oldest.

    stream: with the seed it fixes all random draws
    pool: subjects in use at a time; fresh: new ones per lesson, so that each serves 1 / fresh lessons
    """

    def __init__(self, stream: str, pool: int, fresh: float) -> None:
        self._rng = random.Random(stream)
        self._size, self._fresh = pool, fresh
        self._pool: list[Subject] = []
        self._next = 0

    def batch(self, size: int) -> list[Lesson]:
        for _ in range(max(1, round(size * self._fresh)) if self._pool else size):
            self._renew()
        return [self._lesson(self._rng.choice(self._pool)) for _ in range(size)]

    def shuffle(self, things: list[Any]) -> None:
        self._rng.shuffle(things)

    def _renew(self) -> None:
        subject = self._draw()
        if len(self._pool) < self._size:
            self._pool.append(subject)
        else:
            self._pool[self._next] = subject
            self._next = (self._next + 1) % self._size

    @abstractmethod
    def _draw(self) -> Subject: ...

    @abstractmethod
    def _lesson(self, subject: Subject) -> Lesson: ...
