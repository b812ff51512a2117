"""Taking tests apart, so that the answer's process holds the call and the parent holds the expected value.

`assert CALL == LITERAL` (either way round), `assert CALL`, `assert not CALL` and `assert CALL is None|True|False`
become CallCases. Every other assertion-bearing statement becomes a JudgeCase: a function of the judge's code, in which
the names of the answer are proxies (see problems.programs.judge).

A judge sees values, not objects: a test that relies on the answer changing its argument in place, or on passing it a
function, cannot be posed this way.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Sequence
from typing import Any

from problems.programs.cases import CallCase, Case, JudgeCase

_NOT_LITERAL = object()


def call_case(statement: ast.stmt, names: frozenset[str], public: bool = False) -> CallCase | None:
    """The statement as a call compared in the parent, or None. `names`: functions and classes of the answer."""
    if not isinstance(statement, ast.Assert):
        return None
    test = statement.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        if isinstance(test.ops[0], ast.Eq):
            for call, other in ((left, right), (right, left)):
                expected = _literal(other)
                if _is_call(call, names) and expected is not _NOT_LITERAL:
                    return CallCase(ast.unparse(call), expected, "==", public)
        singleton = isinstance(right, ast.Constant) and (right.value is None or isinstance(right.value, bool))
        if isinstance(test.ops[0], ast.Is) and _is_call(left, names) and singleton:
            return CallCase(ast.unparse(left), ast.literal_eval(right), "is", public)
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and _is_call(test.operand, names):
        return CallCase(ast.unparse(test.operand), None, "false", public)
    if _is_call(test, names):
        return CallCase(ast.unparse(test), None, "true", public)
    return None


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _NOT_LITERAL


def _is_call(node: ast.expr, names: frozenset[str]) -> bool:
    """A call of one of `names`, or of a method of what one of them made."""
    if not isinstance(node, ast.Call):
        return False
    target: ast.expr = node.func
    while isinstance(target, ast.Attribute | ast.Call):
        target = target.value if isinstance(target, ast.Attribute) else target.func
    return isinstance(target, ast.Name) and target.id in names


def bears_assertion(statement: ast.stmt) -> bool:
    """Whether it can fail a test: holds an `assert` or a `raise`, and is no definition."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return any(isinstance(node, ast.Assert) for node in ast.walk(statement))


def is_vacuous(statement: ast.stmt) -> bool:
    """`assert True, "..."`, which some data sets use as a heading."""
    return isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant) and bool(statement.test.value)


def judge_function(name: str, preceding: Sequence[ast.stmt], statement: ast.stmt) -> tuple[JudgeCase, ast.stmt]:
    """The case, and the function of the judge's code that decides it.

    `preceding` statements (assignments, imports) run first, each time: cases do not see one another's state.
    """
    verdict = ast.Return(value=ast.Constant(value=True))
    function = ast.parse(f"def {name}():\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = [*preceding, statement, verdict]
    return JudgeCase(name, ast.unparse(statement)), ast.fix_missing_locations(function)


def called_names(statements: Sequence[ast.stmt]) -> list[str]:
    """Bare names that are called, most frequent first, builtins last."""
    counts: dict[str, int] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                counts[node.func.id] = counts.get(node.func.id, 0) + 1
    return sorted(counts, key=lambda name: (hasattr(builtins, name), -counts[name]))


def defined_names(code: str) -> frozenset[str]:
    """Functions, classes and variables that a module defines at top level; empty where it does not parse."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return frozenset()
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(t.id for t in node.targets if isinstance(t, ast.Name))
    return frozenset(names)


def module_imports(statements: Sequence[ast.stmt], known: frozenset[str]) -> str:
    """`import m` for each standard module that the tests name and nothing defines, as data sets take for granted."""
    used = {node.id for s in statements for node in ast.walk(s) if isinstance(node, ast.Name)}
    missing = sorted((used & sys.stdlib_module_names) - known)
    return "".join(f"import {name}\n" for name in missing)


def signature(code: str, name: str) -> str | None:
    """The line `def name(...):` of a reference solution, or None."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            return f"def {name}({ast.unparse(node.args)}){returns}:"
    return None


def guessed_signature(cases: Sequence[Case], name: str) -> str:
    """A signature with as many parameters as the tests' calls have arguments."""
    arity = 0
    for case in cases:
        source = case.expression if isinstance(case, CallCase) else case.source if isinstance(case, JudgeCase) else ""
        for node in ast.walk(ast.parse(source or "0")):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                arity = max(arity, len(node.args) + len(node.keywords))
    return f"def {name}({', '.join(f'arg{i}' for i in range(1, arity + 1))}):"
