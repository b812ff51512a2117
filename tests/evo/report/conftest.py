"""A page whose texts are hostile."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

HOSTILE = (
    "</pre></script><script>fetch('/x')</script><img src=x onerror=alert(1)><a href=\"javascript:alert(4)\">go</a>"
    "</style>\"'><svg/onload=alert(2)> {{ 7 * 7 }} \x1b[31m\x08\x00\u202e\u2066\ud800 &lt;"
)


@pytest.fixture
def hostile_page(hostile_runs, page_for, tmp_path):
    """The address of a report whose every text holds what must not be believed, with a line of 1 MB."""
    from sqlalchemy import update

    from islands.blobs import pack
    from islands.schema import Candidates, PromptTexts, Rollouts
    from islands.store import Store

    long = HOSTILE + "x" * 1_000_000
    with ThreadPoolExecutor(1) as thread:  # the browser's event loop runs in this one
        address = thread.submit(hostile_runs, HOSTILE, iterations=4).result()
    with Store.open(address) as store, store.begin() as tx:
        best = store.problems(store.runs()[0].id)[1].best
        tx.connection.execute(update(Rollouts).values(format_error=HOSTILE, text=long))
        tx.connection.execute(update(Candidates).values(error=HOSTILE).where(Candidates.c.id == best - 1))
        tx.connection.execute(update(Candidates).values(text=long, feedback=long).where(Candidates.c.id == best))
        tx.connection.execute(update(PromptTexts).values(base=None, texts=pack(json.dumps([long, long]).encode())))
    page = tmp_path / "hostile.html"
    page.write_text(page_for(address, "both")[1], encoding="utf-8", errors="replace")
    return page.as_uri()
