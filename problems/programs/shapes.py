"""The shapes of published data sets: a row of HumanEval or MBPP as a Task.

HumanEval: `prompt` (a function without its body), `entry_point`, `test` with `check(candidate)`. Each assertion of
`check` is one case. What the file asserts outside of `check` counts as well. Helpers that the prompt defines before the
function are given to the answer, as they are when the data set's own harness appends a completion to the prompt. Its
examples are in the docstring, so no case is public.

MBPP: `text` (or `prompt`), `code`, `test_list`, and set-up as `test_setup_code` or `test_imports`. A file may carry
`test` instead of `test_list`: the same as lines or as one script.
Where both are there `test` is what decides, for it holds more. The first assertion is public: the description alone
leaves the function's name and the form of its result open. The reference `code` lends the signature and nothing else.
`test_setup_code` builds objects of classes that the answer defines, so it runs after the answer, in the answer's own
process.

The forms of a test, for both:

    assert f(x) == LITERAL                          also `is None`, `f(x)` and `not f(x)`; or the literal first
    assert set(f(x)) == set(LITERAL)                and the other functions of _AROUND
    assert abs(f(x) - NUMBER) < NUMBER              also math.isclose(f(x), NUMBER, rel_tol=NUMBER)

The answer's process evaluates the left side and never holds the right one. A test of any other form would have to run
in that process, whose answer could then forge what comes of it, so a row that has one is left out.
"""

from __future__ import annotations

import ast
import builtins
import copy
import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from problems.programs.cases import Case, Task, Unusable, public_examples
from problems.python_syntax import bound_names, defined_names, parse_python, parse_source

