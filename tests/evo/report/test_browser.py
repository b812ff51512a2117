"""The page of a report in a real browser: it fits, asks for nothing, draws what it holds, sorts, filters, copies, and
chooses by its sliders what evo.progress.answer_set chooses. Needs playwright and a Chromium; skipped without, but not
where CI is set."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.page_faults import BARE, CLIPPED, SCROLLED, SKIPPED, TOO_SMALL
from support.stored_searches import best_under, store_vectors

import evo
from evo.progress.answer_set import front_of
from evo.progress.model import Progress
from islands.runs import elites
from islands.store import Store
from problems.objectives import Objective

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


# gold, cost: the reward of cost c is 10 / (10 + c). The seed has means .35, the answers .5 (twice), .55 and .625
TRADE = (Objective("gold"), Objective("cost", True, 10.0, 10.0))
GIVEN = [(0.2, 10.0), (1.0, 1e9), (0.1, 0.0), None, (0.75, 10.0), (0.75, 10.0), (0.6, 12.0), (0.8, 30.0)]


@pytest.fixture
def open_report(tab, page_for, tmp_path):
    """open_report(objectives, arms, ...) -> the tab with the report of what is stored, and its front."""

    def opened(objectives=TRADE, arms=None, name="c", **settings):
        address = f"sqlite:///{tmp_path / 'evo.db'}"
        if objectives is not None:
            store_vectors(address, name, objectives, arms or {"a": GIVEN}, **settings)
        with Store.open(address, read_only=True) as store:
            progress = Progress.open(store, name)
            front = front_of(progress.comparison.problems[0], progress.read_valid(0))
        file = tmp_path / "report.html"
        file.write_text(page_for(address, name)[1], encoding="utf-8")
        tab.goto(file.as_uri())
        return tab, front

    return opened


def shown(tab):
    """The id of the answer that the weights choose, as the page writes it, and as both charts mark it."""
    text = tab.locator(".weights:visible [data-part=which]").inner_text()
    marked = tab.eval_on_selector_all("circle.chosen", "dots => dots.map(dot => Number(dot.dataset.id))")
    id = int(text.split(",")[0].removeprefix("candidate "))
    assert marked == [id, id]
    return id


def part(tab, name):
    return tab.locator(f".weights:visible [data-part={name}]").inner_text()


def command(tab):
    return tab.locator(".weights:visible .command code").inner_text().partition(" --weights ")[2]


def test_it_starts_at_the_best_answer_of_the_page(open_report):
    tab, front = open_report()
    best = front.answers[0]
    assert shown(tab) == best.stored.id and f"candidate {best.stored.id}" in tab.locator(".card").first.inner_text()
    assert part(tab, "text") == tab.locator("#answer-1").inner_text() == "answer 4: (0.75, 10.0)"
    assert part(tab, "values").split("\n") == ["fitness 0.625", "gold 0.75", "cost ↓ 10"]
    assert command(tab) == "gold=1,cost=1" and part(tab, "mean") == "weighted mean 0.625"
    assert tab.locator(".sliders output").all_inner_texts() == ["50%", "50%"]


def test_a_search_of_a_maze_starts_at_its_best_route(tab, page_for, tmp_path):
    address = f"sqlite:///{tmp_path / 'evo.db'}"
    with ThreadPoolExecutor(1) as thread:  # the browser's event loop runs in this one
        search = thread.submit(
            evo.run, ["maze:hard/0"], policy="embedded:vpo", iterations=8, db=address, name="m", seed=3
        )
        best = search.result().best[0]
    (tmp_path / "m.html").write_text(page_for(address, "m")[1], encoding="utf-8")
    tab.goto((tmp_path / "m.html").as_uri())
    assert shown(tab) == best.candidate and part(tab, "text") == best.text
    assert part(tab, "picture") == tab.locator(".card .board").first.inner_text()
    tab.locator(".sliders input").nth(2).press("End")
    assert command(tab) == "completion=1,gold=1,diamond=2,safety=1" and tab.complaints == []


@pytest.mark.parametrize("width", [1440, 390])
def test_sliders_move_by_keyboard_and_pointer_and_are_reset(open_report, width):
    tab, front = open_report()
    tab.set_viewport_size({"width": width, "height": 900})
    ids = {one.stored.iteration: one.stored.id for one in front.answers}
    gold, cost = (
        tab.get_by_label("gold").and_(tab.locator("input")),
        tab.get_by_label("cost").and_(tab.locator("input")),
    )
    start = shown(tab)
    cost.focus()
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    tab.keyboard.press("End")  # 50 and 100: .75 + 2 * .5 = 1.75 against .1 + 2 * 1 = 2.1
    assert command(tab) == "gold=1,cost=2" and shown(tab) == ids[1]
    assert part(tab, "text") == "answer 2: (0.1, 0.0)" and "cost ↓ 0" in part(tab, "values")
    assert part(tab, "mean") == "weighted mean 0.7"
    tab.keyboard.press("Home")
    assert command(tab) == "gold=1,cost=0" and shown(tab) == ids[0] and "gold 1" in part(tab, "values")
    tab.keyboard.press("ArrowRight")
    assert command(tab) == "gold=50,cost=1" and cost.get_attribute("aria-valuetext") == "2% of the weights"
    tab.keyboard.press("Home")
    gold.press("Home")
    assert tab.get_by_text("All weights are 0, so the last answer stays.").is_visible()
    assert shown(tab) == ids[0] and command(tab) == "gold=1,cost=0"
    tab.get_by_role("button", name="Reset").click()
    assert shown(tab) == start and command(tab) == "gold=1,cost=1"
    assert not tab.get_by_text("All weights are 0").is_visible()
    box = cost.bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2, steps=5)
    tab.mouse.up()
    assert shown(tab) == ids[1] and tab.locator(".weights [role=status]").inner_text().startswith("candidate")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(TOO_SMALL) == [] and tab.evaluate(CLIPPED) == [] and tab.complaints == []


def test_the_script_chooses_what_python_chooses(open_report):
    rng = np.random.default_rng(0)
    objectives = (Objective("a", weight=2.0), Objective("b"), Objective("c"))
    given = {arm: [tuple(rng.integers(0, 9, 3) / 8) for _ in range(60)] for arm in ("x", "y")}
    tab, front = open_report(objectives, given)
    assert len(front.answers) > 10 and command(tab) == "a=2,b=1,c=1"
    weightings = [*itertools.product((0, 50, 100), repeat=3)][1:] + rng.integers(0, 101, (150, 3)).tolist()
    chosen = tab.evaluate(
        """(weightings) => weightings.map((weights) => {
          const fields = [...document.querySelectorAll('.sliders input')];
          fields.forEach((field, at) => (field.value = weights[at]));
          fields[0].dispatchEvent(new Event('input'));
          const rows = [...document.querySelectorAll('.weights tbody tr')];
          return [document.querySelector('[data-part=which]').innerText,
            ...rows.flatMap((row) => [row.cells[1].innerText, row.cells[5].innerText])];
        })""",
        [list(map(int, weights)) for weights in weightings],
    )
    for weights, (which, *arms) in zip(weightings, chosen, strict=True):
        best = [best_under(front, weights, arm) for arm in (None, 0, 1)]
        assert which.split(",")[0] == f"candidate {best[0].stored.id}", weights
        means = [np.dot(one.stored.rewards, weights) / sum(weights) for one in best[1:]]
        assert [float(text) for text in arms[::2]] == pytest.approx(means, abs=6e-5), "four digits"
        assert arms[1::2] == [f"candidate {one.stored.id}" for one in best[1:]], weights


def test_arms_stand_side_by_side_and_the_best_is_marked(open_report):
    arms = {"x": [(0.2, 10.0), (0.9, 30.0)], "y": [(0.2, 10.0), (0.3, 0.0)], "z": [None, None]}
    tab, _ = open_report(arms=arms)
    rows = tab.locator(".weights tbody tr")
    assert [row.inner_text().split()[1:4] for row in rows.all()] == [
        ["0.575", "0.9", "30"], ["0.65", "0.3", "0"], ["-", "-", "-"]
    ]  # fmt: skip
    assert tab.locator(".weights tr.chosen").inner_text().startswith("y")
    tab.locator(".sliders input").first.press("End")  # 2/3 and 1/3: .6 + .083 against .2 + .333
    assert rows.first.inner_text().split()[1] == "0.6833"
    assert tab.locator(".weights tr.chosen").inner_text().startswith("x") and ", x" in part(tab, "which")


def test_a_fitness_of_its_own_is_said_and_kept_until_a_slider_moves(open_report):
    tab, front = open_report(fitness=min)
    assert shown(tab) == front.answers[0].stored.id and command(tab) == ""
    assert "scorer's own number" in tab.locator(".weights").inner_text()
    tab.locator(".sliders input").first.press("End")
    assert shown(tab) == best_under(front, (2, 1)).stored.id and command(tab) == "gold=2,cost=1"


def test_one_objective_has_no_sliders(open_report):
    tab, _ = open_report((Objective("gold"),), {"a": [(0.1,), (0.4,)]})
    assert tab.locator(".card").count() == 1 and tab.locator("input[type=range]").count() == 0
    assert tab.complaints == []
