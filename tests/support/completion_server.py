"""A small real HTTP server that speaks the OpenAI protocol, with the faults that servers have, and with the books of
what it charges for.

What it writes depends on the messages, the temperature and seed + index of the choice (vLLM's rule), so that the policy
contract can be held against it. It charges for every reply that it has sent whole, also if that is empty, cut, without
usage or unreadable, and for nothing else.
"""

from __future__ import annotations

import hashlib
import json
import random
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Clients of these servers speak plain HTTP: to read the system's certificates twice for each policy is half of a test
ssl.SSLContext.load_verify_locations = lambda *_, **__: None  # type: ignore[method-assign]

WORDS = ("x = 1", "return 2", "def f(y):", "    pass", "else", "3.5", "y += x", "'é'")
Fault = Any
"""A status, a function of the handler, or the name of what becomes of a reply; "" for none."""


@dataclass
class Manners:
    """How the server behaves; tests change it while it runs.

    faults: taken one by one, each for one request; plan: the fault of any other request, by its number from 0
    hang: seconds until a hanging request is dropped
    refuses: (parameter, message) of parameters that are answered with 400
    refuse: answers a request in the server's place, if it returns True
    most_choices: choices in one answer at most; context: bytes of prompt and answer
    text: of every answer, or a function of (body, number of the request); bytes_a_token: 1 where it gives token ids
    """

    model: str = "tiny"
    engine: str = "vllm"
    key: str = ""
    gives_ids: bool = True
    processed: bool = True
    lists_models: int = 200
    most_choices: int = 64
    context: int | None = None
    shows_context: bool = True
    delay: float = 0.0
    hang: float = 1.0
    text: str | Callable[[dict[str, Any], int], str] | None = None
    bytes_a_token: int = 1
    finish: str = "stop"
    port: int = 0
    refuses: dict[str, str] = field(default_factory=dict)
    refuse: Callable[[CompletionServer, BaseHTTPRequestHandler, dict[str, Any]], bool] | None = None
    faults: list[Fault] = field(default_factory=list)
    plan: Callable[[int], Fault] = lambda number: ""


@dataclass
class Books:
    """What was charged for. charges: (prompt tokens, completion tokens) of each request"""

    charges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def prompt_tokens(self) -> int:
        return sum(prompt for prompt, _ in self.charges)

    @property
    def completion_tokens(self) -> int:
        return sum(completion for _, completion in self.charges)

    def cost(self, read: float, written: float) -> float:
        """At these prices of a million tokens."""
        return (read * self.prompt_tokens + written * self.completion_tokens) / 1e6


