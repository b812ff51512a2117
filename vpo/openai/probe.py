"""What a server serves and what it can tell, asked once, before anything depends on it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import openai

from problems.contract import BadAddress
from vpo.openai.address import HOSTED, Endpoint
from vpo.openai.errors import message, unavailable
from vpo.openai.reasoning import reasons
from vpo.openai.response import Unreadable, read_reply, top_logprobs_in
from vpo.openai.server import NEUTRAL, NO_KEY, json_of

_SECONDS = 20.0
_WITH_IDS = ("vllm", "sglang")
"""Engines that are asked for token ids and log-probabilities; others would refuse the request or bill for it."""
_AT_ONCE = 32
_NAMES_SHOWN = 5
_LIKELIEST = 8
"""Tokens whose distance is looked at; the one that was sampled comes on top where it is none of them."""


@dataclass(frozen=True)
class Capabilities:
    """engine: "vllm" and the like, "" where unknown; with_ids: whether it gives token ids; has_logprobs: whether its
    log-probabilities are those of the distribution that it samples from; context: tokens, None where it does not say"""

    engine: str = ""
    with_ids: bool = False
    has_logprobs: bool = False
    context: int | None = None


def probe_server(place: Endpoint, temperature: float, top_p: float) -> Capabilities:
    """Ask. Raises BadAddress, one line, where nobody answers, the key is refused, or the model is not served."""
    if not place.key and place.url == HOSTED and "Authorization" not in place.headers:
        raise BadAddress(f"policy {place.version!r} needs a key: set {place.options.key}, or name a server: @URL")
    options = place.options
    client = openai.OpenAI(
        api_key=place.key or NO_KEY,
        base_url=place.url,
        default_headers=place.headers,
        default_query=options.query,
        timeout=min(_SECONDS, options.timeout),
        max_retries=1,
    )
    with client:
        served = _find_model(client, place)
        if served is None:  # no list to be had: whether the model answers shows as well
            _complete(client, place, {} if reasons(place) else {"max_tokens": 1})
            return Capabilities()
        engine = str(served.get("owned_by") or "").lower()
        context = served.get("max_model_len")
        context = context if isinstance(context, int) and context > 0 else None
        if engine not in _WITH_IDS or options.logprobs == "off":
            return Capabilities(engine, context=context)
        with_ids, exact = _probe_logprobs(client, place, engine, temperature, top_p)
        return Capabilities(engine, with_ids, with_ids and exact, context)


class Unreached(BadAddress):
    """Nobody answers at a URL, as it seems for now."""


def probe_servers(places: Sequence[Endpoint], temperature: float, top_p: float) -> tuple[Capabilities, list[bool]]:
    """What all of these that answer can do, and which of them do not answer. Raises BadAddress where none does, where
    one that does cannot be used, and where they are of different kinds."""

    def ask(place: Endpoint) -> Capabilities | Unreached:
        try:
            return probe_server(place, temperature, top_p)
        except Unreached as error:
            return error

    if len(places) == 1:
        return probe_server(places[0], temperature, top_p), [False]
    with ThreadPoolExecutor(min(len(places), _AT_ONCE)) as threads:
        answers = list(threads.map(ask, places))
    found = [one for one in answers if isinstance(one, Capabilities)]
    away = [one for one in answers if isinstance(one, Unreached)]
    if not found:
        raise away[0]
    if len({one.engine for one in found}) > 1:
        kinds = ", ".join(sorted({one.engine or "unknown" for one in found}))
        raise BadAddress(f"the servers of {places[0].model} are of different kinds ({kinds}); name those of one")
    for error in away:
        warnings.warn(f"{error}; beginning with {len(found)} of {len(places)} servers", stacklevel=2)
    contexts = [one.context for one in found if one.context is not None]
    shared = replace(
        found[0],
        with_ids=all(one.with_ids for one in found),
        has_logprobs=all(one.has_logprobs for one in found),
        context=min(contexts) if contexts else None,
    )
    return shared, [isinstance(one, Unreached) for one in answers]


def _find_model(client: openai.OpenAI, place: Endpoint) -> dict[str, Any] | None:
    """The model's entry in the server's list; {} where the list need not hold it, None where there is no list."""
    try:
        body = json_of(client.models.with_raw_response.list())
        models = [one for one in body["data"] if isinstance(one, dict) and "id" in one]
    except (openai.NotFoundError, openai.InternalServerError):
        return None  # transformers serve fails at it without its hub's cache
    except openai.APIConnectionError as error:
        raise Unreached(_why(error, place)) from None
    except openai.APIError as error:
        raise BadAddress(_why(error, place)) from None
    except (Unreadable, KeyError, TypeError) as error:
        reason = str(error) if isinstance(error, Unreadable) else "no list of models"
        raise BadAddress(place.hidden(f"{place.url} does not speak the OpenAI protocol: it answers {reason}")) from None
    for model in models:
        if model["id"] == place.model:
            return model
    if place.options.check == "off":
        return {}
    names = ", ".join(str(one["id"]) for one in models[:_NAMES_SHOWN]) or "nothing"
    more = f" and {len(models) - _NAMES_SHOWN} more" if len(models) > _NAMES_SHOWN else ""
    raise BadAddress(f"{place.url} serves no {place.model}; it serves {names}{more} (?check=off asks it all the same)")


def _why(error: openai.APIError, place: Endpoint) -> str:
    if isinstance(error, openai.APIConnectionError) and not isinstance(error, openai.APITimeoutError):
        reason = str(error.__cause__ or error) or "connection failed"
        return place.hidden(f"{place.url} cannot be reached ({reason}); is the server running?")
    if isinstance(error, openai.APITimeoutError):
        return f"{place.url} gives no answer within {_SECONDS:g} s; is the server ready?"
    return str(unavailable(error, place)).replace(", then evo resume", "")


def _complete(client: openai.OpenAI, place: Endpoint, body: dict[str, Any]) -> Any:
    """A completion of next to nothing, as JSON. Raises BadAddress."""
    try:
        raw = client.chat.completions.with_raw_response.create(
            model=place.model, messages=[{"role": "user", "content": "Count to three."}], extra_body=body
        )
        found = json_of(raw)
        read_reply(found)
        return found
    except openai.BadRequestError as error:
        raise BadAddress(place.hidden(f"{place.model} at {place.url} cannot be asked: {message(error)}")) from None
    except openai.APIError as error:
        raise BadAddress(_why(error, place)) from None
    except Unreadable as error:
        raise BadAddress(place.hidden(f"{place.url} does not speak the OpenAI protocol: {error}")) from None


def _probe_logprobs(
    client: openai.OpenAI, place: Endpoint, engine: str, temperature: float, top_p: float
) -> tuple[bool, bool]:
    """Whether there are token ids with log-probabilities, and whether those are of the distribution sampled from.

    A server may give log-probabilities before temperature and truncation (vLLM's default). How far apart the likeliest
    tokens are at two temperatures tells which.
    """
    body = {
        "max_tokens": 1,
        "temperature": 1.0,
        "top_p": 1.0,
        "logprobs": True,
        "top_logprobs": _LIKELIEST,
        "return_token_ids": True,
        **NEUTRAL[engine],
    }
    plain = _complete(client, place, body)
    reply = read_reply(plain)
    if not reply.choices or not len(reply.choices[0].logprobs) or not len(reply.prompt_ids):
        return False, False
    if (temperature in (0.0, 1.0)) and top_p == 1.0:
        return True, True  # there is nothing that could be left out of them
    sharp = _complete(client, place, {**body, "temperature": 0.5})
    once, twice = (top_logprobs_in(found) for found in (plain, sharp))
    exact = _measure_spread(twice, once) > 1.5 * _measure_spread(once, twice) > 0.0
    if not exact:
        warnings.warn(
            f"{place.url} gives log-probabilities before temperature and top_p, which nothing can be trained on; "
            "start vLLM with --logprobs-mode processed_logprobs",
            stacklevel=2,
        )
    return True, exact


def _measure_spread(values: Mapping[str, float], others: Mapping[str, float]) -> float:
    """How far apart they are at most, over what both have."""
    shared = [value for token, value in values.items() if token in others]
    return max(shared) - min(shared) if shared else 0.0
