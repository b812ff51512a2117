"""What the parts of the screen say: they fit, they are harmless, and they say what they should."""

from collections import Counter
from dataclasses import replace

import pytest
import screen_samples as samples
from rich.cells import cell_len

from evo.comparison.operators import OperatorShares
from evo.monitor.answer import WalkView
from evo.monitor.snapshot import ArmSnapshot, Snapshot
from evo.stats import Verdict
from evo.tui.arrange import arrange
from evo.tui.help import draw_help
from evo.tui.line import text_of
from evo.tui.pages import Pages
from evo.tui.picture import draw_text
from evo.tui.view import PANELS, WON, TableChoice, View
from islands.browse import Origin
from islands.types import Totals

SIZES = [(40, 8), (57, 13), (79, 24), (80, 24), (117, 20), (120, 30), (160, 50), (240, 80)]


def lines_of(made):
    rows = [] if made.table is None else [made.table.row(place) for place in range(len(made.table.rows))]
    return {
        "whole": [*made.head, made.footer],
        "left": [*made.curves, *made.titles, *rows, *made.panel],
        "side": made.side,
    }


def shown(snapshot, view=View(), width=80, height=24, now=samples.NOW):  # noqa: B008 - it never changes
    return arrange(snapshot, view, width, height, now).text(height)


@pytest.mark.parametrize("make", [samples.finished, samples.running, samples.alone, samples.training, samples.detailed])
@pytest.mark.parametrize("view", [View(panel=panel) for panel in PANELS] + [View(detail=True, problem=3, arm=1)])
def test_nothing_is_wider_than_its_part_of_the_screen(make, view):
    snapshot = make()
    for width, height in SIZES:
        made = arrange(snapshot, view, width, height, samples.NOW)
        rooms = {"whole": width, "left": made.left, "side": width - made.left - 2}
        for part, lines in lines_of(made).items():
            assert all(cell_len(text_of(line.segments)) <= rooms[part] for line in lines), (part, width)
        assert len(made.head) < height
        assert len(made.text(height).splitlines()) == height


def test_the_table_says_who_won_and_what_its_signs_mean():
    text = shown(samples.finished(), width=160, height=50)
    head = next(line for line in text.splitlines() if "(key)" in line)
    assert "+ won, - lost, = level" in head and "against grpo" in head and "curve: how it rose" in head
    total = next(line for line in text.splitlines() if line.startswith(" total"))
    assert "12 won 0 lost 0 level" in total and "0 won 12 lost 0 level" in total and "24/24" in total
    row = next(line for line in text.splitlines() if line.startswith(" 3 "))
    assert [part for part in row.split() if "it" in part or part[0] == "@"][-2:] == ["@12", "+9it"]
    assert "▲ best-of-n" in text and "◆ vpo" in text


def test_what_is_left_out_is_said():
    view = View(choice=TableChoice(search="1", differing=True, order=WON, reverse=True))
    assert "88 of 200 · /1 · differing · by won reversed" in shown(samples.finished(200), view, 160, 50)
    assert "of 200 · /1 · differing…" in shown(samples.finished(200), view)


def test_verdicts_are_wrapped_and_none_is_cut():
    long = (
        "no difference shown (" + "a very long arm name - another one just as long = +0.01 [-0.02, 0.03], " + "p = .9)"
    )
    made = arrange(replace(samples.finished(), verdict=(Verdict(long, False),)), View(), 80, 40, samples.NOW)
    said = " ".join(line.text().strip() for line in made.head)
    assert long in said
    many = replace(samples.finished(), verdict=(Verdict(long, False),) * 9)
    assert "more in evo show" in shown(many, height=30)


def test_a_difference_that_is_shown_is_not_left_out_for_those_that_are_not():
    level = tuple(
        Verdict(f"no difference shown ({arm} - grpo = +0.01 [-0.10, 0.12], p = 0.9)", False) for arm in "abcdef"
    )
    won = Verdict("edit - grpo = +0.33 [0.01, 0.61]", True)
    narrow = shown(replace(samples.finished(), verdict=(*level, won)), height=24)
    assert f"→ {won.text}" in narrow and "+5 more" in narrow
    wide = shown(replace(samples.finished(), verdict=(*level[:2], won)), View(), 120, 60)
    assert wide.index("(b - grpo") < wide.index(f"→ {won.text}")


