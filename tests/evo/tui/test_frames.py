"""Frames as text, compared with the captures in golden/. After a change that is meant, renew them and look at them:

EVO_RENEW_GOLDEN=1 python -m pytest tests/evo/tui/test_frames.py && git diff tests/evo/tui/golden
"""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import screen_samples as samples
from rich.cells import cell_len

from evo.comparison.operators import OperatorShares
from evo.monitor.snapshot import ArmSnapshot, Snapshot
from evo.tui.frame import draw_frame
from evo.tui.line import text_of
from evo.tui.view import PANELS, View, panels

GOLDEN = Path(__file__).parent / "golden"
CAPTURES = {
    "finished_80x24": (samples.finished, View(problem=3), 80, 24),
    "finished_160x50": (samples.finished, View(problem=3), 160, 50),
    "finished_100x45": (samples.finished, View(), 100, 45),
    "curves_80x24": (samples.finished, View(panel="curves"), 80, 24),
    "population_80x24": (samples.finished, View(panel="population"), 80, 24),
    "improvements_80x24": (samples.finished, View(panel="improvements"), 80, 24),
    "errors_80x24": (samples.finished, View(panel="errors"), 80, 24),
    "hundreds_of_problems_80x24": (lambda: samples.finished(200), View(problem=25), 80, 24),
    "running_80x24": (samples.running, View(), 80, 24),
    "running_160x50": (samples.running, View(live=True, paused=True), 160, 50),
    "one_arm_80x24": (samples.alone, View(live=True), 80, 24),
    "one_arm_160x50": (samples.alone, View(), 160, 50),
    "no_targets_80x24": (lambda: samples.alone(targets=False), View(), 80, 24),
    "no_targets_160x50": (lambda: samples.alone(targets=False), View(), 160, 50),
    "training_160x50": (samples.training, View(), 160, 50),
    "detail_80x24": (samples.detailed, View(problem=3, arm=1, detail=True), 80, 24),
    "detail_160x50": (samples.detailed, View(problem=3, arm=1, detail=True), 160, 50),
    "help_80x24": (samples.finished, View(help=True, live=True), 80, 24),
}


