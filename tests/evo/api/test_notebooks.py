"""The notebooks of examples/ run from top to bottom, and keep what they promise."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

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
