"""What learns from a search's groups: the contract, and the learner of a search whose policies stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from evo.search.sampler import Sampler
from problems.types import ScoredGroup


class SyncFailed(Exception):
    """The policy that samples does not have the weights that were given to it. The message has both figures."""


class Learner(Protocol):
    """Is given a search's groups as they are committed.

    learns: whether it has jobs that take turns with sampling, which then has to go in calls
    """

    learns: bool

    def attach(self, sampler: Sampler) -> None:
        """The queue in which training takes its turns with sampling."""
        ...

    def learn(self, groups: Sequence[ScoredGroup]) -> None:
        """Committed groups, in order."""
        ...

    async def restore(self) -> None:
        """Come back to where the run's record says it was."""
        ...

    async def close(self) -> None:
        """The search has ended, and nothing more is sampled."""
        ...


class FrozenLearner:
    """Learns nothing."""

    learns = False

    def attach(self, sampler: Sampler) -> None: ...
    def learn(self, groups: Sequence[ScoredGroup]) -> None: ...
    async def restore(self) -> None: ...
    async def close(self) -> None: ...
