"""Lineages: which are told, how differences read, and that no answer makes them large."""

import io
import warnings
from dataclasses import replace

import matplotlib.image
import pytest

from evo.comparison.load import gather
from evo.encoding import visible
from evo.report.difference import SHOWN_CHARS, difference, unit_of
from evo.report.lineage import MOST_LINEAGES, STEPS, find_longest, load_texts, tree_plot
from evo.report.load import read_run
from evo.report.plot import styled
from islands.store import Store


def test_routes_differ_by_characters_texts_by_words_programs_by_lines():
    assert unit_of("route", "DDL", "DL") == "characters"
    assert unit_of("text", "one two", "one") == "words"
    assert unit_of("python", "", "x") == unit_of("text", "one\ntwo", "one") == "lines"
    assert [(p.kind, p.text) for p in difference("LLDD", "LUDD", "characters")] == [
        ("same", "L"), ("old", "L"), ("new", "U"), ("same", "DD"),
    ]  # fmt: skip
    assert [(p.kind, p.text) for p in difference("a b c", "a x y c", "words")] == [
        ("same", "a"), ("old", "b"), ("new", "x y"), ("same", "c"),
    ]  # fmt: skip


def test_a_program_shows_its_changes_with_a_little_around_them():
    old = [f"line {n}" for n in range(40)]
    new = [*old[:5], "changed", *old[6:30], *old[31:]]
    pieces = difference("\n".join(old), "\n".join(new), "lines")
    assert [p.text for p in pieces if p.kind == "old"] == ["line 5", "line 30"]
    assert [p.text for p in pieces if p.kind == "new"] == ["changed"]
    assert sum(p.kind == "gap" for p in pieces) == 1 and sum(p.kind == "same" for p in pieces) == 8


@pytest.mark.parametrize("unit", ["characters", "words", "lines"])
@pytest.mark.parametrize("text", ["x" * 3_000_000, "a b " * 500_000, "l\n" * 500_000, "\n" * 9 + "y" * 99_999])
def test_a_difference_is_bounded_whatever_was_written(unit, text):
    pieces = difference("z" + text[1000:], text, unit)
    assert sum(len(p.text) for p in pieces) < 3 * SHOWN_CHARS and len(pieces) < 200


def test_the_longest_line_of_each_arm_comes_and_others_fill_up(made):
    with Store.open(made, read_only=True) as store:
        comparison = gather(store, "made-up")
        readings = {arm.name: [read_run(store, run) for run in arm.runs] for arm in comparison.arms}
        lineages = find_longest(readings)
        assert len(lineages) == MOST_LINEAGES and {lineage.arm for lineage in lineages} == set(readings)
        rises = [(lineage.rises, len(lineage.line)) for lineage in lineages]
        assert rises == sorted(rises, reverse=True)
        with_steps = load_texts(store, lineages)
    for lineage in with_steps:
        assert len(lineage.steps) == min(STEPS, len(lineage.line))
        last = lineage.steps[-1]
        assert last.candidate == lineage.search.problem.best and last.fitness == lineage.search.problem.best_fitness
        assert sum(step.skipped for step in lineage.steps) == len(lineage.line) - len(lineage.steps)
        gains = [step.gain for step in lineage.steps]
        assert gains[0] is None and all(gain > 0 for gain in gains[1:])  # made-up parents are the best so far
        assert any(piece.kind == "new" for piece in last.difference)


def test_hidden_characters_are_shown():
    assert visible("a\x00\x1b[0m\x7f\r") == "a\u2400\u241b[0m\u2421\u240d"
    assert visible("\u202e\ud800\ufeff\u200b") == "<U+202E><U+D800><U+FEFF><U+200B>"
    assert visible("ordinary – ünïcode 日本\n\t<b>") == "ordinary – ünïcode 日本\n\t<b>"


def test_a_line_far_from_the_first_iteration_fills_its_plot(made):
    """The word at the target stands inside, so nothing is squeezed; a warning of the layout would be an error here."""
    with Store.open(made, read_only=True) as store:
        comparison = gather(store, "made-up")
        readings = {arm.name: [read_run(store, run) for run in arm.runs] for arm in comparison.arms}
    lineage = find_longest(readings)[0]
    far = replace(lineage, target=1.0, search=replace(lineage.search, born=lineage.search.born + 1_000_000))
    with warnings.catch_warnings(), styled():
        warnings.simplefilter("error")
        plot = tree_plot(far, 0, 1)
    image = matplotlib.image.imread(io.BytesIO(plot.png))
    inked = (image[..., :3].min(axis=2) < 0.9).any(axis=0)  # by column
    assert inked[: len(inked) // 20].any() and inked[len(inked) // 2 :].any()
