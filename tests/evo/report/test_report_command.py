"""`evo report` on the command line: what it writes, and one line for what cannot be done."""

import json
import sys
from types import SimpleNamespace

import pytest

from evo.cli import invoke
from islands.store import Store


@pytest.mark.long
def test_it_writes_the_page_and_its_plots(made, tmp_path, capsys):
    page = tmp_path / "out.html"
    assert invoke(["report", "made-up/base/s0", "--db", made, "-o", str(page), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["page"] == str(page) and told["bytes"] == page.stat().st_size
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    plots = sorted((tmp_path / "out_plots").iterdir())
    assert sorted(told["plots"]) == [str(path) for path in plots] and len(plots) > 8
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in plots)
    assert {path.name for path in tmp_path.iterdir()} == {"out.html", "out_plots"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "has no run named nothing"),
        (["made-up", "--against", "nobody"], "has no arm nobody; it has base, best-of-n, grpo"),
        (["made-up", "-o", "{tmp}/no/such/report.html"], "there is no directory"),
        (["made-up", "-o", "{tmp}"], "is a directory"),
        (["made-up", "-o", "{tmp}/r.html", "--png", "{tmp}/no/such"], "--png {tmp}/no/such: there is no directory"),
        (["made-up", "-o", "{tmp}/r.html", "--png", "{tmp}/file"], "is a file"),
    ],
)
def test_bad_input_is_one_line(made, tmp_path, capsys, arguments, said):
    (tmp_path / "file").write_text("mine")
    arguments = [argument.format(tmp=tmp_path) for argument in arguments]
    assert invoke(["report", *arguments, "--db", made]) == 2
    errors = capsys.readouterr().err
    assert said.format(tmp=tmp_path) in errors and errors.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_database_that_is_not_there(tmp_path, capsys):
    assert invoke(["report", "x", "--db", f"sqlite:///{tmp_path / 'none.db'}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_with_nothing_in_it_yet(tmp_path, capsys):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    with Store.open(address) as store:
        config = {"policy": "p", "rollouts": 1, "answers": 3, "iterations": 5}
        run = store.create_run("new", config, command="", seed=0, commit="")
        page = tmp_path / "r.html"
        assert invoke(["report", "new", "--db", address, "-o", str(page)]) == 2
        assert "new has nothing to report yet: no iteration is committed" in capsys.readouterr().err
        store.add_problem(run.id, 0, "a", "a", ["x"], 1.0, "text")
        assert invoke(["report", "new", "--db", address, "-o", str(page)]) == 2
    assert not page.exists()


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_a_missing_library_is_named_with_its_extra(made, tmp_path, capsys, monkeypatch, library):
    for name in [name for name in sys.modules if name.startswith("evo.report")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    assert invoke(["report", "made-up", "--db", made, "-o", str(tmp_path / "r.html")]) == 2
    assert capsys.readouterr().err == f"evo: a report needs {library}: pip install {library}\n"


def test_a_page_that_cannot_be_finished_leaves_the_old_one(made, tmp_path, capsys, monkeypatch):
    from evo.report import files as writing
    from evo.report import page as pages
    from evo.report import report

    plot = SimpleNamespace(name="best", png=b"")
    monkeypatch.setattr(report, "report_of", lambda *_: SimpleNamespace(plots=[plot]))
    monkeypatch.setattr(pages, "page_of", lambda _: "a new one")
    page = tmp_path / "r.html"
    page.write_text("the old one")

    def full(path, content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(writing.Path, "write_bytes", full)
    assert invoke(["report", "made-up/base/s0", "--db", made, "-o", str(page)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert page.read_text() == "the old one" and list(tmp_path.iterdir()) == [page]
