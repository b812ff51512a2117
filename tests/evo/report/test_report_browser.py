"""The page in a real browser: no errors, no requests, and what it lets a reader do. Needs playwright and a Chromium."""

import csv
from concurrent.futures import ThreadPoolExecutor

import pytest
from page_faults import CLIPPED, SCROLLED, SKIPPED, TOO_SMALL
from sqlalchemy import update

from islands.schema import Candidate
from islands.store import Store

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
    assert len(sizes) >= 5 and all(width > 300 and height > 150 for width, height in sizes)


@pytest.mark.parametrize("width", [1440, 390])
def test_everything_fits_and_can_be_pressed(tab, width):
    tab.set_viewport_size({"width": width, "height": 800})
    tab.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    drawn(tab, '[data-chart="best-at-k"]')
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(TOO_SMALL) == tab.evaluate(CLIPPED) == tab.evaluate(SCROLLED) == tab.evaluate(SKIPPED) == []
    assert tab.complaints == []


def test_the_best_answer_and_the_next_commands_lead_and_can_be_copied(tab):
    assert tab.locator("main section").first.get_attribute("id") == "best"
    card = tab.locator(".card:visible")
    assert "best 0.875" in card.inner_text() and "target 0.74, reached" in card.inner_text()
    tab.evaluate("navigator.clipboard.writeText = async (text) => { window.kept = text; }")
    card.locator("button[data-copy]").click()
    tab.wait_for_function("window.kept !== undefined")
    assert tab.evaluate("window.kept") == card.locator("pre").inner_text()
    assert "evo resume made-up" in tab.locator("#next-1").inner_text()
    tab.select_option("select[data-panels=best]", index=3)
    assert "made-up/3" in tab.locator(".card:visible").inner_text()


def test_curves_run_over_any_budget_and_scale_with_any_arms(tab):
    canvas = drawn(tab, '[data-chart="best"]')
    before = canvas.screenshot()
    tab.select_option("select[data-axis]", "tokens")
    canvas.hover()
    tab.wait_for_selector("#tip:not([hidden])")
    assert [line.split()[0] for line in tab.locator("#tip div").all_inner_texts()][1] == "tokens"
    assert canvas.screenshot() != before
    for scale in ("x", "y"):
        tab.select_option(f"select[data-scale={scale}]", "log")
    for place in (0, 2):
        tab.locator(f"#curves button[data-toggle='{place}']").first.click()
    assert tab.locator("button[data-toggle='2'][aria-pressed=false]").count() > 2
    box = canvas.bounding_box()
    for share in (0.05, 0.95):
        tab.mouse.move(box["x"] + box["width"] * share, box["y"] + 20)
        assert tab.locator("#tip div").first.inner_text() == "arm best-of-n"
    assert tab.complaints == []


def test_any_two_objectives_are_drawn(tab):
    canvas = drawn(tab, '[data-chart="rewards-1"]')
    tab.select_option("select[data-objective=x][data-of=rewards-1]", label="diamond")
    tab.select_option("select[data-objective=y][data-of=rewards-1]", label="safety")
    canvas.hover()
    tab.wait_for_selector("#tip:not([hidden])")
    assert [line.split()[0] for line in tab.locator("#tip div").all_inner_texts()][1:3] == ["diamond", "safety"]


def test_candidates_are_filtered_and_opened_by_a_link(tab):
    tab.select_option("#candidates select[name=problem]", label="made-up/2")
    tab.select_option("#candidates select[name=sort]", "fitness")
    tab.fill("#candidates input[name=high]", "0.7")
    fitness = [float(text) for text in tab.locator("#candidates td[data-label=fitness]").all_inner_texts()]
    assert fitness == sorted(fitness, reverse=True) and 0 < max(fitness) <= 0.7
    assert set(tab.locator("#candidates td[data-label=problem]").all_inner_texts()) == {"made-up/2"}
    tab.locator("#candidates tbody a").first.click()
    opened = tab.locator("dialog[open]")
    assert "Prompt" in opened.inner_text() and "Answer" in opened.inner_text() and "made-up/2" in opened.inner_text()
    address = tab.url
    opened.locator("a[href^='#candidate-']").first.click()
    tab.wait_for_function("address => location.href !== address", arg=address)
    assert tab.locator("#candidate-title").inner_text() == f"Candidate {tab.url.rpartition('-')[2]}"
    tab.keyboard.press("Escape")
    assert "#" not in tab.url and tab.locator("dialog[open]").count() == 0
    tab.evaluate("location.hash = 'candidate-999999'")
    assert "not on this page" in tab.locator("dialog[open]").inner_text()


def test_a_node_of_a_tree_opens_by_keyboard_and_by_click(tab):
    tree = tab.locator(".tree:visible svg")
    tree.focus()
    first = tab.locator(".tree:visible [role=status]").inner_text()
    tab.keyboard.press("ArrowLeft")
    assert tab.locator(".tree:visible [role=status]").inner_text() != first
    tab.keyboard.press("Enter")
    assert "Prompt" in tab.locator("dialog[open]").inner_text()
    tab.keyboard.press("Escape")
    tree.click(position={"x": 200, "y": 100})
    assert tab.locator("dialog[open] table tbody tr").count() == 5
    assert tab.complaints == []


@pytest.fixture
def hostile_page(hostile_runs, hostile, coarse, page_for, tmp_path):
    """A page of hostile texts, and the id of a candidate whose error is one; made in a thread of its own, for the
    browser's event loop runs in this one."""

    def make():
        address = hostile_runs(hostile, iterations=4)
        with Store.open(address) as store, store.begin() as tx:
            failed = store.problems(store.runs()[0].id)[1].best - 1
            tx.connection.execute(update(Candidate).values(error=hostile).where(Candidate.c.id == failed))
        return page_for(address, "both")[1], failed

    with ThreadPoolExecutor(1) as thread:
        page, failed = thread.submit(make).result()
    target = tmp_path / "hostile.html"
    target.write_text(page, encoding="utf-8")
    return target.as_uri(), failed


def test_hostile_texts_do_nothing_in_card_tree_list_and_dialog(browser, hostile_page, hostile):
    address, failed = hostile_page
    tab = observed(browser, address)
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.locator(".tree:visible svg").click()
    assert "{{ 7 * 7 }}" in tab.locator("dialog[open] pre").first.inner_text()
    tab.keyboard.press("Escape")
    tab.select_option("#candidates select[name=show]", "failed")
    assert "<script>fetch(" in tab.locator("#candidates tbody").inner_text()
    tab.evaluate("id => (location.hash = `candidate-${id}`)", failed)
    tab.wait_for_selector("dialog[open] .remark")
    assert "onerror=alert(1)" in tab.locator("dialog[open] .remark").inner_text()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.locator("dialog img, #candidates img, .card img, .card svg, dialog svg, dialog script").count() == 0
    assert tab.complaints == [] and [url for url in tab.requests if not url.startswith("data:")] == [address]
    tab.close()


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


@pytest.mark.parametrize("chart", ["solve-rate", "best", "best-at-k", "diversity", "vectors", "rewards-1"])
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
