"""The iterations that an OpenEvolve directory plans are the ones that every view counts to."""

import json
from pathlib import Path

import pytest
from support.command_line import evo

from evo.ui.pages import RunPages


def directory(name, iterations):
    Path(name).mkdir()
    block = "# EVOLVE-BLOCK-START\nX = 1.0\n# EVOLVE-BLOCK-END\n"
    Path(name, "initial_program.py").write_text(block)
    Path(name, "evaluator.py").write_text(
        "def evaluate(path):\n"
        "    names = {}\n"
        "    exec(open(path).read(), names)\n"
        "    return {'combined_score': 1 / (1 + abs(names['X'] - 3))}\n"
    )
    Path(name, "config.yaml").write_text(f"max_iterations: {iterations}\n")


def counted(capsys, name):
    """(iterations, planned) of `evo watch --once`, after a look at the other views: all of them say the same."""
    code, out, _ = evo(capsys, "watch", name, "--once", "--json")
    assert code == 0
    shown = json.loads(out)
    done, planned = shown["iterations"], shown["planned"]
    (arm,) = shown["arms"]
    assert (arm["iterations"], arm["planned"]) == (done, planned)
    assert f"{done}/{planned} iterations" in evo(capsys, "watch", name, "--once")[1]
    (row,) = [line for line in evo(capsys, "runs")[1].splitlines() if line.startswith(f"{name} ")]
    assert f" {done} " in row
    assert f"of {planned}" in RunPages("sqlite:///evo.db").page().body.decode()
    return done, planned


@pytest.mark.parametrize("iterations", [12, 130])
def test_every_view_counts_to_what_the_directory_plans(here, capsys, iterations):
    directory("d", iterations)
    assert evo(capsys, "run", "d", "--policy", "scripted:mutate", "--name", "q", "--plain")[0] == 0
    assert counted(capsys, "q") == (iterations, iterations)
    assert evo(capsys, "report", "q", "-o", "q.html")[0] == 0
    page = Path("q.html").read_text()
    assert f"{iterations} iterations of 1 answer planned for each" in page
    assert f"evo resume q --iterations {2 * iterations}" in page
    assert "that every search has reached" not in page


def test_directories_that_plan_different_numbers(here, capsys):
    directory("few", 9)
    directory("more", 14)
    assert evo(capsys, "run", "few", "more", "--policy", "scripted:mutate", "--name", "q", "--plain")[0] == 0
    assert counted(capsys, "q") == (23, 23)


def test_a_run_goes_on_as_it_was_planned(here, capsys):
    directory("d", 12)
    run = ("run", "d", "--policy", "scripted:mutate", "--name", "q", "--max-answers", "5", "--plain")
    assert evo(capsys, *run)[0] == 0
    assert counted(capsys, "q") == (5, 12)
    Path("d/config.yaml").write_text("max_iterations: 50\n")
    assert evo(capsys, "resume", "q", "--max-answers", "100", "--plain")[0] == 0
    assert counted(capsys, "q") == (12, 12)
    assert evo(capsys, "resume", "q", "--iterations", "14", "--plain")[0] == 0
    assert counted(capsys, "q") == (14, 14)


def test_a_comparison_counts_as_a_run_does(here, capsys):
    directory("d", 12)
    arms = ["--arm", "a=scripted:mutate", "--arm", "b=scripted:mutate", "--baseline", "none", "--seeds", "1"]
    assert evo(capsys, "compare", "d", *arms, "--name", "q", "--processes", "1", "--plain")[0] == 0
    shown = json.loads(evo(capsys, "watch", "q", "--once", "--json")[1])
    assert [(arm["iterations"], arm["planned"]) for arm in shown["arms"]] == [(12, 12), (12, 12)]
    assert json.loads(evo(capsys, "show", "q", "--json")[1])["iterations"] == 12
