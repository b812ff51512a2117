"""What pages name is there: a finding's script with its versions, a bench or the commit that has it, and the functions
of CONTRIBUTING.md's tours, each of which one that the text named before calls."""

from __future__ import annotations

import ast
import re

import pytest
from modules import ROOT, trees

SCRIPTS = sorted((ROOT / "findings").glob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_finding_pins_its_packages_and_is_listed(script):
    text = script.read_text(encoding="utf-8")
    packages = re.findall(r"pip\" install -qq --disable-pip-version-check (.+)", text)[0].split()
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", package) for package in packages)
    versions = ", ".join(package.replace("==", " ") for package in packages)
    listed = (ROOT / "findings" / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [row for row in listed if row.startswith(f"| [{script.stem}]({script.name}) |")]
    assert len(rows) == 1 and f"| {versions} |" in rows[0]


def test_every_row_has_a_script():
    listed = re.findall(r"^\| \[([\w-]+)\]", (ROOT / "findings" / "README.md").read_text(encoding="utf-8"), re.M)
    assert listed == [script.stem for script in SCRIPTS]


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.md")]
FILE = re.compile(r"\bbench/[\w/]+\.(?:py|sh|yaml|npz)\b|\bpython -m (bench\.\w+)")
COMMIT = re.compile(r"\bcommits? [`\[]?[0-9a-f]{7,}", re.I)


def missing(text):
    """The benches that a page names without their file, where neither the line nor the page's head names a commit."""
    head = text.split("\n## ")[0].split("\n\n")[:3]  # the title, and two paragraphs
    known = any(COMMIT.search(paragraph) for paragraph in head)
    for line in text.splitlines():
        for match in FILE.finditer(line):
            file = match[1].replace(".", "/") + ".py" if match[1] else match[0]
            if not (ROOT / file).is_file() and not known and not COMMIT.search(line):
                yield match[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_bench_that_a_page_names_is_there_or_its_commit_is_named(page):
    assert list(missing(page.read_text(encoding="utf-8"))) == []


def test_what_is_missing_is_found():
    gone = "`python -m bench.gone` and bench/gone.py"
    assert list(missing(f"# A page\n\n{gone}, and bench/gpu.sh")) == ["python -m bench.gone", "bench/gone.py"]
    assert list(missing(f"# A page\n\n{gone} (commit 883a8fdc)")) == []
    assert list(missing(f"# A page\n\nBenches of commit 883a8fdc.\n\n## Part\n\n{gone}")) == []
    assert list(missing(f"# A page\n\n## Part\n\nBenches of commit 883a8fdc.\n\n{gone}")) != []


# -- the tours of CONTRIBUTING.md


HELPERS = 4
"""Functions of a hop's own module that may stand between it and the next, at most."""
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TOURS = dict(re.findall(r"^## (.*? in five hops)\n(.*?)(?=^## )", TEXT, re.DOTALL | re.MULTILINE))


def functions_of(tour):
    """(name, path) of each function that the tour names with its place, in order."""
    return re.findall(r"`([\w.]+)`\s+in\s+`([\w/]+\.py)`", TOURS[tour])


def defined(path):
    """The functions of a module, by their names in it."""
    found = {}
    for node in trees()[path].body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        found |= {owner + m.name: m for m in members if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)}
    return found


def names_in(function):
    """What it calls, or hands on to be called: the last part of every name."""
    nodes = list(ast.walk(function))
    return {n.attr for n in nodes if isinstance(n, ast.Attribute)} | {n.id for n in nodes if isinstance(n, ast.Name)}


def reach(name, path):
    """The names in a function, and in those of its module that it calls, HELPERS deep."""
    functions = defined(path)
    found, fresh = set(), {name}
    for _ in range(HELPERS + 1):
        names = set().union(*(names_in(functions[each]) for each in fresh)) - found
        found |= names
        fresh = {each for each in functions if each.rpartition(".")[2] in names}
    return found


def test_there_are_two_tours_of_at_most_five_hops():
    assert len(TOURS) == 2
    for text in TOURS.values():
        assert 2 <= len(re.findall(r"^\d\. ", text, re.MULTILINE)) <= 5


@pytest.mark.parametrize("tour", TOURS)
def test_every_hop_is_called_by_one_before_it(tour):
    functions = functions_of(tour)
    assert len(functions) >= 5
    for number, (name, path) in enumerate(functions):
        assert name in defined(path), (name, path)
        before = set().union(*(reach(*each) for each in functions[:number]))
        assert number == 0 or name.rpartition(".")[2] in before, name
