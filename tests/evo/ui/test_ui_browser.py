"""`evo ui` in a real browser: its pages fit, need no mouse, and a page whose run continues is loaded again at
the same place. Needs playwright and a Chromium; skipped without, but not where CI is set."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from support.page_faults import CLIPPED, TOO_SMALL

from islands.store import Store

pytestmark = [pytest.mark.long, pytest.mark.browser]


@pytest.mark.parametrize("width", [1440, 390])
def test_the_list_and_a_run_fit_and_hostile_texts_do_nothing(tab, serve, made, hostile, width):
    tab.set_viewport_size({"width": width, "height": 900})
    for address in (made, hostile):
        with serve(address) as server:
            tab.goto(server.address)
            for name in ("list", "run", "candidate"):
                tab.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
                assert tab.evaluate("document.documentElement.scrollWidth") <= width, name
                assert tab.evaluate(TOO_SMALL) == tab.evaluate(CLIPPED) == [], name
                if name == "list":
                    tab.click("#runs tbody a")
                    tab.wait_for_url("**/run/*")
                elif name == "run":
                    assert tab.locator("svg.plot").count() > 0
                    dot = tab.locator(".map:visible circle[data-id]").last  # the fittest, above the others
                    id = dot.get_attribute("data-id")
                    dot.click()
                    tab.wait_for_url(f"**/candidate/{id}")
                    assert tab.locator("h1").text_content() == f"Candidate {id}"
            assert all(url.startswith((server.address, "data:")) for url in tab.requests)
            tab.goto("about:blank")
        tab.requests.clear()
    assert tab.complaints == []


def test_a_cell_and_the_filter_by_keyboard_alone(tab, serve, trade_run):
    """And on the narrow screen, where all of it is folded."""

    def focus(selector):
        for _ in range(400):
            tab.keyboard.press("Tab")
            if tab.evaluate("(selector) => document.activeElement.matches(selector)", selector):
                return
        pytest.fail(f"the keyboard does not reach {selector}")

    def press(selector, key="Enter"):
        focus(selector)
        tab.keyboard.press(key)

    tab.set_viewport_size({"width": 390, "height": 844})
    with serve(f"sqlite:///{trade_run}") as server:
        tab.goto(server.address)
        press("#runs a")
        tab.wait_for_url("**/run/trade")
        focus("svg a[tabindex='0']")
        id = tab.evaluate("document.activeElement.querySelector('rect').dataset.id")
        tab.keyboard.press("Enter")
        tab.wait_for_url(f"**/candidate/{id}")
        tab.go_back()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        press("nav a")
        tab.wait_for_url(server.address)
        focus("input[data-filter]")
        for text, rows in (("Trade", "1 shown"), ("x", "0 shown")):
            tab.keyboard.type(text)
            assert tab.locator("#runs .count").inner_text() == rows
        assert tab.complaints == []


def test_a_search_appears_and_its_page_goes_on_where_the_reader_was(
    tab, serve, tmp_path, search_with, digits, digits_policy
):
    address = f"sqlite:///{tmp_path}/evo.db"
    with ThreadPoolExecutor(1) as thread, serve(address) as server:
        tab.goto(server.address)
        policy, problems = digits_policy(batch=1, delay=0.3), [digits("a"), digits("b")]
        search = thread.submit(search_with, problems, policy, address, name="first", iterations=30)
        tab.click("text=first", timeout=20_000)
        tab.select_option("select[data-panels=best]", index=1)
        tab.click("#details summary")
        tab.click("#problems thead button >> nth=1")
        tab.evaluate("scrollTo(0, 400)")
        seen = tab.evaluate("document.body.dataset.version")
        tab.wait_for_function("(seen) => document.body.dataset.version !== seen && scrollY === 400", arg=seen)
        assert tab.locator("select[data-panels=best]").input_value() == "2"
        assert tab.locator("#details[open]").count() == 1
        assert tab.locator("#problems th >> nth=1").get_attribute("aria-sort") == "ascending"
        search.result()
        with Store.open(address) as store:
            store.finish_run(store.run("first").id, "done")
        tab.wait_for_selector("text=the run has ended")
        tab.click("nav >> text=Runs")
        assert tab.complaints == []
        tab.context.set_offline(True)
        tab.wait_for_selector("#lost:visible")
