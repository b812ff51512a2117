import pytest
import screen_samples as samples

from evo.tui.keys import decode
from evo.tui.view import PANELS, View, panels, press_key


@pytest.mark.parametrize(
    ("read", "keys"),
    [
        (b"q", ["q"]),
        (b"jk?", ["j", "k", "?"]),
        (b"\x1b[A\x1b[B\x1bOC\x1b[D", ["up", "down", "right", "left"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F\x1b[1~\x1b[4~", ["page up", "page down", "home", "end", "home", "end"]),
        (b"\t\x1b[Z\r\n\x7f\x0c", ["tab", "shift+tab", "enter", "enter", "backspace", "ctrl+l"]),
        (b"\x1b", ["escape"]),
        (b"\x1bq", ["escape", "q"]),
        (b"\x1b[1;5C\x1b[24~x", ["x"]),  # keys that mean nothing here
        (b"\x1b[<35;10;5Mq", ["q"]),  # a mouse report
        ("ä€q".encode(), ["q"]),
        (b"\x00\x01\x9b", []),
    ],
)
def test_bytes_become_keys(read, keys):
    assert decode(read) == (keys, b"")


@pytest.mark.parametrize("cut", [b"\x1b", b"\x1b[", b"\x1b[5", b"\x1bO"])
def test_a_sequence_cut_off_waits_for_its_rest(cut):
    assert decode(b"j" + cut, final=False) == (["j"], cut)
    assert decode(b"j" + cut)[0] == ["j", "escape"] if cut == b"\x1b" else ["j"]


def press(view, *keys, snapshot=None, page=10):
    for key in keys:
        view, action = press_key(view, key, snapshot or samples.finished(), page)
    return view, action


def test_problems_are_chosen_and_bounded():
    assert press(View(), "down", "j", "j", "up")[0].problem == 2
    assert press(View(), "k")[0].problem == 0
    assert press(View(), "page down", page=5)[0].problem == 5
    assert press(View(), "end")[0].problem == 11
    assert press(View(), "end", "page up", page=4)[0].problem == 7
    assert press(View(problem=7), "home")[0].problem == 0


def test_tab_goes_round_the_panels_that_show_something():
    snapshot = samples.finished()
    assert panels(snapshot) == [panel for panel in PANELS if panel not in ("operators", "training")]
    view, seen = View(), []
    for _ in range(5):
        view, _ = press_key(view, "tab", snapshot)
        seen.append(view.panel)
    assert seen == ["curves", "population", "improvements", "errors", "problems"]
    assert press(View(), "shift+tab")[0].panel == "errors"


def test_the_detail_has_keys_of_its_own():
    view, _ = press(View(problem=3), "enter")
    assert view.detail and view.scroll == 0
    assert press(view, "down", "down")[0].scroll == 2 and press(view, "down")[0].problem == 3
    assert press(view, "right")[0].arm == 1 and press(view, "left")[0].arm == 3
    assert press(view, "n")[0].problem == 4 and press(view, "b")[0].problem == 2
    assert press(view, "down", "n")[0].scroll == 0
    assert not press(view, "escape")[0].detail


def test_no_detail_before_there_are_problems():
    from evo.monitor.snapshot import Snapshot

    assert not press_key(View(), "enter", Snapshot("new", ()))[0].detail


def test_actions():
    assert press(View(), "q")[1] == "quit"
    assert press(View(), "p")[1] == "pause"
    assert press(View(), "ctrl+l")[1] == "repaint"
    assert press(View(), "?")[0].help
    view, action = press(View(help=True), "j")
    assert not view.help and view.problem == 0 and action is None
    assert press(View(help=True), "q")[1] == "quit"
    assert press(View(), "z") == (View(), None)
