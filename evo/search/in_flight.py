"""Prompt groups between their proposal and their commit, and the order in which they leave: strict or loose (`--lag`).

Strict: the oldest leaves first, and the proposal a window behind it takes its place. A proposal's view is then the same
    whatever the timing, and one seed gives one run.

A paid reply is not held back for long all the same. A group whose reply takes much longer than any before it is set
aside: the others leave, and it leaves when it is back, as the newest.

Loose, with an asynchronous window of L: a group leaves when it is back. A slow rollout or a long evaluation delays the
others only once those proposed after it are L groups ahead. A proposal's view depends on the timing, so the run is not
reproducible from its seed.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from evo.search.iteration import Choice, Proposal, score_group
from evo.search.operators import Operators
from evo.search.sampler import Sampled, Sampler
from evo.search.schedule import Schedule, Window
from problems.types import ScoredGroup
from vpo.policies.address import parse_address
from vpo.policies.contract import PolicyUnavailable, PromptTooLong


@dataclass(eq=False)
class InFlight:
    """A group: its prompt at a sampler, then its scoring. late: it was set aside"""

    proposal: Proposal
    sampled: asyncio.Future[Sampled]
    group: asyncio.Task[ScoredGroup]
    late: bool = False

    @property
    def choice(self) -> Choice:
        return self.proposal.choice

    @property
    def is_paid(self) -> bool:
        """Whether it is back, and a server has charged for it."""
        if not self.group.done() or self.group.cancelled() or self.group.exception() is not None:
            return False
        return any(rollout.rollout.usage is not None for rollout in self.group.result().rollouts)


class Submissions:
    """Hands prompts to samplers.

    Of several operators one that does not answer is left alone for a while, and another answers its prompt. A prompt
    that does not fit its model is made shorter.
    """

    def __init__(self, operators: Operators, seed: int) -> None:
        self.operators, self.seed = operators, seed
        self.samplers: Sequence[Sampler] = ()

    def submit(self, choice: Choice) -> InFlight:
        """Build the prompt of a choice and hand it in."""
        proposal = choice.ask()
        sampled = self.samplers[choice.operator].submit(proposal.prompt)
        return InFlight(proposal, sampled, asyncio.create_task(self._score(proposal, sampled)))

    async def _score(self, proposal: Proposal, sampled: asyncio.Future[Sampled]) -> ScoredGroup:
        failed: dict[int, PolicyUnavailable] = {}
        while True:
            number = proposal.choice.operator
            operator = self.operators[number]
            try:
                group = await score_group(
                    proposal,
                    sampled,
                    answers=operator.answers,
                    seed=self.seed,
                    temperature=operator.policy.temperature,
                )
                self.operators.backoff.responded(number)
                return group
            except PromptTooLong:
                shorter = None if operator.policy.batch else proposal.shorter()
                if shorter is None:
                    raise
                proposal = shorter
            except PolicyUnavailable as error:
                failed[number] = error
                others = [one for one in range(len(self.operators)) if one not in failed]
                if not others:
                    raise next(iter(failed.values())) from None
                others.sort(key=self.operators.backoff.is_resting)
                proposal = proposal.by(others[0])
                self._leave_alone(number, error)
            sampled = self._hand_in_again(proposal)

    def _leave_alone(self, number: int, error: PolicyUnavailable) -> None:
        pause = self.operators.backoff.rest(number)
        if pause is not None:
            address = parse_address(self.operators[number].address).plain
            text = f"{address} is not responding ({error}). Continuing with the others; retrying in {pause:g} s"
            warnings.warn(text, stacklevel=2)

    def _hand_in_again(self, proposal: Proposal) -> asyncio.Future[Sampled]:
        sampler = self.samplers[proposal.choice.operator]
        sampled = sampler.submit(proposal.prompt)
        if sampler.holds(sampled):
            sampler.flush()  # no other prompt may come that fills its call
        return sampled


WAITING_SECONDS = 5.0
"""Seconds without a commit after which a search reports how many groups are sampled and wait for the oldest."""


class Order(Protocol):
    """The groups in flight."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[InFlight]: ...

    def has_room(self, schedule: Schedule) -> bool:
        """Whether the next proposal may be made."""
        ...

    def add(self, flying: InFlight) -> None: ...

    def ready(self) -> InFlight | None:
        """The group that leaves next, if it is back."""
        ...

    def pop(self, flying: InFlight) -> None:
        """Remove a group that has left."""
        ...

    def push(self, samplers: Sequence[Sampler]) -> None:
        """Begin the calls that will not fill up further."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Wait until a group may be ready, or there may be room; False if that took longer."""
        ...

    def set_aside(self, longest: float) -> None:
        """Let the others leave before a group whose reply has taken more seconds than this, if any paid one waits."""
        ...


