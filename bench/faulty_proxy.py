"""A proxy before a server that fails now and then, in four ways."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Proxy(ThreadingHTTPServer):
    """Passes requests on, every fourth in a row of faults of its own: 429 with Retry-After, 500, a connection that
    breaks off, no JSON."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        self.target = url.removeprefix("http://")
        self.count, self.faults, self.guard = 0, 0, threading.Lock()
        super().__init__(("127.0.0.1", 0), _Passing)

    def fault(self) -> int | None:
        with self.guard:
            self.count += 1
            if self.count % 4:
                return None
            self.faults += 1
            return self.faults % 4


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.passed("GET", None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        match self.server.fault():
            case 0:
                self.sent(429, b'{"error": {"message": "slow down"}}', "application/json", {"retry-after": "1"})
            case 1:
                self.sent(500, b'{"error": {"message": "out of luck"}}', "application/json")
            case 2:
                self.close_connection = True
            case 3:
                self.sent(200, b"<html>bad gateway</html>", "text/html")
            case _:
                self.passed("POST", body)

    def passed(self, method: str, body: bytes | None) -> None:
        connection = http.client.HTTPConnection(self.server.target, timeout=300)
        connection.request(method, self.path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        self.sent(answer.status, answer.read(), "application/json")
        connection.close()

    def sent(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
