"""The rules of CONTRIBUTING.md that a machine can check."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict

import pytest
from modules import PACKAGES, ROOT, calls_of, find_circles, public_names, yields_within_reads

BUDGETS = {
    "evo": 22_250,
    "evo/plugins": 8_910,
    "vpo": 9_090,
    "islands": 4_940,
    "problems": 9_860,
    "tests": 31_220,
    "bench": 3_900,
}
"""Lines of Python a folder; those of evo are without evo/plugins."""
RESULT_LINES = 2_260
"""Lines of all pages of bench/results. The longer forms are in commit c96219c2."""
SITE_PAGES = 20
"""Markdown files of docs/: guides, tutorial, how it works."""
BY_NAME = {
    # objects that a user or a library made, and that declare nothing
    "problems/shims/": "the scorer of a user",
    "problems/sandbox/child/": "values from a user's code",
    "problems/custom/": "a function of the caller",
    "evo/api/arguments.py": "numbers of numpy",
    "vpo/hf/": "configurations of transformers, which differ by model",
    "vpo/policies/encoding.py": "configurations of transformers",
    "vpo/policies/checkpoint.py": "a private field of transformers",
    "vpo/training/": "models of torch and peft",
    "islands/engine.py": "errors of database drivers",
    "islands/lock.py": "locks that a system may lack",
    # syntax trees, whose nodes have different fields
    "problems/programs/": "syntax trees",
    "vpo/policies/mutation.py": "syntax trees",
    # modules, commands and columns by name, all of them ours
    "evo/__init__.py": "exports that load when used",
    "problems/entry_points.py": "exports that load when used",
    "evo/cli/": "commands that load when used, and a stream's methods",
    "evo/comparison/": "arrays, settings and messages by name",
    "evo/config/": "settings by name",
    "evo/training/": "settings by name",
}
"""Where `getattr` and `hasattr` may stand, and on what. Policies, problems and samplers declare what they can do."""
NAMED_TWICE = {
    **dict.fromkeys(("FAMILY", "generate"), "an object that an entry point names"),
    **dict.fromkeys(("FILE", "describe", "run", "score"), "what a worker of the sandbox calls by name"),
    **dict.fromkeys(("down_revision", "revision", "upgrade"), "what Alembic calls by name"),
}
"""Public names that two modules define, with the reason."""


def test_no_modules_import_each_other_in_a_circle():
    assert [circle for circle in find_circles() if len(circle) > 1] == []


def test_public_names_have_one_module():
    """`main` is the entry of several programs."""
    modules = defaultdict(set)
    for name, path in public_names():
        modules[name].add(path)
    twice = {name: sorted(found) for name, found in modules.items() if len(found) > 1 and name != "main"}
    assert {name: found for name, found in twice.items() if name not in NAMED_TWICE} == {}


def test_attributes_are_asked_by_name_only_where_there_is_a_reason():
    calls = list(calls_of(("getattr", "hasattr")))
    assert [f"{path}:{line}" for path, line in calls if not path.startswith(tuple(BY_NAME))] == []
    unused = [place for place in BY_NAME if not any(path.startswith(place) for path, _ in calls)]
    assert unused == [], "a reason that is no longer needed"


def test_no_generator_holds_a_read_open():
    """Its caller would decide for how long, and read all else as of that moment."""
    assert list(yields_within_reads()) == []


@pytest.mark.parametrize(
    ("imported", "heavy"),
    [
        ("problems", {"numpy", "torch", "yaml", "openevolve", "sqlalchemy", "pydantic"}),
        ("problems.sandbox", {"subprocess", "numpy", "ctypes", "json"}),
        ("vpo.chain, vpo.policies.registry, vpo.policies.scripted", {"torch", "openevolve"}),
    ],
)
def test_an_import_loads_no_heavy_library(imported, heavy):
    code = f"import sys, {imported}; print(sorted({heavy!r} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert run.stdout == "[]\n"


def test_folders_keep_their_budgets():
    """A change that exceeds one says why in the same commit, with the result that pays for it."""
    lines = {folder: 0 for folder in BUDGETS}
    for path in ROOT.rglob("*.py"):
        place = path.relative_to(ROOT).as_posix()
        folder = max((folder for folder in BUDGETS if place.startswith(f"{folder}/")), key=len, default=None)
        if folder is not None:
            lines[folder] += len(path.read_text(encoding="utf-8").splitlines())
    assert {folder: count for folder, count in lines.items() if count > BUDGETS[folder]} == {}


def test_the_pages_of_results_keep_their_budget():
    pages = sorted((ROOT / "bench" / "results").glob("*.md"))
    assert sum(len(page.read_text(encoding="utf-8").splitlines()) for page in pages) <= RESULT_LINES


def test_the_pages_of_the_site_keep_their_budget():
    assert len(list((ROOT / "docs").rglob("*.md"))) <= SITE_PAGES


def test_the_tree_of_contributing_names_every_folder():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = re.search(r"## The tree.*?```text\n(.*?)```", text, re.S)
    assert tree
    named: set[str] = set()
    package = ""
    for line in tree[1].splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            package = name.rstrip("/")
        elif name.endswith("/"):
            named.add(f"{package}/{name.rstrip('/')}")
        else:
            assert (ROOT / package / name).is_file(), f"{package}/{name}"
    folders = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).iterdir()
        if path.is_dir() and any(path.rglob("*.py"))
    }
    assert named == folders
