import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from evo.tui.line import Line, clean, fit, shorten, text_of, wrap
from evo.tui.numbers import common_prefix, count, fitness, signed, sparkline


@pytest.mark.parametrize(
    "hostile",
    ["\x1b[31m", "\x1b]0;t\x07", "\x9b2J", "a\rb", "a\nb", "\x00", "\u202e", "\u2066", "\u200b", "\u2028", "\ud800",
     "\x7f", "\ufeff", "\U000e0041"],
)  # fmt: skip
def test_what_is_not_printable_becomes_a_dot(hostile):
    assert clean(hostile).isprintable()
    line = Line(20)
    line.add(hostile).add("x")
    assert text_of(line.done()).isprintable() and cell_len(text_of(line.done())) == 20


def test_printable_text_is_left_alone():
    for text in ("plain", "[bold]not markup[/]", "übung 進化 ▁▂▃"):
        assert clean(text) is text
    assert clean("a\tb") == "a    b"


def test_lines_are_cut_and_filled():
    line = Line(10).add("hello", Style(bold=True)).add(" wonderful world")
    assert text_of(line.done()) == "hello won…"
    assert text_of(Line(6).add("ab", width=4, right=True).done()) == "  ab  "
    assert text_of(Line(5).add("進化進化").done()) == "進化…"
    assert text_of(Line(10).add("ab").flush("cd").done()) == "ab      cd"
    assert text_of(Line(4).add("abc").flush("cd").done()) == "abc "
    assert text_of(Line(3).extend([Segment("ab"), Segment("cd")]).done()) == "ab…"
    assert Line(0).add("abc").done() == []


def test_names_keep_both_ends():
    assert shorten("openevolve:circle-packing/26", 12) == "openev…ng/26"
    assert shorten("short", 12) == "short"
    assert cell_len(shorten("進化探索進化探索", 7)) <= 7
    assert fit("abcdef", 0) == ""


def test_wrapping():
    assert wrap("abcdef\n\ngh", 4, 10) == ["abcd", "ef", "", "gh"]
    assert wrap("reached E in 20 of 33 steps", 12, 10, words=True) == ["reached E in", "20 of 33", "steps"]
    assert wrap("x" * 100, 10, 3) == ["x" * 10] * 3
    assert all(cell_len(piece) <= 5 for piece in wrap("進化探索" * 4, 5, 100))
    assert "".join(wrap("進化探索" * 4, 5, 100)) == "進化探索" * 4


def test_numbers_stay_short():
    assert [count(n) for n in (None, 0, 999, 9_999, 12_345, 123_456, 4_560_000)] == [
        "-", "0", "999", "9,999", "12.3k", "123k", "4.6M",
    ]  # fmt: skip
    assert max(len(count(10**n * 9.99)) for n in range(12)) <= 5
    assert [fitness(x) for x in (None, 0.75, 1.0, -0.25, 123.456)] == ["-", ".750", "1.00", "-.250", "123.5"]
    assert [signed(x) for x in (0.0625, -0.2, 0.0001, 12)] == ["+.062", "-.200", "0", "+12"]


def test_sparklines():
    assert sparkline([0, 1], 4, 0, 1) == "▁▁██"
    assert sparkline([0.0, float("nan"), 1.0], 3, 0, 1) == "▁ █"
    assert sparkline([0.5] * 4, 2, 0.5, 0.5) == "██"
    assert sparkline([], 3, 0, 1) == "   " and sparkline([1], 0, 0, 1) == ""
    assert sparkline(range(8), 8, 0, 7) == "▁▂▃▄▅▆▇█"


def test_common_prefix_ends_at_a_separator():
    assert common_prefix(["maze:hard/10", "maze:hard/11"]) == "maze:hard/"
    assert common_prefix(["programs:a", "maze:b"]) == "" == common_prefix(["maze:hard/0"])
