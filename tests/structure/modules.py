"""The modules of the packages as text and as an import graph, for the checks of this folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp

from problems.python_syntax import parse_source

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("problems", "vpo", "islands", "evo")


@cache
def trees() -> dict[str, ast.Module]:
    """The syntax tree of every module, by its path from the root."""
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    return {file.relative_to(ROOT).as_posix(): parse_source(file.read_text(encoding="utf-8")) for file in files}


def find_circles() -> list[list[str]]:
    """Sets of modules that import each other, whether at their head, inside functions or for types only."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    reached = {module: _reach(module, imports) for module in imports}
    circles = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in imports
        if module in reached[module]
    }
    return sorted(sorted(circle) for circle in circles)


def _reach(start: str, imports: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(imports[start])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += imports[module]
    return seen


def calls_of(names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """(path, line) of every call of one of these built-in functions."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                yield path, node.lineno


def public_names() -> Iterator[tuple[str, str]]:
    """(name, path) of every function, class and constant that the top of a module defines, without those with a leading
    underscore."""
    for path, tree in trees().items():
        for node in tree.body:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names = [name]
                case ast.Assign(targets=targets):
                    names = [target.id for target in targets if isinstance(target, ast.Name)]
                case ast.AnnAssign(target=ast.Name(id=name)):
                    names = [name]
                case _:
                    continue
            yield from ((name, path) for name in names if not name.startswith("_"))


def yields_within_reads() -> Iterator[tuple[str, int]]:
    """(path, line) of every `yield` in a block `with STORE.read()`."""
    for path, tree in trees().items():
        for block in (node for node in ast.walk(tree) if isinstance(node, ast.With)):
            opened = [item.context_expr for item in block.items if isinstance(item.context_expr, ast.Call)]
            if any(isinstance(call.func, ast.Attribute) and call.func.attr == "read" for call in opened):
                inner = (node for line in block.body for node in ast.walk(line))
                yield from ((path, node.lineno) for node in inner if isinstance(node, ast.Yield | ast.YieldFrom))
