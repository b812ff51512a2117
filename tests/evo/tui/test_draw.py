"""What the screen shows of a snapshot, by hand-made ones: every part in its width, plots, colours, harmless text."""

from __future__ import annotations

import io
import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import screen_samples as samples
from rich.console import Console
from textual.theme import BUILTIN_THEMES

from evo.comparison.results import standings
from evo.comparison.summary import Curve
from evo.progress.answer import diff_answers, unit_of
from evo.progress.arm_style import COLOURS, MARKS, style_of
from evo.progress.rows import against_cell, outcome_cell
from evo.progress.snapshot import FailedProblem
from evo.tui import draw, palette
from evo.tui.detail import draw_detail, tabs
from evo.tui.palette import DARK
from evo.tui.plot import draw_plot, sparkcurve, trace
from evo.tui.problems import NAME, WON, ProblemTable, TableChoice, natural
from islands.lock import LOST
from problems.objectives import Objective

SAMPLES = [samples.finished, samples.running, samples.alone, samples.detailed]


def printed(renderable, width):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(renderable)
    return console.file.getvalue()


@pytest.mark.parametrize("make", SAMPLES)
@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_a_picture_fits_its_width_and_has_every_part(make, width):
    snapshot = make()
    text = printed(draw.picture(snapshot, width, 40, samples.NOW, DARK), width)
    assert max(map(len, text.splitlines())) <= width
    for part in (snapshot.name, "iterations", "problems", "last improvements"):
        assert part in text
    if width >= 80:
        assert all(arm.name in text for arm in snapshot.arms)


def test_a_comparison_shows_its_verdicts_the_shown_ones_first():
    lines = printed(draw.verdict_lines(samples.finished(), DARK), 120).splitlines()
    assert [line[:1] for line in lines] == ["→", "→", " "] and "no difference shown" in lines[2]
    few = printed(draw.verdict_lines(samples.finished(), DARK, 2), 120).splitlines()
    assert few[0].startswith("→") and few[1] == "  … 2 more pairs: evo show fair-elm"
    waiting = printed(draw.verdict_lines(replace(samples.finished(), verdict=()), DARK), 120)
    assert "waits until every search has begun" in waiting
    assert not draw.verdict_lines(samples.alone(), DARK).plain


@pytest.mark.parametrize(
    ("status", "changes", "state", "mood"),
    [
        ("running", {}, " left", ""),
        ("running", {"remaining": None}, "… left", ""),
        ("running", {"fault": "gone"}, "the database is not responding", "bad"),
        ("done", {}, "the run has ended, 2:05", "good"),
        ("failed", {"reason": "x"}, "the run has ended, 1 failed, 2:05", "bad"),
        ("interrupted", {"reason": "its process"}, "interrupted after 2:05", "warn"),
        ("interrupted", {"reason": LOST}, "its process died", "warn"),
    ],
)
def test_the_state_in_words(status, changes, state, mood):
    snapshot = replace(samples.alone(), **changes) if status == "running" else None
    if snapshot is None:
        arm = samples.arm("fair-elm", 1.4, seeds=1, status=status, **changes)
        snapshot = samples.snapshot([arm], reference=None)
    words, found = snapshot.state(samples.NOW)
    assert state in words and found == mood


def test_failed_problems_are_named_with_their_reason():
    snapshot = samples.finished()
    fault = FailedProblem("maze:hard/99", "grpo", "no\nscore")
    snapshot = replace(snapshot, failed=snapshot.problems[:1], faults=(fault,))
    text = printed(draw.errors(snapshot, DARK), 100)
    assert "scorer failed maze:hard/99 (grpo) no score" in text and "unreadable reply" in text
    assert "1 left out" in draw.head(snapshot, 120, samples.NOW, DARK).plain


def test_a_detail_has_vector_lineage_changes_and_answer():
    snapshot = samples.detailed()
    text = printed(draw_detail(snapshot, 3, 1, DARK), 100)
    for part in (
        *("fitness 0.75 of 1", "candidate 3446, iteration 17, seed 1", "gold 1 (+0.5)", "diamond 0 (-0.2)"),
        *("3446 (0.75) ← 3100 (0.7) ← 2900 (0)", "changes to its parent 3100", "DDRRDDLLDDRRRRDDRR"),
    ):
        assert part in text
    assert "{+" in text and "+}" in text, "changes are marked without colours too"
    assert "reading …" in printed(draw_detail(snapshot, 2, 1, DARK), 100)
    assert "maze:hard/3" in tabs(snapshot, 3, 1, DARK).plain


def test_prose_is_compared_by_words_and_keeps_its_lines():
    old, new = "Be kind, and brief.\n\n- Say hello.\n", "Be kind, and brief.\n\n- Say goodbye now.\n"
    pieces = diff_answers(old, new, unit_of("text", old, new))
    assert "".join(piece.text for piece in pieces if piece.kind != "old") == new.rstrip()
    assert [piece.text for piece in pieces if piece.kind == "old"] == [" hello."]


def test_what_a_model_wrote_is_harmless():
    text = printed(draw_detail(samples.detailed(hostile=True), 3, 1, DARK), 100)
    text += printed(draw.picture(samples.snapshot([samples.arm(samples.HOSTILE, 1.0)], name=samples.HOSTILE,
                                                  reference=None), 100, 40, samples.NOW, DARK), 100)  # fmt: skip
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "[bold red]not markup[/]" in text


