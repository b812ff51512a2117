"""What every problem of a text task is: its row, its statement, answers as tagged fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from problems.contract import Problem
from problems.fingerprint import fingerprint_of
from problems.plugins.text_tasks.fields import without_thoughts

TOLERANCE = 1e-9
"""The target lies this far under 1, so that a sum in another order still reaches it."""


class TextProblem(Problem):
    """A row of a text task. Subclasses give `objectives`, `statement` and `score`.

    rules: names the reward's rules in the fingerprint; a change of the rules changes it
    """

    answer_format = "tagged"
    inline = True
    execution = "never"
    distinct_rewards = True
    target: float | None = 1.0 - TOLERANCE
    rules = ""

    def __init__(self, name: str, row: Mapping[str, Any], where: str, source: str, licence: str) -> None:
        """where: file and row, for what is wrong with it. Raises BadAddress for a row of another schema."""
        self.name, self.row, self.source, self.licence = name, row, source, licence

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def canonical(self, answer: str) -> str:
        """The answer without its thoughts and without white space around it."""
        return without_thoughts(answer.replace("\r\n", "\n").replace("\r", "\n"))

    def fingerprint(self) -> str:
        """Of the row and of the rules."""
        return fingerprint_of(self.rules, self.row)
