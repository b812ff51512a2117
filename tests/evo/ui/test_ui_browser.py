"""The page of `evo ui` in a real browser: it fits, it updates itself, texts of models do nothing. Needs playwright."""

import pytest
from support.page_faults import CLIPPED, TOO_SMALL

PATHS = ("/", "/run/0/both", "/run/0/both/candidates?show=failed", "/run/0/both/candidate/{best}")


@pytest.fixture
def tab(browser):
    """A page that keeps what it complained of, asked for and opened."""
    opened = browser.new_page()
    opened.complaints, opened.requests = [], []
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.on("dialog", lambda dialog: (opened.complaints.append(dialog.message), dialog.dismiss()))
    opened.on("request", lambda request: opened.requests.append(request.url))
    yield opened
    opened.close()


@pytest.mark.parametrize("width", [1440, 390])
def test_hostile_texts_do_nothing_and_everything_fits(tab, serve, hostile_database, width):
    address, best = hostile_database
    tab.set_viewport_size({"width": width, "height": 900})
    with serve(address) as server:
        for path in PATHS:
            tab.goto(server.address.rstrip("/") + path.format(best=best))
            tab.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
            tab.wait_for_timeout(300)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, path
            assert tab.evaluate(TOO_SMALL) == [] and tab.evaluate(CLIPPED) == [], path
        assert tab.complaints == []
        assert all(url.startswith((server.address, "data:")) for url in tab.requests)
        assert not any(url.endswith("/x") for url in tab.requests)


def test_a_new_run_and_its_progress_appear_without_a_reload(tab, serve, tmp_path, search_apart, digits, digits_policy):
    address = f"sqlite:///{tmp_path}/evo.db"
    search_apart([digits("a")], digits_policy(), address, name="first", iterations=3)
    with serve(address) as server:
        tab.goto(server.address)
        tab.evaluate("window.kept = true")
        search_apart([digits("a")], digits_policy(), address, name="second", iterations=3)
        tab.wait_for_selector("text=second", timeout=10_000)
        assert tab.evaluate("window.kept") and tab.locator("tbody tr").count() == 2
        tab.click("text=second")
        tab.wait_for_selector("svg.plot")
        tab.click("#theme")
        chosen = tab.evaluate("document.documentElement.dataset.theme")
        tab.click("nav >> text=Runs")
        assert tab.evaluate("document.documentElement.dataset.theme") == chosen in ("light", "dark")
        tab.context.set_offline(True)
        tab.wait_for_selector("#lost:visible", timeout=10_000)