def test_outcomes_and_gaps_in_words():
    base, vpo = samples.arm("base", 1.0, problems=2), samples.arm("vpo", 2.6, problems=2)
    standing, fitness = standings([base.results, vpo.results], 0, 2), Objective("fitness")
    assert outcome_cell(standing, 1, 0, 2, fitness).text.startswith("@")
    assert against_cell(standing, 0, 0, fitness).text == "level"
    assert re.fullmatch(r"won \d+ sooner", against_cell(standing, 1, 0, fitness).text)
    unsolved = samples.arm("a", 1.0, problems=2, done=2, targets=True)
    assert outcome_cell(standings([unsolved.results], None, 2), 0, 0, 2, fitness).text.startswith("0.")


def test_problems_are_filtered_and_ordered():
    snapshot, table = samples.finished(12), ProblemTable()
    standing = table.standing(snapshot)
    assert table.standing(snapshot) is standing, "computed once for the same results"

    def rows(**choice):
        return table.rows(snapshot, TableChoice(**choice))

    assert rows() == rows(order=NAME) == rows(reverse=True)[::-1] == list(range(12)), "9 before 10"
    assert natural("a/10") > natural("a/9") and rows(search="/1") == [1, 10, 11]
    took = [standing.took[3, row] for row in rows(order=3)]
    assert took == sorted(took) and not math.isinf(took[0])
    by_best = [row for row in rows(order=1) if standing.solved[1, row] == 0]
    assert len(by_best) > 1 and by_best == sorted(by_best, key=lambda row: -standing.best[1, row])
    ahead = [standing.sign[:, row].sum() for row in rows(order=WON)]
    assert ahead == sorted(ahead, reverse=True)
    assert rows(unsolved=True) == [row for row in range(12) if standing.unsolved[row]] != rows()
    assert rows(differing=True) == [row for row in range(12) if standing.differing[row]] != rows()
    choice = TableChoice(search="1", unsolved=True, order=NAME)
    assert choice.describe(snapshot, 3) == "3 of 12 · /1 · unsolved · by name"


@pytest.mark.parametrize("width", [40, 80, 160])
def test_rows_have_a_cell_for_each_column_and_narrow_screens_leave_the_lightest_out(width):
    for snapshot in (samples.finished(), samples.alone(), samples.alone(targets=False)):
        table = ProblemTable()
        titles = table.columns(snapshot, width, DARK)
        assert {len(table.row(snapshot, row, width, DARK)) for row in range(12)} == {len(titles)}
    arms = printed(draw.arms(samples.running(), width, DARK), width)
    assert "solved" in arms and ("iterations" in arms) == (width == 160) and max(map(len, arms.splitlines())) <= width


def test_the_head_of_a_search_that_stops_says_how_many_iterations_it_waits_for():
    quiet = samples.running()
    (run,) = quiet.arms[0].runs[:1]
    busy = replace(quiet, arms=[replace(quiet.arms[0], runs=[replace(run, summary={**run.summary, "in_flight": 4})])])
    assert draw.stopping(quiet) == "stopping"
    for width in (80, 150):
        head = printed(draw.head(busy, width, samples.NOW, DARK, draw.stopping(busy)), width)
        assert "stopping: waits for 4 in flight, " in head


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


def test_traces_join_neighbours_leave_gaps_and_stay_inside():
    assert not dot(0, -1).any() and not dot(0, 4).any()
    assert chars(trace([0, 7, np.nan, 3], 2)) == ["⡇⢀", "⢸ "]


def drawn(name, number, mean):
    mean = np.asarray(mean, dtype=float)
    return number, name, Curve(np.arange(1, len(mean) + 1), mean, mean - 0.1, mean + 0.1)


def plotted(curves, width, height, share=True):
    return draw_plot(curves, share, width, height, DARK).plain.split("\n")


def test_a_plot_has_numbers_at_its_axes_and_names_at_its_ends():
    curves = [drawn("base", 0, np.linspace(0, 0.5, 200)), drawn("vpo", 1, np.linspace(0, 0.9, 200))]
    lines = plotted(curves, 80, 14)
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
    lines = plotted(curves, 80, 12)
    assert len({next(i for i, line in enumerate(lines) if f"arm{n}" in line) for n in range(4)}) == 4


def test_values_beyond_shares_get_a_scale_of_their_own():
    lines = plotted([drawn("a", 0, np.linspace(120, 480, 30))], 60, 12, share=False)
    ticks = [line.partition("┤")[0].strip() for line in lines if "┤" in line]
    assert list(filter(None, ticks)) == ["480", "300", "120"]
    close = plotted([drawn("a", 0, np.linspace(-1234567.002, -1234567.001, 30))], 60, 12, share=False)
    ticks = [line.split("┤")[0].strip() for line in close if "┤" in line]
    assert len(set(ticks) - {""}) == len([tick for tick in ticks if tick]) >= 2
    constant = plotted([drawn("a", 0, [2.0] * 30)], 60, 12, share=False)
    assert any("2" in line.split("┤")[0] for line in constant if "┤" in line)


def test_unknown_values_draw_nothing():
    lines = plotted([drawn("a", 0, [np.nan] * 30)], 60, 12)
    assert not any(0x2800 < ord(c) <= 0x28FF for line in lines for c in line)


WHITE, BLACK = "#ffffff", "#16161a"
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


@pytest.mark.parametrize("ground", [WHITE, BLACK])
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


@pytest.mark.parametrize(("palette", "theme"), [(palette.DARK, "textual-dark"), (palette.LIGHT, "textual-light")])
def test_text_of_the_screen_is_read_in_both_themes(palette: palette.Palette, theme: str) -> None:
    background = BUILTIN_THEMES[theme].background or ("#121212" if theme == "textual-dark" else "#E0E0E0")
    assert len(set(palette.arms)) == len(COLOURS) and palette.muted.color is not None
    for colour in (palette.muted.color.get_truecolor().hex, *palette.arms):
        assert contrast(colour, background) >= 4.5, colour
