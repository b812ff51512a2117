"""One model on one server, asked in the dialect of the protocol that the server turns out to speak.

Servers differ in which parameters they take. What one refuses by name and can be left out without changing what is
sampled is left out from then on; everything else that goes wrong is an exception in one line. The openai client retries
after a lost connection, a timeout, 408, 409, 429 and 5xx, after 0.5 to 8 s or what Retry-After says, up to two minutes.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import openai

from problems.contract import BadAddress
from problems.redaction import redact_beginning
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.policies.encoding import LEAST_ANSWER, decode_rollout, remaining_tokens, tokenize_prompt
from vpo.servers.address import HOSTED, Endpoint
from vpo.servers.replies import FailedReply, Reply, TokenCount, Unreadable, read_reply, top_logprobs_in

CHAT_PATH, TOKENS_PATH = "/chat/completions", "/completions"
GIVING_IDS = ("vllm", "sglang")
"""Engines, by their name in the model list, that give token ids; others would refuse to be asked, or bill for it."""
NO_KEY = "none"
"""Sent where the environment holds no key: servers of one's own mostly ask for none."""
POST_SECONDS = 300.0
LONG_PAUSE, LONGEST_PAUSE = 10.0, 120.0
"""Seconds of a pause that a server asks for which are worth a warning, and those that the client waits at most."""
_CHANGES = 16
"""Refusals of one request, each answered by a change of it, after which it is given up."""
_NEEDED = {"model", "messages", "prompt", "stop_token_ids", "ignore_eos", "return_token_ids"}
_NOT_PARAMETERS = (401, 402, 403, 404, 408, 409, 429)
_RETRIED = (408, 409, 429)

_OVERFLOW = re.compile(
    r"context[_ ](?:length|window|size)|maximum model length|prompt is too long|n_ctx"
    r"|(?:input|prompt)\D{0,30} (?:exceeds|longer than)",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"(?:context[_ ](?:length|window|size)|maximum model length|\bn_ctx)\b\D{0,20}?(\d[\d,]*)", re.IGNORECASE
)
_PROMPT = re.compile(
    r"(\d[\d,]*) (?:in the messages|in (?:your|the) prompt|(?:input|prompt) tokens|tokens from the input|of text input)"
    r"|(?:resulted in |n_prompt_tokens\W+|(?:input|prompt|request) \((?:length )?)(\d[\d,]*)",
    re.IGNORECASE,
)
"""In the refusal of a request that is too long: the tokens of the model's context, and those of the prompt."""
_MOST = re.compile(r"at most (\d[\d,]*) (?:completion|output)", re.IGNORECASE)
"""In the refusal of a limit that no prompt may have."""
_FILTERED = re.compile(r"content[_ ](?:filter|policy|management)|responsibleaipolicy", re.IGNORECASE)
_SYSTEM = re.compile(r"\bsystem\b|\broles?\b|developer[_ ](?:role|message|prompt|instruction)", re.IGNORECASE)
"""In the refusal of a request that has a system message: templates and servers say it in many ways."""


class ServerUnavailable(PolicyUnavailable):
    """A request's fault that may pass, and that others need not meet: unreachable, failing, overloaded."""


@dataclass(frozen=True)
class Capabilities:
    """What a server can do, as far as it tells.

    engine: "vllm" and the like, "" where unknown
    with_ids: whether it gives token ids
    logprobs: whether its log-probabilities are those of the distribution that it samples from
    context: tokens of prompt and answer, None if unknown
    """

    engine: str = ""
    with_ids: bool = False
    logprobs: bool = False
    context: int | None = None


@dataclass(frozen=True)
class GroupRequest:
    """What is asked of a server: rollouts of one prompt.

    choices: the most in one answer; seed: of the first; limit: tokens of each
    """

    prompt: Prompt
    choices: int
    seed: int
    limit: int
    temperature: float
    top_p: float


