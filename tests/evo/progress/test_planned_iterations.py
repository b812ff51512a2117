"""The iterations that an OpenEvolve directory plans are the ones that every view counts to."""

import json
from pathlib import Path

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


def test_every_view_counts_to_what_the_directory_plans(here, capsys):
    iterations = 101  # more than a search has by itself
    directory("d", iterations)
    directory("few", 9)
    assert evo(capsys, "run", "d", "--policy", "scripted:mutate", "--name", "q", "--plain")[0] == 0
    assert counted(capsys, "q") == (iterations, iterations)
    assert evo(capsys, "report", "q", "-o", "q.html")[0] == 0
    page = Path("q.html").read_text()
    assert "that every search has reached" not in page and f"evo resume q --iterations {2 * iterations}" in page
    arms = ["--arm", "a=scripted:mutate", "--arm", "b=scripted:mutate", "--baseline", "none", "--seeds", "1"]
    assert evo(capsys, "compare", "few", *arms, "--name", "c", "--processes", "1", "--plain")[0] == 0
    shown = json.loads(evo(capsys, "watch", "c", "--once", "--json")[1])
    assert [(arm["iterations"], arm["planned"]) for arm in shown["arms"]] == [(9, 9), (9, 9)]
    assert json.loads(evo(capsys, "show", "c", "--json")[1])["iterations"] == 9


def test_a_run_of_different_directories_goes_on_as_it_was_planned(here, capsys):
    directory("d", 12)
    directory("few", 9)
    run = ("run", "d", "few", "--policy", "scripted:mutate", "--name", "q", "--max-answers", "5", "--plain")
    assert evo(capsys, *run)[0] == 0
    assert counted(capsys, "q") == (5, 21)
    Path("d/config.yaml").write_text("max_iterations: 50\n")
    for more, done in (("--max-answers", "100"), 21), (("--iterations", "14"), 28):
        assert evo(capsys, "resume", "q", *more, "--plain")[0] == 0
        assert counted(capsys, "q") == (done, done)
