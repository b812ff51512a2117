"""What a server serves and what it can tell, asked once, before anything depends on it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import openai

from problems.contract import BadAddress
from vpo.servers.address import HOSTED, Endpoint
from vpo.servers.client import (
    CHAT_PATH,
    GIVING_IDS,
    TOKENS_PATH,
    Capabilities,
    as_unavailable,
    client_arguments,
    message,
    neutral_fields,
    read_json,
)
from vpo.servers.replies import Unreadable, read_reply, top_logprobs_in

_SECONDS = 20.0
_OF_A_GATEWAY = (502, 503, 504)
"""Status where a gateway answers and the server behind it does not."""
_NAMES_SHOWN = 5
_LIKELIEST = 8
"""Tokens whose distance is looked at; the one that was sampled comes on top where it is none of them."""
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
    """The model's entry in the server's list; {} where the list need not hold it, None where there is no list."""
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
