"""The screen in a browser of this machine, by textual-serve: each page that is opened runs a separate `evo watch`.

It binds to the loopback address, and a request must have the token of the printed address. The token goes into
a cookie that other sites' pages cannot send, so that none of them can reach the screen through the viewer's browser.
"""

from __future__ import annotations

import hmac
import secrets
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from textual_serve.server import Server

HOST = "127.0.0.1"
COOKIE = "evo_screen"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServedScreen(Server):
    """A server of one command. `address`: to open in a browser; say: called with it once the server is ready."""

    def __init__(self, command: Sequence[str], title: str, port: int, say: Callable[[str], None]) -> None:
        """port: 0 for a free one. Raises OSError if the port is taken."""
        self._socket = socket.create_server((HOST, port))
        port = self._socket.getsockname()[1]
        templates = Path(__file__).parent / "served"
        super().__init__(shlex.join(command), HOST, port, title, templates_path=templates)
        self.token = secrets.token_urlsafe(24)
        self.address = f"http://{HOST}:{port}/?token={self.token}"
        self._say = say

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guard())
        return app

    def _guard(self) -> Any:
        host = f"{HOST}:{self.port}"

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            # the host name too: a page of another site may have made its name lead here
            if request.host != host or request.headers.get("Origin", f"http://{host}") != f"http://{host}":
                raise web.HTTPForbidden(text="this screen is only served to this machine")
            given = request.query.get("token") or request.cookies.get(self._cookie) or ""
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                raise web.HTTPForbidden(text="open the address that evo watch --serve printed, with its token")
            if "token" in request.query:  # out of the address, which is kept in the browser's history
                response: web.StreamResponse = web.HTTPFound(request.path)
                response.set_cookie(self._cookie, self.token, httponly=True, samesite="Strict")
                return response
            return await handler(request)

        return guard

    @property
    def _cookie(self) -> str:
        """One for each server: browsers keep cookies by name, whatever the port."""
        return f"{COOKIE}_{self.port}"

    def initialize_logging(self) -> None:
        """None: it would write requests, and with them the token, to the terminal."""

    async def on_startup(self, app: web.Application) -> None:
        self._say(self.address)

    def serve_forever(self) -> None:
        """Until a signal ends it."""
        web.run_app(self._make_app(), sock=self._socket, print=lambda *_: None, access_log=None)


def command_of(name: str, against: str | None) -> list[str]:
    """The command that shows the run, of the database in the environment (EVO_DB)."""
    return [sys.executable, "-m", "evo", "watch", *(["--against", against] if against else []), "--", name]
