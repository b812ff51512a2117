"""One model on several servers: `openai:MODEL@URL1,URL2,...`, spread as vpo.policies.spread has it.

A server that cannot be reached, fails or stays overloaded is lost. A search ends only where none has answered for as
long as one request may be retried.
"""

from __future__ import annotations

from collections.abc import Sequence

from problems.types import Prompt
from vpo.openai.address import Endpoint
from vpo.openai.response import Reply
from vpo.openai.server import Server
from vpo.policies import spread
from vpo.policies.spread import Member


class Spread(spread.Spread[Server]):
    """Asks for completions as a Server does, of whichever of several is best.

    members: every server that the address names; lost: those that did not answer at the start
    """

    def __init__(self, place: Endpoint, servers: Sequence[Server], lost: Sequence[bool]) -> None:
        retries = place.options.retries
        super().__init__(
            [Member(one.place.url, one, lost=0.0 if gone else None) for one, gone in zip(servers, lost, strict=True)],
            Server.serves,
            tries=len(servers) * (retries + 1),
            patience=sum(min(8.0, 0.5 * 2**attempt) for attempt in range(retries)),
            kind="servers",
            remedy="start one again, then evo resume",
        )
        self.place = place
        self.continues = all(one.continues for one in servers)
        self.takes_n = all(one.takes_n for one in servers)

    @property
    def calls(self) -> int:
        return sum(one.place.calls for one in self.members)

    async def complete(self, prompt: Prompt, *, choices: int, seed: int, limit: int) -> Reply:
        """As Server.complete. Raises PromptTooLong, PolicyUnavailable."""
        return await self.ask(
            prompt, choices, lambda server: server.complete(prompt, choices=choices, seed=seed, limit=limit)
        )

    async def close(self) -> None:
        await super().close()
        for member in self.members:
            await member.place.close()
