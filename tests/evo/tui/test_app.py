"""The screen by Textual, headless: keys, clicks, the wheel, what is painted and what is not."""

import asyncio
import io
import threading
import time
from dataclasses import replace

import pytest
import screen_samples as samples
from rich.console import Console
from textual import events

from evo.tui.app import ScreenApp
from evo.tui.help import HelpScreen
from evo.tui.picture import save_svg
from evo.tui.themes import COLOURS_OF
from evo.tui.widgets import LinesView, RowsView
from islands.errors import DatabaseUnavailable, UnknownRun


class Fixed:
    """A source of the snapshots that a test gives it."""

    def __init__(self, snapshot):
        self.snapshot, self.failure, self.looked, self.changed = snapshot, None, [], lambda: None
        self.opened_on = threading.get_ident()

    def start(self):
        pass

    def look(self, problem, arm):
        self.looked.append((problem, arm))

    def close(self):
        pass

    def give(self, snapshot):
        self.snapshot = snapshot
        self.changed()


class Driven:
    """An app on a screen of that size, its source opened."""

    def __init__(self, app, pilot, source):
        self.app, self.pilot, self.source = app, pilot, source

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def text(self):
        width, height = self.app.size
        console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, record=True)
        console.print(self.app.screen._compositor.render_update(full=True))
        return console.export_text()

    def row(self, *beginnings):
        """The line that begins with this, on the screen."""
        for y, line in enumerate(self.text().splitlines()):
            if line.startswith(beginnings):
                return y
        raise AssertionError(f"{beginnings} is not on the screen:\n{self.text()}")


def drive(scenario, snapshot=None, size=(80, 24), **options):
    """Run a test of an app."""

    async def run():
        source = Fixed(snapshot or samples.finished(200))
        app = ScreenApp(lambda: source, now=lambda: samples.NOW, **options)
        async with app.run_test(size=size) as pilot:
            await app.opened()
            await pilot.pause()
            await scenario(Driven(app, pilot, source))
        return app

    return asyncio.run(run())


def test_problems_are_chosen_by_keys_and_come_into_sight():
    async def scenario(it):
        assert it.row("▸0") == it.row(" total") + 1
        await it.press("down", "j", "k")
        assert it.source.looked[-1] == (1, None)
        await it.press("end")
        assert it.row("▸199") == 22 and it.source.looked[-1] == (199, None)
        await it.press("pageup", "home")
        assert it.row("▸0") == it.row(" total") + 1

    drive(scenario)


def test_the_search_narrows_as_it_is_typed():
    async def scenario(it):
        await it.press("slash", "1", "9")
        assert "12 of 200 · /19" in it.text() and it.source.looked[-1] == (19, None)
        await it.press("q")  # a letter of the name, not the key
        assert "0 of 200 · /19q" in it.text() and it.app.is_running
        await it.press("escape")
        assert "of 200" not in it.text()
        await it.press("slash", "slash", "7", "7")
        assert "1 of 200 · //77" in it.text()  # names have slashes too
        await it.press("escape")
        it.app.post_message(events.Key("slash", "/"))  # in one piece, as typed by a program
        it.app.post_message(events.Key("7", "7"))
        it.app.post_message(events.Key("enter", None))
        await it.pilot.pause()
        await it.pilot.pause()
        assert "of 200 · /7" in it.text()
        await it.press("q")
        assert not it.app.is_running

    drive(scenario)


def test_filters_sets_and_orders_by_keys():
    async def scenario(it):
        await it.press("u")
        assert "0 of 200 · unsolved" in it.text()  # vpo has solved them all
        await it.press("u", "d")
        assert "of 200 · differing" in it.text()
        await it.press("d", "s")
        assert "200 of 200 · maze:hard" in it.text()
        await it.press("escape", "o", "o")
        assert "by won" in it.text()
        await it.press("O")
        assert "by won reversed" in it.text()

    drive(scenario)


def test_the_mouse_chooses_opens_sorts_and_scrolls():
    async def scenario(it):
        await it.pilot.click(offset=(2, it.row(" 3 ")))
        await it.pilot.pause()
        assert it.row("▸3") and it.source.looked[-1] == (3, None)
        await it.pilot.click(offset=(2, it.row("▸3")))
        await it.pilot.pause()
        assert it.app._pages.view.detail and it.source.looked[-1] == (3, "base")
        assert "reading …" in it.text()
        await it.press("escape")
        titles = it.row(" name")
        await it.pilot.click(offset=(it.text().splitlines()[titles].index("best-of-n"), titles))
        await it.pilot.pause()
        assert "by best-of-n" in it.text()
        await it.pilot.click(
            offset=(it.text().splitlines()[it.row(" problems")].index("solve rate"), it.row(" problems"))
        )
        await it.pilot.pause()
        assert "100%┤" in it.text()
        await it.pilot.click(offset=(0, 23))  # q
        await it.pilot.pause()
        assert not it.app.is_running

    drive(scenario)


