"""A language model for OpenEvolve that answers at once, so that what is timed is everything else."""

from __future__ import annotations

from typing import Any


class InstantAuthor:
    """What OpenEvolve asks of a model; a subclass writes the program."""

    def __init__(self) -> None:
        self.model = "instant"  # OpenEvolve reads it from the instance's own attributes

    async def generate(self, prompt: str, **_: Any) -> str:
        return self.reply(prompt)

    async def generate_with_context(self, system_message: str, messages: list[dict[str, str]], **_: Any) -> str:
        return self.reply(messages[-1]["content"])

    def reply(self, prompt: str) -> str:
        """A program in a code block."""
        raise NotImplementedError
