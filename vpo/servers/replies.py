"""Completions as the servers write them, of both routes, read with distrust: an answer that makes no sense is asked for
again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from problems.redaction import redact_beginning
from problems.types import Unanswered

_THOUGHTS = ("thinking", "reasoning", "reasoning_text", "summary_text")
"""Kinds of parts that are no answer."""
_FILTER, _FAILED = "content_filter", "error"
_CUT = ("length", "max_tokens", _FILTER)
"""Finish reasons of an answer that ends in the middle."""
BYTES_A_TOKEN = 4
"""English and code, with the tokenizers of today's models: an estimate where a server counts nothing."""
NO_IDS, NO_LOGPROBS = np.zeros(0, np.int32), np.zeros(0, np.float32)


class Unreadable(Exception):
    """Not a completion; the message says what it was instead. count: the tokens that it reports all the same"""

    def __init__(self, message: str, count: TokenCount | None = None) -> None:
        super().__init__(message)
        self.count = count or TokenCount()


class FailedReply(Unreadable):
    """An error that the server, or one behind it, reports in place of a completion. status: as of HTTP, None if it
    names none"""

    def __init__(self, error: Any, count: TokenCount) -> None:
        found = error if isinstance(error, dict) else {"message": error}
        code = str(found.get("code") or found.get("status") or "")
        self.status = int(code) if code.isdecimal() and 400 <= int(code) < 600 else None
        self.reason = redact_beginning(str(found.get("message") or error), 200)
        super().__init__(f"an error: {self.reason}", count)


@dataclass(frozen=True)
class TokenCount:
    """Tokens of one request. prompt: those of cached ones included; estimated: no server counted them"""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    estimated: bool = False

    def __add__(self, other: TokenCount) -> TokenCount:
        return TokenCount(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.completion + other.completion,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, eq=False)
class ReplyChoice:
    """One rollout as a server gave it.

    token_ids, logprobs: (T,), both empty where the server gives none
    tokens: how many were generated
    reasoned: it holds the model's reasoning and nothing else
    withheld: why it is no answer (Rollout.withheld)
    """

    text: str
    finish: str
    token_ids: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float32]
    tokens: int
    reasoned: bool = False
    withheld: Unanswered | None = None


@dataclass(frozen=True, eq=False)
class Reply:
    """The choices of one request, in order, and what the server counted; prompt_ids (P,) empty where it gives none.

    failed: choices that ended by an error and are left out
    refused: whether a filter kept the prompt from the model
    """

    choices: tuple[ReplyChoice, ...] = ()
    prompt_ids: npt.NDArray[np.int32] = field(default_factory=lambda: NO_IDS)
    count: TokenCount = TokenCount()
    failed: int = 0
    refused: bool = False


def read_reply(body: Any, prompt_bytes: int = 0, *, thinks: bool = True) -> Reply:
    """A completion's JSON. Raises Unreadable if it is none, and FailedReply for an error in its place, or in that of
    every choice.

    prompt_bytes: length of the prompt, from which its tokens are estimated if the server counts none
    thinks: False if the model was asked not to think: what a server then calls its reasoning is the answer
    """
    if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
        if error := body.get("error") if isinstance(body, dict) else None:
            raise FailedReply(error, _safe_count(body))
        raise Unreadable(f"no choices in {redact_beginning(str(body), 100)!r}", _safe_count(body))
    try:
        count = _count(body)
        given = sorted(body["choices"], key=lambda choice: int(choice.get("index", 0)))
        choices = [choice for choice in given if not _failed(choice)]
        if given and not choices:
            raise FailedReply(body.get("error") or given[0].get("error") or "the reply ended by an error", count)
        ids = [_ids(choice.get("token_ids")) for choice in choices]
        prompt_ids = _ids(body.get("prompt_token_ids") or (choices[0].get("prompt_token_ids") if choices else None))
        texts = [_texts(choice) for choice in choices]
        lengths = [len(one) for one in ids]
        if count.completion or not any(text or thought for text, thought in texts):
            tokens, estimated = _split_tokens(count.completion, lengths), False
        else:
            estimated = not all(lengths)
            tokens = [estimate_tokens(text + thought) for text, thought in texts] if estimated else lengths
        prompt = count.prompt or len(prompt_ids)
        if not prompt and choices:
            prompt, estimated = -(-prompt_bytes // BYTES_A_TOKEN), estimated or prompt_bytes > 0
        read = tuple(_choice(*each, thinks) for each in zip(choices, ids, tokens, texts, strict=True))
        written = sum(tokens) if choices else count.completion
        counted = TokenCount(prompt, count.cached, written, estimated)
        return Reply(read, prompt_ids, counted, failed=len(given) - len(choices))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise Unreadable(f"a malformed choice ({type(error).__name__}: {error})", _safe_count(body)) from None


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text.encode(errors="replace")) // BYTES_A_TOKEN)


