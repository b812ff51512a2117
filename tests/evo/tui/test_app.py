"""The screen by Textual, headless: keys, what is shown, a search that is stopped, faults."""

import asyncio
import io
import signal
from dataclasses import replace

import pytest
import screen_samples as samples
from rich.console import Console
from rich.text import Text
from textual.widgets import DataTable, Input

from evo.errors import INTERRUPTED
from evo.progress.snapshot import Weighted
from evo.tui.app import AnswerScreen, HelpScreen, ScreenApp, WeightsScreen, choose_theme
from evo.tui.draw import NAME, WON, TableChoice
from islands.errors import DatabaseUnavailable


class Driven:
    """An app on a screen of some size."""

    def __init__(self, app, pilot):
        self.app, self.pilot = app, pilot

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def text(self):
        width, height = self.app.size
        console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, record=True)
        console.print(self.app.screen._compositor.render_update(full=True))
        return console.export_text()


def drive(scenario, snapshot=None, size=(100, 40), **options):
    """Run a test of an app."""

    async def run():
        app = ScreenApp(snapshot=snapshot or samples.finished(40), now=lambda: samples.NOW, **options)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            app.refresh_all()
            await pilot.pause()
            await scenario(Driven(app, pilot))
        return app

    return asyncio.run(run())


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_it_shows_its_parts_at_every_size(size):
    async def scenario(it):
        text = it.text()
        for part in ("fair-elm", "all runs have ended", "solved", "vpo - grpo = +0.25", "problems", "q Quit"):
            assert part in text
        assert ("last improvements" in text) == (size[0] >= 116)
        await it.press("tab")
        assert "last improvements" in it.text()
        await it.press("tab")
        assert it.app.query_one(DataTable).has_focus and "solve rate" in it.text()

    drive(scenario, size=size)


def test_a_viewer_paints_what_changed_opens_rows_explains_words_and_leaves():
    async def scenario(it):
        table, updates = it.app.query_one(DataTable), []
        update = table.update_cell_at
        table.update_cell_at = lambda *arguments, **options: (updates.append(arguments), update(*arguments, **options))
        it.app.show_snapshot(replace(it.app.snapshot))
        await it.pilot.pause()
        assert updates == []
        await it.press("question_mark")
        assert isinstance(it.app.screen, HelpScreen) and "Keys" in it.text()
        assert "best answer under other weights" in it.text()
        await it.press("escape")
        await it.press("down", "down", "down")
        assert it.app._problem == 3
        await it.press("enter")
        assert isinstance(it.app.screen, AnswerScreen) and "reading …" in it.text()
        it.app.show_snapshot(samples.detailed())
        await it.press("right")
        assert it.app._arm == 1 and it.app._problem == 3 and "candidate 3446" in it.text()
        await it.press("escape")
        assert not isinstance(it.app.screen, AnswerScreen | HelpScreen)
        await it.press("q")

    assert drive(scenario).return_value == 0


def test_problems_are_searched_filtered_and_ordered():
    async def scenario(it):
        await it.press("slash", "1", "9")
        assert it.app._rows == [19] and "1 of 40 · /19" in it.text()
        await it.press("q")  # a letter of the name, not the key
        assert it.app._rows == [] and it.app.is_running
        await it.press("backspace", "enter")
        assert it.app._rows == [19] and it.app.query_one(DataTable).has_focus
        await it.press("escape")
        assert it.app._rows == list(range(40))
        await it.press("O")
        assert it.app._rows == list(range(40))[::-1] and "by number reversed" in it.text()
        await it.press("o", "o")
        assert "by won" in it.text()
        await it.press("u", "d")
        assert "unsolved · differing" in it.text() and len(it.app._rows) < 40
        await it.press("escape")
        assert sorted(it.app._rows) == list(range(40)) and "by won" in it.text()

    drive(scenario)


def test_a_click_on_a_title_orders_by_its_arm_and_again_reversed():
    async def scenario(it):
        table = it.app.query_one(DataTable)
        titles = [column.label.plain for column in table.ordered_columns]
        ordered = {}
        for at, title in enumerate(titles):
            table.post_message(DataTable.HeaderSelected(table, table.ordered_columns[at].key, at, Text(title)))
            await it.pilot.pause()
            ordered[at] = it.app._choice.order
        arms = [at for at, title in enumerate(titles) if title[:1] in "●▲■◆"]
        assert ordered[0] == NAME and [ordered[at] for at in arms] == [0, 1, 2, 3, WON, WON, WON]
        assert [title[2:] for title in titles if ordered[titles.index(title)] == WON] == ["against"] * 3
        await it.pilot.click(DataTable, offset=(1, 0))
        assert it.app._choice == TableChoice(order=NAME)
        await it.pilot.click(DataTable, offset=(1, 0))
        assert it.app._choice == TableChoice(order=NAME, reverse=True) and "by name reversed" in it.text()

    drive(scenario)


