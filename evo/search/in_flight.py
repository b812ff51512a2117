"""Prompt groups between their proposal and their commit, and the order in which they leave: strict or loose (`--lag`).

Strict: the oldest leaves first, and the proposal a window behind it takes its place. A proposal's view is then the same
    whatever the timing, and one seed gives one run.

Loose, with an asynchronous window of L: a group leaves when it is back. A slow rollout or a long evaluation delays the
others only once those proposed after it are L groups ahead. A proposal's view depends on the timing, so the run is not
reproducible from its seed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from evo.search.iteration import Choice, Proposal, score_group
from evo.search.operator_selection import Operator
from evo.search.reflection import Reflector
from evo.search.sampler import Sampled, Sampler
from evo.search.schedule import Scheduler, Window
from problems.types import ScoredGroup


@dataclass(frozen=True)
class Submitted:
    """A proposal whose prompt a sampler has taken."""

    proposal: Proposal
    sampled: asyncio.Future[Sampled]


@dataclass
class InFlight:
    """A group: its prompt on the way to a sampler, then its scoring."""

    choice: Choice
    submitted: asyncio.Future[Submitted]
    group: asyncio.Task[ScoredGroup]

    @property
    def sampled(self) -> asyncio.Future[Sampled] | None:
        """The rollouts of the prompt; None while no sampler has it."""
        done = self.submitted.done() and not self.submitted.cancelled() and self.submitted.exception() is None
        return self.submitted.result().sampled if done else None

    @property
    def is_sampled(self) -> bool:
        return self.sampled is not None and self.sampled.done()


class Submissions:
    """Hands prompts to samplers in the order of their choices, even if some wait for a reflection first: calls of
    several prompts are then made of the same prompts in every run."""

    def __init__(self, reflector: Reflector, seed: int) -> None:
        self.reflector, self.seed = reflector, seed
        self._last: asyncio.Future[Submitted] | None = None

    def submit(self, choice: Choice, operator: Operator, sampler: Sampler) -> InFlight:
        """Start a choice; its prompt is handed in at once unless it or one before it waits."""
        proposal, before = self.reflector.propose(choice), self._last
        waits = before is not None and not before.done()
        if isinstance(proposal, Proposal) and not waits:
            submitted = asyncio.get_running_loop().create_future()
            submitted.set_result(Submitted(proposal, sampler.submit(proposal.prompt)))
        else:
            submitted = asyncio.create_task(self._hand_in(proposal, before, sampler))
        self._last = submitted
        return InFlight(choice, submitted, asyncio.create_task(self._score(submitted, operator)))

    async def _hand_in(
        self, proposal: Proposal | asyncio.Task[Proposal], before: asyncio.Future[Submitted] | None, sampler: Sampler
    ) -> Submitted:
        try:
            if before is not None:
                await asyncio.wait([before])
            built = proposal if isinstance(proposal, Proposal) else await proposal
        except asyncio.CancelledError:
            if not isinstance(proposal, Proposal):
                proposal.cancel()
            raise
        return Submitted(built, sampler.submit(built.prompt))

    async def _score(self, submitted: asyncio.Future[Submitted], operator: Operator) -> ScoredGroup:
        prompt = await submitted
        return await score_group(
            prompt.proposal,
            prompt.sampled,
            answers=operator.answers,
            seed=self.seed,
            temperature=operator.policy.temperature,
        )


async def wait_for(futures: list[asyncio.Future[Submitted]], seconds: float, report: Callable[[], None]) -> None:
    """Wait until all are done, and report at this interval (seconds) that they are not."""
    while futures and (await asyncio.wait(futures, timeout=seconds))[1]:
        report()


WAITING_SECONDS = 5.0
"""Seconds without a commit after which a search reports how many groups are sampled and wait for the oldest."""


class Order(Protocol):
    """The groups in flight."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[InFlight]: ...

    def has_room(self, scheduler: Scheduler) -> bool:
        """Whether the next proposal may be made."""
        ...

    def add(self, flying: InFlight) -> None: ...

    def ready(self) -> InFlight | None:
        """The group that leaves next, if it is back."""
        ...

    def pop(self, flying: InFlight) -> None:
        """Remove a group that has left."""
        ...

    async def push(self, samplers: Sequence[Sampler], report: Callable[[], None]) -> None:
        """Begin the calls that will not fill up further. report: called every WAITING_SECONDS"""
        ...

    async def wait(self, seconds: float) -> bool:
        """Wait until a group may be ready, or there may be room; False if that took longer."""
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

    def has_room(self, scheduler: Scheduler) -> bool:
        """The next sequence is less than a window behind the oldest in flight. The sequences between the two are in
        flight here, or the problems' of other shards."""
        if not self._flying:
            return True
        if len(self._flying) >= self.window.groups:
            return False
        upcoming = scheduler.upcoming
        return upcoming is not None and upcoming < self._flying[0].choice.sequence + self.window.groups

    def add(self, flying: InFlight) -> None:
        self._flying.append(flying)

    def ready(self) -> InFlight | None:
        return self._flying[0] if self._flying and self._flying[0].group.done() else None

    def pop(self, flying: InFlight) -> None:
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


class LooseOrder:
    """Groups leave as they come back. At most `window.groups` are being sampled, and `window.async_window` more wait
    for anything else. ProblemRun.has_turn limits how far a problem runs ahead of its oldest group in flight."""

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

    def has_room(self, scheduler: Scheduler) -> bool:
        return (
            len(self._asked) < self.window.groups and len(self._flying) < self.window.groups + self.window.async_window
        )

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

    def ready(self) -> InFlight | None:
        while self._back:
            flying = self._flying[self._back[0]]
            if not flying.group.cancelled():
                return flying
            self.pop(flying)  # dropped by an interrupt; groups that the policy began are still to come
        return None

    def pop(self, flying: InFlight) -> None:
        key = self._back.popleft()
        assert self._flying.pop(key) is flying
        flying.choice.problem_run.uncommitted.discard(flying.choice.iteration)

    async def push(self, samplers: Sequence[Sampler], report: Callable[[], None]) -> None:
        """Flush only if the policy has begun none of the groups in flight, since otherwise none would come back."""
        asked = self._asked.values()
        if all(group.sampled is not None and samplers[group.choice.operator].holds(group.sampled) for group in asked):
            for sampler in samplers:
                sampler.flush()

    async def wait(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        self._changed.clear()
        return True


def order_of(window: Window) -> Order:
    return LooseOrder(window) if window.async_window else StrictOrder(window)
