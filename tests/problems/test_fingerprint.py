"""Fingerprints: equal wherever a problem lies, other when what decides its scores is edited."""

import json
import shutil

import pytest

from problems import Score, register, resolve
from problems import registry as registry_module

SCORER = """
from pathlib import Path
import helper
readable = ["."]
def score(answer):
    return len(answer) + len(Path(__file__).with_name("table.csv").read_text()) + helper.BONUS
"""
EVALUATOR = """
import json, pathlib
from measures import size
def evaluate(path):
    known = json.loads(pathlib.Path("known.json").read_text())
    return {"combined_score": size(path) / known["best"]}
"""


@pytest.fixture
def scorer(tmp_path):
    folder = tmp_path / "scorer"
    folder.mkdir()
    for name, text in {"scorer.py": SCORER, "helper.py": "BONUS = 1\n", "table.csv": "1,2\n"}.items():
        (folder / name).write_text(text)
    return folder / "scorer.py"


@pytest.fixture
def directory(tmp_path):
    folder = tmp_path / "directory"
    folder.mkdir()
    files = {
        "initial_program.py": "# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n",
        "evaluator.py": EVALUATOR,
        "measures.py": "def size(path):\n    return len(open(path).read())\n",
        "known.json": '{"best": 100}',
        "config.yaml": "max_iterations: 10\nevaluator: {timeout: 20}\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def fingerprint(address):
    (problem,) = resolve(str(address))
    assert problem.fault is None
    print_ = problem.fingerprint()
    assert len(print_) == 16 and int(print_, 16) >= 0
    return print_


def test_a_moved_scorer_keeps_its_fingerprint(scorer, directory, tmp_path):
    for made, entry in ((scorer.parent, "scorer.py"), (directory, "")):
        before = fingerprint(made / entry)
        shutil.copytree(made, tmp_path / "elsewhere" / made.name)
        assert fingerprint(tmp_path / "elsewhere" / made.name / entry) == before


@pytest.mark.parametrize("name", ["scorer.py", "helper.py", "table.csv"])
def test_an_edit_of_what_a_scorer_uses_changes_it(scorer, name):
    before = fingerprint(scorer)
    file = scorer.with_name(name)
    file.write_text(file.read_text() + ("# other\n" if name.endswith("py") else "3,4\n"))
    assert fingerprint(scorer) != before


@pytest.mark.parametrize("name", ["initial_program.py", "evaluator.py", "measures.py", "known.json"])
def test_an_edit_in_an_openevolve_directory_changes_it(directory, name):
    before = fingerprint(directory)
    file = directory / name
    file.write_text(file.read_text() + ("# other\n" if name.endswith("py") else " "))
    assert fingerprint(directory) != before


def test_what_a_run_leaves_beside_its_scorer_changes_nothing(scorer, directory):
    for made in (scorer, directory):
        before = fingerprint(made)
        place = made if made.is_dir() else made.parent
        for name in ("evo.db", "evo.db-wal", "report.html", "best.py", ".hidden.json", "openevolve_output/a.json"):
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text("x")
        assert fingerprint(made) == before


def test_of_a_config_only_what_decides_scores_counts(directory):
    config, before = directory / "config.yaml", fingerprint(directory)
    config.write_text("max_iterations: 99\nevaluator: {timeout: 20}  # a note\n")
    assert fingerprint(directory) == before
    config.write_text("max_iterations: 10\nevaluator: {timeout: 21}\n")
    assert fingerprint(directory) != before


def test_a_data_sets_line_by_its_content(tmp_path):
    rows = [
        {"text": "Add.", "test_list": ["assert add(1, 2) == 3"], "code": "def add(a, b):\n    return a + b"},
        {"text": "Add.", "test_list": ["assert add(1, 2) == 4"], "code": "def add(a, b):\n    return a + b"},
    ]
    (tmp_path / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(row, indent=None, sort_keys=True) + "\n" for row in rows))
    one, two = ([p.fingerprint() for p in resolve(f"programs:{tmp_path / name}.jsonl")] for name in ("one", "two"))
    assert one == two and len(set(one)) == 2


def test_mazes_by_their_boards():
    assert resolve("maze:test/0")[0].fingerprint() == "ee20883c7e71cf0c", "on every machine"
    assert len({problem.fingerprint() for problem in resolve("maze:test", limit=20)}) == 20


def test_problems_made_in_code_by_their_source(monkeypatch):
    monkeypatch.setattr(registry_module, "_registered", {})

    class Small:
        name, objectives = "small", ("length",)

        def __init__(self, text="Write."):
            self.text = text

        def statement(self):
            return self.text

        def score(self, answer):
            return Score((float(len(answer)),), float(len(answer)))

    register("small")(Small)
    small, again, other = resolve("small")[0], resolve("small")[0], resolve("small:Write more.")[0]
    assert small.fingerprint() == again.fingerprint() != other.fingerprint()