def test_weights_are_asked_for_and_their_best_answer_stands_beside_the_best():
    chosen = samples.detailed()
    vector = replace(chosen.detail.stored.candidate, id=3500, rewards=(1.0, 0.0, 1.0, 1.0))
    other = replace(
        chosen.detail,
        stored=replace(chosen.detail.stored, candidate=vector),
        answer=replace(chosen.detail.answer, candidate=vector),
    )

    async def scenario(it):
        await it.press("w")
        assert "weights of completion, gold, diamond, safety" in it.text()
        wrong = {"gld=3": "did you mean gold?", "gold": "not an objective with a number", "spread": "for a search"}
        for given, said in {**wrong, "gold=0": "sum to 0"}.items():
            it.app.screen.query_one(Input).value = given
            await it.press("enter")
            assert said in it.text() and isinstance(it.app.screen, WeightsScreen)
        await it.press("escape")
        assert it.app._weights == {} and it.app._choice == TableChoice()
        await it.press("w", *"gold=3,diamond=1", "enter")
        assert it.app._weights == {"gold": 3.0, "diamond": 1.0} and "weights gold 3, diamond 1" in it.text()
        it.app.show_snapshot(replace(chosen, weighted=Weighted(it.app._weights, other)))
        await it.pilot.pause()
        text = it.text()
        assert "best answer of vpo" in text and "best under gold 3, diamond 1" in text and "3500" in text
        await it.press("w")
        assert it.app.screen.query_one(Input).value == "gold=3,diamond=1"
        it.app.screen.query_one(Input).value = ""
        await it.press("enter")
        assert it.app._weights == {} and "best under" not in it.text()

    drive(scenario, chosen, size=(200, 50))


def test_the_open_answer_follows_the_best_under_weights():
    snapshot = samples.detailed()

    async def scenario(it):
        assert "best answer of vpo" not in it.text(), "it stands below a table that leaves it room"
        await it.press("down", "down", "down", "enter", "right", "w")
        assert isinstance(it.app.screen, WeightsScreen)
        await it.press("escape")
        it.app.show_snapshot(replace(snapshot, weighted=Weighted({"gold": 3.0}, snapshot.detail)))
        await it.pilot.pause()
        assert "best under gold 3 of vpo" in it.text()
        it.app.show_snapshot(replace(snapshot, weighted=Weighted({"iron": 1.0}, fault="no objective 'iron'")))
        await it.pilot.pause()
        assert "no objective 'iron'" in it.text() and "candidate 3446" in it.text()

    drive(scenario, snapshot)


class Child:
    """A search that ends at its second interrupt."""

    def __init__(self):
        self.interrupts, self.over = 0, asyncio.Event()

    @property
    def running(self):
        return self.interrupts < 2

    def send_signal(self, number):
        self.interrupts += number == signal.SIGINT

    def wait(self):
        while self.running:
            pass
        return INTERRUPTED


def test_a_search_is_stopped_by_its_keys_and_ends_the_screen_when_it_ends():
    async def scenario(it):
        await it.press("q")
        assert it.app._child.interrupts == 1 and "stopping" in it.text()
        await it.press("ctrl+c")
        await it.pilot.pause()

    app = drive(scenario, snapshot=samples.running(), child=Child())
    assert app._child.interrupts == 2 and app.return_value == INTERRUPTED


def test_ctrl_c_and_a_database_that_cannot_be_read_at_first_end_the_screen():
    def unreadable():
        raise DatabaseUnavailable("gone")

    async def run():
        app = ScreenApp(unreadable, loading="reading run")
        async with app.run_test() as pilot:
            for _ in range(50):
                await pilot.pause(0.02)
        return app

    assert isinstance(asyncio.run(run()).failure, DatabaseUnavailable)
    assert drive(lambda it: it.press("ctrl+c")).return_value == INTERRUPTED


def test_the_theme_is_chosen_by_the_environment(monkeypatch):
    for name in ("EVO_THEME", "COLORFGBG"):
        monkeypatch.delenv(name, raising=False)
    assert choose_theme() == "textual-dark"
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert choose_theme() == "textual-light"
    monkeypatch.setenv("EVO_THEME", "nord")
    assert choose_theme() == "nord"
    monkeypatch.setenv("EVO_THEME", "dark")
    assert choose_theme() == "textual-dark"
