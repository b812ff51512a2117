"""One model on one server, asked in the dialect of the protocol that the server turns out to speak.

Servers differ in which parameters they take. What one refuses by name and can be left out without changing what is
sampled is left out from then on; everything else that goes wrong is an exception in one line.
Requests are retried after a lost connection, a timeout, 408, 409, 429, 5xx and a reply that cannot be read. The waits
double from 0.5 to 8 s with jitter, or are what Retry-After says, however long that is.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import openai

from problems.redaction import redact_beginning
from problems.types import Prompt
from vpo.openai.adapters import ServedAdapter, load_adapter, token_logprobs, unload_adapter
from vpo.openai.address import Endpoint
from vpo.openai.errors import (
    Overflow,
    ServerGone,
    is_filtered,
    is_transient,
    message,
    overflow,
    refused_parameter,
    unavailable,
    wants_no_system,
    words,
)
from vpo.openai.limits import Gate
from vpo.openai.reasoning import requested_fields
from vpo.openai.response import NOTHING, REFUSED, Reply, Unreadable, Wasted, read_reply
from vpo.policies.contract import PolicyUnavailable, PromptTooLong, Waits

LEAST_ROOM = 64
"""A prompt that leaves fewer tokens than this (or than the limit) is too long."""
_NEUTRAL = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "chat_template_kwargs": {"enable_thinking": False},
}
NEUTRAL: dict[str, dict[str, Any]] = {
    "vllm": _NEUTRAL,
    "sglang": _NEUTRAL,
    "llamacpp": {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0},
}
"""By the engine's name in its model list: what makes it sample from the model's own distribution. Without them vLLM
takes top_k, top_p and penalties from the checkpoint's generation_config.json; llama.cpp has defaults of its own."""
CONTINUING = ("vllm", "sglang")
"""Engines that take the last message, where it is the assistant's, as the beginning of the answer."""
NO_KEY = "none"
"""Sent where the environment holds no key: servers of one's own mostly ask for none."""
_LIST_SECONDS = 5.0
_CHANGES = 12
"""Refused parameters in one request after which it is given up."""
_NEEDED = {"model", "messages", "continue_final_message", "add_generation_prompt"}
_NOT_PARAMETERS = (401, 402, 403, 404, 408, 409, 429)
LONG_PAUSE = 10.0
"""Seconds of a pause that a server asks for which are worth a warning. A server that is one of several is not waited
for that long: the others are asked."""


