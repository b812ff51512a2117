"""One model on several servers: `openai:MODEL@URL1,URL2,...`.

A request goes to the server that its prompt's beginning belongs to, whose prefix cache knows it, unless that server has
more under way than the least loaded one by a group or so. Beginnings belong to servers by rendezvous hashing (Thaler
and Ravishankar 1998): where one leaves, only its own move, and they come back with it. Seeds are the requests' own, so
which server answers changes nothing but the time.

A server that cannot be reached, fails or stays overloaded is left out and asked every so often whether it is back; what
it owed is asked of the others. A search ends only where none has answered for as long as one request may be retried.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

from problems.types import Prompt
from vpo.openai.address import Endpoint
from vpo.openai.errors import ServerGone
from vpo.openai.response import Reply
from vpo.openai.server import Server

BEGINNING = 600
"""Characters of a prompt that decide where it belongs: the task, which all prompts of a problem share, comes first."""
SLACK = 8
"""Choices that a server may have under way beyond the least loaded one, before a prompt goes elsewhere."""
PROBE_SECONDS = (0.5, 15.0)
"""Between questions whether a lost server is back: doubling from the first to the second."""


@dataclass
class Member:
    """A server of several. load: choices under way; lost: since when it is left out (monotonic), None while it is in"""

    server: Server
    load: int = 0
    lost: float | None = None
    times_lost: int = 0
    answered: int = 0
    probe: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return self.server.place.url


class Spread:
    """Asks for completions as a Server does, of whichever of several is best. Used on one event loop, closed there.

    members: every server that the address names, in its order; lost: those that did not answer at the start
    """

    def __init__(self, place: Endpoint, servers: Sequence[Server], lost: Sequence[bool]) -> None:
        self.place = place
        self.members = [Member(one, lost=0.0 if gone else None) for one, gone in zip(servers, lost, strict=True)]
        self.continues = all(one.continues for one in servers)
        self.takes_n = all(one.takes_n for one in servers)
        self._started = False
        self._back = asyncio.Event()

    @property
    def calls(self) -> int:
        return sum(one.server.calls for one in self.members)

    async def ask(self, prompt: Prompt, *, choices: int, seed: int, limit: int) -> Reply:
        """As Server.ask. Raises PromptTooLong, PolicyUnavailable."""
        if not self._started:
            self._started = True
            for member in self.members:
                if member.lost is not None:
                    member.probe = asyncio.create_task(self._probe(member))
        fault: ServerGone | None = None
        for _ in range(len(self.members) * (self.place.options.retries + 1)):
            member = self._choose(prompt, choices) or await self._wait(prompt, choices, fault)
            member.load += choices
            try:
                reply = await member.server.ask(prompt, choices=choices, seed=seed, limit=limit)
            except ServerGone as error:
                fault = error
                self._leave_out(member, error)
            else:
                member.answered += 1
                return reply
            finally:
                member.load -= choices
        assert fault is not None
        raise fault

    def state(self) -> list[dict[str, object]]:
        """Every server for a display: url, whether it is in, choices under way, requests answered, times lost."""
        return [
            {"url": m.url, "in": m.lost is None, "load": m.load, "answered": m.answered, "lost": m.times_lost}
            for m in self.members
        ]

    async def close(self) -> None:
        probes = [one.probe for one in self.members if one.probe is not None]
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)
        for member in self.members:
            await member.server.close()

    def _choose(self, prompt: Prompt, choices: int) -> Member | None:
        """The prompt's own server, or the least loaded where that one is busy; None where none is there."""
        there = [one for one in self.members if one.lost is None]
        if not there:
            return None
        start = (prompt.system + "\0" + prompt.user)[:BEGINNING].encode()
        own = max(there, key=lambda one: hashlib.blake2b(start + one.url.encode(), digest_size=8).digest())
        least = min(there, key=lambda one: one.load)
        return least if own.load > least.load + max(SLACK, choices) else own

    async def _wait(self, prompt: Prompt, choices: int, fault: ServerGone | None) -> Member:
        """Until one is back, for as long as the waits of a request's retries may take together."""
        until = time.monotonic() + sum(min(8.0, 0.5 * 2**attempt) for attempt in range(self.place.options.retries))
        while (left := until - time.monotonic()) > 0:
            self._back.clear()
            try:
                await asyncio.wait_for(self._back.wait(), left)
            except TimeoutError:
                break
            if (found := self._choose(prompt, choices)) is not None:
                return found
        urls = ", ".join(one.url for one in self.members)
        raise fault or ServerGone(f"none of {urls} can be reached; start one again, then evo resume")

    def _leave_out(self, member: Member, error: ServerGone) -> None:
        if member.lost is not None:
            return  # another request has said so
        member.lost = time.monotonic()
        member.times_lost += 1
        there = sum(one.lost is None for one in self.members)
        warnings.warn(f"{error}; going on with {there} of {len(self.members)} servers", stacklevel=2)
        member.probe = asyncio.create_task(self._probe(member))

    async def _probe(self, member: Member) -> None:
        """Ask until it is back."""
        pause, longest = PROBE_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = min(longest, 2 * pause)
            if await member.server.serves():
                break
        member.lost, member.probe = None, None
        self._back.set()
