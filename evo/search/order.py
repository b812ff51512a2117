"""In which order the groups in flight leave: one strict order, or as they come back within bounds (`--lag`).

Strict: the oldest leaves first, and its place is taken by the proposal a window behind it. What a proposal knows of is
then the same whatever the timing, and one seed gives one run.

Loose, with a lag of L: a group leaves when it is back. A slow rollout or a long evaluation then holds nobody up until
what was proposed behind it has run ahead of it by L groups. What a proposal knows of depends on the timing, so the
numbers of a run cannot be had again from its seed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from evo.search.in_flight import InFlight, Submitted, wait_for
from evo.search.sampler import Sampled, Sampler
from evo.search.turns import Turns
from evo.search.window import Window

WAITING_SECONDS = 5.0
"""How long nothing may be committed before a search says how many groups are sampled and wait for the oldest."""


class Order(Protocol):
    """The groups in flight."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[InFlight]: ...

    def has_room(self, turns: Turns) -> bool:
        """Whether the next proposal may be made."""
        ...

    def add(self, flying: InFlight) -> None: ...

    def due(self) -> InFlight | None:
        """The group that leaves next, if it is back."""
        ...

    def drop(self, flying: InFlight) -> None:
        """It has left."""
        ...

    async def push(self, samplers: Sequence[Sampler], report: Callable[[], None]) -> None:
        """Let the calls go as they are that nothing can fill any more. report: called every WAITING_SECONDS"""
        ...

    async def wait(self, seconds: float) -> bool:
        """Wait until one may be due, or there may be room; False where that took longer."""
        ...

    def sees(self, sequence: int) -> int | None:
        """What a proposal knows of once the group `sequence` was committed: all up to that, or all that is (None)."""
        ...


class StrictOrder:
    """Sequence h leaves, then h + window is proposed, then h + 1 leaves."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._flying: deque[InFlight] = deque()

    def __len__(self) -> int:
        return len(self._flying)

    def __iter__(self) -> Iterator[InFlight]:
        return iter(self._flying)

    def has_room(self, turns: Turns) -> bool:
        """The next sequence is less than a window behind the oldest in flight. The sequences between the two are in
        flight here, or the problems' of other shards."""
        if not self._flying:
            return True
        if len(self._flying) >= self.window.groups:
            return False
        upcoming = turns.upcoming
        return upcoming is not None and upcoming < self._flying[0].choice.sequence + self.window.groups

    def add(self, flying: InFlight) -> None:
        self._flying.append(flying)

    def due(self) -> InFlight | None:
        return self._flying[0] if self._flying and self._flying[0].group.done() else None

    def drop(self, flying: InFlight) -> None:
        assert self._flying.popleft() is flying

    async def push(self, samplers: Sequence[Sampler], report: Callable[[], None]) -> None:
        oldest = self._flying[0]
        sampler = samplers[oldest.choice.operator]
        for futures in ([oldest.submitted], [flying.submitted for flying in self._flying]):
            await wait_for(futures, WAITING_SECONDS, report)
            if oldest.sampled is None or not sampler.holds(oldest.sampled):
                return
        sampler.flush()

    async def wait(self, seconds: float) -> bool:
        return bool((await asyncio.wait([self._flying[0].group], timeout=seconds))[0])

    def sees(self, sequence: int) -> int | None:
        return sequence


class LooseOrder:
    """As they come back. At most `window.groups` are being sampled, and `window.lag` more wait for anything else; how
    far a problem may run ahead of its oldest group in flight is its own to say (ProblemRun.has_turn)."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._flying: dict[int, InFlight] = {}
        self._asked: dict[int, InFlight] = {}  # those that are not sampled yet
        self._back: deque[int] = deque()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._flying)

    def __iter__(self) -> Iterator[InFlight]:
        return iter(self._flying.values())

    def has_room(self, turns: Turns) -> bool:
        return len(self._asked) < self.window.groups and len(self._flying) < self.window.groups + self.window.lag

    def add(self, flying: InFlight) -> None:
        key = id(flying)
        self._flying[key] = self._asked[key] = flying
        choice = flying.choice
        choice.problem_run.uncommitted.add(choice.iteration)
        flying.group.add_done_callback(lambda _: self._comes_back(key))
        flying.submitted.add_done_callback(lambda done: self._is_handed_in(done, key))

    def _is_handed_in(self, done: asyncio.Future[Submitted], key: int) -> None:
        self._changed.set()
        if not done.cancelled() and done.exception() is None:
            done.result().sampled.add_done_callback(lambda sampled: self._is_sampled(sampled, key))

    def _is_sampled(self, sampled: asyncio.Future[Sampled], key: int) -> None:
        self._asked.pop(key, None)
        self._changed.set()

    def _comes_back(self, key: int) -> None:
        self._asked.pop(key, None)
        self._back.append(key)
        self._changed.set()

    def due(self) -> InFlight | None:
        while self._back:
            flying = self._flying[self._back[0]]
            if not flying.group.cancelled():
                return flying
            self.drop(flying)  # let go by an interrupt; those that were begun with are still to come
        return None

    def drop(self, flying: InFlight) -> None:
        key = self._back.popleft()
        assert self._flying.pop(key) is flying
        flying.choice.problem_run.uncommitted.discard(flying.choice.iteration)

    async def push(self, samplers: Sequence[Sampler], report: Callable[[], None]) -> None:
        """Nothing that is asked has been begun with, so nothing would come back."""
        asked = self._asked.values()
        if all(one.sampled is not None and samplers[one.choice.operator].holds(one.sampled) for one in asked):
            for sampler in samplers:
                sampler.flush()

    async def wait(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    def sees(self, sequence: int) -> int | None:
        return None


def order_of(window: Window) -> Order:
    return LooseOrder(window) if window.lag else StrictOrder(window)
