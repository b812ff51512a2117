"""The page of a report in a real browser: it fits, asks for nothing, sorts and filters, and texts of models do nothing.
Needs playwright and a Chromium; skipped without, but not where CI is set."""

import pytest
from support.page_faults import CLIPPED, SCROLLED, SKIPPED, TOO_SMALL

pytestmark = [pytest.mark.long, pytest.mark.browser]


@pytest.fixture(scope="module")
def written(made, page_for, tmp_path_factory):
    """The address of a report's file."""
    page = tmp_path_factory.mktemp("report") / "report.html"
    page.write_text(page_for(made, "made-up")[1], encoding="utf-8")
    return page.as_uri()


@pytest.fixture
def report(tab, written):
    tab.goto(written)
    return tab


def column(tab, table, place):
    return tab.eval_on_selector_all(f"#{table} tbody tr", f"rows => rows.map(row => row.cells[{place}].innerText)")


@pytest.mark.parametrize("width", [1440, 390])
def test_everything_fits_and_hostile_texts_do_nothing(tab, hostile_page, written, width):
    tab.set_viewport_size({"width": width, "height": 900})
    for page in (written, hostile_page):
        tab.goto(page)
        tab.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        tab.wait_for_timeout(300)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, page
        assert tab.evaluate(TOO_SMALL) == [] and tab.evaluate(CLIPPED) == [], page
        assert page != written or tab.evaluate(SCROLLED) == tab.evaluate(SKIPPED) == []
    assert tab.complaints == []
    assert all(url in (written, hostile_page) or url.startswith("data:") for url in tab.requests)


def test_the_best_answer_and_the_next_commands_lead_and_can_be_copied(report):
    assert report.locator("main section").first.get_attribute("id") == "best"
    card = report.locator("div.card:visible")
    report.evaluate("navigator.clipboard.writeText = async (text) => { window.kept = text; }")
    card.locator("button[data-copy]").click()
    report.wait_for_function("window.kept !== undefined")
    assert report.evaluate("window.kept") == card.locator("pre").inner_text()
    report.select_option("select[data-panels=best]", index=3)
    assert "made-up/3" in report.locator("div.card:visible").inner_text()
    tree = report.locator(".map:visible figure, .panel.chosen .map figure").first
    drawn = [dot.get_attribute("cy") for dot in tree.locator("circle").all()]
    tree.locator("select").select_option(index=2)
    assert len(drawn) > 10 and drawn != [dot.get_attribute("cy") for dot in tree.locator("circle").all()]


def test_tables_sort_by_click_and_by_keyboard_and_filter_and_link(report):
    heading = report.locator("#problems thead button").first
    heading.click()
    assert column(report, "problems", 0) == sorted(column(report, "problems", 0))
    heading.focus()
    report.keyboard.press("Enter")
    assert column(report, "problems", 0) == sorted(column(report, "problems", 0), reverse=True)
    report.fill("input[data-filter=problems]", "UP/3")
    assert report.locator("#problems tbody tr:visible").count() == 1
    assert report.locator("#problems .count").inner_text() == "1 shown"
    assert report.locator("details.problem[open]").count() == 0
    report.locator("#problems tbody tr:visible a").click()
    assert report.locator("details.problem[open]").count() == 1 and report.locator("#problem-4 pre").first.is_visible()
