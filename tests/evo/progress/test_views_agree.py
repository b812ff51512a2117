"""One database in which a problem's scorer failed shows the same numbers in every view."""

import json
import re

import pytest
from rich.console import Console

from evo.api.results import load_comparison
from evo.cli import invoke
from evo.progress.model import Progress
from evo.report.page import build_page
from evo.tui.draw import arms, head, verdict
from evo.tui.palette import DARK
from evo.tui.problems import ProblemTable, TableChoice
from evo.ui.databases import RunDatabase
from evo.ui.pages import list_runs, show_runs
from islands.store import Store

ARMS = ("low", "high")


@pytest.fixture
def address(tmp_path, search_with, as_comparison, digits, digits_policy):
    """A comparison `both`: two arms under two seeds, whose first problem fails in one arm only."""
    address, runs = f"sqlite:///{tmp_path / 'runs.db'}", {}
    for number, arm in enumerate(ARMS):
        for seed in (0, 1):
            bad = digits("bad", target=0.9, fault_on=(lambda answer: answer != "00000000") if number else None)
            problems = [bad, digits("good", target=0.7), digits("fine", target=0.99)]
            name = f"run{len(runs)}"
            search_with(problems, digits_policy(low=3 * number), address, name=name, seed=seed, iterations=8)
            runs[name] = (arm, seed)
    as_comparison(address, runs)
    return address


def printed(renderable):
    console = Console(width=150, record=True, quiet=True)
    with console.capture() as captured:
        console.quiet = False
        console.print(renderable)
    return captured.get()


def text_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_a_failed_problem_counts_in_no_view(address, capsys):
    with Store.open(address, read_only=True) as store:
        progress = Progress.open(store, "both")
        snapshot, page = progress.snapshot(), build_page(progress)
    assert [problem.name for problem in progress.comparison.problems] == ["good", "fine"]
    solved = {arm.name: arm.solved for arm in snapshot.arms}
    assert {total for _, total in solved.values()} == {4}, "two problems under two seeds"
    best = {arm.name: arm.mean_best for arm in snapshot.arms}
    lines = [line.text for line in progress.verdicts]
    assert len(lines) == 1

    # the screen: head, arms, verdict, table
    screen = (
        printed(head(snapshot, 150, 0.0, DARK)) + printed(arms(snapshot, 150, DARK)) + printed(verdict(snapshot, DARK))
    )
    assert "2 problems" in screen and "1 left out" in screen and lines[0] in screen
    assert all(f"{won}/{total}" in screen for won, total in solved.values())
    assert ProblemTable().rows(snapshot, TableChoice()) == [0, 1]

    # the table, and JSON
    assert invoke(["show", "both", "--db", address]) == 0
    table = capsys.readouterr().out
    assert "2 problems, 2 seeds" in table and "Left out, its scorer failed: bad" in table and lines[0] in table
    assert invoke(["show", "both", "--db", address, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["problems"] == ["good", "fine"] and shown["failed"] == ["bad"] and shown["verdicts"] == lines
    assert invoke(["watch", "both", "--db", address, "--json", "--once"]) == 0
    watched = json.loads(capsys.readouterr().out)
    assert {arm["name"]: (arm["solved"], arm["with_target"]) for arm in watched["arms"]} == solved
    assert {arm["name"]: arm["mean_best"] for arm in watched["arms"]} == best
    assert (watched["problems"], watched["failed"], watched["verdicts"]) == (2, ["bad"], lines)
    assert invoke(["watch", "both", "--db", address, "--plain"]) == 0
    plain = capsys.readouterr().out
    assert all(f"{name} {won}/{total}" in plain for name, (won, total) in solved.items()) and lines[0] in plain

    # the page, its file, and evo ui
    assert [row[0].text for row in page.problems.rows] == ["good", "fine"] and [
        v.text for v in page.snapshot.verdict
    ] == lines
    assert len(page.details) == 2 and any("Left out, its scorer failed: bad (high)" in one for one in page.remarks)
    cells = dict(zip((column.title for column in page.arms[0].columns), page.arms[0].rows[0], strict=True))
    assert cells["solve rate"].text == f"{shown['arms']['low']['solved']['mean']:.2f}"
    assert cells["mean best"].text == f"{shown['arms']['low']['best']['mean']:.3f}"
    assert invoke(["report", "both", "--db", address, "-o", address.removeprefix("sqlite:///") + ".html"]) == 0
    database = RunDatabase(address)
    try:
        served = show_runs(database, "both").values["page"]
        assert [v.text for v in served.snapshot.verdict] == lines
        assert [[cell.text for cell in row] for row in served.problems.rows] == [
            [cell.text for cell in row] for row in page.problems.rows
        ]
        (row,) = list_runs(database).values["runs"].rows
        assert row[4].text == f"{sum(won for won, _ in solved.values())}/8"
        assert (row[3].text, row[3].note) == (str(snapshot.groups), f"of {snapshot.planned}")
    finally:
        database.close()

    # Python
    result = load_comparison("both", db=address)
    frame = result.frame()
    assert set(frame.problem) == {"good", "fine"} and result.verdicts == lines
    assert {arm: int(frame[frame.arm == arm].solved.sum()) for arm in ARMS} == {
        arm: won for arm, (won, _) in solved.items()
    }
    assert all(frame[frame.arm == arm].best.mean() == pytest.approx(best[arm]) for arm in ARMS)


def test_a_single_run_counts_the_same(tmp_path, search_with, digits, digits_policy, capsys):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    bad = digits("bad", target=0.9, fault_on=lambda answer: answer != "00000000")
    search_with([bad, digits("good", target=0.3)], digits_policy(), address, iterations=4)
    assert invoke(["show", "run", "--db", address]) == 0
    assert "1 of 1 solved, 1 left out" in capsys.readouterr().out
    assert invoke(["runs", "--db", address]) == 0
    assert " 1/1 " in capsys.readouterr().out
    assert invoke(["watch", "run", "--db", address, "--once"]) == 0
    assert "1/1" in capsys.readouterr().out
    assert invoke(["report", "run", "--db", address, "-o", str(tmp_path / "r.html")]) == 0
    assert "target 0.3, reached" in text_of((tmp_path / "r.html").read_text())


def test_without_a_problem_that_counts_there_is_a_line_and_no_error(
    tmp_path, search_with, digits, digits_policy, capsys
):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    bad = digits("bad", target=0.9, fault_on=lambda answer: answer != "00000000")
    search_with([bad], digits_policy(), address, iterations=4)
    with Store.open(address, read_only=True) as store:
        progress = Progress.open(store, "run")
        assert progress.results == {} and progress.summary is None
        assert "Left out, its scorer failed: bad" in build_page(progress).remarks[-1]
    assert invoke(["watch", "run", "--db", address, "--once"]) == 0
    assert "1 left out" in capsys.readouterr().out