class Server:
    """Asks for completions; used on one event loop, closed there.

    can: what it can do; takes_n: whether a request may ask for several choices; learned
    text: of a model whose prompts are sent as token ids; None for chat
    model: the name that is asked for, an adapter's in the model's place
    reasons: whether it has shown that the model reasons before it answers
    """

    def __init__(self, endpoint: Endpoint, can: Capabilities, text: TokenText | None = None) -> None:
        self.endpoint, self.can, self.text = endpoint, can, text
        self.model = endpoint.model
        self.takes_n = endpoint.options.n == "auto"
        self.reasons = False
        options = endpoint.options
        effort = {} if options.reasoning_effort is None else {"reasoning_effort": options.reasoning_effort}
        ids = {"return_token_ids": True, "logprobs": True if text is None else 1} if can.with_ids else {}
        self._extras = neutral_fields(can.engine, chat=text is None) | ids | effort | options.body
        self._needed = _NEEDED | effort.keys() | options.body.keys()
        self._without: set[str] = set()
        self._limit_name = "max_tokens"
        self._folds_system = self._estimates = False
        self._most: int | None = None
        self._slots = asyncio.Semaphore(options.concurrency)
        self._client = self._open_client()

    async def complete(self, request: GroupRequest, discarded: list[TokenCount]) -> Reply:
        """Up to the choices asked for; none where the server filters the prompt. What attempts cost that gave nothing
        usable is added to `discarded`.

        Raises PromptTooLong, PolicyUnavailable.
        """
        async with self._slots:
            reply = await self._complete(request, discarded)
        if reply.count.estimated and not self._estimates:
            self._estimates = True
            text = f"{self.endpoint.url} reports no usage: tokens and cost are estimates, at 4 bytes a token"
            warnings.warn(text, stacklevel=2)
        if self.text is None and self.can.context is not None and reply.count.prompt:
            try:
                remaining_tokens(reply.count.prompt, request.limit, self.can.context)
            except PromptTooLong:
                discarded.append(reply.count)
                raise
        return reply

    async def post(self, path: str, body: dict[str, Any]) -> str:
        """What another route answers. Raises openai.APIError."""
        client = self._client.with_options(timeout=POST_SECONDS, max_retries=1)
        return await client.post(path, body=body, cast_to=str)

    async def close(self) -> None:
        await self._client.close()

    async def _complete(self, request: GroupRequest, discarded: list[TokenCount]) -> Reply:
        limit, later = request.limit, 0
        for _ in range(_CHANGES):
            body = self._body(request, min(limit, self._most or limit))
            try:
                reply = await self._until_readable(body, request.prompt, discarded)
                if limit >= later:
                    return reply
                discarded.append(reply.count)  # the prompt fits, so that a longer answer may
                limit = later
            except openai.APIStatusError as error:
                if self._fold_system(error, body):
                    continue
                if error.status_code in _NOT_PARAMETERS or error.status_code >= 500:
                    raise as_unavailable(error, self.endpoint) from None
                if _FILTERED.search(words(error)):
                    return Reply(refused=True)
                if is_overflow(error):
                    limit, later = self._shorten(error, request.limit, body[self._limit_name], later)
                elif not self._change(error, body):
                    raise as_unavailable(error, self.endpoint) from None
            except openai.APIError as error:
                raise as_unavailable(error, self.endpoint) from None
        raise PolicyUnavailable(
            f"{self.endpoint.url} refuses one parameter after another; is it an OpenAI-compatible server?"
        )

    async def _until_readable(self, body: dict[str, Any], prompt: Prompt, discarded: list[TokenCount]) -> Reply:
        """One answer that can be read. Raises openai.APIError, ServerUnavailable."""
        retries, fault = self.endpoint.options.retries, ""
        for attempt in range(retries + 1):
            try:
                return await self._post(body, prompt)
            except Unreadable as error:
                discarded.append(error.count)
                fault = str(error)
                status = error.status if isinstance(error, FailedReply) else None
                lasting = status is not None and status not in _RETRIED and status < 500
                if isinstance(error, FailedReply) and status is not None and (lasting or attempt == retries):
                    raise fault_of(status, error.reason, self.endpoint, attempt + 1) from None
            if attempt < retries:
                await asyncio.sleep(min(8.0, 0.5 * 2**attempt))
        text = f"{self.endpoint.url} returned an unreadable reply {retries + 1} times: {fault}; look at the server"
        raise ServerUnavailable(self.endpoint.hidden(text))

    async def _post(self, body: dict[str, Any], prompt: Prompt) -> Reply:
        """One request. Raises Unreadable, openai.APIError."""
        # not by the library's types, because servers' extensions and mistakes are no part of them
        text = await self._client.post(CHAT_PATH if self.text is None else TOKENS_PATH, body=body, cast_to=str)
        thinks = (body.get("chat_template_kwargs") or {}).get("enable_thinking") is not False
        reply = read_reply(read_json(text), len((prompt.system + prompt.user).encode()), thinks=thinks)
        self.reasons |= any(choice.reasoned for choice in reply.choices)
        if any(secret in text for secret in self.endpoint.secrets):
            raise Unreadable("the key itself, which is not to be stored", reply.count)
        return reply

    def _body(self, request: GroupRequest, limit: int) -> dict[str, Any]:
        if self.text is None:
            content = self._messages(request.prompt)
        else:
            ids = self.text.encode(request.prompt)
            limit = remaining_tokens(len(ids), limit, self.text.context)
            content = {"prompt": ids.tolist(), "stop_token_ids": sorted(self.text.stops), "ignore_eos": True}
        body: dict[str, Any] = {
            "model": self.model,
            **content,
            "temperature": request.temperature,
            "top_p": request.top_p,
            self._limit_name: limit,
            "seed": request.seed,
            **({"n": request.choices} if self.takes_n and request.choices > 1 else {}),
            **self._extras,
        }
        return {name: value for name, value in body.items() if name not in self._without}

    def _messages(self, prompt: Prompt) -> dict[str, Any]:
        system, user = prompt.system, prompt.user
        if system and self._folds_system:
            system, user = "", f"{system}\n\n{user}"
        messages = [{"role": "user", "content": user}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        return {"messages": messages}

    def _open_client(self) -> openai.AsyncOpenAI:
        """A client that warns of long pauses before a retry."""

        async def warn_of_pause(response: Any) -> None:
            if response.status_code in _RETRIED or response.status_code >= 500:
                pause = retry_after(response)
                if LONG_PAUSE <= pause <= LONGEST_PAUSE:
                    until = time.strftime("%H:%M:%S", time.localtime(time.time() + pause))
                    text = f"{self.endpoint.url} is rate-limiting ({response.status_code}); retrying at {until}"
                    warnings.warn(text, stacklevel=2)

        options = self.endpoint.options
        return openai.AsyncOpenAI(
            **client_arguments(self.endpoint),
            timeout=options.timeout,
            max_retries=options.retries,
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [warn_of_pause]}),
        )

    def _shorten(self, error: openai.APIStatusError, limit: int, asked: int, later: int) -> tuple[int, int]:
        """The limit of the next request, and that of the one after it if the next shows that the prompt fits at all:
        what the model writes at most, the room that a counted prompt leaves, else half of the one refused. Raises
        PromptTooLong. limit: of the user"""
        if (most := _MOST.search(words(error))) is not None and _number(most[1]) < asked:
            self._most = _number(most[1])
            return limit, 0
        least, (room, exact) = min(limit, LEAST_ANSWER), room_left(words(error), asked)
        if min(asked - 1, room) < least:
            text = "refuses a prompt as too long for its context: show fewer or shorter inspirations"
            raise PromptTooLong(f"{self.endpoint.model} {text}")
        half = max(asked // 2, least)
        return (room, 0) if exact else (half if later else least, half)

    def _change(self, error: openai.APIStatusError, body: dict[str, Any]) -> bool:
        """Whether the next request will be another one, without what this refusal was about."""
        name = refused_parameter(error, body.keys() - self._needed)
        if name == "max_tokens" and "max_completion_tokens" in words(error):
            self._limit_name = "max_completion_tokens"  # reasoning models count what they think too
            self.reasons = True
            return True
        if name in ("temperature", "top_p") and body[name] != 1.0:
            return False  # leaving it out would sample from another distribution than was asked for
        if name == "n" or (name is None and "n" in body):
            self.takes_n = False
            return True
        if name is not None and name != self._limit_name:
            if name == "seed":
                warnings.warn(f"{self.endpoint.url} takes no seed: its samples cannot be repeated", stacklevel=2)
            self._without.add(name)
            return True
        return False

    def _fold_system(self, error: openai.APIStatusError, body: dict[str, Any]) -> bool:
        """Whether this body was refused, perhaps as a fault of the template, for its system message: the next one holds
        it in the user's. Other requests in flight may be refused for the same after that."""
        first, *rest = body.get("messages") or [{}]
        other = _FILTERED.search(words(error)) or is_overflow(error)
        refused = error.status_code in (400, 422, 500) and _SYSTEM.search(words(error)) and not other
        if not rest or first.get("role") != "system" or not refused or refused_parameter(error, body.keys() - _NEEDED):
            return False
        self._folds_system = True
        return True


def neutral_fields(engine: str, *, chat: bool = True) -> dict[str, Any]:
    """What makes an engine sample from the model's own distribution. Without it vLLM takes top_k, top_p and penalties
    from the checkpoint's generation_config.json; llama.cpp has other defaults."""
    if engine == "llamacpp":
        return {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0}
    if engine not in GIVING_IDS:
        return {}
    fields = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
    return fields | ({"chat_template_kwargs": {"enable_thinking": False}} if chat else {})


class TokenText:
    """Prompts of a model into token ids, and its rollouts into text.

    context: most tokens of prompt and answer
    stops: tokens that end a rollout
    """

    def __init__(self, tokenizer: Any, prompt_format: str, stops: Collection[int], context: int) -> None:
        self.tokenizer, self.prompt_format, self.stops, self.context = tokenizer, prompt_format, stops, context

    def encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        """The prompt's token ids (P,)."""
        return tokenize_prompt(self.tokenizer, self.prompt_format, prompt)

    def decode(self, ids: npt.NDArray[np.int32]) -> tuple[str, str]:
        """(text, finish) of a rollout's token ids."""
        stopped = bool(len(ids)) and int(ids[-1]) in self.stops
        text = decode_rollout(self.tokenizer, ids, stopped)
        return text, "stop" if stopped else "length"


# -- what the servers' refusals mean: the protocol has no agreed codes for most of them, so words have to be read ------


def is_overflow(error: openai.APIStatusError) -> bool:
    """Whether a request was refused for its length, or for that of the answer asked for."""
    return any(pattern.search(words(error)) for pattern in (_MOST, _OVERFLOW))


def room_left(text: str, asked: int) -> tuple[int, bool]:
    """(tokens that a prompt leaves for an answer, at most; whether these are all of them) by the refusal of a request
    that is too long. asked: tokens of its answer

    vLLM reads no more of a prompt than one token beyond what the answer leaves, so that its count may be too small."""
    context, prompt = _CONTEXT.search(text), _PROMPT.search(text)
    if context is None or prompt is None:
        return asked, False
    room = _number(context[1]) - _number(prompt[1] or prompt[2])
    return room, room < asked - 1 and "at least" not in text


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


def words(error: openai.APIStatusError) -> str:
    """All that the server answered, as text."""
    body = error.body if error.body is not None else error.response.text
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)


