"""The screen by Textual, headless: keys, what is shown, a search that is stopped, faults."""

import asyncio
import io
import signal
from dataclasses import replace

import pytest
import screen_samples as samples
from rich.console import Console
from textual.widgets import DataTable

from evo.errors import INTERRUPTED
from evo.tui.app import AnswerScreen, HelpScreen, ScreenApp
from evo.tui.draw import TableChoice, chosen_problems
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
        assert "the least solved problems first" in it.text()
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
        await it.press("o")
        worst = chosen_problems(it.app._problems, it.app.snapshot, TableChoice(worst_first=True))
        assert it.app._rows == worst != list(range(40)) and "worst first" in it.text()
        await it.press("u", "d")
        assert "unsolved · differing · worst first" in it.text() and len(it.app._rows) < 40
        await it.press("escape")
        assert it.app._rows == worst and "worst first" in it.text()
        await it.press("o")
        assert it.app._rows == list(range(40)) and "worst first" not in it.text()

    drive(scenario)


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
