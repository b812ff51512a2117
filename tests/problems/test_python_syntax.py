"""Parsing from several threads at once, and parsing once what is looked at several times."""

import ast
import gc
import re
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import problems
from problems import python_syntax
from problems.identity import identity, tree_text
from problems.python_syntax import SHARED_CHARACTERS, parse_python, parse_source, shared_tree


def test_threads_may_parse_while_the_garbage_collector_lets_others_run():
    """In CPython 3.11 two trees under construction at once end in a SystemError."""
    code = "def f(n):\n" + "".join(f"    x{i} = [(a + {i}) * n for a in range({i})]\n" for i in range(100))
    raised = []

    def parse():
        for _ in range(10):
            try:
                parse_python(code)
            except SystemError as error:
                raised.append(error)

    def give_way(phase, info):
        time.sleep(0)

    before = gc.get_threshold()
    gc.set_threshold(50)
    gc.callbacks.append(give_way)
    try:
        threads = [threading.Thread(target=parse) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.callbacks.remove(give_way)
        gc.set_threshold(*before)
    assert not raised


def test_a_text_is_parsed_once_for_all_who_leave_its_tree_unchanged(monkeypatch):
    parsed = []
    monkeypatch.setattr(python_syntax, "parse_python", lambda code: parsed.append(code) or parse_python(code))
    code = "def run():\n    return 'parsed once'\n"
    tree = shared_tree(code)
    assert ast.dump(tree) == ast.dump(ast.parse(code))
    assert shared_tree(code) is tree
    assert identity(code, "python") == identity(f"# a comment\n{code}", "python")
    assert parsed == [code.rstrip(), f"# a comment\n{code}".rstrip()]
    assert parse_python(code) is not tree  # for those who change it
    assert shared_tree("def (") is None


def test_trees_that_are_kept_stay_few():
    for i in range(200):
        shared_tree(f"x = {i}\n" + "pass\n" * 200)
        assert sum(map(len, python_syntax._shared)) <= SHARED_CHARACTERS
    long = "pass\n" * SHARED_CHARACTERS
    shared_tree(long)
    assert long not in python_syntax._shared
    newest = f"x = {199}\n" + "pass\n" * 200
    assert newest.rstrip() in python_syntax._shared


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


def test_a_tree_is_written_as_its_dump():
    """Identities that are stored are of what ast.dump wrote, empty lists included."""
    empty = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    package = Path(problems.__file__).parent
    for file in [*package.rglob("*.py"), *Path(ast.__file__).parent.glob("[a-d]*.py")]:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        assert tree_text(tree) == ast.dump(tree, **empty), file
    assert tree_text(ast.parse("x = None, ..., 'a\\udc80', 1e400, b'\\x00', f'{x!r:>{y}}'")).startswith("Module(body=[")
    assert tree_text(ast.Module()) == ast.dump(ast.Module(), **empty)


def test_line_ends_at_the_end_make_no_other_tree(monkeypatch):
    parsed = []
    monkeypatch.setattr(python_syntax, "parse_python", lambda code: parsed.append(code) or parse_python(code))
    one = f"x = {time.monotonic_ns()}\n"
    assert shared_tree(one) is shared_tree(one + "\n\n") is shared_tree(one.rstrip())
    assert len(parsed) == 1
    open_line = one.rstrip() + " \\\n"
    assert shared_tree(open_line) is None and shared_tree(open_line + "\n") is not None