def message(error: openai.APIStatusError) -> str:
    """The sentence in it, for a person."""
    body: Any = error.body
    while isinstance(body, dict):
        body = body.get("message") or body.get("detail") or body.get("error")
    return redact_beginning(str(body or error.response.text or error), 300)


def refused_parameter(error: openai.APIStatusError, sent: Collection[str]) -> str | None:
    """Which of the parameters that were sent the server does not take."""
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("param"), str) and body["param"] in sent:
        return str(body["param"])
    text = words(error)
    for name in sorted(sent, key=len, reverse=True):  # top_logprobs before logprobs
        plain = rf"|\b{name}\b" if len(name) > 1 else ""  # a lone letter must stand in quotes
        if re.search(rf"[`'\"]{name}[`'\"]{plain}", text):
            return name
    return None


def retry_after(response: Any) -> float:
    """Seconds that a server asks to wait; 0 if it names none."""
    headers = response.headers
    try:
        return max(0.0, float(headers.get("retry-after-ms", 0)) / 1000 or float(headers.get("retry-after", 0)))
    except ValueError:  # a date, which the client reads
        return 0.0


def read_json(text: str) -> Any:
    """The body of a response. Raises Unreadable if that is no JSON."""
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        raise Unreadable(f"what is no JSON: {redact_beginning(text, 80)!r}") from None


