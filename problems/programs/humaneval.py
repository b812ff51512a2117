"""The HumanEval shape: `prompt` (a function without its body), `entry_point`, `test` with `check(candidate)`.

Each top-level assertion-bearing statement of `check` is one case; the statements between them are the judge's set-up.
What the file asserts outside of `check` counts as well.
Helpers that the prompt defines before the function are given to the answer and to the judge, as they are when the
data set's own harness appends a completion to the prompt. Its examples are in the docstring, so no case is public.
HumanEval+ of the hub has this shape too, with a loop over pairs (problems.programs.tests).

A file without `entry_point` names the function in the call `check(NAME)` after the definition, or defines it last.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from problems.programs.cases import Case, Task, Unusable
from problems.programs.tests import (
    bound_names,
    data_cases,
    defined_names,
    make_tests,
    mentions,
    with_test_calls,
    without_main_guard,
)
from problems.python_syntax import parse_source
from problems.sandbox.contract import Tests

_CHECK = re.compile(r"^def check\s*\(", re.MULTILINE)


def is_humaneval(row: Mapping[str, Any]) -> bool:
    """Detected from its keys, and by `check` in its test."""
    if not {"prompt", "test"} <= row.keys():
        return False
    test = str(row["test"])
    return _CHECK.search(test) is not None or ("entry_point" in row and "assert" not in test)


def humaneval_task(row: Mapping[str, Any]) -> Task:
    """The task of one line. Raises ValueError with what is wrong with it."""
    prompt = str(row["prompt"]).replace("\r\n", "\n")
    seed = prompt.rstrip() + "\n    pass\n"
    try:
        module = parse_source(str(row["test"]))
    except SyntaxError as error:
        raise ValueError(f"`test` does not parse: {error}") from None
    entry = str(row.get("entry_point") or _entry(module, seed))
    helpers = _before(seed, entry)
    check = next((s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "check"), None)
    if check is None or not check.args.args:
        raise ValueError("`test` defines no check(candidate)")
    body_statements = [s for s in check.body if not isinstance(s, ast.Pass)]
    outside = [s for s in without_main_guard(module.body) if s is not check]
    alone = all(_is_helper(s, entry) or _calls_check(s) for s in outside)
    alias = check.args.args[0].arg
    cases: Sequence[Case] = data_cases(body_statements, [entry], alias) if alone else []
    tests: Tests | None = None
    if not cases:
        statements = [s for s in without_main_guard(module.body) if not _calls_check(s)]
        called = with_test_calls([*statements, *parse_source(f"check({entry})").body], functions=False)
        cases, tests = make_tests(called, [entry], bound_names(parse_source(helpers).body), check)
    if not cases:
        raise ValueError("check(candidate) asserts nothing")
    body = row.get("canonical_solution")
    _refuse_unknown(module, {entry, *bound_names(parse_source(helpers).body), *defined_names(f"{prompt}\n{body}")})
    return Task(
        text=f"Complete this Python function.\n\n```python\n{prompt.rstrip()}\n```",
        seed=seed,
        cases=tuple(cases),
        entry=entry,
        setup=helpers,
        tests=tests,
        reference=f"{prompt.rstrip()}\n{body}" if body else None,
        extra={"id": row.get("task_id")},
    )


def _refuse_unknown(module: ast.Module, defined: set[str]) -> None:
    """Unusable for a test with a name that is neither its own, nor the prompt's, nor the solution's."""
    nodes = list(ast.walk(module))
    known = {*defined, *bound_names(module.body), *vars(builtins), *sys.stdlib_module_names}
    known |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    known |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    if used := [node.id for node in nodes if isinstance(node, ast.Name) and node.id not in known]:
        raise Unusable(f"cannot be judged here: its test names {used[0]}, which nothing defines")


def _entry(module: ast.Module, prompt: str) -> str:
    """The function under test, if no key names it. Raises ValueError."""
    for statement in module.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "check" and isinstance(call.args[0], ast.Name):
            return call.args[0].id
    defined = [s.name for s in _parsed(prompt).body if isinstance(s, ast.FunctionDef)]
    if not defined:
        raise ValueError("no `entry_point`, and `prompt` defines no function")
    return defined[-1]


def _parsed(prompt: str) -> ast.Module:
    try:
        return parse_source(prompt)
    except SyntaxError as error:
        raise ValueError(f"`prompt` is no function header: {error}") from None


def _before(prompt: str, entry: str) -> str:
    """What the prompt defines besides the function itself: imports and helpers."""
    tree = _parsed(prompt)
    if not any(isinstance(s, ast.FunctionDef) and s.name == entry for s in tree.body):
        raise ValueError(f"`prompt` does not define the entry point {entry}")
    kept = [s for s in tree.body if not (isinstance(s, ast.FunctionDef) and s.name == entry)]
    return ast.unparse(ast.Module(kept, []))


def _calls_check(statement: ast.stmt) -> bool:
    return ast.unparse(statement).startswith("check(")


def _is_helper(statement: ast.stmt, entry: str) -> bool:
    """A definition, an import, or a value that does not come from the answer."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
        return True
    return isinstance(statement, ast.Assign | ast.AnnAssign) and not mentions(statement, {entry})