@pytest.mark.parametrize("name", CAPTURES)
def test_frames_are_as_captured(name):
    make, view, width, height = CAPTURES[name]
    text = draw_frame(make(), view, width, height, samples.NOW).text()
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("EVO_RENEW_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs; the module says how to renew it"


@pytest.mark.parametrize("make", [samples.finished, samples.running, samples.alone, samples.training, samples.detailed])
@pytest.mark.parametrize(
    "view", [View(panel=panel) for panel in PANELS] + [View(detail=True, problem=3, arm=1), View(help=True)]
)
def test_every_size_is_filled_exactly(make, view):
    snapshot = make()
    for width, height in [(20, 5), (40, 8), (57, 13), (79, 24), (80, 23), (117, 20), (120, 30), (133, 61), (240, 80)]:
        lines = draw_frame(snapshot, view, width, height, samples.NOW).lines
        assert len(lines) == height
        assert {cell_len(text_of(line)) for line in lines} == {width}


def test_a_frame_depends_on_nothing_but_its_arguments():
    first = draw_frame(samples.finished(), View(), 120, 40, samples.NOW)
    assert first.lines == draw_frame(samples.finished(), View(), 120, 40, samples.NOW).lines


def test_model_text_cannot_reach_the_terminal():
    for size in ((80, 24), (160, 50)):
        text = draw_frame(
            samples.detailed(hostile=True), View(problem=3, arm=1, detail=True), *size, samples.NOW
        ).text()
        assert "not markup" in text and "[bold red]" in text
        assert all(line.isprintable() for line in text.split("\n"))


def test_hostile_names_and_errors_are_harmless_everywhere():
    snapshot = samples.finished()
    arms = tuple(
        replace(one, name=samples.HOSTILE + str(n), failed={2: samples.HOSTILE},
                telemetry=replace(one.telemetry, errors={samples.HOSTILE: 3}))
        for n, one in enumerate(snapshot.arms)
    )  # fmt: skip
    problems = tuple(replace(problem, name=samples.HOSTILE + problem.name) for problem in snapshot.problems)
    snapshot = replace(snapshot, name=samples.HOSTILE, arms=arms, problems=problems, fault=samples.HOSTILE,
                    reference=arms[2].name, verdict=(samples.HOSTILE,))  # fmt: skip
    for panel in PANELS:
        for size in ((80, 24), (160, 50)):
            shown = draw_frame(snapshot, View(panel=panel), *size, samples.NOW)
            assert all(segment.text.isprintable() for line in shown.lines for segment in line)
            assert {cell_len(text_of(line)) for line in shown.lines} == {size[0]}


def test_wide_characters_keep_the_columns():
    snapshot = samples.finished()
    arms = tuple(replace(one, name="進化探索" + str(n)) for n, one in enumerate(snapshot.arms))
    shown = draw_frame(replace(snapshot, arms=arms, reference=arms[2].name), View(), 80, 24, samples.NOW)
    assert {cell_len(text_of(line)) for line in shown.lines} == {80}


def test_states_are_said_in_the_header():
    def state(snapshot, view=None, now=samples.NOW):
        return text_of(draw_frame(snapshot, view or View(), 100, 24, now).lines[0])

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
        assert "waiting for the first run" in draw_frame(nothing, View(), *size, samples.NOW).text()
        draw_frame(nothing, View(detail=True), *size, samples.NOW)


def test_pages_stay_and_the_last_is_full():
    from evo.tui.problem_table import visible

    assert [visible(problem, 25, 10) for problem in (0, 9, 10, 20, 24)] == [
        range(0, 10), range(0, 10), range(10, 20), range(15, 25), range(15, 25),
    ]  # fmt: skip
    assert visible(2, 3, 10) == range(0, 3) and visible(0, 0, 10) == range(0, 0)
    for rows in range(1, 12):
        assert all(problem in visible(problem, 25, rows) for problem in range(25))


def test_answers_that_a_budget_leaves():
    snapshot = samples.running()
    arms = tuple(replace(one, max_answers=1_600) for one in snapshot.arms)
    line = text_of(draw_frame(replace(snapshot, arms=arms), View(), 100, 24, samples.NOW).lines[1])
    # 22 and 21 iterations of 24 searches of 3 answers are spent, of 1600 an arm
    assert f"{(1600 - 22 * 72) + (1600 - 21 * 72) + 1600:,} answers left" in line


def test_groups_that_wait_for_the_oldest():
    snapshot = samples.running()
    first = replace(snapshot.arms[0], telemetry=replace(snapshot.arms[0].telemetry, in_flight=140, sampled_ahead=37))
    line = text_of(
        draw_frame(replace(snapshot, arms=(first, *snapshot.arms[1:])), View(), 160, 24, samples.NOW).lines[1]
    )
    assert "37 of 140 in flight sampled" in line


def test_deltas_are_earlier_iterations_where_both_solved_and_fitness_elsewhere():
    from evo.tui.problem_table import delta, solved_text

    snapshot = samples.finished()
    reference, vpo = snapshot.arms[2], snapshot.arms[3]
    for problem in range(len(snapshot.problems)):
        text = delta(snapshot, vpo, problem)
        both = (
            np.isfinite(vpo.results.solved_at[problem]).all()
            and np.isfinite(reference.results.solved_at[problem]).all()
        )
        gap = np.median(vpo.results.solved_at[problem]) - np.median(reference.results.solved_at[problem])
        assert text == (f"{gap:+.0f}it" if round(gap) else "=") if both else not text.endswith("it")
    half = replace(vpo, results=replace(vpo.results, solved_at=np.array([[3.0, np.inf]] * 12)))
    assert solved_text(half, 0) == "1/2"


def with_operators(snapshot):
    def shares(name, **more):
        return OperatorShares(name, 900, {"refined .5-.75": 0.25, "refined .75-1": 0.043, "repeats": 0.1, **more})

    first, second, *others = snapshot.arms
    mixed = (shares("grpo: embedded:grpo", kept=0.5), shares("grpo: embedded:vpo", copies=1.0, alone=0.0))
    alone = OperatorShares("best-of-n", 900, {"repeats": 0.2, "alone": 1.0})
    base = shares("base", kept=0.31, copies=0.02, alone=0.1)
    shown = (replace(first, operators=(base,)), replace(second, operators=(alone,)))
    return replace(snapshot, arms=(*shown, replace(others[0], operators=mixed), *others[1:]))


def test_the_operators_of_every_arm_are_shown_where_they_fit():
    snapshot = with_operators(samples.finished())
    assert "operators" in panels(snapshot) and "operators" not in panels(samples.finished())
    text = draw_frame(snapshot, View(panel="operators"), 80, 24, samples.NOW).text()
    rows = {line.split()[1]: line.split()[2:] for line in text.splitlines() if line.count(" - ") > 1}
    assert rows["base"] == ["-", "-", ".250", ".043", ".310", ".020", ".100", ".100"]
    assert rows["best-of-n"] == [*"------", ".200", "1.00"]
    (titles,) = (line.split() for line in text.splitlines() if "0-.25" in line)
    assert titles == ["arm", "0-.25", ".25-.5", ".5-.75", ".75-1", "kept", "copy", "repeat", "alone"]
    wide = draw_frame(snapshot, View(), 160, 50, samples.NOW).text()
    assert "better than the parent, by its share of the target" in wide and "repeat alone" in wide
    for size in ((40, 12), (60, 20), (80, 24), (116, 30), (160, 50)):
        shown = draw_frame(snapshot, View(panel="operators"), *size, samples.NOW)
        assert {cell_len(text_of(line)) for line in shown.lines} == {size[0]}
