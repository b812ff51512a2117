"""Several servers of one model. A request goes to the one that its prompt's beginning belongs to, whose prefix cache
knows it, unless that one has more in flight than the least loaded one by a group or so.

Beginnings belong to servers by rendezvous hashing (Thaler and Ravishankar 1998): where one leaves, only its own move,
and they come back with it. Seeds are the requests' own, so who answers changes nothing but the time. A server that
cannot answer is left out and asked every so often whether it is back; its requests are sent to the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable

B = TypeVar("B")
T = TypeVar("T")

BEGINNING = 600
"""Characters of a prompt that decide where it belongs: the task, which all prompts of a problem share, comes first."""
SLACK = 8
"""Choices that a server may have in flight beyond the least loaded one, before a prompt goes elsewhere."""
PROBE_SECONDS = (0.5, 15.0)
"""Between questions whether a lost server is back: doubling from the first to the second."""


class ReplicaLost(PolicyUnavailable):
    """This server cannot answer, where another with the same model might: unreachable, failing, overloaded."""


@dataclass
class Replica(Generic[B]):
    """One of several.

    load: choices in flight
    lost: whether it is left out
    """

    name: str
    backend: B
    load: int = 0
    lost: bool = False
    probe: asyncio.Task[None] | None = field(default=None, repr=False)


class ReplicaRouter(Generic[B]):
    """Asks whichever of several is best. Used on one event loop, closed there.

    serves: whether one that was lost is back
    tries, deadline: how often a request is sent, and for how many seconds it waits while none answers
    """

    def __init__(
        self, replicas: Sequence[Replica[B]], serves: Callable[[B], Awaitable[bool]], *, tries: int, deadline: float
    ) -> None:
        self.replicas, self._serves, self._tries, self._deadline = list(replicas), serves, tries, deadline
        self._back = asyncio.Event()

    async def ask(self, prompt: Prompt, choices: int, ask: Callable[[B], Awaitable[T]]) -> T:
        """What `ask` gives of the server that is chosen, and of another where that raises ReplicaLost. Raises
        ReplicaLost where none is left, and whatever else `ask` raises."""
        for replica in self.replicas:
            if replica.lost and replica.probe is None:  # since the start
                replica.probe = asyncio.create_task(self._probe(replica))
        fault: ReplicaLost | None = None
        for _ in range(self._tries):
            replica = self._choose(prompt, choices) or await self._wait(prompt, choices, fault)
            replica.load += choices
            try:
                return await ask(replica.backend)
            except ReplicaLost as error:
                fault = error
                self._leave_out(replica, error)
            finally:
                replica.load -= choices
        assert fault is not None
        raise fault

    async def close(self) -> None:
        """Ask after lost ones no more."""
        await _cancel([replica.probe for replica in self.replicas if replica.probe is not None])

    def _choose(self, prompt: Prompt, choices: int) -> Replica[B] | None:
        """The prompt's own server, or the least loaded where that one is busy; None where none answers."""
        up = [replica for replica in self.replicas if not replica.lost]
        if not up:
            return None
        start = (prompt.system + "\0" + prompt.user)[:BEGINNING].encode()
        own = max(up, key=lambda replica: hashlib.blake2b(start + replica.name.encode(), digest_size=8).digest())
        least = min(up, key=lambda replica: replica.load)
        return least if own.load > least.load + max(SLACK, choices) else own

    async def _wait(self, prompt: Prompt, choices: int, fault: ReplicaLost | None) -> Replica[B]:
        """Until one is back, until the deadline."""
        until = time.monotonic() + self._deadline
        while (left := until - time.monotonic()) > 0:
            self._back.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._back.wait(), left)
            if (replica := self._choose(prompt, choices)) is not None:
                return replica
        names = ", ".join(replica.name for replica in self.replicas)
        raise fault or ReplicaLost(f"none of {names} can be reached; start one again, then evo resume")

    def _leave_out(self, replica: Replica[B], error: ReplicaLost) -> None:
        if replica.lost:
            return  # by another request
        replica.lost = True
        up = sum(not other.lost for other in self.replicas)
        warnings.warn(f"Lost a server: {error}. Continuing with {up} of {len(self.replicas)}.", stacklevel=2)
        replica.probe = asyncio.create_task(self._probe(replica))

    async def _probe(self, replica: Replica[B]) -> None:
        """Ask until it is back."""
        pause, longest = PROBE_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = min(longest, 2 * pause)
            if await self._serves(replica.backend):
                break
        replica.lost, replica.probe = False, None
        self._back.set()


class ReadWriteLock:
    """Who may use a server now: many samplers together (`read`), or one trainer alone (`write`), for which new samplers
    wait."""

    def __init__(self) -> None:
        self._turn, self._idle, self._readers = asyncio.Lock(), asyncio.Event(), 0
        self._idle.set()

    @contextlib.asynccontextmanager
    async def read(self) -> AsyncIterator[None]:
        async with self._turn:
            self._readers += 1
            self._idle.clear()
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._idle.set()

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[None]:
        async with self._turn:  # held while it waits for those who sample, so that no more begin
            await self._idle.wait()
            yield


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order; the first exception cancels the others and is raised as it is."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await _cancel(tasks)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def gather_available(replies: Sequence[Awaitable[T]]) -> list[T]:
    """The replies of the servers that answer, in order; one that raises ReplicaLost is left out. Raises what a server
    raises otherwise, and the first ReplicaLost if none answers."""
    outcomes = await asyncio.gather(*replies, return_exceptions=True)
    faults = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    refused = [fault for fault in faults if not isinstance(fault, ReplicaLost)]
    if refused or (faults and len(faults) == len(outcomes)):
        raise (refused or faults)[0]
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
