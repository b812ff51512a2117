"""The screen in a browser: who may see it, and that it is the same screen."""

import asyncio
import os
import re
import signal
import subprocess
import sys

import aiohttp
import pytest
from aiohttp import WSMsgType

from islands.db.store import Store


@pytest.fixture
def db(tmp_path, search_with, digits, digits_policy):
    address = f"sqlite:///{tmp_path}/evo.db"
    search_with([digits("a", target=0.9), digits("b", target=0.9)], digits_policy(), address, iterations=8)
    with Store.open(address) as store:
        store.finish_run(store.run("run").id, "done")
    return address


@pytest.fixture
def address(db, pytestconfig):
    """What `evo watch --serve` prints."""
    command = [sys.executable, "-m", "evo", "watch", "run", "--db", db, "--serve", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(pytestconfig.rootpath)}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    line = server.stdout.readline()
    yield re.search(r"http://127\.0\.0\.1:[0-9]+/\?token=\S+", line)[0]
    server.send_signal(signal.SIGINT)
    assert server.wait(30) == 0
    server.stdout.close()


async def until(socket, text):
    """Read what the screen paints until this is in it."""
    seen = b""
    async with asyncio.timeout(60):  # the clock is painted for ever, so that a message always comes
        while text not in seen:
            message = await socket.receive()
            assert message.type in (WSMsgType.BINARY, WSMsgType.TEXT), seen[-2000:]
            seen += message.data if message.type == WSMsgType.BINARY else b""


def test_it_is_served_to_who_has_the_token_alone(address):
    async def scenario():
        base, token = address.split("/?token=")
        own = {"Origin": base}
        async with aiohttp.ClientSession() as session:
            for query, headers in (
                ("", {}),
                ("?token=", {}),
                ("?token=x" + token[1:], {}),
                (f"?token={token}", {"Host": "elsewhere.example:80"}),
                (f"?token={token}", {"Origin": "http://elsewhere.example"}),
            ):
                async with session.get(f"{base}/{query}", headers=headers) as answer:
                    assert answer.status == 403, (query, headers)
            for path in ("/static/js/textual.js", "/ws", "/download/x"):
                async with session.get(base + path) as answer:
                    assert answer.status == 403, path
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            async with session.get(address) as answer:
                page = await answer.text()
                assert answer.status == 200 and "token" not in str(answer.url)
                assert "evo watch run" in page and not re.search(r"https?://(?!127\.0\.0\.1)", page)  # needs no network
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(f"{base}/ws", headers={"Origin": "http://elsewhere.example"})
            async with session.ws_connect(f"{base}/ws?width=120&height=40", headers=own) as socket:
                await until(socket, b"16/16 iterations")
                await socket.send_json(["stdin", "?"])
                await until(socket, b"leave; the run continues")

    asyncio.run(scenario())


def test_a_mistyped_name_and_a_port_that_is_taken_are_one_line(db, capsys):
    from evo.cli import invoke

    assert invoke(["watch", "rum", "--db", db, "--serve"]) == 2
    assert "did you mean run" in capsys.readouterr().err
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert invoke(["watch", "run", "--db", db, "--serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "is not available" in capsys.readouterr().err
    assert invoke(["watch", "run", "--db", db, "--serve", "--once"]) == 2
    assert "exclude each other" in capsys.readouterr().err
