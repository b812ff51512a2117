import numpy as np
import pytest

from evo.comparison.summary import Curve
from evo.tui.palette import DARK
from evo.tui.plot import draw_plot, sparkcurve, trace


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


def test_traces_join_neighbours_and_leave_gaps():
    assert chars(trace([0, 7, np.nan, 3], 2)) == ["⡇⢀", "⢸ "]


def drawn(name, number, mean):
    mean = np.asarray(mean, dtype=float)
    return number, name, Curve(np.arange(1, len(mean) + 1), mean, mean - 0.1, mean + 0.1)


def draw(curves, width, height, share=True):
    return draw_plot(curves, share, width, height, DARK).plain.split("\n")


def test_a_plot_has_numbers_at_its_axes_and_names_at_its_ends():
    curves = [drawn("base", 0, np.linspace(0, 0.5, 200)), drawn("vpo", 1, np.linspace(0, 0.9, 200))]
    lines = draw(curves, 80, 14)
    assert len(lines) == 14 and max(map(len, lines)) <= 80
    for tick in ("100%", "50%", "0%"):
        assert sum(line.lstrip().startswith(tick + "┤") for line in lines) == 1
    assert lines[-1].lstrip().startswith("└1 ") and lines[-1].endswith("200 iterations")
    vpo, base = (next(i for i, line in enumerate(lines) if name in line) for name in ("vpo", "base"))
    assert vpo < base and "90%" in lines[vpo] and "▲" in lines[vpo]


def test_curves_that_overlap_take_turns():
    shown = draw_plot([drawn("a", 0, [0.5] * 60), drawn("b", 1, [0.5] * 60)], True, 60, 8, DARK)
    colours = {str(span.style) for span in shown.spans if set(shown.plain[span.start : span.end]) <= set("⠤⠒")}
    assert len(colours) == 2


def test_a_curve_of_one_line_keeps_its_last_values():
    assert sparkcurve([], 3, 0, 1) == "   " and sparkcurve([np.nan] * 8, 2, 0, 1) == "  "
    assert sparkcurve([0, 1, 1, 1], 2, 0, 1) == "⡜⠉", "a rise is a stroke"


def test_curves_that_end_together_keep_names_apart():
    curves = [drawn(f"arm{n}", n, [0.0] * 50) for n in range(4)]
    lines = draw(curves, 80, 12)
    assert len({next(i for i, line in enumerate(lines) if f"arm{n}" in line) for n in range(4)}) == 4


def test_values_beyond_shares_get_a_scale_of_their_own():
    lines = draw([drawn("a", 0, np.linspace(120, 480, 30))], 60, 12, share=False)
    ticks = [line.partition("┤")[0].strip() for line in lines if "┤" in line]
    assert list(filter(None, ticks)) == ["480", "300", "120"]
    close = draw([drawn("a", 0, np.linspace(-1234567.002, -1234567.001, 30))], 60, 12, share=False)
    ticks = [line.split("┤")[0].strip() for line in close if "┤" in line]
    assert len(set(ticks) - {""}) == len([tick for tick in ticks if tick]) >= 2
    constant = draw([drawn("a", 0, [2.0] * 30)], 60, 12, share=False)
    assert any("2" in line.split("┤")[0] for line in constant if "┤" in line)


def test_unknown_values_draw_nothing():
    lines = draw([drawn("a", 0, [np.nan] * 30)], 60, 12)
    assert not any(0x2800 < ord(c) <= 0x28FF for line in lines for c in line)
