"""The shape of LeetCodeDataset: `input_output`, `test` with `check(candidate)`, `entry_point` "Solution().NAME".

The tests are the assertions of `check`: calls with arguments by keyword. Of them the 16 smallest count, none above
8 KiB, as for LiveCodeBench. An assertion about linked lists or trees calls helpers of the file's `prompt`
(`is_same_tree(candidate(root = tree_node([1])), tree_node([1]))`): such a structure leaves the answer's process as
plain values and is compared in the parent. One `Solution` object serves all tests, as in the data set's own harness.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from problems.programs.assertions import call_case, literal_value
from problems.programs.cases import MOST_COMPONENTS, CallCase, Task, Unusable
from problems.programs.livecodebench import LARGEST_TEST
from problems.python_syntax import parse_source

_ENTRY = re.compile(r"Solution\(\)\.([A-Za-z_]\w*)")
_STRUCTURES = {"is_same_list": ("list_node", "_values_of_list"), "is_same_tree": ("tree_node", "_values_of_tree")}
_FLATTEN = """
def _values_of_list(node):
    values = []
    while node is not None:
        values.append(node.val)
        node = node.next
    return values


def _values_of_tree(root):
    values, level = [], [root]
    while level:
        values += [None if node is None else node.val for node in level]
        level = [child for node in level if node is not None for child in (node.left, node.right)]
    while values and values[-1] is None:
        values.pop()
    return values
"""


def is_leetcode(row: Mapping[str, Any]) -> bool:
    """Detected from its keys, and by the form of its entry point."""
    named = _ENTRY.fullmatch(str(row.get("entry_point")))
    return named is not None and {"prompt", "test", "completion"} <= row.keys()


def leetcode_task(row: Mapping[str, Any]) -> Task:
    """The task of one line. Raises ValueError with what is wrong with it."""
    matched = _ENTRY.fullmatch(str(row["entry_point"]))
    assert matched is not None
    name, preamble = matched[1], str(row["prompt"]).replace("\r\n", "\n")
    cases = _smallest(str(row["test"]).replace("\r\n", "\n"), name)
    meta = row.get("meta")
    about: Mapping[str, Any] = meta if isinstance(meta, dict) else row
    told = str(row.get("problem_description") or about.get("question_title") or row.get("query") or "").strip()
    starter = str(row.get("starter_code") or about.get("lang_code") or f"class Solution:\n    def {name}(self, *args):")
    starter = starter.replace("\r\n", "\n").rstrip()
    return Task(
        text=f"{told}\n\nStart from:\n```python\n{starter}\n```",
        seed=f"{starter}\n        pass\n",
        cases=cases,
        entry=name,
        setup=preamble,
        epilogue=f"_entry = Solution().{name} if 'Solution' in globals() else {name}\n{_FLATTEN}",
        names=("Solution", name),
        reference=str(row["completion"]),
        extra={"id": row.get("task_id"), "difficulty": row.get("difficulty") or about.get("difficulty")},
    )


def _smallest(test: str, name: str) -> tuple[CallCase, ...]:
    """The smallest assertions of `check`, in its order, repeats dropped."""
    try:
        module = parse_source(test)
    except SyntaxError as error:
        raise ValueError(f"`test` does not parse: {error}") from None
    check = next((s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "check"), None)
    if check is None or not check.args.args:
        raise ValueError("`test` defines no check(candidate)")
    lines = test.encode().split(b"\n")  # columns count bytes
    sources: dict[str, ast.stmt] = {}
    for statement in check.body:
        sources.setdefault(_source(lines, statement), statement)
    fitting = [source for source in sources if len(source) <= LARGEST_TEST]
    kept = set(sorted(fitting, key=len)[:MOST_COMPONENTS])
    if not kept:
        raise Unusable(f"no test case of at most {LARGEST_TEST} characters")
    parameter = check.args.args[0].arg
    return tuple(_case(sources[source], source, parameter, name) for source in sources if source in kept)


def _source(lines: Sequence[bytes], statement: ast.stmt) -> str:
    """Its text. As ast.get_source_segment, which takes every line apart for every statement."""
    last = (statement.end_lineno or statement.lineno) - 1
    found = [*lines[statement.lineno - 1 : last + 1]]
    found[-1] = found[-1][: statement.end_col_offset]
    found[0] = found[0][statement.col_offset :]
    return b"\n".join(found).decode()


def _case(statement: ast.stmt, source: str, parameter: str, name: str) -> CallCase:
    named = _Named(parameter).visit(statement)
    case = _structure(named) or call_case(named, frozenset({"_entry"}))
    if case is None:
        raise Unusable(f"the test `{source[:120]}` compares no call with a literal")
    call = case.expression
    if call.startswith("_values_of_"):
        call = call.partition("(")[2][:-1]
    return replace(case, call=call.replace("_entry", name, 1))


class _Named(ast.NodeTransformer):
    """The parameter of `check` under the name that the method has beside the answer."""

    def __init__(self, parameter: str) -> None:
        self.parameter = parameter

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name("_entry", node.ctx), node) if node.id == self.parameter else node


def _structure(statement: ast.stmt) -> CallCase | None:
    """`assert is_same_X(CALL, x_node(LIST))` as CALL's values against the list's; None for another assertion."""
    call = statement.test if isinstance(statement, ast.Assert) else None
    if not isinstance(call, ast.Call) or len(call.args) != 2 or ast.unparse(call.func) not in _STRUCTURES:
        return None
    build, flatten = _STRUCTURES[ast.unparse(call.func)]
    wanted = call.args[1]
    if not isinstance(wanted, ast.Call) or ast.unparse(wanted.func) != build or len(wanted.args) != 1:
        return None
    known, values = literal_value(wanted.args[0])
    if not known or not isinstance(values, list):
        return None
    while values and values[-1] is None:
        values.pop()
    source = ast.unparse(call.args[0])
    return CallCase(f"{flatten}({source})", values)
