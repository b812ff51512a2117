"""Taking tests apart, so that the answer's process holds the call and the parent holds the expected value.

`assert CALL == LITERAL` (either way round), `assert CALL`, `assert not CALL` and `assert CALL is None|True|False`
become CallCases. Every other statement that can fail a test becomes a JudgeCase: a function of the judge's code, in
which the names of the answer are proxies (see problems.programs.judge).

A judge sees values, exceptions, changed arguments, functions and iterators of the answer, not its objects: a test that
makes objects of a class, or passes a function of its own to the answer, is refused when it is read.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import math
import sys
from collections.abc import Container, Sequence
from typing import Any, TypeGuard

from problems.programs.cases import CallCase, Case, JudgeCase, Unusable
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
    """Whether it is there to fail a test: it holds an `assert` or a `raise`, calls what asserts (`assert_allclose`,
    `assertEqual`, `pytest.raises`), or names one of `asserting`; and it is no definition."""
    if isinstance(statement, _DEFINITIONS):
        return False
    return any(map(_asserts, ast.walk(statement))) or mentions(statement, asserting)


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _asserts(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert | ast.Raise):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name.startswith("assert") or name in ("raises", "warns", "fail", "failUnless", "failIf")


def asserting_definitions(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """Functions and unittest's test classes among the statements that assert something, or call such a one."""
    defined = [node for node in statements if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    found: set[str] = set()
    while True:
        more = {
            node.name
            for node in defined
            if node.name not in found
            and _may_assert(node)
            and (any(map(_asserts, ast.walk(node))) or mentions(node, found))
        }
        if not more:
            return frozenset(found)
        found |= more


def _may_assert(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) or is_test_class(node)


def is_test_class(node: ast.stmt) -> bool:
    """A class of unittest's kind."""
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("TestCase") for base in node.bases)


def with_test_calls(statements: Sequence[ast.stmt], *, functions: bool) -> list[ast.stmt]:
    """The statements with a call of each test that a runner would find: the methods of unittest's classes and, if
    `functions`, module functions named test_... that nothing calls. Calls of the runner itself are gone."""
    running = [statement for statement in statements if not isinstance(statement, _DEFINITIONS)]
    kept: list[ast.stmt] = []
    for statement in statements:
        if _starts_runner(statement):
            continue
        kept.append(statement)
        if isinstance(statement, ast.ClassDef) and is_test_class(statement):
            methods = [node.name for node in statement.body if isinstance(node, ast.FunctionDef)]
            calls = [f"{statement.name}({name!r}).debug()" for name in methods if name.startswith("test")]
            kept += [_statement(call) for call in calls]
        elif functions and not _is_named(statement, running) and _is_test_function(statement):
            kept.append(_statement(f"{statement.name}()"))
    return kept


def _is_named(definition: ast.stmt, others: Sequence[ast.stmt]) -> bool:
    return isinstance(definition, ast.FunctionDef) and any(mentions(other, {definition.name}) for other in others)


def _is_test_function(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test"):
        return False
    if not any(map(_asserts, ast.walk(node))):
        return False
    if node.args.args or node.decorator_list:
        raise Unusable(f"its test {node.name} has parameters or decorators, and a judge calls it without")
    return True


def _starts_runner(statement: ast.stmt) -> bool:
    source = ast.unparse(statement) if isinstance(statement, ast.Expr) else ""
    return source.startswith(("unittest.main(", "pytest.main("))


def _statement(source: str) -> ast.stmt:
    return parse_source(source).body[0]


def changed_names(statement: ast.stmt, local: frozenset[str]) -> frozenset[str]:
    """Variables of the test that the statement may change: what it binds, what it passes to a call or calls a method
    of, and what it assigns a part of."""
    touched: set[str] = set()
    for node in ast.walk(statement):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Call):
            parts = [node]
        elif isinstance(node, ast.Assign | ast.AugAssign):
            parts = list(node.targets) if isinstance(node, ast.Assign) else [node.target]
        touched |= {inner.id for part in parts for inner in ast.walk(part) if isinstance(inner, ast.Name)}
    return bound_names([statement]) | (frozenset(touched) & local)


def without_assertion(statement: ast.stmt) -> ast.stmt:
    """What the statement does besides asserting."""
    return ast.Expr(statement.test) if isinstance(statement, ast.Assert) else statement


def passes_function(node: ast.AST, entries: frozenset[str], functions: Container[str]) -> bool:
    """Whether one of the test's own functions is an argument of a call of the answer."""
    calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call) and _is_call(inner, entries)]
    given = [part for call in calls for part in (*call.args, *(keyword.value for keyword in call.keywords))]
    called = {id(inner.func) for part in given for inner in ast.walk(part) if isinstance(inner, ast.Call)}
    return any(
        isinstance(inner, ast.Lambda)
        or (isinstance(inner, ast.Name) and inner.id in functions and id(inner) not in called)
        for part in given
        for inner in ast.walk(part)
    )


class InlinedLambdas(ast.NodeTransformer):
    """Names of lambdas in the place where they are used: a call that passes one can then leave its test."""

    def __init__(self, preceding: Sequence[ast.stmt]) -> None:
        self.lambdas = {
            target.id: statement.value
            for statement in preceding
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Lambda)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }

    def visit_Name(self, node: ast.Name) -> ast.expr:
        known = self.lambdas.get(node.id)
        return copy.deepcopy(known) if known is not None and isinstance(node.ctx, ast.Load) else node


def bound_names(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """Names that the statements assign, define or import."""
    bound = set()
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add(node.id)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                bound.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                bound.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return frozenset(bound)


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
    known = exception_classes(code)
    classes = [node for node in _parsed(code) if isinstance(node, ast.ClassDef) and node.name not in known]
    return {c.name for c in classes if not any(ast.unparse(b).endswith(("Error", "Exception")) for b in c.bases)}


def exception_classes(code: str) -> dict[str, str]:
    """Exceptions that a module defines, with the first base of each as it is written, in their order."""
    classes = [node for node in _parsed(code) if isinstance(node, ast.ClassDef) and node.bases]
    found: dict[str, str] = {}
    for node in classes:
        base = ast.unparse(node.bases[0])
        if base in found or (isinstance(kind := getattr(builtins, base, None), type) and issubclass(kind, Exception)):
            found[node.name] = base
    return found


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
