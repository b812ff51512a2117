"""A browser, and a page whose texts are hostile."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


HOSTILE = (
    "</pre></script><script>fetch('/x')</script><img src=x onerror=alert(1)><a href=\"javascript:alert(4)\">go</a>"
    "</style>\"'><svg/onload=alert(2)> {{ 7 * 7 }} \x1b[31m\x08\x00\u202e\u2066\ud800 &lt;"
)


@pytest.fixture
def hostile_page(hostile_runs, page_for, tmp_path):
    """The address of a report whose every text holds what must not be believed, with a line of 1 MB."""
    from sqlalchemy import update

    from islands.blobs import pack, plain
    from islands.schema import Candidate, PromptText, Rollout
    from islands.store import Store

    long = HOSTILE + "x" * 1_000_000
    with ThreadPoolExecutor(1) as thread:  # the browser's event loop runs in this one
        address = thread.submit(hostile_runs, HOSTILE, iterations=4).result()
    with Store.open(address) as store, store.begin() as tx:
        best = store.problems(store.runs()[0].id)[1].best
        tx.connection.execute(update(Rollout).values(format_error=HOSTILE, text=long))
        tx.connection.execute(update(Candidate).values(error=HOSTILE).where(Candidate.c.id == best - 1))
        tx.connection.execute(update(Candidate).values(text=long, feedback=long).where(Candidate.c.id == best))
        tx.connection.execute(update(PromptText).values(base=None, texts=pack(plain([long, long]))))
    page = tmp_path / "hostile.html"
    page.write_text(page_for(address, "both")[1], encoding="utf-8", errors="replace")
    return page.as_uri()


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
