"""The definitions and names in a piece of Python, from its syntax tree: nothing here runs it or looks at its words."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from problems.python_syntax import count_tokens, parse_python, shared_tree

ALLOWANCE = 24_000
"""Tokens of Python that are parsed to read one text, a part counts each time that it is parsed within something else.
Text beyond that has no syntax tree; the answers of a text of some 30 KB stay far below."""

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _Reading:
    """The trees of the text being read: its blocks are parsed more than once."""

    def __init__(self) -> None:
        self.left = ALLOWANCE
        self.trees: dict[str, ast.Module | None] = {}


_READING: ContextVar[_Reading | None] = ContextVar("reading", default=None)


@contextmanager
def limit_parsing() -> Iterator[None]:
    """Within this, `parse_code` works on at most ALLOWANCE tokens, so that no text takes long, however it is made."""
    token = _READING.set(_Reading())
    try:
        yield
    finally:
        _READING.reset(token)


def parse_code(code: str) -> ast.Module | None:
    """Its syntax tree, to be left unchanged, or None (problems.python_syntax, ALLOWANCE)."""
    reading = _READING.get()
    if reading is None:
        return shared_tree(code)
    if code not in reading.trees:
        tokens = count_tokens(code)
        affordable = tokens <= reading.left
        reading.left -= tokens if affordable else 0
        reading.trees[code] = shared_tree(code) if affordable else None
    return reading.trees[code]


def is_program(tree: ast.Module | None) -> bool:
    """Whether it does anything: "Sure" and "x, y" are valid Python too."""
    return tree is not None and any(
        not isinstance(node, ast.Expr) or isinstance(node.value, (ast.Call, ast.Await)) for node in tree.body
    )


def is_placeholder(tree: ast.Module | None) -> bool:
    """Whether it is a layout repeated from a prompt: only comments and `...`, at the top or in every body."""
    return tree is not None and all(_is_dots(node) for node in tree.body)


def _is_dots(node: ast.stmt) -> bool:
    if isinstance(node, DEFINITIONS):
        return all(_is_dots(inner) for inner in node.body)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def defined_names(tree: ast.Module | None) -> set[str]:
    """Functions and classes at the top level."""
    return {node.name for node in tree.body if isinstance(node, DEFINITIONS)} if tree else set()


def bound_names(node: ast.stmt) -> set[str]:
    """The names that a statement at the top level defines, imports or assigns."""
    if isinstance(node, DEFINITIONS):
        return {node.name}
    if isinstance(node, ast.Import):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def read_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name that these nodes read."""
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def called_names(nodes: Iterable[ast.AST]) -> set[str]:
    """The plain names that these nodes call."""
    calls = (part.func for node in nodes for part in ast.walk(node) if isinstance(part, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def first_line(node: ast.stmt) -> int:
    """The line where it begins, decorators included, counted from 0."""
    decorators = getattr(node, "decorator_list", [])
    return int(min([node.lineno, *(decorator.lineno for decorator in decorators)])) - 1


def essence(code: str) -> str:
    """The form in which programs are compared: without docstrings, and without final examples that print or check their
    definitions on literal values. Unchanged if it has none of them or is not valid Python.
    """
    tree = parse_code(code)
    if tree is None:
        return code
    names = defined_names(tree)
    kept = len(tree.body)
    while kept and names and _is_example(tree.body[kept - 1], names):
        kept -= 1
    if kept == len(tree.body) and not any(_docstring(node) for node in ast.walk(tree)):
        return code
    fresh = parse_python(code)  # the other is shared
    assert fresh is not None
    del fresh.body[kept:]
    for node in ast.walk(fresh):
        if _docstring(node):
            node.body[:1] = [] if len(node.body) > 1 or isinstance(node, ast.Module) else [ast.Pass()]  # type: ignore
    try:
        return ast.unparse(ast.fix_missing_locations(fresh))
    except (RecursionError, ValueError):
        return code


def _is_example(node: ast.stmt, names: set[str]) -> bool:
    """`print(f(1, "a"))`, `f(2)`, `assert f(3) == 4`: no names except f and print, so nothing is read or computed."""
    if not isinstance(node, (ast.Expr, ast.Assert)):
        return False
    functions = called_names([node])
    return bool(functions & names) and read_names([node]) <= names | {"print"} and functions <= names | {"print"}


def _docstring(node: ast.AST) -> bool:
    if not isinstance(node, (*DEFINITIONS, ast.Module)) or not node.body:
        return False
    first = node.body[0]
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def without_checks(code: str) -> str:
    """A program without the final assertions that call its definitions.

    A model whose own examples are wrong would fail a right answer. Output is kept: it may be the program's task.
    """
    tree = parse_code(code)
    names = defined_names(tree)
    if tree is None or not names:
        return code
    kept = len(tree.body)
    while kept and isinstance(tree.body[kept - 1], ast.Assert) and called_names([tree.body[kept - 1]]) & names:
        kept -= 1
    if kept == len(tree.body):
        return code
    lines = code.split("\n")
    last = tree.body[kept - 1].end_lineno or 0
    if first_line(tree.body[kept]) < last:
        return code  # on one line with the program
    return "\n".join(lines[:last])
