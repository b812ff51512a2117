"""The server of the page, with a thread for each connection.

It listens on this machine only, unless it is given another host. A request must name this machine as its host, so that
a site whose name was made to point here cannot read the page. No other origin is allowed. There is GET and HEAD alone,
and both only read. With a token, a request must carry it too. On another host there is always a token, and a request
may name any host: under the name of another site a browser does not send the cookie with the token.
"""

from __future__ import annotations

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

from evo.exit_status import exit_code_of, message_of
from evo.ui.pages import BuiltPage, RunPages, page_policy, render_page
from islands.errors import UnknownRun
from problems.redaction import redact

_HOST = "127.0.0.1"
_LOOPBACK = (_HOST, "localhost", "::1")
"""Names of this machine in a request; a tunnel may have an end at any."""
_ALL_HOSTS = ("", "0.0.0.0")
"""All addresses of this machine."""
_IDLE_SECONDS = 60
"""Time after which a connection without a request is closed."""
_HEADERS = {
    "Content-Security-Policy": f"{page_policy()}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_HOST_HEADER = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:@/\[\]]+)(:\d+)?")


class RequestRefused(Exception):
    """A request that gets no page, with the status and the reason."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


def _fields(text: str) -> dict[str, str]:
    """Of a query or a form. Raises RequestRefused."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=40, errors="replace"))
    except ValueError as error:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, str(error)) from None


class PageServer(ThreadingHTTPServer):
    """Serves the pages until `shutdown`. address: to open in a browser, with the token if one is required."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, pages: RunPages, port: int, *, host: str = _HOST, token: bool = False) -> None:
        """port: 0 for a free one; host: the address to listen on, 0.0.0.0 for all of this machine; token: whether one
        is required, as always if other machines reach the host. Raises OSError if host or port is not available."""
        self.pages, self.host = pages, host
        super().__init__((host, port), _Handler)
        self.port = int(self.socket.getsockname()[1])
        self.token = secrets.token_urlsafe(24) if token or host not in _LOOPBACK else ""
        named = _HOST if host in _ALL_HOSTS else host
        self.address = f"http://{named}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: a browser that closes a connection is no fault. `do_GET` answers and prints faults of pages."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "evo", ""
    timeout = _IDLE_SECONDS
    server: PageServer

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        path = [unquote(part) for part in split.path.split("/")[1:]]
        try:
            if self._admit(split.path, _fields(split.query)):
                self._answer(path)
        except RequestRefused as refused:
            self._send(refused.status, str(refused).encode(), {"Content-Type": "text/plain; charset=utf-8"})
        except UnknownRun as error:
            self._fail(HTTPStatus.NOT_FOUND, "Not found", str(error))
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as error:
            if exit_code_of(error) is not None:
                return self._fail(HTTPStatus.SERVICE_UNAVAILABLE, "This page is not available", message_of(error))
            print(redact(traceback.format_exc()), file=sys.stderr)  # a bug, of which the page has a line
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, "A fault of ours", f"{type(error).__name__}: {error}")
        return None

    do_HEAD = do_GET

    def _admit(self, path: str, query: Mapping[str, str]) -> bool:
        """Whether the request gets its answer; False if it was answered with a redirection. Raises RequestRefused."""
        named = _HOST_HEADER.fullmatch(self.headers.get("Host", "").lower())
        if named is None or (self.server.host in _LOOPBACK and named["name"].strip("[]") not in _LOOPBACK):
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

    def _answer(self, path: list[str]) -> None:
        match path:
            case [""]:
                self._show(self.server.pages.page())
            case ["run", name] if name:
                self._show(self.server.pages.page(name))
            case ["run", name, "candidate", id] if name and re.fullmatch("[0-9]{1,18}", id):
                self._show(self.server.pages.candidate(name, int(id)))
            case _:
                raise UnknownRun("there is no such page")

    def _show(self, page: BuiltPage, status: HTTPStatus = HTTPStatus.OK) -> None:
        tag = f'"{page.version}"'
        headers = {"Content-Type": "text/html; charset=utf-8", "ETag": tag}
        if status == HTTPStatus.OK and self.headers.get("If-None-Match") == tag:
            return self._send(HTTPStatus.NOT_MODIFIED, b"", headers)
        return self._send(status, page.body, headers)

    def _fail(self, status: HTTPStatus, title: str, message: str) -> None:
        self._show(render_page("failed.html.jinja", title=title, message=redact(message)), status)

    def _send(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers, "Cache-Control": "no-cache"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """None: a request's address may hold the token."""
