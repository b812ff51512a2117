"""Colours and marks of arms: told apart without colour vision, and on light and dark ground."""

from __future__ import annotations

import itertools

import pytest
from textual.theme import BUILTIN_THEMES

from evo.progress.arm_style import BAD, COLOURS, GOOD, HOLLOW, MARK_SHAPES, MARKS, WARN, style_of
from evo.tui.palette import DARK, TERMINAL

_LIGHT, _DARK = "#ffffff", "#16161a"
LEAST_CONTRAST = 2.1
"""Of a line on its ground. 3 is WCAG's advice; Okabe and Ito's orange and sky blue fall short of it on white, which is
why they come late and every line carries marks."""


def _luminance(colour: str) -> float:
    def linear(part: float) -> float:
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", [_LIGHT, _DARK])
def test_every_colour_is_seen_on_both_grounds(ground: str) -> None:
    for place, colour in enumerate(COLOURS):
        assert contrast(colour, ground) >= (3.0 if place < 4 else LEAST_CONTRAST), colour


def test_arms_differ_by_mark_then_by_colour_as_neighbours_do() -> None:
    styles = list(map(style_of, range(len(COLOURS) * len(MARKS))))
    assert len({(style.colour, style.mark) for style in styles}) == len(styles)
    assert len({style.mark for style in styles[: len(MARKS)]}) == len(MARKS)
    assert all(one.colour != other.colour for one, other in itertools.pairwise(styles[:20]))
    with pytest.raises(ValueError, match="from 0"):
        style_of(-1)


def test_a_chart_draws_the_marks_shape() -> None:
    styles = [style_of(index) for index in range(len(MARKS))]
    assert len({(style.shape, style.hollow) for style in styles}) == len(MARKS)
    assert [style.mark for style in styles if style.hollow] == list(HOLLOW)
    assert {style.shape for style in styles} == set(MARK_SHAPES.values())


def test_the_screen_has_the_same_good_and_bad() -> None:
    for style, colour in ((TERMINAL.good, GOOD), (TERMINAL.bad, BAD), (TERMINAL.warn, WARN)):
        assert style.color is not None and style.color.get_truecolor().hex == colour.lower()
    assert {GOOD, BAD, WARN} <= set(COLOURS)


def test_text_of_the_screen_is_read() -> None:
    background = BUILTIN_THEMES["textual-dark"].background or "#121212"
    assert len(set(DARK.arms)) == len(COLOURS) and DARK.muted.color is not None
    for colour in (DARK.muted.color.get_truecolor().hex, *DARK.arms):
        assert contrast(colour, background) >= 4.5, colour
