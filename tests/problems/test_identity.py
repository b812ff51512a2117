"""Parsing from several threads at once, and parsing once what is looked at several times."""

from __future__ import annotations

import ast
import functools
import gc
import json
import re
import shutil
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import problems
from problems import Problem, Score, python_syntax, resolve
from problems.identity import identity, kept, tree_text
from problems.python_syntax import MOST_SHARED, parse_python, parse_source, shared_tree


def test_threads_may_parse_while_the_garbage_collector_lets_others_run():
    """In CPython 3.11 two trees under construction at once end in a SystemError."""
    code = "def f(n):\n" + "".join(f"    x{i} = [(a + {i}) * n for a in range({i})]\n" for i in range(40))

    def parse(_):
        return [parse_python(code) is not None for _ in range(3)]

    def give_way(phase, info):
        time.sleep(0)

    before = gc.get_threshold()
    gc.set_threshold(50)
    gc.callbacks.append(give_way)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(map(all, threads.map(parse, range(4))))
    finally:
        gc.callbacks.remove(give_way)
        gc.set_threshold(*before)


def test_what_the_garbage_collector_ends_may_parse():
    """As an exception in a finalizer does: its traceback parses the line that raised."""
    code = "def f(n):\n" + "".join(f"    x{i} = [(a + {i}) * n for a in range({i})]\n" for i in range(40))
    before = gc.get_threshold()
    gc.set_threshold(50)
    gc.callbacks.append(parse_a_line)
    try:
        assert parse_python(code) is not None and gc.isenabled()
    finally:
        gc.callbacks.remove(parse_a_line)
        gc.set_threshold(*before)


def parse_a_line(phase, info, depth=5):
    ast.parse("x = 1") if depth == 0 else parse_a_line(phase, info, depth - 1)


def test_a_text_is_parsed_once_for_all_who_leave_its_tree_unchanged(monkeypatch):
    parsed = []
    counted = functools.lru_cache(maxsize=8)(lambda code: parsed.append(code) or parse_python(code))
    monkeypatch.setattr(python_syntax, "_kept_tree", counted)
    code = "def run():\n    return 'parsed once'\n"
    tree = shared_tree(code)
    assert ast.dump(tree) == ast.dump(ast.parse(code))
    assert shared_tree(code) is tree
    assert identity(code, "python") == identity(f"# a comment\n{code}", "python")
    assert parsed == [code.rstrip(), f"# a comment\n{code}".rstrip()]
    assert parse_python(code) is not tree  # for those who change it
    assert shared_tree("def (") is None


def test_trees_that_are_kept_stay_few():
    long = "pass\n" * MOST_SHARED
    assert shared_tree(long) is not shared_tree(long)
    assert python_syntax._kept_tree.cache_info().maxsize * MOST_SHARED <= 1 << 16


def test_nothing_else_in_this_process_parses():
    """Two threads that parse at once can meet in a SystemError (CPython 3.11). A shim is a process of one thread."""
    root = Path(problems.__file__).parents[1]
    files = [file for name in ("problems", "evo", "vpo", "islands") for file in (root / name).rglob("*.py")]
    found = {
        str(file.relative_to(root)) for file in files if re.search(r"\bast\.parse\(", file.read_text(encoding="utf-8"))
    }
    assert found - {"problems/shims/openevolve_evaluator.py"} == {"problems/python_syntax.py"}


def test_what_is_vouched_for_raises_as_ast_does():
    assert isinstance(parse_source("f(1)", mode="eval"), ast.Expression)
    with warnings.catch_warnings(), pytest.raises(SyntaxError):
        warnings.simplefilter("error")
        parse_source("'\\d'\n1 +")


def test_a_tree_is_written_as_stored_identities_are():
    """With empty lists, which ast.dump leaves out since Python 3.13."""
    assert tree_text(ast.parse("f()")).startswith(
        "Module(body=[Expr(value=Call(func=Name(id='f', ctx=Load()), args=[], keywords=[]))]"
    )


