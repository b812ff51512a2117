"""The page in a real browser: no errors, no requests, and what it lets a reader do. Needs playwright and a Chromium."""

import csv

import pytest

pytestmark = pytest.mark.long


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


def drawn(tab, selector):
    """Bring a chart into the window and wait until it is drawn."""
    tab.locator(selector).scroll_into_view_if_needed()
    tab.wait_for_selector(f"{selector}.drawn", timeout=20_000)
    return tab.locator(f"{selector} canvas")


def colours(canvas):
    """How many different colours a chart's pixels have."""
    return canvas.evaluate(
        """canvas => { const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
           const found = new Set(); for (let i = 0; i < all.length; i += 4) found.add(all.slice(i, i + 4).join());
           return found.size; }"""
    )


def column(tab, table, place):
    return tab.eval_on_selector_all(f"#{table} tbody tr", f"rows => rows.map(row => row.cells[{place}].innerText)")


def test_it_opens_without_a_complaint_and_without_asking_for_anything(tab, written):
    tab.evaluate("Promise.all([...document.images].map((image) => image.decode()))")
    assert tab.complaints == [] and [url for url in tab.requests if not url.startswith("data:")] == [written]
    sizes = tab.evaluate("[...document.images].map((image) => [image.naturalWidth, image.naturalHeight])")
    assert len(sizes) > 6 and all(width > 300 and height > 150 for width, height in sizes)


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(tab, width):
    tab.set_viewport_size({"width": width, "height": 800})
    tab.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    drawn(tab, '[data-chart="best-at-k"]')
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.complaints == []


def test_tables_sort_by_click_and_by_keyboard(tab):
    heading = tab.locator("#problems thead button").first
    heading.click()
    assert column(tab, "problems", 0) == sorted(column(tab, "problems", 0))
    heading.focus()
    tab.keyboard.press("Enter")
    assert column(tab, "problems", 0) == sorted(column(tab, "problems", 0), reverse=True)
    assert tab.locator("#problems thead th").first.get_attribute("aria-sort") == "descending"
    tab.locator("#problems thead button").nth(3).click()
    keys = tab.eval_on_selector_all("#problems tbody tr", "rows => rows.map(row => Number(row.cells[3].dataset.sort))")
    assert keys == sorted(keys) and len(set(keys)) > 1
    assert tab.locator("#problems tfoot td").first.inner_text() == "all"
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


@pytest.mark.parametrize("chart", ["solve-rate", "best", "best-at-k", "diversity", "vectors", "rewards-1-0"])
def test_charts_are_drawn_and_tell_the_value_under_the_pointer(tab, chart):
    canvas = drawn(tab, f'[data-chart="{chart}"]')
    assert colours(canvas) > 20
    box = canvas.bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.wait_for_selector("#tip:not([hidden])")
    said = tab.locator("#tip div").all_inner_texts()
    assert said[0] in ("arm base", "arm best-of-n", "arm grpo") and len(said) >= 3
    assert all(float(line.split()[-1]) >= 0 for line in said[1:] if not line.startswith("on the front"))
    assert tab.complaints == []


def test_a_problem_is_opened_by_its_link_with_chart_and_answers(tab):
    assert tab.locator("details.problem[open]").count() == 0
    tab.click("#problems tbody tr a >> nth=3")
    tab.wait_for_selector("#problem-4[open]")
    assert colours(drawn(tab, '#problem-4 [data-problem="3"]')) > 10
    text = tab.locator("#problem-4").inner_text()
    assert text.count("best answer, fitness") == 3 and "The prompt that it answered" in text
    assert tab.locator("details.problem[open]").count() == 1


def test_rows_are_picked_by_what_they_are(tab):
    options = tab.locator("select[data-flags=problems] option")
    values = options.evaluate_all("all => all.map((one) => [one.value, one.textContent])")
    assert {"unsolved", "differing", "won-0", "lost-1"} <= {value for value, _ in values}
    for value, text in values[1:]:
        tab.select_option("select[data-flags=problems]", value)
        count = int(text.rpartition("(")[2].rstrip(")"))
        assert tab.locator("#problems tbody tr:visible").count() == count
    tab.select_option("select[data-flags=problems]", "won-0")
    places = [column(tab, "problems", 5)[row] for row in visible_rows(tab)]
    assert all(place.startswith("won") for place in places)


def visible_rows(tab):
    hidden = tab.eval_on_selector_all("#problems tbody tr", "rows => rows.map(row => row.hidden)")
    return [row for row, one in enumerate(hidden) if not one]


def test_a_table_is_saved_as_csv_with_its_intervals(tab):
    with tab.expect_download() as download:
        tab.click("button[data-csv=arms]")
    assert download.value.suggested_filename == "arms.csv"
    with open(download.value.path(), newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["arm"] for row in rows] == ["base", "best-of-n", "grpo"]
    assert all(float(row["mean best"]) > 0 and row["mean best, note"].startswith("[") for row in rows)
    assert float(rows[0]["answers"]) == 360
    with tab.expect_download() as download:
        tab.click("button[data-csv=problems]")
    with open(download.value.path(), newline="", encoding="utf-8") as file:
        assert [row["problem"] for row in csv.DictReader(file)] == [f"made-up/{n}" for n in range(5)]


def test_light_and_dark_by_the_system_and_by_the_button(tab):
    def ground():
        return tab.evaluate("getComputedStyle(document.body).backgroundColor")

    light = ground()
    tab.emulate_media(color_scheme="dark")
    dark = ground()
    assert light == "rgb(255, 255, 255)" and dark != light
    drawn(tab, '[data-chart="solve-rate"]')
    tab.click("#theme")
    assert ground() == light
    tab.click("#theme")
    assert ground() == dark and tab.complaints == []


def test_without_scripts_everything_is_there_to_read(browser, written):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(written)
    assert tab.locator(".panel:visible").count() == tab.locator(".panel").count() > 3
    assert tab.locator(".js:visible").count() == 0
    context.close()
