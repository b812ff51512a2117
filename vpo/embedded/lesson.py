"""What a base policy is pretrained on: prompts with the chains that a teacher writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Lesson:
    prompt: list[str]
    chain: list[str]


class Teacher(Protocol):
    """An endless stream of lessons, the same for the same seed."""

    def batch(self, size: int) -> list[Lesson]: ...

    def shuffle(self, things: list[Any]) -> None:
        """Put `things` in a random order, of this stream's own randomness."""
        ...
