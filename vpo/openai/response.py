"""Chat completions as the servers write them, read with distrust: an answer that makes no sense is asked for again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from problems.redaction import redact_beginning

_CUT = ("length", "max_tokens", "content_filter")
"""Finish reasons of an answer that ends in the middle."""


class Unreadable(Exception):
    """Not a chat completion; the message says what it was instead."""


@dataclass(frozen=True, eq=False)
class ReplyChoice:
    """One rollout as a server gave it.

    token_ids, logprobs: (T,), both empty where the server gives none
    tokens: how many were generated
    """

    text: str
    finish: str
    token_ids: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float32]
    tokens: int


@dataclass(frozen=True, eq=False)
class Reply:
    """The choices of one request, in order, and what the server counted; prompt_ids (P,) empty where it gives none.

    refused: whether a filter kept the prompt from the model
    """

    choices: tuple[ReplyChoice, ...]
    prompt_ids: npt.NDArray[np.int32]
    prompt_tokens: int = 0
    cached_tokens: int = 0
    refused: bool = False

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + sum(choice.tokens for choice in self.choices)


NOTHING = Reply((), np.zeros(0, np.int32))
REFUSED = Reply((), np.zeros(0, np.int32), refused=True)


def read_reply(body: Any) -> Reply:
    """A chat completion's JSON. Raises Unreadable where it is none, or is an error in the guise of an answer."""
    if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
        error = body.get("error") if isinstance(body, dict) else None
        raise Unreadable(
            f"an error: {redact_beginning(str(error), 200)}"
            if error
            else f"no choices in {redact_beginning(str(body), 100)!r}"
        )
    try:
        usage = body.get("usage") or {}
        choices = sorted(body["choices"], key=lambda choice: int(choice.get("index", 0)))
        known = [_ids(choice.get("token_ids")) for choice in choices]
        shares = _shares(int(usage.get("completion_tokens") or 0), [len(ids) for ids in known])
        return Reply(
            tuple(_choice(*one) for one in zip(choices, known, shares, strict=True)),
            _ids(body.get("prompt_token_ids")),
            int(usage.get("prompt_tokens") or 0),
            int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise Unreadable(f"a malformed choice ({type(error).__name__}: {error})") from None


def _choice(choice: Mapping[str, Any], ids: npt.NDArray[np.int32], tokens: int) -> ReplyChoice:
    text = (choice.get("message") or {}).get("content") or ""
    if not isinstance(text, str):
        raise TypeError("content is no text")
    values = logprobs_in(choice)
    if len(values) != len(ids) or not np.isfinite(values).all():
        values = np.zeros(0, np.float32)  # of other tokens than the ids: nothing that could be learned from
    finish = "length" if choice.get("finish_reason") in _CUT else "stop"
    return ReplyChoice(text, finish, ids, values, tokens)


def logprobs_in(choice: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    """(T,) nats. A probability of 0 is written as some -9999; servers round tiny positive ones up too."""
    content = (choice.get("logprobs") or {}).get("content") or []
    return np.minimum(np.array([float(one["logprob"]) for one in content], dtype=np.float32), 0.0)


def top_logprobs_in(body: Mapping[str, Any]) -> dict[str, float]:
    """The likeliest tokens at the first place with their log-probabilities; the one sampled may be among them."""
    content = (body["choices"][0].get("logprobs") or {}).get("content") or []
    return {str(one["token"]): float(one["logprob"]) for one in content[0].get("top_logprobs", [])}


def _ids(value: Any) -> npt.NDArray[np.int32]:
    return np.array([] if value is None else value, dtype=np.int64).astype(np.int32)


def _shares(total: int, lengths: list[int]) -> list[int]:
    """The completion tokens of each choice: what its ids say, else an even part of the sum."""
    count = len(lengths)
    if all(lengths) or not count:
        return lengths
    return [total // count + (place < total % count) for place in range(count)]