def client_arguments(endpoint: Endpoint) -> dict[str, Any]:
    """How a client of the library reaches the server."""
    return {
        "api_key": endpoint.key or NO_KEY,
        "base_url": endpoint.url,
        "default_headers": endpoint.headers,
        "default_query": endpoint.options.query,
    }


def as_unavailable(error: Exception, endpoint: Endpoint) -> PolicyUnavailable:
    """The fault as one line that says what to do."""
    url, options = endpoint.url, endpoint.options
    if isinstance(error, openai.APIStatusError):
        pause = retry_after(error.response)
        return fault_of(error.status_code, message(error), endpoint, options.retries + 1, pause)
    tries = _times(options.retries + 1)
    if isinstance(error, openai.APITimeoutError):
        text = (
            f"{url} gave no answer within {options.timeout:g} s, asked {tries}; "
            "lower ?concurrency= or raise ?timeout=, then evo resume"
        )
    elif isinstance(error, openai.APIConnectionError):
        reason = str(error.__cause__ or error) or "connection failed"
        text = f"{url} cannot be reached, tried {tries} ({reason}); start the server again, then evo resume"
    else:
        text = f"{url}: {error}"
    lost = isinstance(error, openai.APIConnectionError)
    return (ServerUnavailable if lost else PolicyUnavailable)(endpoint.hidden(text))


