"""A model behind an OpenAI-compatible server as a policy: vLLM, SGLang, llama.cpp, Ollama, hosted APIs.

Groups may overlap freely; requests in flight are bounded. The request for rollout i of a group carries a seed derived
from the run's seed, the group's stream and i. Where one request gives a whole group (`n`), vLLM numbers its choices'
seeds from the request's, which are the same. How far a seed reproduces a sample is the server's affair.

Where the server gives token ids and the log-probabilities of the distribution that it samples from, rollouts carry them
and training from traces can use them. The weights are not here: a trainer beside the search needs a copy of them
(vpo.openai.trainable).
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
import warnings
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from problems.types import NO_USAGE, Prompt, Rollout, Usage
from vpo.openai.address import Endpoint
from vpo.openai.reasoning import choose_limit
from vpo.openai.response import NOTHING, Reply, ReplyChoice, TokenCount, Wasted
from vpo.openai.server import Server
from vpo.policies import spread
from vpo.policies.contract import GivenUp, Policy, PolicyTraits, PolicyUnavailable, PromptTooLong, Waits
from vpo.policies.spread import Gone, Member, together

_WARM, _LONG = 0.5, 16
"""Temperature and length from which equal rollouts are no accident."""
_SEEDS = (1 << 31) - (1 << 16)
"""Seeds lie below it, so that those of a group's places stay positive in 32 bits."""


