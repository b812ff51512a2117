"""What a server serves and what it can tell, asked once, before anything depends on it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import openai

from problems.contract import BadAddress
from vpo.servers.address import HOSTED, Endpoint
from vpo.servers.client import (
    CHAT,
    GIVING_IDS,
    TOKENS,
    Capabilities,
    connection,
    message,
    neutral_fields,
    read_json,
    unavailable,
)
from vpo.servers.replies import Unreadable, read_reply, top_logprobs_in

_SECONDS = 20.0
_AT_ONCE = 32
_NAMES_SHOWN = 5
_LIKELIEST = 8
"""Tokens whose distance is looked at; the one that was sampled comes on top where it is none of them."""
_QUESTION = "Count to three."


class Unreached(BadAddress):
    """No server responds at a URL for now."""


def probe_servers(
    endpoints: Sequence[Endpoint], temperature: float, top_p: float, *, tokens: bool = False
) -> tuple[Capabilities, list[bool]]:
    """What all of these that answer can do, and which of them do not answer. Raises BadAddress where none does, where
    one that does cannot be used, and where they are of different kinds.

    tokens: whether prompts will be sent as token ids
    """

    def ask(endpoint: Endpoint) -> Capabilities | Unreached:
        try:
            return probe_server(endpoint, temperature, top_p, tokens)
        except Unreached as error:
            return error

    with ThreadPoolExecutor(min(len(endpoints), _AT_ONCE)) as threads:
        answers = list(threads.map(ask, endpoints))
    able = [answer for answer in answers if isinstance(answer, Capabilities)]
    away = [answer for answer in answers if isinstance(answer, Unreached)]
    if not able:
        raise away[0]
    if len({can.engine for can in able}) > 1:
        kinds = ", ".join(sorted({can.engine or "unknown" for can in able}))
        raise BadAddress(f"the servers of {endpoints[0].model} are of different kinds ({kinds}); name those of one")
    for error in away:
        warnings.warn(f"{error}; beginning with {len(able)} of {len(endpoints)} servers", stacklevel=2)
    contexts = [can.context for can in able if can.context is not None]
    shared = replace(
        able[0],
        with_ids=all(can.with_ids for can in able),
        logprobs=all(can.logprobs for can in able),
        context=min(contexts) if contexts else None,
    )
    return shared, [isinstance(answer, Unreached) for answer in answers]


def probe_server(endpoint: Endpoint, temperature: float, top_p: float, tokens: bool) -> Capabilities:
    """Ask. Raises BadAddress, one line, where the key is refused or the model is not served, and Unreached if no
    server responds."""
    if not endpoint.key and endpoint.url == HOSTED and "Authorization" not in endpoint.headers:
        raise BadAddress(f"policy {endpoint.version!r} needs a key: set {endpoint.options.key}, or name a server: @URL")
    options = endpoint.options
    with openai.OpenAI(**connection(endpoint), timeout=min(_SECONDS, options.timeout), max_retries=1) as client:
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
    """The model's entry in the server's list; {} where the list need not hold it, None where there is no list."""
    try:
        body = read_json(client.get("/models", cast_to=str))
        models = [card for card in body["data"] if isinstance(card, dict) and "id" in card]
    except openai.NotFoundError:
        return None
    except openai.APIError as error:
        fault = _fault(error, endpoint)
        if isinstance(error, openai.InternalServerError) and not isinstance(fault, Unreached):
            return None  # transformers serve fails at it without its hub's cache
        raise fault from None
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


def _fault(error: openai.APIError, endpoint: Endpoint) -> BadAddress:
    """Unreached where another server of the model might answer: this one is away, or a gateway before it says so."""
    away = isinstance(error, openai.APIConnectionError)
    away = away or (isinstance(error, openai.APIStatusError) and error.status_code in (502, 503, 504))
    return (Unreached if away else BadAddress)(_why(error, endpoint))


def _why(error: openai.APIError, endpoint: Endpoint) -> str:
    if isinstance(error, openai.APITimeoutError):
        return f"{endpoint.url} gives no answer within {_SECONDS:g} s; is the server ready?"
    if isinstance(error, openai.APIConnectionError):
        reason = str(error.__cause__ or error) or "connection failed"
        return endpoint.hidden(f"{endpoint.url} cannot be reached ({reason}); is the server running?")
    return str(unavailable(error, endpoint)).replace(", then evo resume", "")


def _complete(client: openai.OpenAI, endpoint: Endpoint, body: dict[str, Any], tokens: bool = False) -> Any:
    """A completion of next to nothing, as JSON. Raises BadAddress."""
    asked = {"prompt": _QUESTION} if tokens else {"messages": [{"role": "user", "content": _QUESTION}]}
    try:
        request = {"model": endpoint.model, **asked, **body}
        found = read_json(client.post(TOKENS if tokens else CHAT, body=request, cast_to=str))
        read_reply(found)
        return found
    except openai.BadRequestError as error:
        text = f"{endpoint.model} at {endpoint.url} cannot be asked: {message(error)}"
        raise BadAddress(endpoint.hidden(text)) from None
    except openai.APIError as error:
        raise _fault(error, endpoint) from None
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