_AROUND: Mapping[str, Any] = {
    function.__name__: function for function in (set, frozenset, sorted, list, tuple, int, len, sum, round)
}
"""Functions that may be around a call of the answer, and around a literal."""
_ARITHMETIC: Mapping[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_NOT_LITERAL = object()
_INFINITY = re.compile(r"(?:(?:math|np|numpy)\.)?inf|float\('([+-]?)(?i:inf(?:inity)?)'\)")
_LONGEST = 80
"""Characters of a test in a message."""
_CHECK = re.compile(r"^def check\s*\(", re.MULTILINE)


def is_humaneval(row: Mapping[str, Any]) -> bool:
    """Detected from its keys, and by `check` in its test."""
    if not {"prompt", "test"} <= row.keys():
        return False
    test = str(row["test"])
    return "entry_point" in row and (_CHECK.search(test) is not None or "assert" not in test)


def humaneval_task(row: Mapping[str, Any]) -> Task:
    """The task of one line. Raises ValueError with what is wrong with it."""
    prompt = str(row["prompt"]).replace("\r\n", "\n")
    seed = prompt.rstrip() + "\n    pass\n"
    module = _parsed(str(row["test"]), "`test` does not parse")
    entry = str(row["entry_point"])
    helpers = _before(seed, entry)
    check = next((s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "check"), None)
    if check is None or not check.args.args:
        raise ValueError("`test` defines no check(candidate)")
    outside = [s for s in module.body if s is not check and not calls(s, "check")]
    body = row.get("canonical_solution")
    metadata = [s for s in outside if isinstance(s, ast.Assign) and isinstance(s.value, ast.Dict)]  # as METADATA
    statements = [*(s for s in outside if s not in metadata), *check.body]
    cases = read_cases(statements, [entry], check.args.args[0].arg)
    return Task(
        text=f"Complete this Python function.\n\n```python\n{prompt.rstrip()}\n```",
        seed=seed,
        cases=tuple(cases),
        entry=entry,
        setup=helpers,
        epilogue=_imports(statements, cases),
        reference=f"{prompt.rstrip()}\n{body}" if body else None,
    )


def _imports(statements: Sequence[ast.stmt], cases: Sequence[Case]) -> str:
    """The imports of the tests that their cases use, as lines."""
    sources = [node for case in cases for node in ast.walk(parse_source(case.source, "eval"))]
    used = {node.id for node in sources if isinstance(node, ast.Name)}
    imports = (s for s in statements if isinstance(s, ast.Import | ast.ImportFrom))
    return "\n".join(ast.unparse(s) for s in imports if bound_names([s]) & used)


_HEADER = "`prompt` is no function header"


def _parsed(source: str, fault: str) -> ast.Module:
    """Raises ValueError, which begins with `fault`."""
    try:
        return parse_source(source)
    except SyntaxError as error:
        raise ValueError(f"{fault}: {error}") from None


def _before(prompt: str, entry: str) -> str:
    """What the prompt defines in addition to the function itself: imports and helpers."""
    tree = _parsed(prompt, _HEADER)
    if not any(isinstance(s, ast.FunctionDef) and s.name == entry for s in tree.body):
        raise ValueError(f"`prompt` does not define the entry point {entry}")
    kept = [s for s in tree.body if not (isinstance(s, ast.FunctionDef) and s.name == entry)]
    return ast.unparse(ast.Module(kept, []))


def is_mbpp(row: Mapping[str, Any]) -> bool:
    """Detected from its keys."""
    return ("test_list" in row or "test" in row) and ("text" in row or "prompt" in row)


def mbpp_task(row: Mapping[str, Any]) -> Task:
    """The task of one line. Raises ValueError with what is wrong with it."""
    text = _text(row, "text" if "text" in row else "prompt").strip()
    code = _reference(row, text)
    key = "test" if row.get("test") else "test_list"
    found = _statements(row[key], key)
    setup = "\n".join(_lines(row.get("test_imports") or ()))
    epilogue = _text(row, "test_setup_code").replace("\r\n", "\n").strip() if row.get("test_setup_code") else ""
    called = _called(found, code, setup)
    if not (called or row.get("entry_point")):
        raise Unusable("cannot be judged here: its tests call no function")
    entry = str(row.get("entry_point") or called[0])
    names = list(dict.fromkeys((entry, *called)))
    cases = read_cases(found, names, public=1)
    epilogue = "\n".join(filter(None, (_imports(found, cases), epilogue)))
    header = header_of(code, entry) or guess_header([ast.unparse(s) for s in found], entry)
    listed = _lines(row.get("test_list") or ())
    examples = listed[0].removeprefix("assert ").strip() if key == "test" and listed else ""
    examples = examples or "\n".join(public_examples(cases))
    return Task(
        text=f"{text}\n\nDefine `{header}`\n\nFor example:\n{examples}",
        seed=f"{header}\n        pass\n" if header.startswith("class ") else f"{header}\n    pass\n",
        cases=tuple(cases),
        entry=entry,
        setup=setup,
        epilogue=epilogue,
        reference=code or None,
    )


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    if not isinstance(value, str):
        raise ValueError(f"`{key}` is {type(value).__name__}, not text")
    return value


def _lines(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return value.splitlines()
    if not isinstance(value, list | tuple) or not all(isinstance(line, str) for line in value):
        raise ValueError("`test_list`, `test` and `test_imports` are lists of lines")
    return value


def _reference(row: Mapping[str, Any], prompt: str) -> str:
    """`code`, or `canonical_solution`, which may be a body that goes below the prompt; "" if there is neither."""
    key = "code" if "code" in row else "canonical_solution"
    if not row.get(key):
        return ""
    code = _text(row, key).replace("\r\n", "\n")
    whole = f"{prompt}\n{code}"
    return whole if key != "code" and not defined_names(code) and defined_names(whole) else code


def _statements(tests: object, key: str) -> list[ast.stmt]:
    statements: list[ast.stmt] = []
    for number, test in enumerate([tests] if isinstance(tests, str) else _lines(tests), 1):
        where = f"`{key}`" if isinstance(tests, str) else f"test {number} of `{key}`"
        statements += _parsed(test.strip(), f"{where} does not parse").body
    return statements


def _called(statements: Sequence[ast.stmt], code: str, imports: str) -> list[str]:
    """What the tests call of the answer, most often called first: of what the reference defines (the function, classes
    that the tests build), or without one what nothing else defines."""
    called = called_names(statements)
    if code:
        defined = defined_names(code) - defined_names(imports)
        return [name for name in called if name in defined]
    known = bound_names([*statements, *parse_source(imports).body]) | vars(builtins).keys()
    return [name for name in called if name not in known]


# -- tests as cases ----------------------------------------------------------------------------------------------------


def read_cases(statements: Sequence[ast.stmt], names: Sequence[str], alias: str = "", public: int = 0) -> list[Case]:
    """A case for each test.

    names: functions and classes of the answer; alias: what the tests call the first of them; public: how many of the
        cases a statement shows
    Raises Unusable, which names the first test of another form, or says that there is none.
    """
    cases: list[Case] = []
    for statement in statements:
        test = _renamed(statement, alias, names[0]) if alias else statement
        if _tests_nothing(test):
            continue
        if (case := call_case(test, names)) is None:
            text = " ".join(ast.unparse(statement).split())
            text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
            raise Unusable(
                f"cannot be judged here: `{text}` is test code, not a call and the value that it should return; write "
                "a scorer file for such a problem"
            )
        cases.append(case)
    if not cases:
        raise Unusable("cannot be judged here: its tests assert nothing")
    return [replace(case, public=place < public) for place, case in enumerate(cases)]


def _renamed(statement: ast.stmt, alias: str, name: str) -> ast.stmt:
    changed = copy.deepcopy(statement)
    for node in ast.walk(changed):
        if isinstance(node, ast.Name) and node.id == alias:
            node.id = name
    return changed


def _tests_nothing(statement: ast.stmt) -> bool:
    """An import, a bare name or text, `pass`, and `assert True, "..."`, which some data sets use as a heading."""
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and bool(statement.test.value)
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant | ast.Name)
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass)


