"""The page in a real browser: no errors, no requests, and what it lets a reader do. Needs playwright and a Chromium."""

import pytest
from support.page_faults import CLIPPED, SCROLLED, SKIPPED, TOO_SMALL

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def written(finished, tmp_path_factory):
    page = tmp_path_factory.mktemp("report") / "report.html"
    page.write_text(finished[1], encoding="utf-8")
    return page.as_uri()


def observed(browser, address):
    """The page at 1280 pixels, with its complaints, dialogs and requests."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.complaints, opened.requests = [], []
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.on("dialog", lambda dialog: (opened.complaints.append(dialog.message), dialog.dismiss()))
    opened.on("request", lambda request: opened.requests.append(request.url))
    opened.goto(address)
    return opened


@pytest.fixture
def tab(browser, written):
    opened = observed(browser, written)
    yield opened
    opened.close()


def column(tab, table, place):
    return tab.eval_on_selector_all(f"#{table} tbody tr", f"rows => rows.map(row => row.cells[{place}].innerText)")


@pytest.mark.parametrize("width", [1440, 390])
def test_everything_fits_and_can_be_pressed(tab, width):
    tab.set_viewport_size({"width": width, "height": 800})
    tab.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(TOO_SMALL) == tab.evaluate(CLIPPED) == tab.evaluate(SCROLLED) == tab.evaluate(SKIPPED) == []
    assert tab.complaints == []


def test_the_best_answer_and_the_next_commands_lead_and_can_be_copied(tab):
    assert tab.locator("main section").first.get_attribute("id") == "best"
    card = tab.locator(".card:visible")
    tab.evaluate("navigator.clipboard.writeText = async (text) => { window.kept = text; }")
    card.locator("button[data-copy]").click()
    tab.wait_for_function("window.kept !== undefined")
    assert tab.evaluate("window.kept") == card.locator("pre").inner_text()
    tab.select_option("select[data-panels=best]", index=3)
    assert "made-up/3" in tab.locator(".card:visible").inner_text()


def test_tables_sort_by_click_and_by_keyboard_and_filter(tab):
    heading = tab.locator("#problems thead button").first
    heading.click()
    assert column(tab, "problems", 0) == sorted(column(tab, "problems", 0))
    heading.focus()
    tab.keyboard.press("Enter")
    assert column(tab, "problems", 0) == sorted(column(tab, "problems", 0), reverse=True)
    tab.fill("input[data-filter=problems]", "UP/3")
    assert tab.locator("#problems tbody tr:visible").count() == 1
    assert tab.locator("#problems .count").inner_text() == "1 shown"


def test_a_problem_is_opened_by_its_link(tab):
    assert tab.locator("details.problem[open]").count() == 0
    tab.locator("#problems tbody a").nth(2).click()
    assert tab.locator("details.problem[open]").count() == 1 and tab.locator("#problem-3 svg.plot").is_visible()
