"""A model behind an OpenAI-compatible server as a policy: vLLM, SGLang, llama.cpp, Ollama, hosted APIs.

Groups may overlap freely; requests in flight are bounded. The request for rollout i of a group carries a seed derived
from the run's seed, the group's stream and i. Where one request gives a whole group (`n`), vLLM numbers its choices'
seeds from the request's, which are the same. How far a seed reproduces a sample is the server's affair.

Where the server gives token ids and the log-probabilities of the distribution that it samples from, rollouts carry them
and training from traces can use them. The weights are not here; vpo.servers.vllm brings new ones to vLLM.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from problems.types import NO_USAGE, Prompt, Rollout, Usage
from vpo.policies.address import PolicyAddress, PolicySettings
from vpo.policies.contract import Policy, PolicyTraits, PolicyUnavailable, gather_or_cancel, rollout_bits
from vpo.policies.encoding import default_limit
from vpo.servers.address import Endpoint, endpoint
from vpo.servers.client import Capabilities, GroupRequest, Server, ServerUnavailable, TokenText, probe_server
from vpo.servers.replies import NO_IDS, NO_LOGPROBS, Reply, ReplyChoice, TokenCount

WHOLE_PROGRAM, REASONED = 4096, 32_768
"""Tokens of a reply if the user sets no limit: of a model that answers at once (OpenEvolve's default), and of one whose
reasoning counts too."""
_WARM, _LONG = 0.5, 16
"""Temperature and length from which equal rollouts are no accident."""
_SEEDS = (1 << 31) - (1 << 16)
"""The seed of a group's first rollout lies below it; the others count up from it and stay positive in 32 bits."""
_EMPTY = ReplyChoice("", "stop", NO_IDS, NO_LOGPROBS, 0)


class ServedPolicy(Policy):
    """A Policy over a server.

    endpoint: of the model; version is its address without options
    text: of a model whose prompts are sent as token ids; None for chat
    """

    prompt_format = "chat"

    def __init__(
        self,
        endpoint: Endpoint,
        can: Capabilities,
        settings: PolicySettings,
        *,
        text: TokenText | None = None,
    ) -> None:
        self.endpoint, self.version, self._can, self._text = endpoint, endpoint.version, can, text
        self.temperature, self.top_p, self.max_tokens = settings.temperature, settings.top_p, settings.max_tokens
        self.batch = settings.batch or 0
        self.server = Server(endpoint, can, text)
        effort = endpoint.options.reasoning_effort
        self.traits = PolicyTraits(
            logprobs=can.logprobs,
            room=self._room(effort is not None and effort != "none") if text is None else 0,
            price=endpoint.options.price,
            remote=True,
        )
        self._limited = settings.max_tokens is not None
        self._closed = self._warned = False
        self._answered = 0

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        """One list per prompt of `rollouts` Rollouts, in order. What a server's filter keeps back is an empty rollout.
        A request that fails although the server answers others is a rollout with a fault.

        Raises PromptTooLong; PolicyUnavailable if the server is gone, refuses, or stays overloaded.
        """
        if self._closed:
            raise PolicyUnavailable(f"{self.version} is closed")
        if self._text is None and not self._limited and self.server.reasons:
            self.max_tokens = max(self.max_tokens or 0, self._room(True))
        limit = self.max_tokens or default_limit(answers, self.prompt_format)
        return await gather_or_cancel([self._group(prompt, rollouts, limit, seed) for prompt in prompts])

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        if not self._closed:
            self._closed = True
            await self.server.close()

    def _room(self, reasons: bool) -> int:
        """Tokens of a reply if the user sets no limit: room rather than a target, as a reply ends by itself. At most
        half of the context."""
        room = REASONED if reasons else WHOLE_PROGRAM
        return room if self._can.context is None else min(room, self._can.context // 2)

    async def _group(self, prompt: Prompt, rollouts: int, limit: int, seed: int) -> list[Rollout]:
        first = rollout_bits(seed, prompt.stream, size=8) % _SEEDS
        request = GroupRequest(prompt, rollouts, first, limit, self.temperature, self.top_p)
        sampling = _Sampling()
        whole = Reply()
        if rollouts > 1 and self.server.takes_n:
            outcome = await self._request(sampling, request)
            if isinstance(outcome, PolicyUnavailable) or outcome.refused:
                return self._rollouts([outcome] * rollouts, sampling)
            whole = outcome
            if len(whole.choices) + whole.failed < rollouts:
                self.server.takes_n = False
        missing = range(min(len(whole.choices), rollouts), rollouts)
        singles = await gather_or_cancel(
            [self._request(sampling, replace(request, choices=1, seed=first + index)) for index in missing]
        )
        if not whole.choices:
            sampling.discarded.append(whole.count)
        replies = [whole, *singles] if whole.choices else singles
        group = self._rollouts(replies, sampling)[:rollouts]
        self._check_sampling(group)
        return group

    async def _request(self, sampling: _Sampling, request: GroupRequest) -> Reply | PolicyUnavailable:
        """A reply, or why none came. Raises PromptTooLong."""
        before = self._answered
        try:
            reply = await self.server.complete(request, sampling.discarded)
        except PolicyUnavailable as error:
            # a server that answers others is there: this request has had all its attempts, and is given up
            sampling.lasting |= not isinstance(error, ServerUnavailable) or self._answered == before
            return error
        self._answered += 1
        return reply

    def _check_sampling(self, group: Sequence[Rollout]) -> None:
        """Say it once where a server seems to take the likeliest token always, as transformers serve does for a
        checkpoint whose generation_config.json has no do_sample."""
        alike = len(group) > 1 and len({rollout.text for rollout in group}) == 1
        if alike and self.temperature >= _WARM and group[0].tokens >= _LONG and not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.endpoint.url} gave {len(group)} rollouts of one prompt that are all alike, at temperature "
                f"{self.temperature:g}; does it sample?",
                stacklevel=2,
            )

    def _rollouts(self, replies: Sequence[Reply | PolicyUnavailable], sampling: _Sampling) -> list[Rollout]:
        """Every choice of the replies in order, an empty rollout for a reply without any. A request that failed is a
        rollout with a fault if others of the group were answered, or the server answers other groups.

        Raises the first failure if the server is gone for all of them.
        """
        answered = [reply for reply in replies if isinstance(reply, Reply)]
        failures = [reply for reply in replies if isinstance(reply, PolicyUnavailable)]
        if failures and sampling.lasting and not any(reply.choices for reply in answered):
            raise failures[0]
        prompt_ids = next((reply.prompt_ids for reply in answered if len(reply.prompt_ids)), NO_IDS)
        rollouts = []
        for reply in replies:
            if isinstance(reply, PolicyUnavailable):
                rollouts.append(Rollout("", NO_IDS, NO_LOGPROBS, prompt_ids, usage=NO_USAGE, fault=str(reply)))
                continue
            empty = replace(_EMPTY, tokens=reply.count.completion)
            for number, choice in enumerate(reply.choices or (empty,)):
                count = reply.count if number == 0 else TokenCount(estimated=reply.count.estimated)
                usage = self._price(replace(count, completion=choice.tokens))
                rollouts.append(self._rollout(choice, prompt_ids, usage))
        discarded = self._price(*sampling.discarded)
        if discarded != NO_USAGE:
            rollouts[0] = replace(rollouts[0], usage=discarded + (rollouts[0].usage or NO_USAGE))
        return rollouts

    def _rollout(self, choice: ReplyChoice, prompt_ids: Any, usage: Usage) -> Rollout:
        text, finish = choice.text, choice.finish
        if self._text is not None and len(choice.token_ids):
            text, finish = self._text.decode(choice.token_ids)
        logprobs = choice.logprobs if self.traits.logprobs else NO_LOGPROBS
        if self.traits.logprobs and self.temperature == 0.0:
            logprobs = np.zeros_like(logprobs)  # it could draw nothing else
        return Rollout(text, choice.token_ids, logprobs, prompt_ids, finish, usage, choice.withheld)

    def _price(self, *counts: TokenCount) -> Usage:
        count = sum(counts, TokenCount())
        price = self.endpoint.options.price
        cost = 0.0 if price is None else price.cost(count.prompt, count.completion, min(count.cached, count.prompt))
        return Usage(count.prompt, count.completion, cost, count.estimated)


@dataclass
class _Sampling:
    """One prompt that is being sampled.

    discarded: what its attempts cost that gave nothing usable
    lasting: whether a failure is not this request's alone, and others would meet it too
    """

    discarded: list[TokenCount] = field(default_factory=list)
    lasting: bool = False


def load_openai(address: PolicyAddress, settings: PolicySettings) -> ServedPolicy:
    """The policy at a server, which is asked what it serves. Raises BadAddress in one line."""
    server = endpoint(address)
    return ServedPolicy(server, probe_server(server, settings.temperature, settings.top_p), settings)