def test_the_wheel_scrolls_the_table():
    async def scenario(it):
        table = it.app.query_one(RowsView)
        table.scroll_to(y=50, animate=False, immediate=True)
        await it.pilot.pause()
        assert it.row(" 50 ") == it.row(" total") + 1

    drive(scenario)


def test_tab_goes_through_the_panels_of_a_small_screen():
    async def scenario(it):
        await it.press("tab")
        assert "100%┤" in it.text()
        await it.press("tab")
        assert "archive L1" in it.text()
        await it.press("shift+tab", "shift+tab")
        assert it.row("▸0")

    drive(scenario)


def test_tab_focuses_the_columns_of_a_wide_screen_and_the_arrows_scroll_the_focused_one():
    async def scenario(it):
        await it.press("tab", "down", "down")
        assert it.app.query_one("#side").scroll_offset.y == 2 and it.app._pages.view.problem == 0
        await it.press("tab", "down")
        assert it.app._pages.view.problem == 1

    drive(scenario, size=(130, 26))


def test_themes_commands_copies_and_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVO_THEME", "light")

    async def scenario(it):
        before = it.app.export_screenshot()
        assert COLOURS_OF["light"].background in before
        await it.press("ctrl+p", *"high", "slash", "escape")
        await it.press("t", *"high", "enter")
        assert it.app.theme == "high-contrast" and it.row("▸0") and it.app.export_screenshot() != before
        await it.press("y", "e")
        assert "▲ vpo        24/24" in it.app.clipboard
        assert COLOURS_OF["high-contrast"].background in (tmp_path / "fair-elm.svg").read_text()
        await it.press("down", "down", "down", "enter", "right", "y")
        assert it.app.clipboard == "DDRRDDLLDDRRRRDDRR"

    drive(scenario, samples.detailed())


def test_a_wide_screen_shows_everything():
    async def scenario(it):
        text = it.text()
        for said in ("solve rate", "population", "last improvements", "errors", "▸0", "+ won, - lost, = level"):
            assert said in text, said
        assert all(len(line.rstrip()) <= 160 for line in text.splitlines())

    drive(scenario, size=(160, 50))


def test_another_size_is_laid_out_anew():
    async def scenario(it):
        await it.pilot.resize_terminal(160, 50)
        await it.pilot.pause()
        await it.pilot.pause()
        assert "last improvements" in it.text()
        await it.pilot.resize_terminal(30, 6)
        await it.pilot.pause()
        await it.pilot.pause()
        assert "too small" in it.text() and "▸0" not in it.text()

    drive(scenario)


def test_the_detail_scrolls_and_turns_through_arms():
    async def scenario(it):
        await it.press("down", "down", "down", "enter", "right")
        assert it.source.looked[-1] == (3, "vpo") and "fitness 0.75 of 1" in it.text()
        await it.press("pagedown")
        assert "fitness 0.75 of 1" not in it.text() and "DDRRDDLLDDRRRRDDRR" in it.text()
        await it.press("left")
        assert it.source.looked[-1] == (3, "grpo")
        await it.press("n", "backspace")
        assert it.row("▸4")

    drive(scenario, samples.detailed(), size=(80, 15))


def test_the_help_scrolls_and_any_other_key_goes_back():
    async def scenario(it):
        await it.press("question_mark")
        assert isinstance(it.app.screen, HelpScreen) and "hold the picture" in it.text()
        await it.press("end")
        assert "hold the picture" not in it.text() and "found 2×" in it.text()
        await it.press("home", "x")
        assert not isinstance(it.app.screen, HelpScreen) and it.row("▸0")
        await it.press("h", "q")  # leaves from there too
        assert not it.app.is_running

    drive(scenario)


def test_keys_faster_than_the_help_closes_end_nothing():
    """Typed at once, or pasted: all of them reach the page before the first has closed it."""

    async def scenario(it):
        await it.press("question_mark")
        page = it.app.screen
        for key in ("escape", "slash", "x"):
            page.post_message(events.Key(key, None))
        await it.pilot.pause()
        await it.pilot.pause()
        assert it.app.screen_stack == [it.app.screen] and not isinstance(it.app.screen, HelpScreen)
        it.app.action_help()
        it.app.action_help()
        await it.pilot.pause()
        assert len(it.app.screen_stack) == 2
        await it.press("x")
        assert it.row("▸0") > 0

    assert drive(scenario).failure is None


