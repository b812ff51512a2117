"""A small real HTTP server that speaks the OpenAI protocol, with the faults that servers have.

What it writes depends on the messages, the temperature and seed + index of the choice (vLLM's rule), so that the policy
contract can be held against it. Its tokens are the bytes of the text.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = ("x = 1", "return 2", "def f(y):", "    pass", "else", "3.5", "y += x", "'é'")


@dataclass
class Manners:
    """How the server behaves; tests change it while it runs.

    faults: taken one by one, each in place of the answer to one request: a status, or a function of the handler
    dies_after: requests after which every connection is dropped
    refuses: (parameter, message) of parameters that are answered with 400
    most_choices: choices in one answer at most; context: tokens (bytes) of prompt and answer
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
    dies_after: int | None = None
    text: str | None = None
    finish: str = "stop"
    port: int = 0
    refuses: dict[str, str] = field(default_factory=dict)
    faults: list[Any] = field(default_factory=list)


class CompletionServer:
    """url: where it is; requests: bodies of chat completions, in order of arrival; times: when each came; busiest: how
    many were being answered at once at most"""

    def __init__(self, **manners: Any) -> None:
        self.manners = Manners(**manners)
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.headers: list[dict[str, str]] = []
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
        with self.lock:
            self.requests.append(body)
            self.times.append(time.monotonic())
            self.headers.append(dict(handler.headers))
            fault = self.manners.faults.pop(0) if self.manners.faults else None
            if self.manners.dies_after is not None and len(self.requests) > self.manners.dies_after:
                fault = gone
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
        try:
            time.sleep(self.manners.delay)
            if callable(fault):
                fault(handler)
            elif fault is not None:
                send(handler, fault, {"error": {"message": f"status {fault}"}})
            else:
                send(handler, *self.answer(handler, body))
        finally:
            with self.lock:
                self.busy -= 1

    def answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
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
        prompt = "\n".join(f"{one['role']}: {one['content']}" for one in body["messages"]).encode()
        if (body["messages"][-1]["role"] == "assistant") is not body.get("continue_final_message", False):
            return 400, {"error": {"message": "the last message must be the user's"}}
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
        choices = [self.choice(body, prompt, index, limit) for index in places]
        written = sum(choice.pop("length") for choice in choices)
        usage = {"prompt_tokens": len(prompt), "completion_tokens": written, "total_tokens": len(prompt) + written}
        reply: dict[str, Any] = {
            "object": "chat.completion",
            "model": manners.model,
            "choices": choices,
            "usage": usage,
        }
        if self.manners.gives_ids and body.get("return_token_ids"):
            reply["prompt_token_ids"] = list(prompt)
        return 200, reply

    def choice(self, body: dict[str, Any], prompt: bytes, index: int, limit: int) -> dict[str, Any]:
        manners = self.manners
        place = prompt + repr((body.get("temperature", 1.0), body.get("seed", 0) + index)).encode()
        bits = int.from_bytes(hashlib.blake2b(place).digest(), "little")
        text = manners.text
        if text is None:
            text = "\n".join(WORDS[bits >> 3 * i & 7] for i in range(2 + (bits >> 90) % 8))
        ids = list(text.encode())[:limit]
        cut = len(ids) < len(text.encode())
        text = bytes(ids).decode(errors="ignore")
        choice: dict[str, Any] = {
            "index": index,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "length" if cut else manners.finish,
            "length": len(ids) + (not cut),
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
    handler.headers.replace_header("connection", "close") if "connection" in handler.headers else None
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


@contextmanager
def completion_server(**manners: Any) -> Iterator[CompletionServer]:
    server = CompletionServer(**manners)
    try:
        yield server
    finally:
        server.close()