class Server:
    """Asks for completions; used on one event loop, closed there.

    with_ids: whether token ids and log-probabilities are asked for (vLLM's extension of the protocol)
    context: tokens, None where the server does not tell
    continues: whether it goes on from a prompt's prefill
    takes_n: whether a request may ask for several choices; learned
    adapter: what is asked in the model's place
    calls: requests answered; `gate.attempts` counts retries too
    longest: seconds of the longest reply
    reasons: whether it has shown that the model reasons before it answers
    """

    def __init__(
        self, place: Endpoint, temperature: float, top_p: float, engine: str, with_ids: bool, context: int | None
    ) -> None:
        self.place, self.temperature, self.top_p = place, temperature, top_p
        self.with_ids, self.context = with_ids, context
        self.takes_n = place.options.n == "auto"
        self.continues = engine in CONTINUING
        self.adapter: ServedAdapter | None = None
        self.calls = 0
        self.gate = Gate(place.options.rpm, place.options.tpm)
        asked = requested_fields(place, engine)
        self._extras = NEUTRAL.get(engine, {}) | ({"return_token_ids": True} if with_ids else {}) | asked
        self._needed = _NEEDED | asked.keys()
        self._without: set[str] = set()
        self._limit_name = "max_tokens"
        self._folds_system = False
        self._most: int | None = None
        self.longest = 0.0
        self.reasons = False
        self._slots = asyncio.Semaphore(place.options.concurrency)
        self._sent_at: dict[asyncio.Task[Any] | None, float] = {}
        self._retrying = 0
        self._estimates = False
        self._client = self._open_client()

    async def complete(self, prompt: Prompt, *, choices: int, seed: int, limit: int, wasted: Wasted) -> Reply:
        """Up to `choices` choices of at most `limit` tokens; none where the server filters the prompt. What attempts
        cost that gave nothing usable is added to `wasted`.

        Raises PromptTooLong, PolicyUnavailable.
        """
        async with self._slots:
            reserved = (len(prompt.system) + len(prompt.user)) / 4 + choices * limit
            await self.gate.reserve(reserved)
            reply = NOTHING
            try:
                reply = await self._answered(prompt, choices, seed, limit, wasted)
            finally:
                self.gate.settle(reserved, reply.tokens)
        self.calls += 1
        if reply.estimated and not self._estimates:
            self._estimates = True
            text = f"{self.place.url} reports no usage: tokens and cost are estimates, at 4 bytes a token"
            warnings.warn(text, stacklevel=2)
        if self.context is not None and reply.prompt_tokens:
            try:
                self._check_room(Overflow(self.context, reply.prompt_tokens), limit)
            except PromptTooLong:
                wasted.count += reply.count
                raise
        return reply

    def waits(self) -> Waits:
        """What its requests wait for now."""
        now = time.monotonic()
        sent = [at for at in self._sent_at.values() if at]
        oldest = now - min(sent) if sent else 0.0
        return Waits(len(sent), oldest, self._retrying, self.gate.pause, self.longest)

    async def serves(self) -> bool:
        """Whether the model can be asked now, as far as the server's list tells, its adapter loaded once more where it
        is not there; a server without a list says nothing against it."""
        client = self._client.with_options(timeout=_LIST_SECONDS, max_retries=0)
        try:
            body = json_of(await client.models.with_raw_response.list())
            served = {one["id"] for one in body["data"]}
            if self.adapter is not None and self.adapter.name not in served:
                await load_adapter(self._client, self.place, self.adapter)
            return self.place.options.check == "off" or self.place.model in served
        except openai.APIStatusError as error:
            return error.status_code not in (502, 503, 504)  # of a proxy before one that is gone
        except (openai.APIError, PolicyUnavailable):
            return False
        except (Unreadable, KeyError, TypeError):
            return True

    async def take_adapter(self, adapter: ServedAdapter) -> None:
        """Have the server load it, and ask for it from now on. Raises ServerGone, PolicyUnavailable."""
        self.adapter = adapter
        await load_adapter(self._client, self.place, adapter)

    async def drop_adapter(self, adapter: ServedAdapter) -> None:
        """The server need hold it no longer."""
        await unload_adapter(self._client, adapter)

    async def logprobs(self, rows: Sequence[tuple[npt.NDArray[np.int32], int]]) -> list[npt.NDArray[np.float32]]:
        """As vpo.openai.adapters.token_logprobs has it."""
        return await token_logprobs(self._client, self.place, self._model, rows)

    async def close(self) -> None:
        await self._client.close()

    @property
    def _model(self) -> str:
        return self.place.model if self.adapter is None else self.adapter.name

    async def _answered(self, prompt: Prompt, choices: int, seed: int, limit: int, wasted: Wasted) -> Reply:
        for _ in range(_CHANGES):
            request = self._request(prompt, choices if self.takes_n else 1, seed, min(limit, self._most or limit))
            try:
                return await self._sent(request, wasted)
            except openai.APIStatusError as error:
                if error.status_code in _NOT_PARAMETERS or error.status_code >= 500:
                    raise unavailable(error, self.place) from None
                if is_filtered(error):
                    return REFUSED
                too_long = overflow(error)
                if too_long is not None:
                    limit = self._shortened(too_long, limit, request[self._limit_name])
                elif not self._changed(error, request):
                    raise unavailable(error, self.place) from None
            except openai.APIError as error:
                raise unavailable(error, self.place) from None
        raise PolicyUnavailable(
            f"{self.place.url} refuses one parameter after another; is it an OpenAI-compatible server?"
        )

    def _request(self, prompt: Prompt, choices: int, seed: int, limit: int) -> dict[str, Any]:
        system, user = prompt.system, prompt.user
        if system and self._folds_system:
            system, user = "", f"{system}\n\n{user}"
        messages = [{"role": "user", "content": user}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        going_on: dict[str, Any] = {}
        if prompt.prefill:
            messages.append({"role": "assistant", "content": prompt.prefill})
            going_on = {"continue_final_message": True, "add_generation_prompt": False}
        request: dict[str, Any] = {
            "model": self._model,
            "messages": messages,
            "temperature": self.temperature,
            "top_p": self.top_p,
            self._limit_name: limit,
            "seed": seed,
            **({"n": choices} if choices > 1 else {}),
            **({"logprobs": True} if self.with_ids else {}),
            **self._extras,
            **going_on,
        }
        return {name: value for name, value in request.items() if name not in self._without}

    async def _sent(self, request: dict[str, Any], wasted: Wasted) -> Reply:
        """One answer that can be read. Raises openai.APIStatusError for a refusal, PolicyUnavailable."""
        retries = self.place.options.retries
        for attempt in range(retries + 1):
            try:
                return await self._attempt(request)
            except Unreadable as error:
                wasted.count += error.count
                if attempt == retries:
                    text = f"{self.place.url} answers with {error}, asked {retries + 1} times; look at the server"
                    raise ServerGone(self.place.hidden(text)) from None
            except openai.APIError as error:
                if not is_transient(error):
                    raise
                if attempt == retries or self._would_hold(error):
                    raise unavailable(error, self.place, attempt + 1) from None
            await self._wait_to_retry(attempt)
        raise AssertionError("unreachable")

    async def _attempt(self, request: dict[str, Any]) -> Reply:
        """One request. Raises Unreadable, openai.APIError."""
        body = {name: value for name, value in request.items() if name not in ("model", "messages")}
        task = asyncio.current_task()
        self._sent_at[task] = 0.0  # until the gate lets it pass
        try:
            # raw, because servers' extensions and mistakes are no part of the library's types
            raw = await self._client.chat.completions.with_raw_response.create(
                model=request["model"], messages=request["messages"], extra_body=body
            )
            self.longest = max(self.longest, time.monotonic() - self._sent_at[task])
        finally:
            del self._sent_at[task]
        parsed = json_of(raw)
        reply = read_reply(parsed, sum(len(one["content"].encode()) for one in request["messages"]))
        self.reasons |= any(choice.reasoned for choice in reply.choices)
        if any(secret in raw.http_response.text for secret in self.place.secrets):
            raise Unreadable("the key itself, which is not to be stored", reply.count)
        return reply

    async def _wait_to_retry(self, attempt: int) -> None:
        """The pause before the next attempt, unless the server has asked for one, which the gate keeps."""
        self._retrying += 1
        try:
            await asyncio.sleep(min(8.0, 0.5 * 2**attempt) * random.uniform(0.75, 1.0))
            while (pause := self.gate.pause) > 0:
                await asyncio.sleep(pause)
        finally:
            self._retrying -= 1

    def _would_hold(self, error: openai.APIError) -> bool:
        """Warn of a long pause that the server asks for; whether another server is to be asked instead."""
        pause = self.gate.pause
        if pause < LONG_PAUSE or not isinstance(error, openai.APIStatusError):
            return False
        if self.place.one_of_several:
            return True
        until = time.strftime("%H:%M:%S", time.localtime(time.time() + pause))
        text = f"{self.place.url} asks to be left alone ({error.status_code} {message(error)}); waiting until {until}"
        warnings.warn(self.place.hidden(text), stacklevel=2)
        return False

    def _open_client(self) -> openai.AsyncOpenAI:
        """A client whose every attempt passes the gate."""

        async def sending(request: Any) -> None:
            await self.gate.attempt()
            if (task := asyncio.current_task()) in self._sent_at:
                self._sent_at[task] = time.monotonic()

        async def answered(response: Any) -> None:
            self.gate.answered(response.status_code, response.headers)

        options = self.place.options
        return openai.AsyncOpenAI(
            api_key=self.place.key or NO_KEY,
            base_url=self.place.url,
            default_headers=self.place.headers,
            default_query=options.query,
            timeout=options.timeout,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"request": [sending], "response": [answered]}),
        )

    def _shortened(self, too_long: Overflow, limit: int, asked: int) -> int:
        """A limit that fits, where there is one. Raises PromptTooLong."""
        if too_long.most is not None and too_long.most < asked:
            self._most = too_long.most
            return limit
        known = Overflow(too_long.context or self.context, too_long.prompt)
        room = self._check_room(known, limit)
        if room is None or room >= asked:  # refused all the same
            raise PromptTooLong(
                f"{self.place.model} refuses a prompt as too long for its context"
                f"{f' of {known.context} tokens' if known.context else ''}: show fewer or shorter inspirations"
            )
        return room

    def _check_room(self, known: Overflow, limit: int) -> int | None:
        """Tokens that the prompt leaves, None where that is not known. Raises PromptTooLong where they are too few."""
        if known.context is None or known.prompt is None:
            return None
        room = known.context - known.prompt
        if room < min(limit, LEAST_ROOM):
            raise PromptTooLong(
                f"the prompt takes {known.prompt} tokens of a context of {known.context}, which leaves no room for an "
                "answer: show fewer or shorter inspirations, or use a model with a longer context"
            )
        return room

    def _changed(self, error: openai.APIStatusError, request: dict[str, Any]) -> bool:
        """Whether the next request will be another one, without what this refusal was about."""
        name = refused_parameter(error, request.keys() - self._needed)
        if name == "max_tokens" and "max_completion_tokens" in words(error):
            self._limit_name = "max_completion_tokens"  # reasoning models count what they think too
            self.reasons = True
            return True
        if name in ("temperature", "top_p") and request[name] != 1.0:
            return False  # leaving it out would sample from another distribution than was asked for
        if name == "n" or (name is None and "n" in request):
            self.takes_n = False
            return True
        if name is not None and name != self._limit_name:
            if name == "seed" and name not in self._without:
                warnings.warn(f"{self.place.url} takes no seed: its samples cannot be had again", stacklevel=2)
            self._without.add(name)
            return True
        if wants_no_system(error) and not self._folds_system:
            self._folds_system = True
            return len(request["messages"]) > 1
        return False


def json_of(raw: Any) -> Any:
    """The body of a raw response. Raises Unreadable where it is no JSON."""
    response = raw.http_response
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        raise Unreadable(f"what is no JSON: {redact_beginning(response.text, 80)!r}") from None