def test_a_maze_is_drawn_with_the_way_through_it():
    snapshot = samples.detailed()
    walk = WalkView(("S.L", "#.G", "E.."), (0, 1, 4, 5, 8, 7, 6))
    origin = Origin("", "P R O M P T", "C1 C2", 0)
    found = replace(snapshot.details[3, "vpo"], walk=walk, statement="Find a route", origin=origin)
    text = shown(replace(snapshot, details={(3, "vpo"): found}), View(problem=3, arm=1, detail=True), 80, 80)
    assert "  S─↓ L\n  █ →─G\n  E─←─←\n" in text
    for said in (
        "the problem's statement",
        "Find a route",
        "P R O M P T",
        "C1 C2",
        "changes to its parent 3100",
    ):
        assert said in text


def test_a_program_is_coloured_and_harmless():
    snapshot = samples.detailed()
    source = "def f():\n    return '\x1b[2J'  # \u202e" + "x" * 200
    detail = snapshot.details[3, "vpo"]
    problem = replace(detail.stored.problem, answer_format="python")
    answer = replace(detail.answer, candidate=replace(detail.answer.candidate, text=source))
    found = replace(detail, stored=replace(detail.stored, problem=problem), answer=answer)
    made = arrange(
        replace(snapshot, details={(3, "vpo"): found}), View(problem=3, arm=1, detail=True), 80, 60, samples.NOW
    )
    line = next(line for line in made.panel if line.text().startswith("  def f():"))
    assert len({segment.style.color for segment in line.segments if segment.style}) > 1
    assert all(part.text.isprintable() and cell_len(one.text()) <= 79 for one in made.panel for part in one.segments)
    assert sum(one.text().count("x") for one in made.panel) >= 200  # wrapped, not cut


def test_model_text_cannot_reach_the_terminal():
    for size in ((80, 24), (160, 50)):
        made = arrange(
            samples.detailed(hostile=True), View(problem=3, arm=1, detail=True), *size, samples.NOW
        )  # fmt: skip
        parts = lines_of(made).values()
        assert "not markup" in made.text(90) and "[bold red]" in made.text(90)
        assert all(segment.text.isprintable() for lines in parts for line in lines for segment in line.segments)


def test_hostile_names_and_errors_are_harmless_everywhere():
    snapshot = samples.finished()
    arms = tuple(
        replace(one, name=samples.HOSTILE + str(n), failed={2: samples.HOSTILE},
                telemetry=replace(one.telemetry, totals=Totals(errors=Counter({samples.HOSTILE: 3}))))
        for n, one in enumerate(snapshot.arms)
    )  # fmt: skip
    problems = tuple(replace(problem, name=samples.HOSTILE + problem.name) for problem in snapshot.problems)
    snapshot = replace(snapshot, name=samples.HOSTILE, arms=arms, problems=problems, fault=samples.HOSTILE,
                    reference=arms[2].name, verdict=(Verdict(samples.HOSTILE, True),))  # fmt: skip
    for panel in PANELS:
        for size in ((80, 24), (160, 50)):
            made = arrange(snapshot, View(panel=panel, choice=TableChoice(search=samples.HOSTILE)), *size, samples.NOW)
            for lines in lines_of(made).values():
                assert all(segment.text.isprintable() for line in lines for segment in line.segments)


def test_wide_characters_keep_the_columns():
    snapshot = samples.finished()
    arms = tuple(replace(one, name="進化探索" + str(n)) for n, one in enumerate(snapshot.arms))
    made = arrange(replace(snapshot, arms=arms, reference=arms[2].name), View(), 80, 24, samples.NOW)
    widths = {cell_len(text_of(made.table.row(place).done())) for place in range(5)}
    assert widths == {79} and cell_len(text_of(made.titles[2].segments)) <= 79


def test_states_are_said_in_the_header():
    def state(snapshot, view=None, now=samples.NOW):
        return arrange(snapshot, view or View(), 100, 24, now).head[0].text()

    running = samples.running()
    assert "left" in state(running)
    assert "paused" in state(running, View(live=True, paused=True))
    assert "picture held" in state(running, View(paused=True))
    assert "stopping" in state(running, View(live=True, stopping=True))
    assert "nothing heard for 5:00" in state(running, now=running.heard + 300)
    assert "does not answer" in state(replace(running, fault="gone"))
    assert "reading run 3 of 6" in state(replace(running, loaded=2))
    assert "all runs have ended" in state(samples.finished())


