"""How often a prompt leaves the parent out, where `prompt.fresh` is auto.

A policy that copies what it is shown spends its answers on what is stored already. So a problem's prompts leave the
parent out as often as showing one was wasted: with the share of repeats among the answers that were shown a parent,
less the share among those that were not. A policy that edits its parents goes on seeing them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from problems.types import ScoredGroup

KEPT = 16
"""Groups of a problem and operator that count, of those with a parent and of those without: its last ones."""


class Repeats(NamedTuple):
    """What one committed group repeated. share: of its answers, those that the run had stored before; 0 for none"""

    sequence: int
    problem: int
    operator: int
    shown: bool
    share: float


class FreshShare:
    """The share of fresh prompts, by problem and operator. What a proposal sees of it ends at the group that the
    search's order lets it see, so one seed gives one run, resumed or not."""

    def __init__(self) -> None:
        self._waiting: deque[Repeats] = deque()
        self._kept: defaultdict[tuple[int, int, bool], deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))

    def count(self, group: ScoredGroup, repeated: Sequence[bool]) -> None:
        """Take in a group that is being committed. repeated: for each of its answers, whether an earlier one is it"""
        share = sum(repeated) / len(repeated) if repeated else 0.0
        self._waiting.append(Repeats(group.sequence, group.problem, group.operator, group.parent is not None, share))

    def recall(self, groups: Iterable[tuple[int, int, int, bool, int, int]]) -> None:
        """Take in what stored groups repeated, in the run's order: see islands.queries.repeats."""
        for sequence, problem, operator, shown, repeated, answers in groups:
            share = repeated / answers if answers else 0.0
            self._waiting.append(Repeats(sequence, problem, operator, shown, share))

    def advance(self, upto: int | None) -> None:
        """See the groups up to this sequence; all of them with None."""
        while self._waiting and (upto is None or self._waiting[0].sequence <= upto):
            _, problem, operator, shown, share = self._waiting.popleft()
            self._kept[problem, operator, shown].append(share)

    def of(self, problem: int, operator: int) -> float:
        """The chance that the next prompt shows no parent. One group without repeats is believed of each kind, so that
        the first copy does not decide."""
        with_parent, without = (
            sum(kept) / (len(kept) + 1) for kept in (self._kept[problem, operator, shown] for shown in (True, False))
        )
        return max(0.0, with_parent - without)