class CompletionServer:
    """url: where it is; requests: bodies of chat completions, in order of arrival; times: when each came; busiest: how
    many were being answered at once at most; played: the fault of each request"""

    def __init__(self, **manners: Any) -> None:
        self.manners = Manners(**manners)
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.headers: list[dict[str, str]] = []
        self.played: list[Fault] = []
        self.books = Books()
        self.released = threading.Event()
        self.busiest = self.busy = 0
        self.lock = threading.Lock()
        self._server = _Http(("127.0.0.1", self.manners.port), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"openai:{self.manners.model}@{self.url}"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                server.list_models(self)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.completed(self, body)

        return Handler

    def list_models(self, handler: BaseHTTPRequestHandler) -> None:
        manners = self.manners
        if handler.path != "/v1/models" or manners.lists_models != 200:
            status = 404 if manners.lists_models == 200 else manners.lists_models
            send(handler, status, {"error": {"message": "no list"}})
        elif not self.allowed(handler):
            send(handler, 401, {"error": {"message": f"bad key {handler.headers.get('authorization')}"}})
        else:
            card: dict[str, Any] = {"object": "model", "owned_by": manners.engine}
            if manners.context and manners.shows_context:
                card["max_model_len"] = manners.context
            send(handler, 200, {"object": "list", "data": [{"id": model, **card} for model in self.models()]})

    def models(self) -> list[str]:
        return [self.manners.model]

    def allowed(self, handler: BaseHTTPRequestHandler) -> bool:
        return not self.manners.key or handler.headers.get("authorization") == f"Bearer {self.manners.key}"

    def completed(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        manners = self.manners
        with self.lock:
            number = len(self.requests)
            self.requests.append(body)
            self.times.append(time.monotonic())
            self.headers.append(dict(handler.headers))
            fault = manners.faults.pop(0) if manners.faults else manners.plan(number)
            self.played.append(fault)
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
        try:
            self.released.wait(manners.delay)
            if manners.refuse is not None and manners.refuse(self, handler, body):
                return
            if fault == "hang":
                self.released.wait(manners.hang)
                gone(handler)
            elif callable(fault):
                fault(handler)
            elif isinstance(fault, int):
                send(handler, fault, {"error": {"message": f"status {fault}"}})
            else:
                self.reply(handler, body, number, fault)
        finally:
            with self.lock:
                self.busy -= 1

    def reply(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], number: int, fault: Fault = "") -> None:
        status, reply = self.answer(handler, body, number, fault)
        if "usage" in reply:
            with self.lock:
                self.books.charges.append((reply["usage"]["prompt_tokens"], reply["usage"]["completion_tokens"]))
        if fault == "no usage":
            del reply["usage"]
        elif fault == "garbled":
            reply["choices"] = [{"index": "one", "message": 3}]
        send(handler, status, reply)

    def answer(
        self, handler: BaseHTTPRequestHandler, body: dict[str, Any], number: int, fault: Fault
    ) -> tuple[int, dict[str, Any]]:
        manners = self.manners
        if handler.path != "/v1/chat/completions":
            return 404, {"error": {"message": "Not Found"}}
        if not self.allowed(handler):
            return 401, {"error": {"message": "Incorrect API key provided"}}
        if body["model"] != manners.model:
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
        for name, message in manners.refuses.items():
            if name in body or (name == "system" and body["messages"][0]["role"] == "system"):
                return 400, {"error": {"message": message, "type": "invalid_request_error", "param": None}}
        prompt = "".join(one["content"] for one in body["messages"]).encode()
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 1 << 20
        if manners.context is not None and len(prompt) + (0 if manners.shows_context else limit) > manners.context:
            message = (
                f"This model's maximum context length is {manners.context} tokens. However, you requested "
                f"{len(prompt) + limit} tokens ({len(prompt)} in the messages, {limit} in the completion)."
            )
            return 400, {"error": {"message": message, "code": "context_length_exceeded"}}
        if manners.context is not None:
            limit = min(limit, manners.context - len(prompt))
        places = range(min(body.get("n", 1), manners.most_choices))
        choices = [self.choice(body, prompt, index, limit, number, fault) for index in places]
        written, read = sum(choice.pop("length") for choice in choices), self.tokens(prompt)
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        reply: dict[str, Any] = {
            "object": "chat.completion",
            "model": manners.model,
            "choices": choices,
            "usage": usage,
        }
        if self.manners.gives_ids and body.get("return_token_ids"):
            reply["prompt_token_ids"] = list(prompt)
        return 200, reply

    def tokens(self, text: bytes) -> int:
        return -(-len(text) // self.manners.bytes_a_token)

    def choice(
        self, body: dict[str, Any], prompt: bytes, index: int, limit: int, number: int, fault: Fault
    ) -> dict[str, Any]:
        manners = self.manners
        place = prompt + repr((body.get("temperature", 1.0), body.get("seed", 0) + index)).encode()
        bits = int.from_bytes(hashlib.blake2b(place).digest(), "little")
        text = manners.text(body, number) if callable(manners.text) else manners.text
        if text is None:
            text = "\n".join(WORDS[bits >> 3 * i & 7] for i in range(2 + (bits >> 90) % 8))
        whole = text.encode()
        ids = list(whole[: len(whole) // 4 if fault == "cut" else limit * manners.bytes_a_token])
        cut = len(ids) < len(whole)
        text = bytes(ids).decode(errors="ignore")
        thought = "Let me think about it. " * 5 if fault == "reasoning" else ""
        text = "" if fault in ("empty", "reasoning") else text
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if fault == "parts":
            message["content"] = [{"type": "text", "text": part} for part in (text[:7], text[7:])]
        if thought:
            message["reasoning_content"] = thought
        choice: dict[str, Any] = {
            "index": index,
            "message": message,
            "finish_reason": "length" if cut else manners.finish,
            "length": self.tokens((text + thought).encode()),
        }
        if body.get("logprobs"):
            sharpness = 1 / max(body.get("temperature", 1.0), 1e-3) if manners.processed else 1.0
            tops = [{"token": str(i), "logprob": -0.1 - sharpness * i} for i in range(body.get("top_logprobs", 0))]
            rank = bits % 90
            one: dict[str, Any] = {"token": str(rank), "logprob": -0.1 - sharpness * rank, "top_logprobs": tops}
            if rank >= len(tops):  # vLLM puts the token that was sampled before the likeliest
                one["top_logprobs"] = [{"token": str(rank), "logprob": one["logprob"]}, *tops]
            choice["logprobs"] = {"content": [one] * (len(ids) + (not cut))}
        if manners.gives_ids and body.get("return_token_ids"):
            choice["token_ids"] = ids + ([] if cut else [0])
        return choice


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        pass  # clients that went away are what is tested


def send(handler: BaseHTTPRequestHandler, status: int, body: object, headers: dict[str, str] | None = None) -> None:
    """A whole answer; bytes and text go as they are."""
    content = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    handler.send_response(status)
    kind = "application/json" if isinstance(body, dict) else "text/html"
    for name, value in {"content-type": kind, "content-length": str(len(content)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)


def limited(seconds: float, status: int = 429) -> Callable[[BaseHTTPRequestHandler], None]:
    """Asks to be left alone for so long."""

    def fault(handler: BaseHTTPRequestHandler) -> None:
        send(handler, status, {"error": {"message": "slow down"}}, {"retry-after": f"{seconds:g}"})

    return fault


def garbage(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, b"<html>bad gateway</html>")


def half(handler: BaseHTTPRequestHandler) -> None:
    """A connection that ends in the middle of an answer."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def gone(handler: BaseHTTPRequestHandler) -> None:
    """A connection that ends before any answer."""
    handler.close_connection = True


def quota(handler: BaseHTTPRequestHandler) -> None:
    """An account without credit, as OpenAI has it."""
    message = "You exceeded your current quota, please check your plan and billing details."
    error = {"message": message, "type": "insufficient_quota", "param": None, "code": "insufficient_quota"}
    send(handler, 429, {"error": error})


FAULTS: tuple[Fault, ...] = (429, 500, "hang", "cut", "empty", gone, "no usage", "reasoning", "parts", "garbled")
"""What hosted models are seen to do."""


def mixed(share: float, seed: int = 0) -> Callable[[int], Fault]:
    """A plan in which this share of the requests meet a fault, each as often as the others."""
    drawn: list[Fault] = []
    rng = random.Random(seed)

    def plan(number: int) -> Fault:
        while len(drawn) <= number:
            drawn.append(rng.choice(FAULTS) if rng.random() < share else "")
        return drawn[number]

    return plan


def scripted(*faults: Fault, after: Fault = "") -> Callable[[int], Fault]:
    """A plan that plays these, one a request, and then another for good."""
    return lambda number: faults[number] if number < len(faults) else after


def completion_server(**manners: Any) -> AbstractContextManager[CompletionServer]:
    return closing(CompletionServer(**manners))


def program_of(body: dict[str, Any], number: int) -> str:
    """The text of a reply to `programs:easy`."""
    return f"```python\ndef initials(name):\n    return name[:{number}] + '.'\n```"


def hosted_server(plan: Callable[[int], Fault], **manners: Any) -> AbstractContextManager[CompletionServer]:
    """A server with the faults of hosted models. Its tokens are four bytes each, as in a client's estimate."""
    return completion_server(**{"plan": plan, "engine": "", "bytes_a_token": 4, "text": program_of, **manners})