def fault_of(status: int, reason: str, endpoint: Endpoint, attempts: int, pause: float = 0.0) -> PolicyUnavailable:
    """The same for a status of HTTP, which some servers put into their reply. pause: seconds to wait"""
    url, options = endpoint.url, endpoint.options
    if status in (401, 403):
        where = " (https://platform.openai.com/api-keys)" if url == HOSTED else " to one that this server knows"
        text = f"{url} refuses the key: {reason}; set {options.key}{where}"
    elif status == 404:
        text = f"{url} does not serve {endpoint.model} (any more): {reason}"
    elif status == 429:
        when = f" in {pause:g} s" if pause else " later"
        text = f"{url} is rate-limiting (429): {reason}; lower ?concurrency=, or evo resume{when}"
    elif status >= 500:
        text = f"{url} failed, asked {_times(attempts)}: {status} {reason}; look at the server, then evo resume"
    else:
        text = f"{url} refuses the request: {status} {reason}"
    lost = status in (404, 429) or status >= 500
    return (ServerUnavailable if lost else PolicyUnavailable)(endpoint.hidden(text))


def _times(attempts: int) -> str:
    return f"{attempts} times" if attempts > 1 else "once"


_SECONDS = 20.0
_OF_A_GATEWAY = (502, 503, 504)
"""Status where a gateway answers and the server behind it does not."""
_NAMES_SHOWN = 5
_LIKELIEST = 8
"""Tokens whose distance is looked at; the one that was sampled is added if it is none of them."""
_QUESTION = "Count to three."


def probe_server(endpoint: Endpoint, temperature: float, top_p: float, *, tokens: bool = False) -> Capabilities:
    """Ask. Raises BadAddress, one line, where the key is refused, the model is not served, or no server responds.

    tokens: whether prompts will be sent as token ids
    """
    if not endpoint.key and endpoint.url == HOSTED and "Authorization" not in endpoint.headers:
        raise BadAddress(f"policy {endpoint.version!r} needs a key: set {endpoint.options.key}, or name a server: @URL")
    options = endpoint.options
    with openai.OpenAI(**client_arguments(endpoint), timeout=min(_SECONDS, options.timeout), max_retries=1) as client:
        card = _find_model(client, endpoint)
        if card is None:  # no list to be had: whether the model answers shows as well
            _complete(client, endpoint, {"max_tokens": 1} if options.reasoning_effort is None else {})
            return Capabilities()
        engine, context = str(card.get("owned_by") or "").lower(), card.get("max_model_len")
        context = context if isinstance(context, int) and context > 0 else None
        if engine not in GIVING_IDS or options.logprobs == "off":
            return Capabilities(engine, context=context)
        with_ids, exact = _probe_logprobs(client, endpoint, engine, temperature, top_p, tokens)
        return Capabilities(engine, with_ids, with_ids and exact, context)