def call_case(statement: ast.stmt, names: Sequence[str]) -> Case | None:
    """An assertion as a call whose value is compared in the parent; None for one of another form."""
    if not isinstance(statement, ast.Assert):
        return None
    test = statement.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right, comparison = test.left, test.comparators[0], test.ops[0]
        if isinstance(comparison, ast.Eq):
            for call, other in ((left, right), (right, left)):
                expected = _literal(other)
                if _asks(call, names) and expected is not _NOT_LITERAL:
                    return Case(ast.unparse(call), expected)
        singleton = isinstance(right, ast.Constant) and (right.value is None or isinstance(right.value, bool))
        if isinstance(comparison, ast.Is) and _asks(left, names) and singleton:
            return Case(ast.unparse(left), ast.literal_eval(right), "is")
        if isinstance(comparison, ast.Lt | ast.LtE) and ast.unparse(left).startswith("abs("):
            bound = _number(right)
            if bound is not None and isinstance(comparison, ast.Lt):
                bound = math.nextafter(bound, -math.inf)
            return _difference_case(test, left, names, bound)
        return None
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    if _is_call(test.operand if negated else test, names):  # type: ignore[attr-defined]
        shown = ast.unparse(test)
        # the truth of the value, which need not be plain, is found beside the answer: by syntax, for it may redefine
        # bool
        return Case(shown if negated else f"not not {shown}", True, "true", written=shown)
    return _isclose_case(test, names)


def _difference_case(test: ast.expr, left: ast.expr, names: Sequence[str], bound: float | None) -> Case | None:
    """`abs(f(x) - NUMBER) < BOUND`, whose sides may be exchanged."""
    inner = left.args[0] if isinstance(left, ast.Call) and len(left.args) == 1 else None
    if bound is None or bound < 0 or not (isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub)):
        return None
    for call, other in ((inner.left, inner.right), (inner.right, inner.left)):
        expected = _number(other)
        if _asks(call, names) and expected is not None:
            return Case(ast.unparse(call), expected, "isclose", tolerance=(0.0, bound), whole=ast.unparse(test))
    return None