class OpenAIPolicy(Policy):
    """A Policy over a server.

    place: where it is; version is its address without options
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
        self.traits = PolicyTraits(
            logprobs=has_logprobs,
            prefill=server.continues,
            room=choose_limit(place, 0, server.context, server.reasons),
            price=place.price,
            remote=True,
        )
        self.temperature, self.top_p, self.max_tokens = temperature, top_p, max_tokens
        self.batch = batch or 0
        self._closed = self._told = False
        self._chooses = max_tokens is None
        self._answered = 0
        self._sampling: dict[_Sampling, Prompt] = {}

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        """One list per prompt of `rollouts` Rollouts, in order. What a server's filter keeps back is an empty rollout.
        A request that fails although the server answers others is a rollout with a fault.

        Raises PromptTooLong; PolicyUnavailable if the server is gone, refuses, or stays overloaded.
        """
        if self._closed:
            raise PolicyUnavailable(f"{self.version} is closed")
        if self._chooses and self.server.reasons:
            self.max_tokens = choose_limit(self.place, self.max_tokens or 0, self.server.context, True)
        limit = self.max_tokens or self._default_limit(answers)
        return await together([self._group(prompt, rollouts, limit, seed) for prompt in prompts])

    def waits(self) -> Waits:
        """What its requests wait for now (vpo.policies.contract.Policy)."""
        return self.server.waits()

    def give_up(self, prompt: Prompt) -> None:
        """Wait no longer for this prompt (vpo.policies.contract.Policy)."""
        for sampling, sampled in list(self._sampling.items()):
            if sampled is prompt:
                sampling.give_up()

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
        sampling = _Sampling()
        self._sampling[sampling] = prompt
        try:
            whole = NOTHING
            if rollouts > 1 and self.server.takes_n:
                outcome = await self._request(sampling, prompt, choices=rollouts, seed=first, limit=limit)
                if isinstance(outcome, PolicyUnavailable) or outcome.refused:
                    return self._rollouts([outcome] * rollouts, sampling, prompt.prefill)
                whole = outcome
                if len(whole.choices) < rollouts:
                    self.server.takes_n = False
            missing = range(min(len(whole.choices), rollouts), rollouts)
            singles = await together(
                [self._request(sampling, prompt, choices=1, seed=first + place, limit=limit) for place in missing]
            )
            if not whole.choices:
                sampling.wasted.count += whole.count
            found = self._rollouts([whole, *singles] if whole.choices else singles, sampling, prompt.prefill)[:rollouts]
        except (PolicyUnavailable, PromptTooLong) as error:
            error.paid = self._price(sampling.wasted.count)
            raise
        finally:
            del self._sampling[sampling]
        self._check_sampling(found)
        return found

    async def _request(
        self, sampling: _Sampling, prompt: Prompt, *, choices: int, seed: int, limit: int
    ) -> Reply | PolicyUnavailable:
        """A reply, or why none came. Raises PromptTooLong."""
        before = self._answered
        complete = self.server.complete(prompt, choices=choices, seed=seed, limit=limit, wasted=sampling.wasted)
        try:
            reply = await sampling.follow(complete)
        except PolicyUnavailable as error:
            # a server that answers others is there: this request has had all its attempts, and is given up
            sampling.lasting |= not isinstance(error, Gone) or self._answered == before
            return error
        self._answered += 1
        return reply

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

    def _rollouts(
        self, replies: Sequence[Reply | PolicyUnavailable], sampling: _Sampling, prefill: str
    ) -> list[Rollout]:
        """Every choice of the replies in order, an empty rollout for a reply without any. A request that failed is a
        rollout with a fault if others of the group were answered, or the server answers other groups.

        Raises the first failure if the server is gone for all of them.
        """
        answered = [reply for reply in replies if isinstance(reply, Reply)]
        failures = [reply for reply in replies if isinstance(reply, PolicyUnavailable)]
        if failures and sampling.lasting and not any(reply.choices for reply in answered):
            raise failures[0]
        prompt_ids = next((reply.prompt_ids for reply in answered if len(reply.prompt_ids)), NOTHING.prompt_ids)
        found = []
        for reply in replies:
            if isinstance(reply, PolicyUnavailable):
                found.append(Rollout("", EMPTY.token_ids, EMPTY.logprobs, prompt_ids, usage=NO_USAGE, fault=str(reply)))
                continue
            for number, choice in enumerate(reply.choices or (EMPTY,)):
                logprobs = choice.logprobs if self.traits.logprobs else EMPTY.logprobs
                if self.traits.logprobs and self.temperature == 0.0:
                    logprobs = np.zeros_like(logprobs)  # it could draw nothing else
                count = reply.count if number == 0 else TokenCount(estimated=reply.estimated)
                usage = self._price(replace(count, completion=choice.tokens))
                text = prefill + choice.text
                found.append(
                    Rollout(text, choice.token_ids, logprobs, prompt_ids, choice.finish, usage, choice.reasoned)
                )
        wasted = self._price(sampling.wasted.count)
        if wasted != NO_USAGE:
            found[0] = replace(found[0], usage=wasted + (found[0].usage or NO_USAGE))
        return found

    def _price(self, count: TokenCount) -> Usage:
        cached = min(count.cached, count.prompt)
        price = self.place.price
        cost = 0.0 if price is None else price.cost(count.prompt, count.completion, cached)
        return Usage(count.prompt, count.completion, cost, count.estimated)


class _Sampling:
    """One prompt that is being sampled.

    wasted: what its attempts cost that gave nothing usable
    lasting: whether a failure is not this request's alone, and others would meet it too
    """

    def __init__(self) -> None:
        self.wasted = Wasted()
        self.lasting = False
        self._given_up = False
        self._tasks: set[asyncio.Task[Reply]] = set()

    def give_up(self) -> None:
        self._given_up = self.lasting = True
        for task in self._tasks:
            task.cancel()

    async def follow(self, complete: Coroutine[Any, Any, Reply]) -> Reply:
        """The reply. Raises GivenUp if it is given up."""
        task = asyncio.ensure_future(complete)
        self._tasks.add(task)
        try:
            if self._given_up:
                task.cancel()
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self._given_up and not (current is not None and current.cancelling()):
                raise GivenUp("the search stopped waiting for this reply") from None
            raise
        finally:
            task.cancel()
            self._tasks.discard(task)


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
            deadline=sum(min(8.0, 0.5 * 2**attempt) for attempt in range(retries)),
            kind="servers",
            remedy="start one again, then evo resume",
        )
        self.place = place
        contexts = [one.context for one in servers if one.context is not None]
        self.context = min(contexts) if contexts else None
        self.continues = all(one.continues for one in servers)
        self.takes_n = all(one.takes_n for one in servers)

    @property
    def reasons(self) -> bool:
        """Whether a server has shown that the model reasons."""
        return any(one.place.reasons for one in self.members)

    @property
    def calls(self) -> int:
        return sum(one.place.calls for one in self.members)

    async def complete(self, prompt: Prompt, *, choices: int, seed: int, limit: int, wasted: Wasted) -> Reply:
        """As Server.complete. Raises PromptTooLong, PolicyUnavailable."""
        return await self.ask(
            prompt,
            choices,
            lambda server: server.complete(prompt, choices=choices, seed=seed, limit=limit, wasted=wasted),
        )

    def waits(self) -> Waits:
        """What the requests to all servers wait for; of a pause, only one that all have asked for."""
        waits = [member.place.waits() for member in self.members]
        return Waits(
            sum(one.replies for one in waits),
            max(one.oldest for one in waits),
            sum(one.retries for one in waits),
            min(one.pause for one in waits),
            max(one.longest for one in waits),
        )

    async def close(self) -> None:
        await super().close()
        for member in self.members:
            await member.place.close()
