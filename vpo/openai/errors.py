"""What a server's refusals mean. The protocol has no agreed codes for most of them, so words have to be read."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import openai

from problems.redaction import redact_beginning
from vpo.openai.address import HOSTED, Endpoint
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.spread import Gone

_CONTEXT = re.compile(r"(?:context (?:length|window|size)|n_ctx)\D{0,40}?(\d[\d,]*)", re.IGNORECASE)
_PROMPT = re.compile(
    r"(\d[\d,]*) (?:input tokens|in the messages|tokens in the (?:messages|prompt))|n_prompt_tokens\D{1,5}(\d+)",
    re.IGNORECASE,
)
_OVERFLOW = re.compile(
    r"context[_ ](?:length|window|size)|prompt is too long|(?:input|prompt)\D{0,30} (?:exceeds|longer than)|n_ctx",
    re.IGNORECASE,
)
_MOST = re.compile(r"at most (\d[\d,]*) (?:completion|output)", re.IGNORECASE)
_FILTERED = re.compile(r"content[_ ](?:filter|policy|management)|responsibleaipolicy", re.IGNORECASE)
_OF_ONE_SERVER = (openai.APIConnectionError, openai.NotFoundError, openai.RateLimitError, openai.InternalServerError)
_SYSTEM = re.compile(r"system[_ ](?:role|message|prompt|instruction)|roles must alternate", re.IGNORECASE)


_QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|insufficient (?:credits?|balance|funds)|billing_hard_limit",
    re.IGNORECASE,
)
_RETRIED = (408, 409, 429)


class ServerGone(Gone):
    """This server cannot answer, where another with the same model might: unreachable, failing, overloaded."""


@dataclass(frozen=True)
class Overflow:
    """A prompt, or a prompt with its answer, that does not fit; the lengths as far as the server tells them.

    most: completion tokens that the model gives at most
    """

    context: int | None = None
    prompt: int | None = None
    most: int | None = None


def words(error: openai.APIStatusError) -> str:
    """All that the server said, as text."""
    body = error.body if error.body is not None else error.response.text
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)


def message(error: openai.APIStatusError) -> str:
    """The sentence in it, for a person."""
    body: Any = error.body
    while isinstance(body, dict):
        body = body.get("message") or body.get("detail") or body.get("error")
    return redact_beginning(str(body or error.response.text or error), 300)


def overflow(error: openai.APIStatusError) -> Overflow | None:
    """Where a request was refused for its length."""
    said = words(error)
    most = _MOST.search(said)
    if most is None and not _OVERFLOW.search(said):
        return None
    return Overflow(_number(_CONTEXT.search(said)), _number(_PROMPT.search(said)), _number(most))


def _number(match: re.Match[str] | None) -> int | None:
    return None if match is None else int(next(group for group in match.groups() if group).replace(",", ""))


def is_transient(error: openai.APIError) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, openai.APIStatusError):
        return (error.status_code in _RETRIED or error.status_code >= 500) and not is_out_of_quota(error)
    return isinstance(error, openai.APIConnectionError)


def is_out_of_quota(error: openai.APIError) -> bool:
    """Whether an account has nothing left to pay with, which no waiting changes."""
    if not isinstance(error, openai.APIStatusError):
        return False
    return error.status_code == 402 or (error.status_code in (403, 429) and bool(_QUOTA.search(words(error))))


def is_filtered(error: openai.APIStatusError) -> bool:
    """Whether the server will not hear of such content."""
    return bool(_FILTERED.search(words(error)))


def wants_no_system(error: openai.APIStatusError) -> bool:
    """Whether the model's chat template has no place for a system message."""
    return bool(_SYSTEM.search(words(error)))


def refused_parameter(error: openai.APIStatusError, sent: Collection[str]) -> str | None:
    """Which of the parameters that were sent the server does not take."""
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("param"), str) and body["param"] in sent:
        return body["param"]
    said = words(error)
    for name in sorted(sent, key=len, reverse=True):  # top_logprobs before logprobs
        plain = rf"|\b{name}\b" if len(name) > 1 else ""  # a lone letter must stand in quotes
        if re.search(rf"[`'\"]{name}[`'\"]{plain}", said):
            return name
    return None


def unavailable(error: Exception, place: Endpoint, attempts: int | None = None) -> PolicyUnavailable:
    """The fault as one line that says what to do. attempts: how often it was asked, if not as often as it may be"""
    url, options = place.url, place.options
    attempts = attempts or options.retries + 1
    tries = f"{attempts} times" if attempts > 1 else "once"
    if isinstance(error, openai.APIError) and is_out_of_quota(error):
        assert isinstance(error, openai.APIStatusError)
        said = message(error)
        return PolicyUnavailable(
            place.hidden(f"{url}: the account has no credit left: {said}; check its plan and billing, then evo resume")
        )
    if isinstance(error, openai.APITimeoutError):
        text = (
            f"{url} gave no answer within {options.timeout:g} s, asked {tries}; "
            "lower ?concurrency= or raise ?timeout=, then evo resume"
        )
    elif isinstance(error, openai.APIConnectionError):
        reason = str(error.__cause__ or error) or "connection failed"
        text = f"{url} cannot be reached, tried {tries} ({reason}); start the server again, then evo resume"
    elif isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        text = f"{url} refuses the key: {message(error)}; set {options.key}{_where_keys_are(place)}"
    elif isinstance(error, openai.NotFoundError):
        text = f"{url} does not serve {place.model} (any more): {message(error)}"
    elif isinstance(error, openai.RateLimitError):
        text = f"{url} limits the rate, asked {tries}: {message(error)}; set ?rpm= and ?tpm=, then evo resume"
    elif isinstance(error, openai.InternalServerError):
        text = f"{url} failed, asked {tries}: {error.status_code} {message(error)}; look at the server, then evo resume"
    elif isinstance(error, openai.APIStatusError):
        text = f"{url} refuses the request: {error.status_code} {message(error)}"
    else:
        text = f"{url}: {error}"
    return (ServerGone if isinstance(error, _OF_ONE_SERVER) else PolicyUnavailable)(place.hidden(text))


def _where_keys_are(place: Endpoint) -> str:
    return " (https://platform.openai.com/api-keys)" if place.url == HOSTED else " to one that this server knows"