def _find_model(client: openai.OpenAI, endpoint: Endpoint) -> dict[str, Any] | None:
    """The model's entry in the server's list; {} if the list need not hold it, None without a list."""
    try:
        body = read_json(client.get("/models", cast_to=str))
        models = [card for card in body["data"] if isinstance(card, dict) and "id" in card]
    except openai.NotFoundError:
        return None
    except openai.APIError as error:
        if isinstance(error, openai.InternalServerError) and error.status_code not in _OF_A_GATEWAY:
            return None  # transformers serve fails at it without its hub's cache
        raise BadAddress(_why(error, endpoint)) from None
    except (Unreadable, KeyError, TypeError) as error:
        reason = str(error) if isinstance(error, Unreadable) else "no list of models"
        text = f"{endpoint.url} does not speak the OpenAI protocol: it answers {reason}"
        raise BadAddress(endpoint.hidden(text)) from None
    for model in models:
        if model["id"] == endpoint.model:
            return model
    if endpoint.options.check == "off":
        return {}
    names = ", ".join(str(model["id"]) for model in models[:_NAMES_SHOWN]) or "nothing"
    more = f" and {len(models) - _NAMES_SHOWN} more" if len(models) > _NAMES_SHOWN else ""
    raise BadAddress(
        f"{endpoint.url} serves no {endpoint.model}; it serves {names}{more}. Add ?check=off to use it anyway."
    )


def _why(error: openai.APIError, endpoint: Endpoint) -> str:
    if isinstance(error, openai.APITimeoutError):
        return f"{endpoint.url} gives no answer within {_SECONDS:g} s; is the server ready?"
    if isinstance(error, openai.APIConnectionError):
        reason = str(error.__cause__ or error) or "connection failed"
        return endpoint.hidden(f"{endpoint.url} cannot be reached ({reason}); is the server running?")
    return str(as_unavailable(error, endpoint)).replace(", then evo resume", "")


def _complete(client: openai.OpenAI, endpoint: Endpoint, body: dict[str, Any], tokens: bool = False) -> Any:
    """A completion of next to nothing, as JSON. Raises BadAddress."""
    asked = {"prompt": _QUESTION} if tokens else {"messages": [{"role": "user", "content": _QUESTION}]}
    try:
        request = {"model": endpoint.model, **asked, **body}
        found = read_json(client.post(TOKENS_PATH if tokens else CHAT_PATH, body=request, cast_to=str))
        read_reply(found)
        return found
    except openai.BadRequestError as error:
        text = f"{endpoint.model} at {endpoint.url} cannot be asked: {message(error)}"
        raise BadAddress(endpoint.hidden(text)) from None
    except openai.APIError as error:
        raise BadAddress(_why(error, endpoint)) from None
    except Unreadable as error:
        raise BadAddress(endpoint.hidden(f"{endpoint.url} does not speak the OpenAI protocol: {error}")) from None


def _probe_logprobs(
    client: openai.OpenAI, endpoint: Endpoint, engine: str, temperature: float, top_p: float, tokens: bool
) -> tuple[bool, bool]:
    """Whether there are token ids with log-probabilities, and whether those are of the distribution sampled from.

    A server may give log-probabilities before temperature and truncation (vLLM's default). How far apart the likeliest
    tokens are at two temperatures tells which.
    """
    body = {"max_tokens": 1, "temperature": 1.0, "top_p": 1.0, "return_token_ids": True}
    body |= neutral_fields(engine, chat=not tokens)
    body |= {"logprobs": _LIKELIEST} if tokens else {"logprobs": True, "top_logprobs": _LIKELIEST}
    plain = _complete(client, endpoint, body, tokens)
    reply = read_reply(plain)
    if not reply.choices or not len(reply.choices[0].logprobs) or not len(reply.prompt_ids):
        return False, False
    if (temperature in (0.0, 1.0)) and top_p == 1.0:
        return True, True  # there is nothing that could be left out of them
    sharp = _complete(client, endpoint, {**body, "temperature": 0.5}, tokens)
    once, twice = top_logprobs_in(plain), top_logprobs_in(sharp)
    exact = _measure_spread(twice, once) > 1.5 * _measure_spread(once, twice) > 0.0
    if not exact:
        warnings.warn(
            f"{endpoint.url} gives log-probabilities before temperature and top_p, which nothing can be trained on; "
            "start vLLM with --logprobs-mode processed_logprobs",
            stacklevel=2,
        )
    return True, exact


def _measure_spread(values: Mapping[str, float], others: Mapping[str, float]) -> float:
    """How far apart they are at most, over what both have."""
    shared = [value for token, value in values.items() if token in others]
    return max(shared) - min(shared) if shared else 0.0