def _isclose_case(test: ast.expr, names: Sequence[str]) -> Case | None:
    """`math.isclose(f(x), NUMBER, rel_tol=..., abs_tol=...)`."""
    if not (isinstance(test, ast.Call) and ast.unparse(test.func) in ("math.isclose", "isclose")):
        return None
    given = {keyword.arg: _number(keyword.value) for keyword in test.keywords}
    expected = _number(test.args[1]) if len(test.args) == 2 else None
    if expected is None or not _asks(test.args[0], names) or None in given.values() or given.keys() - {*_TOLERANCES}:
        return None
    relative, absolute = (float(given.get(name, default) or 0) for name, default in _TOLERANCES.items())
    if relative < 0 or absolute < 0:
        return None
    return Case(ast.unparse(test.args[0]), expected, "isclose", tolerance=(relative, absolute), whole=ast.unparse(test))


_TOLERANCES = {"rel_tol": 1e-9, "abs_tol": 0.0}
"""Of math.isclose, with its defaults."""


# -- expressions -------------------------------------------------------------------------------------------------------


def _asks(node: ast.expr, names: Sequence[str]) -> bool:
    """A call of the answer, one of _AROUND around it, or an element of what it returns."""
    if isinstance(node, ast.Subscript):
        return _asks(node.value, names) and _literal(node.slice) is not _NOT_LITERAL
    if _is_call(node, names):
        return True
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _AROUND and node.args):
        return False
    others = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
    return _asks(node.args[0], names) and all(_literal(other) is not _NOT_LITERAL for other in others)


def _is_call(node: ast.expr, names: Sequence[str]) -> bool:
    """A call of one of `names`, or of a method of what one of them made."""
    return isinstance(node, ast.Call) and root_name(node.func) in names


def root_name(node: ast.expr) -> str:
    """The name at the bottom of `name`, `name(...).method`, `name.attribute`."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _number(node: ast.expr) -> float | None:
    value = _literal(node)
    return value if isinstance(value, int | float) else None


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(_Folded().visit(copy.deepcopy(node)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, ArithmeticError):
        return _NOT_LITERAL


class _Folded(ast.NodeTransformer):
    """Infinities, sums and products of numbers, and _AROUND literals, as constants: they have no literal."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(math.inf) if node.id == "inf" else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Constant(math.inf) if _INFINITY.fullmatch(ast.unparse(node)) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        sides = [side.value for side in (node.left, node.right) if isinstance(side, ast.Constant)]
        if type(node.op) in _ARITHMETIC and len(sides) == 2 and all(type(side) in (int, float) for side in sides):
            return ast.Constant(_ARITHMETIC[type(node.op)](*sides))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if infinity := _INFINITY.fullmatch(ast.unparse(node)):
            return ast.Constant(-math.inf if infinity[1] == "-" else math.inf)
        if isinstance(node.func, ast.Name) and node.func.id in _AROUND and node.args and not node.keywords:
            values = [ast.literal_eval(self.visit(argument)) for argument in node.args]
            return ast.Constant(_AROUND[node.func.id](*values))
        return node


# -- what the tests and the solution name ------------------------------------------------------------------------------


def calls(statement: ast.stmt, name: str) -> bool:
    """Whether it is a call of `name`."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Call) and root_name(value.func) == name


def called_names(statements: Sequence[ast.stmt]) -> list[str]:
    """Bare names that are called, most frequent first, builtins last."""
    counts: dict[str, int] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                counts[node.func.id] = counts.get(node.func.id, 0) + 1
    return sorted(counts, key=lambda name: (hasattr(builtins, name), -counts[name]))


def header_of(code: str, name: str) -> str | None:
    """The line `def name(...):` of a reference solution, or a class with the lines of its methods; None without it."""
    tree = parse_python(code)
    for node in (inner for statement in (tree.body if tree else ()) for inner in ast.walk(statement)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return _def_line(node)
        if isinstance(node, ast.ClassDef) and node.name == name:
            methods = [_def_line(part) for part in node.body if isinstance(part, ast.FunctionDef)]
            return f"class {name}:\n    " + "\n        pass\n    ".join(methods) if methods else f"class {name}:"
    return None


def _def_line(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}:"


def guess_header(sources: Sequence[str], name: str) -> str:
    """A signature with as many parameters as the tests' calls have arguments."""
    arity = 0
    for source in sources:
        for node in ast.walk(parse_source(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                arity = max(arity, len(node.args) + len(node.keywords))
    return f"def {name}({', '.join(f'arg{i}' for i in range(1, arity + 1))}):"
