"""Taking tests apart, so that the answer's process holds the call and the parent holds the expected value.

`assert CALL == LITERAL` (either way round), `assert CALL`, `assert not CALL` and `assert CALL is None|True|False`
become CallCases. Every other assertion-bearing statement becomes a JudgeCase: a function of the judge's code, in which
the names of the answer are proxies (see problems.programs.problem).

A judge sees values, not objects: a test that relies on the answer changing its argument in place, or on passing it a
function, cannot be posed this way. One that makes objects of a class is refused when it is read.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import math
import sys
from collections.abc import Container, Sequence
from typing import Any

from problems.programs.cases import CallCase, Case, JudgeCase
from problems.python_syntax import parse_source

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


def literal_value(node: ast.expr) -> tuple[bool, Any]:
    """Whether the expression is a literal, and its value; infinities count as literals."""
    value = _literal(node)
    return (False, None) if value is _NOT_LITERAL else (True, value)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(_Infinities().visit(copy.deepcopy(node)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _NOT_LITERAL


class _Infinities(ast.NodeTransformer):
    """`inf`, `math.inf` and `float("inf")` as the number, which has no literal."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(math.inf) if node.id == "inf" else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Constant(math.inf) if ast.unparse(node) in ("math.inf", "np.inf", "numpy.inf") else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        with contextlib.suppress(ValueError, TypeError, SyntaxError):
            if ast.unparse(node.func) == "float" and math.isinf(value := float(ast.literal_eval(node.args[0]))):
                return ast.Constant(value)
        return node


def _is_call(node: ast.expr, names: frozenset[str]) -> bool:
    """A call of one of `names`, or of a method of what one of them made."""
    if not isinstance(node, ast.Call):
        return False
    target: ast.expr = node.func
    while isinstance(target, ast.Attribute | ast.Call):
        target = target.value if isinstance(target, ast.Attribute) else target.func
    return isinstance(target, ast.Name) and target.id in names


def bears_assertion(statement: ast.stmt, asserting: Container[str] = ()) -> bool:
    """Whether it can fail a test: holds an `assert` or names one of `asserting`, and is no definition."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return any(isinstance(node, ast.Assert) for node in ast.walk(statement)) or mentions(statement, asserting)


def asserting_functions(code: str) -> frozenset[str]:
    """Functions of a module that assert something."""
    functions = [node for node in _parsed(code) if isinstance(node, ast.FunctionDef)]
    asserts = "assert_allclose", "assert_array_equal", "assert_equal"
    return frozenset(
        function.name
        for function in functions
        if any(
            isinstance(node, ast.Assert) or (isinstance(node, ast.Attribute) and node.attr in asserts)
            for node in ast.walk(function)
        )
    )


def is_vacuous(statement: ast.stmt) -> bool:
    """`assert True, "..."`, which some data sets use as a heading."""
    return isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant) and bool(statement.test.value)


def judge_function(name: str, preceding: Sequence[ast.stmt], statement: ast.stmt) -> tuple[JudgeCase, ast.stmt]:
    """The case, and the function of the judge's code that decides it.

    `preceding` statements (assignments, imports) run first, each time: cases do not see one another's state.
    """
    verdict = ast.Return(value=ast.Constant(value=True))
    function = parse_source(f"def {name}():\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = [*preceding, statement, verdict]
    return JudgeCase(name, ast.unparse(statement)), ast.fix_missing_locations(function)


def object_classes(code: str) -> set[str]:
    """Classes that a module defines, exceptions aside."""
    classes = [node for node in _parsed(code) if isinstance(node, ast.ClassDef)]
    return {c.name for c in classes if not any(ast.unparse(b).endswith(("Error", "Exception")) for b in c.bases)}


def object_makers(code: str, classes: set[str]) -> set[str]:
    """`classes`, and the functions of a module that name one of them or one another."""
    found, before = set(classes), -1
    functions = [node for node in _parsed(code) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    while len(found) > before:
        before = len(found)
        found |= {node.name for node in functions if mentions(node, found)}
    return found


def mentions(node: ast.AST, names: Container[str]) -> bool:
    """Whether one of `names` occurs in it."""
    return any(isinstance(inner, ast.Name) and inner.id in names for inner in ast.walk(node))


def called_names(statements: Sequence[ast.stmt]) -> list[str]:
    """Bare names that are called, most frequent first, builtins last."""
    counts: dict[str, int] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                counts[node.func.id] = counts.get(node.func.id, 0) + 1
    return sorted(counts, key=lambda name: (hasattr(builtins, name), -counts[name]))


def defined_names(code: str) -> frozenset[str]:
    """Functions, classes and variables that a module defines at top level; empty if it does not parse."""
    names: set[str] = set()
    for node in _parsed(code):
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
    for node in (inner for statement in _parsed(code) for inner in ast.walk(statement)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            return f"def {name}({ast.unparse(node.args)}){returns}:"
    return None


def _parsed(code: str) -> list[ast.stmt]:
    try:
        return parse_source(code).body
    except (SyntaxError, ValueError):
        return []


def guess_signature(cases: Sequence[Case], name: str) -> str:
    """A signature with as many parameters as the tests' calls have arguments."""
    arity = 0
    for case in cases:
        source = case.expression if isinstance(case, CallCase) else case.source if isinstance(case, JudgeCase) else ""
        for node in ast.walk(parse_source(source or "0")):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                arity = max(arity, len(node.args) + len(node.keywords))
    return f"def {name}({', '.join(f'arg{i}' for i in range(1, arity + 1))}):"
