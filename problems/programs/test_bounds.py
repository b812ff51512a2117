"""What a judge in another process can decide: statements that must stay together, and tests that are refused."""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence

from problems.programs.cases import Unusable

_LEAVING = ast.Return | ast.Yield | ast.YieldFrom | ast.Await | ast.Global | ast.Nonlocal
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
_EXECUTING = frozenset({"eval", "exec", "compile", "__import__", "import_module", "pickle", "marshal", "dill"})
_INSIDE = frozenset(
    {"monkeypatch", "patch", "getsource", "getsourcelines", "__code__", "__globals__", "__closure__", "settrace"}
)
"""Names of what changes or inspects the process that an answer runs in, which is not the test's."""


def stays_together(statements: Sequence[ast.stmt]) -> bool:
    """Whether the statements leave their function early or change names outside of it, so that they do not split."""
    return any(isinstance(node, _LEAVING) for statement in statements for node in _outside_definitions(statement))


def _outside_definitions(statement: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    pending = [statement]
    while pending:
        node = pending.pop()
        if not isinstance(node, _DEFINITIONS):
            found.append(node)
            pending += ast.iter_child_nodes(node)
    return found


def without_main_guard(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements, those of `if __name__ == "__main__":` in its place."""
    flat: list[ast.stmt] = []
    for statement in statements:
        guarded = isinstance(statement, ast.If) and ast.unparse(statement.test).startswith("__name__ ==")
        flat += without_main_guard(statement.body) if guarded else [statement]  # type: ignore[attr-defined]
    return flat


def refuse_unjudgeable(statements: Sequence[ast.stmt], entries: Container[str]) -> None:
    """Raises Unusable for a test that cannot be judged from another process, with what it does."""
    for statement in statements:
        for node in ast.walk(statement):
            if what := _unjudgeable(node, entries):
                raise Unusable(f"the test `{' '.join(ast.unparse(statement).split())[:120]}` {what}")


def _unjudgeable(node: ast.AST, entries: Container[str]) -> str:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if name in _EXECUTING and not (isinstance(node, ast.Attribute) and name == "compile"):
        return f"uses {name}: it would execute what an answer returns"
    if name in _INSIDE or (isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdin", "sys.modules")):
        return f"uses {name}: it reaches into the process of the answer"
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "builtins":
        return "changes a builtin, which the answer would not see"
    if isinstance(node, ast.With | ast.AsyncWith) and any(_calls(item.context_expr, entries) for item in node.items):
        return "uses an object of the answer as a context manager, and a judge sees values"
    if isinstance(node, ast.AsyncFor) and _calls(node.iter, entries):
        return "iterates over an asynchronous generator of the answer, and a judge sees values"
    return ""


def _calls(node: ast.expr, entries: Container[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in entries


def gives_object(
    statements: Sequence[ast.stmt], entries: Container[str], local: Container[str], classes: Container[str]
) -> bool:
    """Whether a call of the answer has an argument that no message can carry: a bound method of the test's, an
    iterator, or an instance of one of the test's classes; written out, or by a name that is bound to it."""
    held = {
        target.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Assign) and _is_object(node.value, local, classes)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(call, ast.Call) and _calls(call, entries):
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            if any(
                _is_object(part, local, classes) or (isinstance(part, ast.Name) and part.id in held) for part in given
            ):
                return True
    return False


_ITERATORS = ("iter", "map", "filter", "zip", "reversed", "open", "enumerate")


def _is_object(part: ast.expr, local: Container[str], classes: Container[str]) -> bool:
    if isinstance(part, ast.Attribute):
        return isinstance(part.value, ast.Name) and part.value.id in local
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
        return part.func.id in classes or part.func.id in _ITERATORS
    return isinstance(part, ast.GeneratorExp)
