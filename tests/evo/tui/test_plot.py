import numpy as np
import pytest

from evo.comparison.summary import Curve
from evo.tui.palette import DARK
from evo.tui.plot import BLANK_LAYER, Canvas, draw_plot


def cells(canvas):
    return [[char for char, _, _ in row] for row in canvas.rows()]


@pytest.mark.parametrize(
    ("x", "y", "char"),
    [(0, 0, "⠁"), (0, 1, "⠂"), (0, 2, "⠄"), (0, 3, "⡀"), (1, 0, "⠈"), (1, 1, "⠐"), (1, 2, "⠠"), (1, 3, "⢀")],
)
def test_each_dot_has_its_place(x, y, char):
    canvas = Canvas(1, 1)
    canvas.dot(x, y, 0)
    assert cells(canvas) == [[char]]


def test_dots_outside_are_not_drawn():
    canvas = Canvas(2, 1)
    for x, y in ((-1, 0), (4, 0), (0, -1), (0, 4)):
        canvas.dot(x, y, 0)
    assert canvas.rows() == [[(" ", BLANK_LAYER, False)] * 2]


def test_curves_that_overlap_take_turns_so_that_each_keeps_its_colour():
    canvas = Canvas(8, 1)
    for layer in (0, 1, 2):
        canvas.trace([layer] * 16, layer)
    canvas.trace([np.nan] * 14 + [3, 3], 3)
    (row,) = canvas.rows()
    assert [layer for _, layer, _ in row] == [0, 0, 1, 1, 2, 2, 0, 3]
    assert "".join(char for char, _, _ in row) == "⠉⠉⠒⠒⠤⠤⠉⣀", "a cell has the dots of its layer only"


def test_a_line_hides_the_bands_of_its_cell():
    canvas = Canvas(2, 1)
    canvas.dot(0, 3, 1, band=True)
    canvas.dot(0, 0, 0)
    canvas.dot(2, 2, 0, band=True)
    canvas.dot(3, 2, 1, band=True)
    assert canvas.rows() == [[("⠁", 0, False), ("⠄", 0, True)]]


def test_traces_join_neighbours_and_leave_gaps():
    canvas = Canvas(2, 2)
    canvas.trace([0, 7, np.nan, 3], 0)
    dots = {(x, y) for y in range(8) for x in range(4) if _set(canvas, x, y)}
    assert dots == {(0, 0), (0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (1, 6), (1, 7), (3, 3)}


def _set(canvas, x, y):
    char = canvas.rows()[y // 4][x // 2][0]
    bit = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]][y % 4][x % 2]
    return char != " " and bool((ord(char) - 0x2800) & bit)


def drawn(name, number, mean):
    mean = np.asarray(mean, dtype=float)
    return number, name, Curve(np.arange(1, len(mean) + 1), mean, mean - 0.1, mean + 0.1)


def draw(curves, width, height, share=True):
    return draw_plot(curves, "iterations", share, width, height, DARK).plain.split("\n")


def test_a_plot_has_round_numbers_at_its_axes_and_names_at_its_ends():
    curves = [drawn("base", 0, np.linspace(0, 0.5, 200)), drawn("vpo", 1, np.linspace(0, 0.9, 200))]
    lines = draw(curves, 80, 14)
    assert len(lines) == 14 and max(map(len, lines)) <= 80
    for tick in ("100%", "75%", "50%", "25%", "0%"):
        assert sum(line.lstrip().startswith(tick + "┤") for line in lines) == 1
    assert all(f" {number} " in lines[-1] for number in (50, 100, 150, 200)) and "iterations" in lines[-1]
    vpo, base = (next(i for i, line in enumerate(lines) if name in line) for name in ("vpo", "base"))
    assert vpo < base and "90%" in lines[vpo] and "▲" in lines[vpo]


def test_curves_that_end_together_keep_names_apart():
    curves = [drawn(f"arm{n}", n, [0.0] * 50) for n in range(4)]
    lines = draw(curves, 80, 12)
    assert len({next(i for i, line in enumerate(lines) if f"arm{n}" in line) for n in range(4)}) == 4


def test_values_beyond_shares_get_a_scale_of_their_own():
    lines = draw([drawn("a", 0, np.linspace(120, 480, 30))], 60, 12, share=False)
    assert any(line.lstrip().startswith("200┤") for line in lines)
    constant = draw([drawn("a", 0, [2.0] * 30)], 60, 12, share=False)
    assert any("2" in line.split("┤")[0] for line in constant if "┤" in line)


def test_unknown_values_draw_nothing():
    lines = draw([drawn("a", 0, [np.nan] * 30)], 60, 12)
    assert not any(0x2800 < ord(c) <= 0x28FF for line in lines for c in line)