def test_a_held_picture_stays_while_the_run_goes_on():
    async def scenario(it):
        await it.press("p")
        it.source.give(replace(it.source.snapshot, name="later"))
        await it.pilot.pause()
        assert "picture held" in it.text() and "later" not in it.text()
        await it.press("p")
        assert "later" in it.text()

    drive(scenario, samples.running())


def test_a_live_search_is_paused_and_stopped_once():
    acted = []

    async def scenario(it):
        await it.press("p", "p", "p", "q", "q", "p", "ctrl+c")
        assert acted == ["pause", "resume", "pause", "stop", "interrupt"]
        assert "stopping" in it.text() and it.app.is_running

    drive(scenario, samples.running(), act=acted.append)


def test_ctrl_c_leaves_a_screen_that_only_looks_on():
    async def scenario(it):
        await it.press("ctrl+c")
        assert not it.app.is_running

    assert drive(scenario)._return_code == 130


def test_what_did_not_change_is_not_painted_again(monkeypatch):
    async def scenario(it):
        painted = []
        refresh = LinesView.refresh
        monkeypatch.setattr(
            LinesView, "refresh", lambda view, *regions, **more: painted.append(view.id) or refresh(view, *regions)
        )
        it.source.give(replace(it.source.snapshot, heard=samples.NOW - 2))
        await it.pilot.pause()
        assert painted == []
        arm = it.source.snapshot.arms[1]
        told = replace(arm.telemetry, answers_per_second=78.4)
        arms = (it.source.snapshot.arms[0], replace(arm, telemetry=told), *it.source.snapshot.arms[2:])
        it.source.give(replace(it.source.snapshot, arms=arms))
        await it.pilot.pause()
        await it.pilot.pause()
        assert painted == ["head"] and " 78 " in it.text()

    drive(scenario, size=(160, 50))


def test_it_is_there_at_once_and_says_what_is_loaded():
    async def run():
        gate = threading.Event()

        def opened():
            assert gate.wait(10)
            return Fixed(samples.finished())

        app = ScreenApp(opened, loading="reading fair-elm", now=lambda: samples.NOW)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            it = Driven(app, pilot, None)
            assert "reading fair-elm …" in it.text() and "maze:hard" not in it.text()
            await it.press("down", "enter", "question_mark", "p", "slash")  # none of which can do anything yet
            app.say_loading("loading embedded:base")
            await pilot.pause()
            assert "loading embedded:base …" in it.text()
            app.say_loading("loading " + ", ".join(f"embedded:policy-{n}" for n in range(9)) + " for maze:hard")
            await pilot.pause()
            assert "policy-8 for maze:hard …" in " ".join(it.text().split())
            gate.set()
            await app.opened()
            await pilot.pause()
            assert "maze:hard" in it.text()

    asyncio.run(run())


@pytest.mark.parametrize("error", [UnknownRun("no run rum"), DatabaseUnavailable("gone")])
def test_what_cannot_be_opened_ends_it(error):
    async def run():
        def opened():
            raise error

        app = ScreenApp(opened)
        async with app.run_test() as pilot:
            await app.opened()
            await pilot.pause()
        return app

    assert asyncio.run(run()).failure is error


def test_a_source_that_gives_up_ends_it():
    async def scenario(it):
        it.source.failure = DatabaseUnavailable("gone")
        it.source.changed()
        await it.pilot.pause()
        assert not it.app.is_running

    assert isinstance(drive(scenario).failure, DatabaseUnavailable)


def test_a_fault_of_the_drawing_ends_it_without_a_traceback(monkeypatch, capsys):
    async def scenario(it):
        monkeypatch.setattr(it.app._pages, "draw", lambda *_: 1 / 0)
        it.source.give(samples.finished(3))
        until = time.monotonic() + 5
        while it.app.is_running and time.monotonic() < until:
            await asyncio.sleep(0.01)

    with pytest.raises(ZeroDivisionError):  # which Pilot raises again
        drive(scenario)
    assert "Traceback" not in capsys.readouterr().err


def test_a_terminal_without_unicode_gets_ascii():
    async def scenario(it):
        text = it.text()
        assert text.isascii() and "^ best-of-n" in text

    drive(scenario, encoding="ascii")


def test_a_picture_in_a_file():
    svg = save_svg(samples.finished(), samples.NOW)
    assert svg.startswith("<svg") and "evo&#160;watch&#160;fair-elm" in svg.replace(" ", "&#160;")
    assert "best-of-n" in svg and "ff7a33" in svg.lower()
