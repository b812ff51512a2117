import numpy as np
import pytest

from evo.comparison.summary import Curve
from evo.tui.palette import DARK
from evo.tui.plot import NO_CURVE, draw_plot, overlay, trace


def chars(dots):
    return ["".join(chr(0x2800 + dot) if dot else " " for dot in row) for row in dots.tolist()]


def dot(x, y, height=1, width=1):
    """One dot: all other columns are gaps."""
    return trace([y if at == x else np.nan for at in range(2 * width)], height)


@pytest.mark.parametrize(
    ("x", "y", "char"),
    [(0, 0, "⠁"), (0, 1, "⠂"), (0, 2, "⠄"), (0, 3, "⡀"), (1, 0, "⠈"), (1, 1, "⠐"), (1, 2, "⠠"), (1, 3, "⢀")],
)
def test_each_dot_has_its_place(x, y, char):
    assert chars(dot(x, y)) == [char]


@pytest.mark.parametrize("y", [-1, 4])
def test_dots_outside_are_not_drawn(y):
    assert not dot(0, y).any()


def test_curves_that_overlap_take_turns_so_that_each_keeps_its_colour():
    curves = [trace([layer] * 16, 1) for layer in (0, 1, 2)] + [trace([np.nan] * 14 + [3, 3], 1)]
    dots, owner = overlay(curves)
    assert owner.tolist() == [[0, 0, 1, 1, 2, 2, 0, 3]]
    assert chars(dots) == ["⠉⠉⠒⠒⠤⠤⠉⣀"], "a cell has the dots of its curve only"
    assert overlay([dot(0, 0, width=2)])[1].tolist() == [[0, NO_CURVE]]


def test_a_line_hides_the_bands_of_its_cell():
    curve = Curve(np.arange(1, 31), np.full(30, 0.5), np.full(30, 0.5), np.full(30, 0.9))
    shown = draw_plot([(0, "a", curve)], True, 40, 12, DARK)
    dim = {shown.plain[span.start : span.end] for span in shown.spans if getattr(span.style, "dim", False)}
    line = next(row for row in shown.plain.split("\n") if "⠒⠒" in row or "⠤⠤" in row or "⠉⠉" in row or "⣀⣀" in row)
    assert dim and not dim & set(line) - {" "}


def test_traces_join_neighbours_and_leave_gaps():
    assert chars(trace([0, 7, np.nan, 3], 2)) == ["⡇⢀", "⢸ "]


def drawn(name, number, mean):
    mean = np.asarray(mean, dtype=float)
    return number, name, Curve(np.arange(1, len(mean) + 1), mean, mean - 0.1, mean + 0.1)


def draw(curves, width, height, share=True):
    return draw_plot(curves, share, width, height, DARK).plain.split("\n")


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
    close = draw([drawn("a", 0, np.linspace(-1234567.002, -1234567.001, 30))], 60, 12, share=False)
    ticks = [line.split("┤")[0].strip() for line in close if "┤" in line]
    assert len(set(ticks) - {""}) == len([tick for tick in ticks if tick]) >= 2
    constant = draw([drawn("a", 0, [2.0] * 30)], 60, 12, share=False)
    assert any("2" in line.split("┤")[0] for line in constant if "┤" in line)


def test_unknown_values_draw_nothing():
    lines = draw([drawn("a", 0, [np.nan] * 30)], 60, 12)
    assert not any(0x2800 < ord(c) <= 0x28FF for line in lines for c in line)
