"""A server of the page in a thread, and a browser."""

import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from evo.ui.databases import RunDatabase
from evo.ui.server import PageServer

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def _serve(address, **settings):
    server = PageServer(RunDatabase(address), 0, **settings)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.close()


@pytest.fixture(scope="session")
def serve():
    """serve(address, ...) -> a context with the server of this database."""
    return _serve


@pytest.fixture(scope="session")
def hostile_words():
    return (
        "</pre></script><script>fetch('/x')</script><img src=x onerror=alert(1)><a href=\"javascript:alert(4)\">go</a>"
        "</style>\"'><svg/onload=alert(2)> {{ 7 * 7 }} \x1b[31m\x08\x00\u202e\u2066\ud800 &lt;"
    )


@pytest.fixture
def search_apart(search_with):
    """As search_with, in another thread: the browser's event loop runs in this one."""

    def search(*arguments, **settings):
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(search_with, *arguments, **settings).result()

    return search


@pytest.fixture
def hostile_database(hostile_runs, hostile_words):
    """An address, and the id of a candidate: every text of it holds what must not be believed, with a line of 1 MB."""
    from sqlalchemy import update

    from islands.blobs import pack
    from islands.schema import Candidates, PromptTexts, Rollouts
    from islands.store import Store

    long = hostile_words + "x" * 1_000_000
    with ThreadPoolExecutor(1) as thread:  # see search_apart
        address = thread.submit(hostile_runs, hostile_words, iterations=4).result()
    with Store.open(address) as store, store.begin() as tx:
        best = store.problems(store.runs()[0].id)[1].best
        tx.connection.execute(update(Rollouts).values(format_error=hostile_words, text=long))
        tx.connection.execute(update(Candidates).values(error=hostile_words).where(Candidates.c.id == best - 1))
        tx.connection.execute(update(Candidates).values(text=long, feedback=long).where(Candidates.c.id == best))
        tx.connection.execute(update(PromptTexts).values(base=None, texts=pack(json.dumps([long, long]).encode())))
    return address, best


@pytest.fixture(scope="module")
def browser():
    """A Chromium without a window. Needs playwright and a browser on the PATH. Its event loop runs in this thread until
    the module ends: a search needs another one."""
    leave = pytest.fail if os.environ.get("CI") else pytest.skip
    try:
        from playwright import sync_api as playwright
    except ImportError:
        leave('needs a browser\'s driver: pip install "evo-search[browser]"')
    chromium = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if chromium is None:
        leave("needs Chromium: the distribution's package `chromium`")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def tab(browser):
    """A page that keeps what it complained of, asked for and opened."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.complaints, opened.requests = [], []
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.on("dialog", lambda dialog: (opened.complaints.append(dialog.message), dialog.dismiss()))
    opened.on("request", lambda request: opened.requests.append(request.url))
    yield opened
    opened.close()