class StrictOrder:
    """Sequence h leaves, then h + window is proposed, then h + 1 leaves."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._flying: deque[InFlight] = deque()
        self._late: list[InFlight] = []
        self._since = 0.0  # when the oldest became the oldest

    def __len__(self) -> int:
        return len(self._flying) + len(self._late)

    def __iter__(self) -> Iterator[InFlight]:
        return iter([*self._late, *self._flying])

    def has_room(self, schedule: Schedule) -> bool:
        """The next sequence is less than a window behind the oldest in flight."""
        if len(self) >= self.window.groups:
            return False
        return not self._flying or schedule.upcoming < self._flying[0].choice.sequence + self.window.groups

    def add(self, flying: InFlight) -> None:
        if not self._flying:
            self._since = time.monotonic()
        self._flying.append(flying)
        flying.choice.problem_run.uncommitted.add(flying.choice.iteration)

    def ready(self) -> InFlight | None:
        back = (one for one in (*self._late, *list(self._flying)[:1]) if one.group.done())
        return next(back, None)

    def pop(self, flying: InFlight) -> None:
        flying.choice.problem_run.uncommitted.discard(flying.choice.iteration)
        if flying.late:
            self._late.remove(flying)
            return
        assert self._flying.popleft() is flying
        self._since = time.monotonic()

    def set_aside(self, longest: float) -> None:
        if len(self._flying) < 2 or time.monotonic() - self._since < longest:
            return
        if not self._flying[0].group.done() and any(one.is_paid for one in self._flying):
            late = self._flying.popleft()
            late.late = True
            self._late.append(late)
            self._since = time.monotonic()

    def push(self, samplers: Sequence[Sampler]) -> None:
        if not self._flying:
            return
        oldest = self._flying[0]
        sampler = samplers[oldest.choice.operator]
        if sampler.holds(oldest.sampled):
            sampler.flush()

    async def wait(self, seconds: float) -> bool:
        watched = [one.group for one in (*self._late, *list(self._flying)[:1])]
        return bool((await asyncio.wait(watched, timeout=seconds, return_when=asyncio.FIRST_COMPLETED))[0])


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

    def has_room(self, schedule: Schedule) -> bool:
        return (
            len(self._asked) < self.window.groups and len(self._flying) < self.window.groups + self.window.async_window
        )

    def add(self, flying: InFlight) -> None:
        key = id(flying)
        self._flying[key] = self._asked[key] = flying
        choice = flying.choice
        choice.problem_run.uncommitted.add(choice.iteration)
        flying.group.add_done_callback(lambda _: self._comes_back(key))
        flying.sampled.add_done_callback(lambda sampled: self._is_sampled(sampled, key))

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

    def set_aside(self, longest: float) -> None:
        """Nothing: no group waits for another."""

    def push(self, samplers: Sequence[Sampler]) -> None:
        """Flush only if the policy has begun none of the groups in flight, since otherwise none would come back."""
        asked = self._asked.values()
        if all(samplers[group.choice.operator].holds(group.sampled) for group in asked):
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
