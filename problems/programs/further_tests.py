"""Tests that a row has besides those of its own shape, under the key `further_tests`; `evo problems fuzz` writes them.

    "further_tests": [{"call": "f([1, 2])", "result": "[2, 1]"}, {"stdin": "1 2\\n", "stdout": "3\\n"}]

`call` is written as a prompt writes it, `result` is a Python literal. They come after the row's own, and whether they
are equal is decided as it is for those.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from problems.programs.assertions import literal_value
from problems.programs.cases import CallCase, Case, StdinCase, Task
from problems.python_syntax import parse_source

KEY = "further_tests"


def with_further_tests(task: Task, row: Mapping[str, Any]) -> Task:
    """The task with the row's further tests, if it has any. Raises ValueError with what is wrong with one."""
    tests = row.get(KEY)
    if not tests:
        return task
    if not isinstance(tests, list):
        raise ValueError(f"`{KEY}` is no list of tests")
    pattern = next((case for case in task.cases if isinstance(case, CallCase)), None)
    try:
        found = [_case(test, number, pattern, task) for number, test in enumerate(tests, 1)]
    except SyntaxError as error:
        raise ValueError(f"a test of `{KEY}` does not parse: {error}") from None
    return replace(task, cases=(*task.cases, *found))


def _case(test: object, number: int, pattern: CallCase | None, task: Task) -> Case:
    match test:
        case {"stdin": str(given), "stdout": str(printed)} if task.stdin:
            return StdinCase(given, printed)
        case {"call": str(call), "result": str(result)} if pattern is not None:
            known, value = literal_value(parse_source(result, mode="eval").body)
            if known:
                relation = "==" if pattern.relation in ("true", "false", "is") else pattern.relation
                expression = expression_of(call, pattern)
                return CallCase(expression, value, relation, call=call, tolerance=pattern.tolerance)
    raise ValueError(f"test {number} of `{KEY}` does not go with the task's own tests")


def expression_of(call: str, pattern: CallCase) -> str:
    """A call as prompts write it, as it is evaluated: as `pattern` writes its own."""
    tree = parse_source(call, mode="eval").body
    if not isinstance(tree, ast.Call):
        raise ValueError(f"{call[:80]!r} is no call")
    whole = parse_source(pattern.expression, mode="eval").body
    inner = pattern_call(whole)
    return ast.unparse(_Replaced(inner, ast.Call(inner.func, tree.args, tree.keywords)).visit(whole))


def pattern_call(whole: ast.expr) -> ast.Call:
    """The call of the answer in a case's expression: itself, or within one that makes plain values of it."""
    if not isinstance(whole, ast.Call):
        raise ValueError("the task's own tests are no calls")
    if ast.unparse(whole.func).startswith("_values_of_") and isinstance(whole.args[0], ast.Call):
        return whole.args[0]
    return whole


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.Call, new: ast.Call) -> None:
        self.old, self.new = old, new

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return self.new if node is self.old else self.generic_visit(node)  # type: ignore[return-value]
