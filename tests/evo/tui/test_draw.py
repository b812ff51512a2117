"""What the screen shows of a snapshot, by hand-made ones: every part in its width, text of models harmless."""

import io
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import screen_samples as samples
from rich.console import Console

from evo.comparison.results import standings
from evo.progress.answer import diff_answers, unit_of
from evo.progress.rows import Table, TableColumn, against_cell, outcome_cell, problems_table, word_cell
from evo.tui import draw
from evo.tui.detail import draw_detail, tabs
from evo.tui.draw import TableChoice, chosen_problems, problem_rows, problem_titles
from evo.tui.palette import DARK
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


def test_narrow_screens_leave_the_lightest_columns_out():
    wide, narrow = (printed(draw.arms(samples.running(), width, DARK), width) for width in (160, 60))
    assert "iterations" in wide and "solved" in narrow and "iterations" not in narrow
    assert max(map(len, narrow.splitlines())) <= 60


def test_no_column_of_a_narrow_panel_is_cut_to_nothing():
    rows = printed(draw.improvements(samples.alone(), 43, samples.NOW, DARK), 43).splitlines()[-13:]
    assert rows[0].split() == ["ago", "problem", "iter.", "best", "change"]
    assert all(row[30:].strip(" …") for row in rows[1:] if "+" in row)


def test_failed_problems_are_counted_at_the_head():
    snapshot = replace(samples.finished(), failed=samples.finished().problems[:1])
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
    snapshot = samples.finished(12)
    standing = snapshot.standing

    def rows(**choice):
        return chosen_problems(problems_table(snapshot), snapshot, TableChoice(**choice))

    assert rows() == list(range(12)) and rows(search="/1") == [1, 10, 11]
    assert rows(unsolved=True) == [row for row in range(12) if standing.unsolved[row]] != rows()
    assert rows(differing=True) == [row for row in range(12) if standing.differing[row]] != rows()
    choice = TableChoice(search="1", unsolved=True, worst_first=True)
    assert choice.describe(snapshot, 3) == "3 of 12 · /1 · unsolved · worst first"


@pytest.mark.parametrize("lower", [False, True])
def test_the_worst_problems_come_first(lower):
    """Those without an answer, then the unsolved from the worst value on, then those that took the longest."""
    objective = Objective("cost", lower=lower)
    solved, took = np.array([[1.0, 1.0, 0.0, 0.0, 0.0, 0.5]]), np.array([[5.0, 30.0, *[math.inf] * 3, 7.0]])
    best = np.array([[1.0, 1.0, 0.9, 0.2, math.nan, 0.4]])
    standing = SimpleNamespace(solved=solved, took=took, best=best)
    cells = [(word_cell(str(row)), outcome_cell(standing, 0, row, 2, objective)) for row in range(6)]
    table = Table("", "", (TableColumn("problem", kind="problem"), TableColumn("a", kind="outcome")), tuple(cells))
    worst = chosen_problems(table, samples.finished(6), TableChoice(worst_first=True))
    assert worst == [4, *([2, 3] if lower else [3, 2]), 5, 1, 0]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_rows_have_a_cell_for_each_column(width):
    for snapshot in (samples.finished(), samples.alone(), samples.alone(targets=False)):
        table = problems_table(snapshot)
        titles = problem_titles(table, snapshot, DARK)
        assert set(map(len, problem_rows(table, snapshot, range(12), width, DARK))) == {len(titles)}


def test_the_head_of_a_search_that_stops_says_how_many_iterations_it_waits_for():
    quiet = samples.running()
    (run,) = quiet.arms[0].runs[:1]
    busy = replace(quiet, arms=[replace(quiet.arms[0], runs=[replace(run, summary={**run.summary, "in_flight": 4})])])
    assert draw.stopping(quiet) == "stopping"
    for width in (80, 150):
        head = printed(draw.head(busy, width, samples.NOW, DARK, draw.stopping(busy)), width)
        assert "stopping: waits for 4 in flight, " in head
