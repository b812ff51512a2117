"""Code out of an answer, and its syntax tree: for text of any origin, bounded in time and memory."""

from __future__ import annotations

import ast
import functools
import gc
import re
import symtable
import threading
import warnings
from collections.abc import Iterable
from typing import Any, Literal, overload

_MOST_CHARACTERS = 200_000
MOST_TOKENS = 24_000
"""Longer code has no tree: some 70 KB as people write it, at most 0.1 s and 60 MB to parse, whatever it holds."""

MOST_SHARED = 8_192
"""Characters of a text whose tree is kept, one of eight; a tree takes some 200 bytes a character."""

# CPython 3.11 counts the depth of a tree under construction once for all threads, and raises a SystemError where the
# garbage collector lets another thread parse meanwhile; catch_warnings is not made for several threads either
_one_at_a_time = threading.Lock()
_NAME = r"[\w\x80-\U0010ffff]++"  # not only ASCII letters: it may hold any character beyond them
_MOST_DOTS = 64

# Possessive: no line is gone through twice
_FENCE = re.compile(r"^[ \t]*+```[ \t]*+([\w+-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+```|\Z)", re.DOTALL | re.MULTILINE)
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*+\n)++")
_SHORT = {"python": ("python", "py", "python3")}
_BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.comprehension, ast.Try, ast.BoolOp, ast.Match)


def code_features(code: str) -> dict[str, float]:
    """Features for an archive's cells: `code_length` in characters and `branching`, the number of branches and
    loops. Both are exact, so an answer always falls into the same cell (a running time would not)."""
    tree = parse_python(code)
    branches = sum(isinstance(node, _BRANCHES) for node in ast.walk(tree)) if tree is not None else 0
    return {"code_length": float(len(code)), "branching": float(branches)}


def count_tokens(code: str) -> int:
    """Roughly how many tokens Python will see, never fewer than there are names, operators and line ends."""
    return len(_token().findall(code))


@overload
def parse_source(text: str, mode: Literal["exec"] = "exec") -> ast.Module: ...
@overload
def parse_source(text: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse_source(text: str, mode: str = "exec") -> Any:
    """Like ast.parse, in one thread at a time, and without its warnings; for trusted text. Raises as ast.parse does.
    All code in this process should parse through these functions."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an invalid escape in a text is not ours to report
        collects = gc.isenabled()
        gc.disable()  # what it ends may print a traceback, for which Python 3.11 parses a line: a SystemError here
        try:
            return ast.parse(text, mode=mode)
        finally:
            if collects:
                gc.enable()


def parse_python(code: str) -> ast.Module | None:
    """The syntax tree; None for invalid Python, too deep nesting, or a text beyond these limits."""
    if len(code) > _MOST_CHARACTERS or (len(code) > MOST_TOKENS and count_tokens(code) > MOST_TOKENS):
        return None
    if code.count(".") >= _MOST_DOTS and _long_dotted_name().search(code):
        return None
    try:
        return parse_source(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.cache
def _token() -> re.Pattern[str]:
    """Compiled at first use, like the next: they take 15 ms, and short code needs neither."""
    return re.compile(rf"{_NAME}|[^\w\s]|\n")


@functools.cache
def _long_dotted_name() -> re.Pattern[str]:
    """CPython joins `a.a.a...` of an import again at every dot, in memory that it keeps: 100 KB of it take 3 s and
    2.7 GB."""
    return re.compile(rf"(?<![\w\x80-\U0010ffff]){_NAME}(?:[ \t\f\\\n]*+\.[ \t\f\\\n]*+{_NAME}){{{_MOST_DOTS}}}")


def shared_tree(code: str) -> ast.Module | None:
    """The result of `parse_python`, not to be modified: an answer is parsed several times on its way from a rollout
    to its score, and the trees of the newest texts that are not long are kept until then. Line ends at the end of a
    text, which differ on its way, make no other tree, unless it ends in an open line."""
    if len(code) > MOST_SHARED:
        return parse_python(code)
    bare = code.rstrip("\n")
    return _kept_tree(code if bare.endswith("\\") else bare)


_kept_tree = functools.lru_cache(maxsize=8)(parse_python)


def defined_names(code: str) -> frozenset[str]:
    """Functions, classes and variables that a module defines at top level; empty if it has no tree."""
    names: set[str] = set()
    tree = parse_python(code)
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(names)


def bound_names(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """Names that the statements and their parts assign, define or import."""
    bound: set[str] = set()
    for node in (inner for statement in statements for inner in ast.walk(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.MatchAs | ast.MatchStar):
            bound.add(node.name or "_")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return frozenset(bound)


def read_globals(text: str) -> frozenset[str]:
    """Names of the module itself that any of its code reads, not those of variables inside functions; for trusted text
    that has a tree. Raises SyntaxError for what no tree shows, as a `return` outside a function."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = [symtable.symtable(text, "<text>", "exec")]
    names = set[str]()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        whole = table.get_type() == "module"
        names.update(
            one.get_name() for one in table.get_symbols() if one.is_referenced() and (whole or one.is_global())
        )
    return frozenset(names)


def strip_fence(answer: str, language: str = "python", wanted: str = "") -> str:
    """The code of an answer: the content of its fence, newlines normalised, no blank lines around it, one newline last.

    Python that parses is taken as it is: a fence in it is part of a string. With several fences, the first that is
    marked with `language` and contains `wanted`; else the first so marked; else the first. A fence that is never closed
    runs to the end. Without a fence, the text itself.
    """
    text = answer.replace("\r\n", "\n").replace("\r", "\n")
    if "```" not in text or (language == "python" and parse_python(text) is not None):
        return _frame(text)
    fences = [(mark.lower(), body) for mark, body in _FENCE.findall(text)]
    if fences:
        marked = [body for mark, body in fences if mark in _SHORT.get(language, (language,))]
        bodies = marked or [body for _, body in fences]
        text = next((body for body in bodies if wanted and wanted in body), bodies[0])
    return _frame(text)


def _frame(text: str) -> str:
    return _BLANK_LINES.sub("", text.rstrip()) + "\n"
