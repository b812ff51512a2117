"""A server with every fault that hosted models have, mixed, and with the books of what it charges for.

It charges for every reply that it has sent whole, also if that is empty, cut, without usage or unreadable. It charges
nothing for 429 and 500, for a connection that it resets, and for a request that it never answers. Its tokens are four
bytes each, as in a client's estimate.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.completion_server import CompletionServer, gone, send

BYTES_A_TOKEN = 4
FAULTS = ("429", "500", "hang", "cut", "empty", "reset", "no usage", "reasoning", "parts", "garbled")
ANSWER = "def initials(name):\n    return name[:{number}] + '.'\n"


def tokens(text: str) -> int:
    return -(-len(text.encode()) // BYTES_A_TOKEN)


@dataclass
class Books:
    """What was charged for: requests, and their tokens. faults: how often each fault was played; charges: (prompt
    tokens, completion tokens) of each request"""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    charges: list[tuple[int, int]] = field(default_factory=list)

    def cost(self, read: float, written: float) -> float:
        """At these prices of a million tokens."""
        return (read * self.prompt_tokens + written * self.completion_tokens) / 1e6


class MisbehavingServer(CompletionServer):
    """plan: the fault of a request, by its number from 0, "" for none; hang: seconds until a hanging request is dropped
    answer: the text of a sound reply to a request"""

    def __init__(
        self,
        plan: Callable[[int], str],
        *,
        hang: float = 1.0,
        answer: Callable[[dict[str, Any], int], str] | None = None,
        **manners: Any,
    ) -> None:
        self.plan, self.hang = plan, hang
        self.answer_text = answer or (lambda body, number: f"```python\n{ANSWER.format(number=number)}```")
        self.books = Books()
        self.played: list[str] = []
        self.released = threading.Event()
        super().__init__(**{"engine": "", **manners})

    def close(self) -> None:
        self.released.set()
        super().close()

    def completed(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        with self.lock:
            number = len(self.requests)
            self.requests.append(body)
            fault = self.plan(number)
            self.played.append(fault)
            self.books.faults[fault or "none"] += 1
        if self.manners.delay:
            self.released.wait(self.manners.delay)
        length = sum(len(one["content"].encode()) for one in body["messages"])
        if self.manners.context is not None and length > self.manners.context:
            message = f"This model's maximum context length is {self.manners.context} tokens, the prompt has {length}."
            send(handler, 400, {"error": {"message": message, "code": "context_length_exceeded"}})
        elif fault in ("429", "500"):
            message = "Rate limit reached" if fault == "429" else "The server had an error"
            send(handler, int(fault), {"error": {"message": message}})
        elif fault == "hang":
            self.released.wait(self.hang)
            gone(handler)
        elif fault == "reset":
            gone(handler)
        elif fault in PLAYED:
            PLAYED[fault](handler)
        else:
            self.reply(handler, body, number, fault)

    def reply(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], number: int, fault: str) -> None:
        text, thought = self.answer_text(body, number), ""
        if fault == "cut":
            text = text[: len(text) // 4]
        elif fault == "empty":
            text = ""
        elif fault == "reasoning":
            text, thought = "", "Let me think about it. " * 5
        content: Any = text
        if fault == "parts":
            content = [{"type": "text", "text": text[:7]}, {"type": "text", "text": text[7:]}]
        message = {"role": "assistant", "content": content, **({"reasoning_content": thought} if thought else {})}
        choice = {"index": 0, "message": message, "finish_reason": "length" if fault == "cut" else "stop"}
        prompt = sum(len(one["content"].encode()) for one in body["messages"])
        usage = {"prompt_tokens": -(-prompt // BYTES_A_TOKEN), "completion_tokens": tokens(text + thought)}
        reply: dict[str, Any] = {"object": "chat.completion", "choices": [choice], "usage": usage}
        if fault == "no usage":
            del reply["usage"]
        elif fault == "garbled":
            reply["choices"] = [{"index": "one", "message": 3}]
        with self.lock:
            self.books.requests += 1
            self.books.prompt_tokens += usage["prompt_tokens"]
            self.books.completion_tokens += usage["completion_tokens"]
            self.books.charges.append((usage["prompt_tokens"], usage["completion_tokens"]))
        send(handler, 200, reply)


def quota(handler: BaseHTTPRequestHandler) -> None:
    """An account without credit, as OpenAI has it."""
    message = "You exceeded your current quota, please check your plan and billing details."
    error = {"message": message, "type": "insufficient_quota", "param": None, "code": "insufficient_quota"}
    send(handler, 429, {"error": error})


PLAYED: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {"quota": quota}


def mixed(share: float, seed: int = 0, faults: Sequence[str] = FAULTS) -> Callable[[int], str]:
    """A plan in which this share of the requests meet a fault, each as often as the others."""
    drawn: list[str] = []
    rng = random.Random(seed)

    def plan(number: int) -> str:
        while len(drawn) <= number:
            drawn.append(rng.choice(list(faults)) if rng.random() < share else "")
        return drawn[number]

    return plan


def scripted(*faults: str, after: str = "") -> Callable[[int], str]:
    """A plan that plays these, one a request, and then another for good."""
    return lambda number: faults[number] if number < len(faults) else after


@contextmanager
def misbehaving_server(plan: Callable[[int], str], **settings: Any) -> Iterator[MisbehavingServer]:
    server = MisbehavingServer(plan, **settings)
    try:
        yield server
    finally:
        server.close()
