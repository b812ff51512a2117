"""The server of the page, with a thread for each connection.

It only reads, and listens on this machine only, unless it is given another host. A request must name this machine as
its host, so that a site whose name was made to point here cannot read the page. No other origin is allowed. With a
token, a request must carry it too. On another host there is always a token, and a request may name any host: under the
name of another site a browser does not send the cookie with the token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import sys
import traceback
from collections.abc import Mapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from evo.errors import BadInput
from evo.progress.answer import find_candidate
from evo.report.page import content_policy, environment, render
from evo.ui import pages
from evo.ui.databases import RunDatabase
from evo.ui.pages import UiPage
from islands.errors import DatabaseUnavailable, UnknownRun
from islands.names import format_db_option
from problems.redaction import redact

HOST = "127.0.0.1"
LOOPBACK = (HOST, "localhost", "::1")
"""Names of this machine in a request; a tunnel may have an end at any."""
ALL_HOSTS = ("", "0.0.0.0")
"""All addresses of this machine."""
IDLE_SECONDS = 60
"""Time after which a connection without a request is closed."""
POLICY = content_policy("connect-src 'self'", "form-action 'self'", "frame-ancestors 'none'")
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:@/\[\]]+)(:\d+)?")


class RequestRefused(Exception):
    """A request that gets no page, with the status and the reason."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class PageServer(ThreadingHTTPServer):
    """Serves the database until `shutdown`. address: to open in a browser, with the token if one is required."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, database: RunDatabase, port: int, *, host: str = HOST, token: bool = False) -> None:
        """port: 0 for a free one; host: the address to listen on, 0.0.0.0 for all of this machine; token: whether one
        is required, as always if other machines reach the host. Raises OSError if host or port is not available."""
        self.database = database
        self.host = host
        super().__init__((host, port), _Handler)
        self.port = int(self.socket.getsockname()[1])
        self.token = secrets.token_urlsafe(24) if token or host not in LOOPBACK else ""
        named = HOST if host in ALL_HOSTS else host
        self.address = f"http://{named}:{self.port}/" + (f"?token={self.token}" if self.token else "")
        environment().globals["suffix"] = format_db_option(database.address)

    def close(self) -> None:
        """Free the port and close the database."""
        self.server_close()
        self.database.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: a browser that closes a connection is no fault. `do_GET` answers and prints faults of pages."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "evo", ""
    timeout = IDLE_SECONDS
    server: PageServer

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        query = dict(parse_qsl(split.query, keep_blank_values=True, max_num_fields=40, errors="replace"))
        try:
            if self._admit(split.path, query):
                self._answer(split.path, query)
        except RequestRefused as refused:
            self._send(refused.status, str(refused).encode(), {"Content-Type": "text/plain; charset=utf-8"})
        except (BadInput, UnknownRun, DatabaseUnavailable) as error:
            missing = isinstance(error, UnknownRun)
            status = HTTPStatus.NOT_FOUND if missing else HTTPStatus.BAD_REQUEST
            if isinstance(error, DatabaseUnavailable):
                status = HTTPStatus.SERVICE_UNAVAILABLE
            self._fail(status, "Not found" if missing else "This page is not available", str(error))
        except (BrokenPipeError, ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as error:  # a bug: show it here and in the terminal, and continue to serve
            print(redact(traceback.format_exc()), file=sys.stderr)
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, "A fault of ours", f"{type(error).__name__}: {error}")

    do_HEAD = do_GET

    def _admit(self, path: str, query: Mapping[str, str]) -> bool:
        """Whether the request gets its answer; False if it was answered with a redirection. Raises RequestRefused."""
        named = _HOST.fullmatch(self.headers.get("Host", "").lower())
        if named is None or (self.server.host in LOOPBACK and named["name"].strip("[]") not in LOOPBACK):
            raise RequestRefused(HTTPStatus.FORBIDDEN, "this page is only served under the name of its machine")
        if self.headers.get("Sec-Fetch-Site") == "cross-site" and self.headers.get("Sec-Fetch-Mode") != "navigate":
            raise RequestRefused(HTTPStatus.FORBIDDEN, "this page is not served to other sites")
        token, cookie = self.server.token, f"evo_ui_{self.server.port}"
        if not token:
            return True
        if "token" in query and hmac.compare_digest(query["token"].encode(), token.encode()):
            # removes the token from the address, which the browser keeps in its history
            rest = urlencode({key: value for key, value in query.items() if key != "token"})
            target = "/" + path.lstrip("/") + (f"?{rest}" if rest else "")
            set_cookie = f"{cookie}={token}; HttpOnly; SameSite=Strict; Path=/"
            self._send(HTTPStatus.SEE_OTHER, b"", {"Location": target, "Set-Cookie": set_cookie})
            return False
        try:
            given = SimpleCookie(self.headers.get("Cookie", "")).get(cookie)
        except CookieError:
            given = None
        if given is None or not hmac.compare_digest(given.value.encode(), token.encode()):
            raise RequestRefused(HTTPStatus.FORBIDDEN, "open the address that evo ui printed, with its token")
        return True

    def _answer(self, path: str, query: Mapping[str, str]) -> None:
        parts = [unquote(part) for part in path.split("/")[1:]]
        database = self.server.database
        match parts:
            case [""]:
                return self._show(pages.list_runs(database))
            case ["run", name]:
                return self._show(pages.show_run(database, name))
            case ["run", name, "candidates"]:
                return self._show(pages.list_candidates(database, name, query))
            case ["run", name, "candidate", id]:
                return self._show(pages.show_candidate(database, name, _id(id)))
            case ["run", name, "candidate", id, "text"]:
                text = find_candidate(database.store(), name, _id(id))[1].candidate.text
                headers = {
                    "Content-Type": "text/plain; charset=utf-8",
                    "Content-Disposition": f'attachment; filename="candidate-{_id(id)}.txt"',
                }
                return self._send(HTTPStatus.OK, text.encode("utf-8", "replace"), headers)
        raise UnknownRun("there is no such page")

    def _show(self, view: UiPage, status: HTTPStatus = HTTPStatus.OK) -> None:
        text = render(view.template, **view.values, live=view.live, served=True, policy="")
        self._send(status, text.encode("utf-8", "replace"), {"Content-Type": "text/html; charset=utf-8"})

    def _fail(self, status: HTTPStatus, title: str, message: str) -> None:
        self._show(UiPage("failed.html.jinja", {"title": title, "message": redact(message)}), status)

    def _send(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> None:
        etag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
        if status == HTTPStatus.OK and self.headers.get("If-None-Match") == etag:
            status, body = HTTPStatus.NOT_MODIFIED, b""
        self.send_response(status)
        for name, value in {**HEADERS, **headers, "ETag": etag, "Cache-Control": "no-cache"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """None: a request's address may hold the token."""


def _id(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    raise UnknownRun("a candidate is named by its number")
