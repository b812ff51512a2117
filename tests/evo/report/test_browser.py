"""The page of a report in a real browser: it fits, asks for nothing, draws what it holds, sorts, filters and copies.
Needs playwright and a Chromium; skipped without, but not where CI is set."""

import json

import pytest
from support.page_faults import BARE, CLIPPED, SCROLLED, SKIPPED, TOO_SMALL

from evo.progress.answer_set import front_of
from evo.progress.model import Progress
from islands.runs import elites
from islands.store import Store

pytestmark = [pytest.mark.long, pytest.mark.browser]


@pytest.fixture(scope="module")
def written(made, page_for, tmp_path_factory):
    """The address of a report's file."""
    page = tmp_path_factory.mktemp("report") / "report.html"
    page.write_text(page_for(made, "made-up")[1], encoding="utf-8")
    return page.as_uri()


@pytest.fixture(scope="module")
def trade(trade_run, page_for, tmp_path_factory):
    """The address of the report of a run with three objectives."""
    page = tmp_path_factory.mktemp("trade-report") / "trade.html"
    page.write_text(page_for(f"sqlite:///{trade_run}", "trade")[1], encoding="utf-8")
    return page.as_uri()


@pytest.fixture
def report(tab, written):
    tab.goto(written)
    return tab


def column(tab, table, place):
    return tab.eval_on_selector_all(f"#{table} tbody tr", f"rows => rows.map(row => row.cells[{place}].innerText)")


@pytest.mark.parametrize("width", [1440, 390])
def test_a_file_fits_and_asks_for_nothing(tab, written, trade, width):
    tab.set_viewport_size({"width": width, "height": 844})
    for page in (written, trade):
        tab.goto(page)
        assert width > 390 or tab.evaluate("document.documentElement.scrollHeight") <= 4 * 844, "four screens"
        tab.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        tab.wait_for_timeout(300)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, page
        for fault in (TOO_SMALL, CLIPPED, SCROLLED, SKIPPED, *[BARE] * (width == 390)):
            assert tab.evaluate(fault) == [], page
    assert tab.complaints == []
    assert all(url in (written, trade) or url.startswith("data:") for url in tab.requests)


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


def test_the_archive_the_objectives_and_the_front_are_drawn_and_copied(tab, trade, trade_run):
    with Store.open(f"sqlite:///{trade_run}", read_only=True) as store:
        progress = Progress.open(store, "trade")
        (record,), valid = progress.comparison.problems, progress.read_valid(0)
        front = front_of(record, valid)
        held = [(*map(int, elite.cell.split("-")), elite) for elite in elites(store, [record.id])]
    tab.goto(trade)
    archive = tab.locator("figure").filter(has=tab.get_by_role("heading", name="Archive"))
    for place, name in ((1, "height"), (0, "width")):
        archive.get_by_label(f"Archive: {name}").select_option(record.dimensions[2 * place])
    fittest = {}
    for column, _, row, elite in held:
        best = fittest.get((column, row))
        fittest[column, row] = elite if best is None or elite.fitness > best.fitness else best
    drawn = archive.locator("rect").evaluate_all("cells => cells.map((cell) => Number(cell.dataset.id))")
    assert record.dimensions == ("dots", "signs", "size") and len(drawn) > 3
    assert sorted(drawn) == sorted(elite.candidate for elite in fittest.values())
    lines = tab.locator("path.line")
    vectors = len({one.stored.rewards for one in front.answers})
    assert lines.count() > len(front.answers) == vectors > 2 and tab.locator("path.line.best").count() == 1
    assert tab.locator("path.line.front, path.line.best").count() == vectors
    tab.evaluate("navigator.clipboard.writeText = async (text) => { window.kept = text; }")
    tab.get_by_text("Pareto front:").click()
    tab.get_by_role("button", name="Copy the list").click()
    tab.wait_for_function("window.kept !== undefined")
    copied = [json.loads(line) for line in tab.evaluate("window.kept").splitlines()]
    assert [one["candidate"] for one in copied] == [one.stored.id for one in front.answers]
    assert set(copied[0]["values"]) == {"near", "cost", "even"} and "X" in copied[0]["answer"]
    alike = [int(text) for text in tab.locator(".front tbody td[data-label='with equal values']").all_inner_texts()]
    unbeaten = {one.stored.rewards for one in front.answers}
    assert sum(alike) == sum(one.stored.rewards in unbeaten for one in valid)
