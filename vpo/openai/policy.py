"""A model behind an OpenAI-compatible server as a policy: vLLM, SGLang, llama.cpp, Ollama, hosted APIs.

Groups may overlap freely; requests in flight are bounded. The request for rollout i of a group carries a seed derived
from the run's seed, the group's stream and i. Where one request gives a whole group (`n`), vLLM numbers its choices'
seeds from the request's, which are the same. How far a seed reproduces a sample is the server's affair.

Where the server gives token ids and the log-probabilities of the distribution that it samples from, rollouts carry them
and training from traces can use them. The weights are not here: a trainer beside the search needs a copy of them
(vpo.openai.trainable).
"""

from __future__ import annotations

import hashlib
import struct
import warnings
from collections.abc import Sequence

import numpy as np

from problems.types import Prompt, Rollout, Usage
from vpo.openai.address import Endpoint
from vpo.openai.response import NOTHING, Reply, ReplyChoice
from vpo.openai.server import Server
from vpo.policies import spread
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.spread import Member, together

_WARM, _LONG = 0.5, 16
"""Temperature and length from which equal rollouts are no accident."""
_SEEDS = (1 << 31) - (1 << 16)
"""Seeds lie below it, so that those of a group's places stay positive in 32 bits."""


class OpenAIPolicy:
    """A Policy over a server.

    place: where it is; version is its address without options
    has_logprobs: whether rollouts carry token ids and log-probabilities
    continues: whether the server is known to go on from a beginning
    """

    prompt_format = "chat"

    def __init__(
        self,
        place: Endpoint,
        server: Server | ServerSpread,
        *,
        has_logprobs: bool,
        temperature: float,
        top_p: float,
        max_tokens: int | None = None,
        batch: int | None = None,
    ) -> None:
        self.place, self.server = place, server
        self.version = place.version
        self.continues = server.continues
        self.has_logprobs = has_logprobs
        self.temperature, self.top_p, self.max_tokens = temperature, top_p, max_tokens
        self.batch = batch or 0
        self._closed = self._told = False

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        """One list per prompt of `rollouts` Rollouts, in order. What a server's filter keeps back is an empty rollout.

        Raises PromptTooLong; PolicyUnavailable where the server is gone, refuses, or stays overloaded.
        """
        if self._closed:
            raise PolicyUnavailable(f"{self.version} is closed")
        limit = self.max_tokens or self._default_limit(answers)
        return await together([self._group(prompt, rollouts, limit, seed) for prompt in prompts])

    def servers(self) -> list[dict[str, object]]:
        """Each server's state (vpo.policies.contract.OnServers)."""
        return self.server.state() if isinstance(self.server, ServerSpread) else []

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        if not self._closed:
            self._closed = True
            await self.server.close()

    def _default_limit(self, answers: int) -> int:
        from vpo.chain import default_max_tokens

        return default_max_tokens("python", answers, self.prompt_format)

    async def _group(self, prompt: Prompt, rollouts: int, limit: int, seed: int) -> list[Rollout]:
        first, limit = first_seed(seed, prompt.stream), prompt.limit(limit)
        whole = NOTHING
        if rollouts > 1 and self.server.takes_n:
            whole = await self.server.complete(prompt, choices=rollouts, seed=first, limit=limit)
            if whole.refused:
                return self._rollouts([whole] * rollouts, prompt.prefill)
            if len(whole.choices) < rollouts:
                self.server.takes_n = False
        missing = range(min(len(whole.choices), rollouts), rollouts)
        singles = await together(
            [self.server.complete(prompt, choices=1, seed=first + place, limit=limit) for place in missing]
        )
        found = self._rollouts([whole, *singles] if whole.choices else singles, prompt.prefill)[:rollouts]
        self._check_sampling(found)
        return found

    def _check_sampling(self, group: Sequence[Rollout]) -> None:
        """Say it once where a server seems to take the likeliest token always, as transformers serve does for a
        checkpoint whose generation_config.json has no do_sample."""
        alike = len(group) > 1 and len({rollout.text for rollout in group}) == 1
        if alike and self.temperature >= _WARM and group[0].tokens >= _LONG and not self._told:
            self._told = True
            warnings.warn(
                f"{self.place.url} gave {len(group)} rollouts of one prompt that are all alike, at temperature "
                f"{self.temperature:g}; does it sample?",
                stacklevel=2,
            )

    def _rollouts(self, replies: Sequence[Reply], prefill: str) -> list[Rollout]:
        """Every choice of the replies in order, an empty one for a reply without any."""
        prompt_ids = next((reply.prompt_ids for reply in replies if len(reply.prompt_ids)), NOTHING.prompt_ids)
        found = []
        for reply in replies:
            for number, choice in enumerate(reply.choices or (EMPTY,)):
                logprobs = choice.logprobs if self.has_logprobs else EMPTY.logprobs
                if self.has_logprobs and self.temperature == 0.0:
                    logprobs = np.zeros_like(logprobs)  # it could draw nothing else
                usage = self._usage(reply, choice, first=number == 0)
                text = prefill + choice.text
                found.append(Rollout(text, choice.token_ids, logprobs, prompt_ids, choice.finish, usage))
        return found

    def _usage(self, reply: Reply, choice: ReplyChoice, first: bool) -> Usage:
        prompt, cached = (reply.prompt_tokens, min(reply.cached_tokens, reply.prompt_tokens)) if first else (0, 0)
        read, written, reread = self.place.options.price or (0.0, 0.0, 0.0)
        cost = (read * (prompt - cached) + reread * cached + written * choice.tokens) / 1e6
        return Usage(prompt, choice.tokens, cost)


EMPTY = ReplyChoice("", "stop", np.zeros(0, np.int32), np.zeros(0, np.float32), 0)


def first_seed(seed: int, stream: int) -> int:
    """The seed of a group's first place; the others count up from it."""
    place = struct.pack("<qq", seed & (1 << 63) - 1, stream & (1 << 63) - 1)
    return int.from_bytes(hashlib.blake2b(place, digest_size=8).digest(), "little") % _SEEDS


# One model on several servers: `openai:MODEL@URL1,URL2,...`, spread as vpo.policies.spread has it.
#
# A server that cannot be reached, fails or stays overloaded is lost. A search ends only where none has answered for as
# long as one request may be retried.


class ServerSpread(spread.Spread[Server]):
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