def test_line_ends_at_the_end_make_no_other_tree(monkeypatch):
    parsed = []
    counted = functools.lru_cache(maxsize=8)(lambda code: parsed.append(code) or parse_python(code))
    monkeypatch.setattr(python_syntax, "_kept_tree", counted)
    one = f"x = {time.monotonic_ns()}\n"
    assert shared_tree(one) is shared_tree(one + "\n\n") is shared_tree(one.rstrip())
    assert len(parsed) == 1
    open_line = one.rstrip() + " \\\n"
    assert shared_tree(open_line) is None and shared_tree(open_line + "\n") is not None


@pytest.mark.parametrize(
    ("parent", "child", "share"),
    [
        ("RRDD", "RRDD", 1.0),
        ("RRDD", "RRUU", 0.5),
        ("RRDDLL", "RULL", 0.5),  # R at its beginning, LL at its end
        ("RRRR", "RR", 0.5),  # nothing is counted twice
        ("RRDD", "", 0.0),
        ("RRDD", "ULUL", 0.0),
    ],
)
def test_of_a_route_its_beginning_and_its_end(parent, child, share):
    assert sum(kept(parent, child)) == share


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
FOLDERS = {
    "scorer": {"scorer.py": SCORER, "helper.py": "BONUS = 1\n", "table.csv": "1,2\n"},
    "directory": {
        "initial_program.py": "# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n",
        "evaluator.py": EVALUATOR,
        "measures.py": "def size(path):\n    return len(open(path).read())\n",
        "known.json": '{"best": 100}',
        "config.yaml": "max_iterations: 10\nevaluator: {timeout: 20}\n",
    },
    "command": {"problem.yaml": "command: sh score.sh\nfiles: a.txt\n", "a.txt": "1", "score.sh": "wc -c < a.txt\n"},
}


@pytest.fixture
def address(tmp_path):
    """address(KIND): of the folder with these files; of a scorer, the file."""

    def write(kind):
        folder = tmp_path / kind
        folder.mkdir()
        for name, text in FOLDERS[kind].items():
            (folder / name).write_text(text)
        return folder / "scorer.py" if kind == "scorer" else folder

    return write


def fingerprint(address):
    (problem,) = resolve(str(address))
    assert problem.fault is None
    print_ = problem.fingerprint()
    assert len(print_) == 16 and int(print_, 16) >= 0
    return print_


def folder_of(made):
    return made if made.is_dir() else made.parent


@pytest.mark.parametrize("kind", FOLDERS)
def test_neither_a_move_nor_what_a_run_leaves_beside_a_scorer_changes_its_fingerprint(address, tmp_path, kind):
    made = address(kind)
    before, folder = fingerprint(made), folder_of(made)
    shutil.copytree(folder, tmp_path / "elsewhere" / kind)
    assert fingerprint(tmp_path / "elsewhere" / kind / made.relative_to(folder)) == before
    if kind != "command":  # which may read every file
        for name in ("evo.db", "evo.db-wal", "report.html", "best.py", ".hidden.json", "openevolve_output/a.json"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("x")
        assert fingerprint(made) == before


@pytest.mark.parametrize(
    ("kind", "name"), [(k, name) for k, files in FOLDERS.items() for name in files if "yaml" not in name]
)
def test_an_edit_of_what_is_used_changes_it(address, kind, name):
    made = address(kind)
    before, file = fingerprint(made), folder_of(made) / name
    file.write_text(file.read_text() + (" " if file.suffix == ".json" else "# other\n"))
    assert fingerprint(made) != before


def test_of_a_config_only_what_decides_scores_counts(address):
    directory = address("directory")
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


def test_problems_made_in_code_by_their_source():
    class Small(Problem):
        name, objectives = "small", ("length",)

        def __init__(self, text="Write."):
            self.text = text

        def statement(self):
            return self.text

        def score(self, answer):
            return Score((float(len(answer)),), float(len(answer)))

    assert Small().fingerprint() == Small().fingerprint() != Small("Write more.").fingerprint()
