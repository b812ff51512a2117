"""One model in several places: servers (vpo.openai.policy), replicas of an engine (vpo.vllm.replicas).

A request goes to the place that its prompt's beginning belongs to, whose prefix cache knows it, unless that place has
more under way than the least loaded one by a group or so. Beginnings belong to places by rendezvous hashing (Thaler
and Ravishankar 1998): where one leaves, only its own move, and they come back with it. Seeds are the requests' own, so
who answers changes nothing but the time.

A place that cannot answer is left out and asked every so often whether it is back; what it owed is asked of the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable

P = TypeVar("P")
T = TypeVar("T")

BEGINNING = 600
"""Characters of a prompt that decide where it belongs: the task, which all prompts of a problem share, comes first."""
SLACK = 8
"""Choices that a place may have under way beyond the least loaded one, before a prompt goes elsewhere."""
PROBE_SECONDS = (0.5, 15.0)
"""Between questions whether a lost place is back: doubling from the first to the second."""


class Gone(PolicyUnavailable):
    """This place cannot answer, where another with the same model might."""


@dataclass
class Member(Generic[P]):
    """One of several. load: choices under way; lost: since when it is left out (monotonic), None while it is in"""

    name: str
    place: P
    load: int = 0
    lost: float | None = None
    times_lost: int = 0
    answered: int = 0
    probe: asyncio.Task[None] | None = field(default=None, repr=False)


class Spread(Generic[P]):
    """Asks whichever of several is best. Used on one event loop, closed there.

    members: all of them in their order
    serves: whether one that was lost is back
    tries, deadline: how often a request is asked, and for how many seconds it waits where none is there
    kind: what they are, in the plural; remedy: what a person can do where none is left
    """

    def __init__(
        self,
        members: Sequence[Member[P]],
        serves: Callable[[P], Awaitable[bool]],
        *,
        tries: int,
        deadline: float,
        kind: str,
        remedy: str,
    ) -> None:
        self.members, self._serves = list(members), serves
        self._tries, self._deadline, self._kind, self._remedy = tries, deadline, kind, remedy
        self._started = False
        self._back = asyncio.Event()

    async def ask(self, prompt: Prompt, choices: int, ask: Callable[[P], Awaitable[T]]) -> T:
        """What `ask` gives of the place that is chosen, and of another where that raises Gone. Raises Gone where none
        is left, and whatever else `ask` raises."""
        if not self._started:
            self._started = True
            for member in self.members:
                if member.lost is not None:
                    member.probe = asyncio.create_task(self._probe(member))
        fault: Gone | None = None
        for _ in range(self._tries):
            member = self._choose(prompt, choices) or await self._wait(prompt, choices, fault)
            member.load += choices
            try:
                found = await ask(member.place)
            except Gone as error:
                fault = error
                self._leave_out(member, error)
            else:
                member.answered += 1
                return found
            finally:
                member.load -= choices
        assert fault is not None
        raise fault

    def state(self) -> list[dict[str, object]]:
        """All for a display: url, whether it is in, choices under way, requests answered, times lost."""
        return [
            {"url": m.name, "in": m.lost is None, "load": m.load, "answered": m.answered, "lost": m.times_lost}
            for m in self.members
        ]

    async def close(self) -> None:
        """Ask after lost ones no more."""
        probes = [one.probe for one in self.members if one.probe is not None]
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)

    def _choose(self, prompt: Prompt, choices: int) -> Member[P] | None:
        """The prompt's own place, or the least loaded where that one is busy; None where none is there."""
        there = [one for one in self.members if one.lost is None]
        if not there:
            return None
        start = (prompt.system + "\0" + prompt.user)[:BEGINNING].encode()
        own = max(there, key=lambda one: hashlib.blake2b(start + one.name.encode(), digest_size=8).digest())
        least = min(there, key=lambda one: one.load)
        return least if own.load > least.load + max(SLACK, choices) else own

    async def _wait(self, prompt: Prompt, choices: int, fault: Gone | None) -> Member[P]:
        """Until one is back, until the deadline."""
        until = time.monotonic() + self._deadline
        while (left := until - time.monotonic()) > 0:
            self._back.clear()
            try:
                await asyncio.wait_for(self._back.wait(), left)
            except TimeoutError:
                break
            if (found := self._choose(prompt, choices)) is not None:
                return found
        names = ", ".join(one.name for one in self.members)
        raise fault or Gone(f"none of {names} can be reached; {self._remedy}")

    def _leave_out(self, member: Member[P], error: Gone) -> None:
        if member.lost is not None:
            return  # another request has said so
        member.lost = time.monotonic()
        member.times_lost += 1
        there = sum(one.lost is None for one in self.members)
        warnings.warn(f"{error}; going on with {there} of {len(self.members)} {self._kind}", stacklevel=2)
        member.probe = asyncio.create_task(self._probe(member))

    async def _probe(self, member: Member[P]) -> None:
        """Ask until it is back."""
        pause, longest = PROBE_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = min(longest, 2 * pause)
            if await self._serves(member.place):
                break
        member.lost, member.probe = None, None
        self._back.set()


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order; the first exception cancels the others and is raised as it is."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
