"""The page in a real browser: no errors, no requests, and what it lets a reader do. Needs playwright and a Chromium."""

import shutil

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason='needs a browser\'s driver: pip install "evo[browser]"')
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("needs Chromium: the distribution's package `chromium`")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def written(finished, tmp_path_factory):
    page = tmp_path_factory.mktemp("report") / "report.html"
    page.write_text(finished[1], encoding="utf-8")
    return page.as_uri()


@pytest.fixture
def tab(browser, written):
    """The page at 1280 pixels, with what it complained of and asked for."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.complaints, opened.requests = [], []
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.on("request", lambda request: opened.requests.append(request.url))
    opened.goto(written)
    yield opened
    opened.close()


def column(tab, table, place):
    return tab.eval_on_selector_all(f"#{table} tbody tr", f"rows => rows.map(row => row.cells[{place}].innerText)")


def test_it_opens_without_a_complaint_and_without_asking_for_anything(tab, written):
    tab.evaluate("Promise.all([...document.images].map((image) => image.decode()))")
    assert tab.complaints == [] and [url for url in tab.requests if not url.startswith("data:")] == [written]
    sizes = tab.evaluate("[...document.images].map((image) => [image.naturalWidth, image.naturalHeight])")
    assert len(sizes) > 12 and all(width > 300 and height > 150 for width, height in sizes)


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_wider_than_the_window(tab, width):
    tab.set_viewport_size({"width": width, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_tables_sort_by_click_and_by_keyboard(tab):
    heading = tab.locator("#problems thead button").first
    heading.click()
    assert column(tab, "problems", 0) == sorted(column(tab, "problems", 0))
    heading.focus()
    tab.keyboard.press("Enter")
    assert column(tab, "problems", 0) == sorted(column(tab, "problems", 0), reverse=True)
    assert tab.locator("#problems thead th").first.get_attribute("aria-sort") == "descending"
    tab.locator("#problems thead button").nth(3).click()
    numbers = [float(text) for text in column(tab, "problems", 3)]
    assert numbers == sorted(numbers) and len(set(numbers)) > 1
    tab.locator("#cost thead button").nth(6).click()
    tokens = [int(text.replace(",", "")) for text in column(tab, "cost", 6)]
    assert tokens == sorted(tokens)


def test_the_filter_picks_rows(tab):
    tab.fill("input[data-filter=problems]", "UP/3")
    assert tab.locator("#problems tbody tr:visible").count() == 1
    assert tab.locator("#problems .count").inner_text() == "1 shown"
    tab.fill("input[data-filter=problems]", "")
    assert tab.locator("#problems tbody tr:visible").count() == 5


def test_one_panel_is_shown_and_another_can_be_chosen(tab):
    assert tab.locator(".panel[data-panel=lineage]:visible").count() == 1
    first = tab.locator(".panel[data-panel=lineage]:visible h3").inner_text()
    tab.select_option("select[data-panels=lineage]", index=2)
    assert tab.locator(".panel[data-panel=lineage]:visible").count() == 1
    assert tab.locator(".panel[data-panel=lineage]:visible h3").inner_text() != first


def test_any_problem_can_be_charted(tab):
    def paths():
        return tab.eval_on_selector_all("#chart-plot path", "all => all.map(one => one.getAttribute('d'))")

    before = paths()
    assert len(before) == 6 and all("NaN" not in path for path in before)
    tab.select_option("#chart-problem", index=4)
    assert len(paths()) == 6 and paths() != before and tab.complaints == []


def test_without_scripts_everything_is_there_to_read(browser, written):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(written)
    assert tab.locator(".panel:visible").count() == tab.locator(".panel").count() > 3
    assert tab.locator(".js:visible").count() == 0
    context.close()
