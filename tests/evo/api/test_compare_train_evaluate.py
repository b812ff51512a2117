"""evo.compare, evo.train, evo.evaluate and the loaders on a few mazes, and the notebooks of examples/."""

import builtins
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from support.rows import yaml_rows

import evo
from islands.errors import UnknownRun

pytestmark = pytest.mark.long

MAZES = {"limit": 2, "iterations": 3, "seeds": 1, "answers": 3, "progress": False}
ARMS = {"random": "scripted:random-route", "mutate": {"policy": "scripted:mutate", "fresh": 0.5}}


def test_a_comparison_has_a_verdict_and_frames_and_is_read_again_resumed_and_reported():
    compared = evo.compare("maze:hard", arms=ARMS, against="random", baselines=[], processes=2, name="pair", **MAZES)
    assert compared.name == "pair" and compared.against == "random"
    assert len(compared.verdicts) == 1 and "mutate - random" in compared.verdict
    frame = compared.frame()
    assert list(frame.arm.unique()) == ["random", "mutate"] and len(frame) == 4
    assert set(frame.iterations) == {3} and set(frame.status) == {"done"}
    curves = compared.curves()
    last = curves.groupby(["arm", "problem"]).best.last()
    assert last.to_dict() == frame.set_index(["arm", "problem"]).best.to_dict()
    candidates = compared.frame(candidates=True)
    assert set(candidates.arm) == {"random", "mutate"} and candidates.fitness.max() == frame.best.max()
    assert evo.load_comparison("pair", against="random") == compared
    assert evo.load_comparison("pair", against="mutate").verdict.startswith(("random - mutate", "no difference shown"))
    longer = evo.resume("pair", iterations=5, processes=1, progress=False)
    assert isinstance(longer, evo.ComparisonResult) and set(longer.frame().iterations) == {5}
    assert longer.report("pair.html").read_text().startswith("<!")
    assert evo.load_run("pair/random/s0").report("run.html").exists()
    with pytest.raises(UnknownRun, match="did you mean pair"):
        evo.load_comparison("pairs")


def test_a_function_of_one_s_own_is_compared_and_resumed(vowels):
    given = {"arms": {"echo": "scripted:echo", "mutate": "scripted:mutate"}, "baselines": "none", "answers": 1}
    given |= {"score": vowels, "seed_answer": "one two", "iterations": 2, "seeds": 1, "progress": False}
    with pytest.raises(ValueError, match="leave out processes"):
        evo.compare(**{**given, "baselines": []}, processes=2)
    found = evo.compare(**{**given, "baselines": []}, name="own")
    assert set(found.frame().problem) == {"score:vowels"} and set(found.frame().arm) == {"echo", "mutate"}
    with pytest.raises(ValueError, match="score=vowels"):
        evo.resume("own", iterations=3, progress=False)
    assert set(evo.resume("own", score=vowels, iterations=3, progress=False).frame().iterations) == {3}


def test_a_policy_is_trained_resumed_and_evaluated(one_thread):
    short = {"prompts": 2, "rollouts": 2, "limit": 10, "evaluate": "maze:test", "evaluate_limit": 2}
    trained = evo.train("vpo", "maze:train", steps=2, output="trained", progress=False, evaluate_answers=6, **short)
    assert trained.outcome == "done" and trained.steps == 2 and trained.policy == "trained"
    assert "best@3" in trained.held_out and list(trained.frame().query("kind == 'step'").step) == [1, 2]
    longer = evo.train(resume=trained, steps=3, progress=False)
    assert longer.steps == 3 and list(longer.frame().query("kind == 'step'").step) == [1, 2, 3]
    with pytest.raises(ValueError, match="--prompts cannot change"):
        evo.train(resume="trained", prompts=4)

    found = evo.evaluate("maze:test", policy=longer, limit=2, answers_total=6, output="own.json", progress=False)
    assert 0 <= found["best@1"] <= found["best@6"] and found["best@6"] == dict(found)["best@6"]
    low, high = found.intervals["best@6"]
    assert low <= found["best@6"] <= high and list(found.frame().problem) == ["maze:test/0", "maze:test/1"]
    same = {"limit": 2, "answers_total": 6, "progress": False}
    rival = evo.evaluate("maze:test", policy="embedded:vpo", against="own.json", **same)
    assert rival.against[0].startswith("against own.json: trained") and rival.record["against"]["policy"] == "trained"


@pytest.mark.parametrize(("function", "given", "settings", "error", "message"), yaml_rows(__file__, "bad arguments"))
def test_arguments_are_checked(function, given, settings, error, message):
    usual = {"arms": ARMS, **MAZES} if function == "compare" else {}
    with pytest.raises(getattr(builtins, error), match=message):
        getattr(evo, function)(*given, **usual | settings)


def test_an_evaluation_leaves_out_a_problem_whose_scorer_fails(digits):
    problems = [digits("good"), digits("bad", fault_on=lambda answer: True)]
    with pytest.warns(evo.ScorerWarning, match="bad is left out: bad: no score"):
        found = evo.evaluate(problems, policy="scripted:mutate", answers=1, answers_total=2, progress=False)
    assert list(found.frame().problem) == ["good"]


EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def executed(own_folder, monkeypatch):
    """executed(name, (written, tested), ...) -> the texts that its cells put out, by cell.

    written, tested: a setting as it stands in the notebook, and a smaller one that proves the same in less time
    """
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(own_folder / "ipython"))

    def execute(name, *smaller):
        notebook = nbformat.read(EXAMPLES / name, as_version=4)
        for written, tested in smaller:
            (cell,) = [one for one in notebook.cells if written in one.source]
            cell.source = cell.source.replace(written, tested)
        assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not stored"
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(own_folder)}}).execute()
        return [[told(output) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]

    return execute


def told(output):
    if output.output_type == "stream":
        return output.text
    return output.data.get("text/html", "") + output.data.get("text/plain", "")


@pytest.mark.long
def test_search_your_own_function(executed):
    smaller = ("iterations=40", "iterations=8"), ("iterations=120", "iterations=16")
    cells = executed("search_your_own_function.ipynb", *smaller)
    text = "\n".join("\n".join(cell) for cell in cells)
    search = "\n".join(cells[2])
    assert "8/8" in search and "run decay" in search  # the progress, then the result
    assert "def f(x)" in text and "reward.close" in text
    assert "16 iterations" in text and "has changed since the search" in text


@pytest.mark.long
def test_compare_and_train(executed, own_folder):
    cells = executed("compare_and_train.ipynb", ("limit=3", "limit=2"), ("iterations=6", "iterations=2"))
    text = "\n".join("\n".join(cell) for cell in cells)
    assert "vpo - grpo" in text and "12/12" in "\n".join(cells[1])
    assert (own_folder / "mazes.html").exists() and (own_folder / "trained" / "config.json").exists()
    assert "2 steps of vpo" in text and "trained here" in text
