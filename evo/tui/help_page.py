"""The page behind `?`."""

from __future__ import annotations

from evo.tui.line import Line, Lines
from evo.tui.palette import DIM, STRONG
from evo.tui.view import View

KEYS = (
    ("up down, k j", "another problem; scrolls in the detail"),
    ("page up, page down", "a page of problems; also home and end"),
    ("enter", "the best answer to the chosen problem; escape goes back"),
    ("left right", "in the detail: another arm; n and b: another problem"),
    ("tab", "another panel, where there is no room for all"),
    ("ctrl+l", "paint the screen anew"),
)
READING = (
    "bars: the best fitness so far, the mean over seeds; beside them the iteration",
    "that solved it, the median over seeds; 1/3: one seed of three has; ·: none.",
    "Δ, against the reference arm: -12it is twelve iterations earlier where both",
    "have solved it, else the difference in best fitness; = is neither.",
    "curves: solve rates (Kaplan-Meier) with 95% bands in dots; white where several",
    "arms share a cell; marks tell arms apart where colours do not.",
    "operators: share of answers better than the parent shown, by its share of the",
    "target; kept of the parent; copies of what was shown; alone: without a parent.",
    "verdict: an interval over problems without 0 and p <= .05, or none is shown.",
)


def draw_help(view: View, width: int, height: int) -> Lines:
    """`height` lines at most."""
    own = (
        ("p", "hold back new proposals; what is in flight is finished" if view.live else "hold the picture"),
        ("q", "stop: finish what is in flight, then end; resume goes on" if view.live else "leave; the run goes on"),
    )
    lines = [Line(width).add("Keys", STRONG)]
    lines += [Line(width).gap(2).add(key, STRONG, 20).add(what) for key, what in (*KEYS[:5], *own, KEYS[5])]
    lines += [Line(width), Line(width).add("How to read it", STRONG)]
    lines += [Line(width).gap(2).add(text, DIM) for text in READING]
    return lines[:height]