def test_an_empty_comparison_is_drawn_too():
    arms = tuple(ArmSnapshot(name, "p", 1, {"waiting": 1}, 0, 0, 3) for name in "ab")
    nothing = Snapshot("new", arms, reference="a", runs=2, loaded=2)
    for size in ((80, 24), (160, 50)):
        assert "waiting for the first run" in shown(nothing, View(), *size)
        arrange(nothing, View(detail=True), *size, samples.NOW)


def test_every_word_of_the_screen_stands_in_the_help():
    for live in (False, True):
        for width in (79, 159):
            lines = draw_help(live, width)
            assert all(cell_len(text_of(line.segments)) <= width for line in lines)
    text = "\n".join(line.text() for line in lines)
    words = "area half L1 busy queue cells repeated format kept copied rate reference lineage vector seed island"
    for word in [*words.split(), "no parent", "mean best", "@12", "= level", "ctrl+c", "Kaplan-Meier", "in flight"]:
        assert word in text, word


def test_operators_have_a_panel_where_there_are_any():
    shares = OperatorShares("mutate", "p", {"refined < 25%": 0.5, "kept": 0.9, "alone": 0.0})
    snapshot = samples.finished()
    arms = (replace(snapshot.arms[0], operators=(shares,)), *snapshot.arms[1:])
    assert "operators" not in shown(snapshot)
    assert "operators" in shown(replace(snapshot, arms=arms))
    assert "mutate" in shown(replace(snapshot, arms=arms), View(panel="operators"))


def test_a_picture_has_no_keys():
    text = draw_text(samples.finished(), 100, 40, samples.NOW)
    assert "q quit" not in text and 20 < len(text.splitlines()) <= 40 and "100%" in text
    assert text.splitlines()[-1].strip()


def press(pages, snapshot, *steps):
    for what, *values in steps:
        getattr(pages, what)(snapshot, *values)
    return pages.view


def test_problems_are_chosen_among_those_that_are_shown():
    snapshot = samples.finished()
    assert press(Pages(), snapshot, ("move", 1), ("move", 1), ("move", -1)).problem == 1
    assert press(Pages(), snapshot, ("move", -1)).problem == 0
    assert press(Pages(), snapshot, ("move", 10**6)).problem == 11
    view = press(Pages(), snapshot, ("find", "1"), ("move", 1))
    assert view.problem == 10  # 1, 10, 11
    assert press(Pages(), snapshot, ("find", "nothing"), ("move", 1), ("open",)).detail is False
    assert press(Pages(), snapshot, ("move", 5), ("find", "1")).problem == 1  # where the chosen one has gone
    assert press(Pages(), snapshot, ("find", "1"), ("toggle", "unsolved"), ("back",)).choice == TableChoice()


def test_the_detail_turns_through_arms_and_problems():
    snapshot = samples.finished()
    assert press(Pages(), snapshot, ("turn", 1), ("step", 1)) == View()
    view = press(Pages(), snapshot, ("open",), ("turn", -1), ("step", 1))
    assert (view.detail, view.arm, view.problem) == (True, 3, 1)
    assert press(Pages(), snapshot, ("choose", 0)).detail and not press(Pages(), snapshot, ("choose", 3)).detail
    assert press(Pages(), snapshot, ("choose", 3), ("choose", 3, 2)).arm == 2
    assert not press(Pages(), snapshot, ("open",), ("back",)).detail


def test_tab_goes_round_the_panels_that_show_something():
    snapshot, pages, seen = samples.finished(), Pages(), []
    for _ in range(5):
        pages.next_panel(snapshot, 1)
        seen.append(pages.view.panel)
    assert seen == ["curves", "population", "improvements", "errors", "problems"]


def test_orders_and_sets_go_round_too():
    snapshot, pages, seen = samples.finished(), Pages(), []
    for _ in range(7):
        pages.next_order(snapshot)
        seen.append(pages.view.choice.order)
    assert seen == [-1, WON, 0, 1, 2, 3, None]
    assert press(Pages(), snapshot, ("sort", 2), ("sort", 2)).choice.reverse
    assert press(Pages(), snapshot, ("next_part",)).choice.part == "maze:hard"
    assert press(Pages(), snapshot, ("next_part",), ("next_part",)).choice.part == ""
