"""The tours of CONTRIBUTING.md: every function is where the text says, and one that the text named before calls it."""

import ast
import re

import pytest
from modules import ROOT, trees

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