def _count(body: Mapping[str, Any]) -> TokenCount:
    usage = body.get("usage") or {}
    return TokenCount(
        int(usage.get("prompt_tokens") or 0),
        int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0),
        int(usage.get("completion_tokens") or 0),
    )


def _safe_count(body: Mapping[str, Any]) -> TokenCount:
    """The tokens that a reply reports which is malformed elsewhere; none if they are malformed too."""
    try:
        return _count(body)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return TokenCount()


def _failed(choice: Mapping[str, Any]) -> bool:
    return choice.get("finish_reason") == _FAILED or bool(choice.get("error"))


def _texts(choice: Mapping[str, Any]) -> tuple[str, str]:
    """(what a choice answers, what the model thought before it). Content is a text, or a list of parts."""
    message = choice.get("message") or {"content": choice.get("text")}
    content, thought = message.get("content") or "", message.get("reasoning_content") or message.get("reasoning") or ""
    if isinstance(content, list):
        parts = [(part.get("type"), part) if isinstance(part, dict) else ("text", {"text": part}) for part in content]
        thought = thought or "".join(_text(part) for kind, part in parts if kind in _THOUGHTS)
        content = "".join(_text(part) for kind, part in parts if kind not in _THOUGHTS)
    if not isinstance(content, str):
        raise TypeError("content is no text")
    return content, thought if isinstance(thought, str) else ""


def _text(part: Mapping[str, Any]) -> str:
    """The text of a part, "" for one that has none, such as a picture."""
    for key in ("text", "thinking", "reasoning"):
        value = part.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "".join(_text(inner) for inner in value if isinstance(inner, dict))
    return ""


def _choice(
    choice: Mapping[str, Any], ids: npt.NDArray[np.int32], tokens: int, texts: tuple[str, str], thinks: bool
) -> ReplyChoice:
    text, thought = texts
    logprobs = logprobs_in(choice)
    if len(logprobs) != len(ids) or not np.isfinite(logprobs).all():
        logprobs = NO_LOGPROBS  # of other tokens than the ids: nothing that could be learned from
    reason, withheld = choice.get("finish_reason"), None
    if reason == _FILTER:
        withheld = Unanswered.FILTERED
    elif not text.strip():
        text, withheld = _withheld(choice, thought, reason, thinks)
    reasoned = bool(thought) and not texts[0].strip()
    return ReplyChoice(text, "length" if reason in _CUT else "stop", ids, logprobs, tokens, reasoned, withheld)


def _withheld(choice: Mapping[str, Any], thought: str, reason: Any, thinks: bool) -> tuple[str, Unanswered | None]:
    """(the text of a choice without content, why it is no answer)."""
    message = choice.get("message") or {}
    if calls := message.get("tool_calls"):
        return json.dumps([call.get("function") for call in calls]), Unanswered.CALL
    if refusal := message.get("refusal"):
        return str(refusal), Unanswered.REFUSED
    if not thought:
        return "", None
    if reason in _CUT:
        return thought, Unanswered.CUT
    return thought, Unanswered.REASONING if thinks else None


def logprobs_in(choice: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    """(T,) nats. A probability of 0 is written as some -9999; servers round tiny positive ones up too."""
    logprobs = choice.get("logprobs") or {}
    values = logprobs.get("token_logprobs") or [token["logprob"] for token in logprobs.get("content") or []]
    return np.minimum(np.array([float(value) for value in values], dtype=np.float32), 0.0)


def top_logprobs_in(body: Mapping[str, Any]) -> dict[str, float]:
    """The likeliest first tokens with their log-probabilities; the one sampled may be among them."""
    logprobs = body["choices"][0].get("logprobs") or {}
    if "top_logprobs" in logprobs:
        return {str(token): float(value) for token, value in logprobs["top_logprobs"][0].items()}
    content = logprobs.get("content") or []
    return {str(top["token"]): float(top["logprob"]) for top in content[0].get("top_logprobs", [])}


def _ids(value: Any) -> npt.NDArray[np.int32]:
    return np.array([] if value is None else value, dtype=np.int64).astype(np.int32)


def _split_tokens(total: int, lengths: list[int]) -> list[int]:
    """The completion tokens of each choice: what its ids say, else an even part of the sum."""
    count = len(lengths)
    if all(lengths) or not count:
        return lengths
    return [total // count + (index < total % count) for index in range(count)]
