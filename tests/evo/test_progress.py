from rich.console import Console

from evo.progress import Screen, clock, eta, figures, lane_row, solve_line
from evo.status import LaneStatus, SearchStatus, error_kind


def status(lanes=3, done=5):
    shown = [LaneStatus(f"maze:test/{i}", 0.75, 20, done=done, best=0.5) for i in range(lanes)]
    shown[0].best, shown[0].solved_at = 0.75, 4
    made = SearchStatus("calm-lake", "embedded:base", shown)
    made.groups = made.groups_here = lanes * done
    made.answers, made.tokens = 45, 900
    return made


def rendered(made, width, height):
    console = Console(width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(Screen(made, console))
    return captured.get().splitlines()


def test_the_screen_fits_a_small_terminal_whatever_the_number_of_problems():
    for lanes in (1, 5, 300):
        lines = rendered(status(lanes), 80, 24)
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
    assert any("more" in line for line in lines)
    assert lines[0].startswith("calm-lake")
    assert lines[2].startswith("solved 1/300"), "every line of the head is there"
    assert len(rendered(status(300), 160, 50)) > 40, "a larger terminal shows more"


def test_figures_come_from_the_status():
    made = status()
    made.errors.update(["timeout", "timeout", "format"])
    made.repeats = 7
    assert solve_line(made).startswith("solved 1/3  mean best 0.583  15/60 groups")
    assert "timeout 2" in figures(made)
    assert "7 repeats" in figures(made)
    assert lane_row(made.lanes[0])[-1] == "solved at 4"


def test_a_stopped_problem_is_planned_no_further():
    made = status()
    made.lanes[1].stopped = "solved"
    assert made.planned == 20 + 5 + 20


def test_times():
    assert clock(65) == "1:05"
    assert clock(3723) == "1:02:03"
    made = status()
    made.groups = made.groups_here = 0
    assert eta(made) == "-"
    made.groups = made.groups_here = 60
    assert eta(made) == "0:00"


def test_errors_are_counted_by_their_first_words():
    assert error_kind("SyntaxError: invalid syntax (line 3)") == "SyntaxError"
    assert len(error_kind("x" * 300)) <= 40
