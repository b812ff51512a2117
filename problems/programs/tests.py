"""Tests of a row that are code: split into cases, and marked for the judge beside the answer (sandbox.child.judge).

Rows whose tests are data, each a call with the literal that it should return, are judged apart.
In all others the statements run in their order in one namespace, as Python runs them. Each statement that can fail a
test is a case of its own; one that fails does not end the others. A loop over pairs that are written out, as EvalPlus
of the hub has it, is a case for each pair.
"""

from __future__ import annotations

import ast
import builtins
import copy
import math
import re
import sys
from collections.abc import Container, Mapping, Sequence
from typing import Any

from problems.programs.cases import Case, Unusable
from problems.python_syntax import bound_names, parse_python, parse_source
from problems.sandbox.child.judge import MARK
from problems.sandbox.contract import Tests

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LEAVING = ast.Return | ast.Yield | ast.YieldFrom | ast.Await | ast.Global
_SHOWING = frozenset(
    {"str", "repr", "print", "type", "id", "callable", "hasattr", "getattr", "setattr", "next", "iter", "len", "vars"}
    | {"dir", "super", "locals", "globals", "exec", "eval", "issubclass", "list", "tuple", "enumerate", "zip"}
)
"""Functions that compare nothing, or whose frame must be the test's own."""
_ARRAYS = ("allclose", "isclose", "array_equal", "assert_allclose", "assert_array_almost_equal", "assert_almost_equal")
"""Functions of numpy to which an empty array is like every number."""


def make_tests(
    module: Sequence[ast.stmt],
    names: Sequence[str],
    known: Container[str],
    check: ast.FunctionDef | None = None,
    solution: Container[str] = (),
) -> tuple[list[Case], Tests]:
    """The module with its cases guarded; of `check`, one of its functions, the body is split too.

    names: what the answer defines and the tests call; known: names that the setup defines; solution: names that the
        row's own solution binds
    """
    future = [s for s in module if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    module = [s for s in module if s not in future]
    loaded = {n.id for s in module for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    failing = asserting_definitions(module)
    aliases = {check.args.args[0].arg} if check is not None else set()
    imports = [
        node for statement in module for node in ast.walk(statement) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    shared = {name for s in module for name in targets(s) if name in solution or name not in loaded}
    mark = _Marks({*names, *aliases}, shared, bound_names(imports) - {*names, *aliases})
    marked: list[ast.stmt] = []
    sources: list[str] = []
    for statement in module if check is not None else _split(module):
        if statement is check:
            body = _split(check.body)
            found = _guarded(body, failing | asserting_definitions(body), mark, len(sources))
            sources += found[1]
            whole = copy.copy(check)
            whole.body, whole.decorator_list = found[0] or [ast.Pass()], []
            marked.append(whole)
        elif check is not None and calls(statement, check.name):
            marked.append(statement)
        else:
            found = _guarded([statement], failing, mark, len(sources))
            sources += found[1]
            marked += found[0]
    found_modules = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    found_modules |= {node.module for node in imports if isinstance(node, ast.ImportFrom) and node.module}
    if any(isinstance(node, ast.Attribute) and node.attr == "testing" for s in module for node in ast.walk(s)):
        found_modules |= {f"{name}.testing" for name in found_modules & {"numpy", "pandas"}}  # loaded when asked for
    bound = {*bound_names(module), *names, *aliases}
    used = {node.id for s in module for node in ast.walk(s) if isinstance(node, ast.Name)} - bound
    taken = sorted(name for name in used & sys.stdlib_module_names if name not in known and not hasattr(builtins, name))
    lines = [*future, *(ast.Import([ast.alias(name)]) for name in taken)]  # data sets take them for granted
    tree = ast.fix_missing_locations(ast.Module([*lines, *marked], []))
    modules = (*sorted(found_modules), *taken)
    patches = _patches(module, bound_names([*imports, *lines, *(s for s in module if isinstance(s, ast.ClassDef))]))
    tests = Tests(ast.unparse(tree), len(sources), tuple(names), modules, patches)
    return [Case(source, rule="test") for source in sources], tests


def data_cases(statements: Sequence[ast.stmt], names: Sequence[str], alias: str = "", public: int = 0) -> list[Case]:
    """A case for each statement if all of them are calls that are compared with literals, else []. alias: what the
    tests call the first of `names`, which is what the answer's process calls it."""
    entries = frozenset(names)
    cases: list[Case] = []
    for statement in statements:
        if is_vacuous(statement) or ast.unparse(statement).startswith("from __future__"):
            continue
        case = call_case(_renamed(statement, alias, names) if alias else statement, entries, len(cases) < public)
        if case is None:
            return []
        cases.append(case)
    return cases


def _renamed(statement: ast.stmt, alias: str, names: Sequence[str]) -> ast.stmt:
    changed = copy.deepcopy(statement)
    for node in ast.walk(changed):
        if isinstance(node, ast.Name) and node.id == alias:
            node.id = names[0]
    return changed


def _split(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements, loops over written-out pairs as one for each pair; as one where they leave their function."""
    flat = [s for s in statements if not is_vacuous(s)]
    if not any(isinstance(node, _LEAVING) for s in flat for node in _outside_definitions(s)):
        return split_pairs(flat)
    define = parse_source("def _whole():\n    pass\n").body[0]
    assert isinstance(define, ast.FunctionDef)
    define.body = list(flat)
    return [define, _statement("_whole()")]


def _guarded(
    statements: Sequence[ast.stmt], failing: Container[str], mark: _Marks, first: int
) -> tuple[list[ast.stmt], list[str]]:
    """(the statements, each that can fail a test in a guard, the sources of those), numbered from `first`."""
    marked: list[ast.stmt] = []
    sources: list[str] = []
    for statement in statements:
        if not bears_assertion(statement, failing):
            marked += mark.mark(statement)
            continue
        number = first + len(sources)
        sources.append(ast.unparse(statement))
        guard = parse_source(
            f"if {MARK + 'begin'!r}({number}):\n    try:\n        pass\n    except BaseException as _evo_error:\n"
            f"        {MARK + 'fail'!r}({number}, _evo_error)\n    else:\n        {MARK + 'pass'!r}({number})"
        ).body[0]
        assert isinstance(guard, ast.If) and isinstance(guard.body[0], ast.Try)
        guard.body[0].body = mark.mark(statement)
        marked.append(guard)
    return marked, sources


def _mark(name: str, *arguments: ast.expr, keywords: Sequence[ast.keyword] = ()) -> ast.Call:
    return ast.Call(ast.Constant(MARK + name), list(arguments), list(keywords))


class _Marks(ast.NodeTransformer):
    """Leaves calls of the judge where the tests call the answer, compare, or assert."""

    def __init__(self, names: Container[str], shared: set[str], imported: frozenset[str]) -> None:
        self._names, self._shared, self._imported = names, shared | imported, imported

    def mark(self, statement: ast.stmt) -> list[ast.stmt]:
        """A statement of the module, and what gives the answer the names that it binds."""
        marked = [self.visit(copy.deepcopy(statement))]
        for name in sorted(targets(statement) & self._shared):
            marked.append(ast.Expr(_mark("share", ast.Constant(name), ast.Name(name, ast.Load()))))
        return marked

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        self.generic_visit(node)
        node.decorator_list.insert(0, ast.Constant(MARK + "own"))
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return node  # Python before 3.12 cannot write every expression inside one

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        self.generic_visit(node)
        return ast.Assert(_mark("true", node.test), node.msg)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        mark = "real" if all(isinstance(operation, ast.Is | ast.IsNot) for operation in node.ops) else "seen"
        return ast.Compare(self._seen(node.left, mark), node.ops, [self._seen(part, mark) for part in node.comparators])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return ast.UnaryOp(node.op, self._seen(node.operand)) if isinstance(node.op, ast.Not) else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return ast.BoolOp(node.op, [self._seen(value) for value in node.values])

    def visit_If(self, node: ast.If) -> ast.stmt:
        self.generic_visit(node)
        return ast.If(self._seen(node.test), node.body, node.orelse)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return ast.BinOp(self._seen(node.left, "number"), node.op, self._seen(node.right, "number"))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name | ast.Call | ast.Subscript):
            node.func.value = self._seen(node.func.value, "open")
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "debug" and isinstance(node.func, ast.Attribute) and not node.args:
            return _mark("debug", node.func.value)
        if name == "globals" and not node.args:
            return _mark("globals")
        if _root(node.func) in self._names:
            return _mark("call", node.func, *node.args, keywords=node.keywords)
        if name in ("isinstance", "issubclass") and node.args:
            return ast.Call(node.func, [_mark("kind", node.args[0]), *node.args[1:]], node.keywords)
        if name not in _SHOWING:
            checked = [part if isinstance(part, ast.Starred) else self._seen(part) for part in node.args]
            node = ast.Call(node.func, checked, node.keywords)
        if name in _ARRAYS and isinstance(node.func, ast.Attribute):
            node = _mark("sizes", node.func, *node.args, keywords=node.keywords)
        return _mark("ran", node) if name.startswith("assert") else node

    def _seen(self, node: ast.expr, mark: str = "seen") -> ast.expr:
        plain = ast.Constant | ast.Lambda | ast.GeneratorExp | ast.Compare | ast.JoinedStr
        marked = isinstance(node, ast.Call) and isinstance(node.func, ast.Constant) and node.func.value != MARK + "call"
        if (
            mark != "real"
            and not marked
            and {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} <= self._imported
        ):
            return node  # no value of the answer is in it
        return node if isinstance(node, plain) or marked else _mark(mark, node)


def _root(node: ast.expr) -> str:
    """The name at the bottom of `name`, `name(...).method`, `name.attribute`."""
    while isinstance(node, ast.Attribute | ast.Call):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Constant) and node.args:
            node = node.args[0]  # one that is marked already
        else:
            node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def calls(statement: ast.stmt, name: str) -> bool:
    """Whether it is a call of `name`."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and _root(statement.value.func) == name
    )


def _patches(module: Sequence[ast.stmt], imported: Container[str]) -> bool:
    nodes = [node for statement in module for node in ast.walk(statement)]
    changed = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)]
    stores = any(_root(node) in imported for node in changed)
    words = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
    }
    return stores or bool(words & {"patch", "setattr", "reload", "modules"})


def _outside_definitions(statement: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    pending = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Nonlocal):
            found.append(ast.Return())  # binds its definition to the function that it stands in
        if not isinstance(node, (*_DEFINITIONS, ast.Lambda)):
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


_NOT_LITERAL = object()
_INFINITY = re.compile(r"(?:(?:math|np|numpy)\.)?inf|float\('([+-]?)(?i:inf(?:inity)?)'\)")


def call_case(statement: ast.stmt, names: frozenset[str], public: bool = False) -> Case | None:
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
                    return Case(ast.unparse(call), expected, "==", public)
        singleton = isinstance(right, ast.Constant) and (right.value is None or isinstance(right.value, bool))
        if isinstance(test.ops[0], ast.Is) and _is_call(left, names) and singleton:
            return Case(ast.unparse(left), ast.literal_eval(right), "is", public)
        return None
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    if not _is_call(test.operand if negated else test, names):  # type: ignore[attr-defined]
        return None
    shown = ast.unparse(test)
    # the truth of the value, which need not be plain, is found beside the answer: by syntax, for it may redefine bool
    return Case(shown if negated else f"not not {shown}", True, "true", public, shown)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(_Infinities().visit(copy.deepcopy(node)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _NOT_LITERAL


class _Infinities(ast.NodeTransformer):
    """`inf`, `math.inf` and `float("inf")` as the number, which has no literal."""

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name | ast.Attribute | ast.Call) and (found := _INFINITY.fullmatch(ast.unparse(node))):
            return ast.Constant(-math.inf if found[1] == "-" else math.inf)
        return self.generic_visit(node)


def _is_call(node: ast.expr, names: frozenset[str]) -> bool:
    """A call of one of `names`, or of a method of what one of them made."""
    return isinstance(node, ast.Call) and _root(node.func) in names


def bears_assertion(statement: ast.stmt, asserting: Container[str] = ()) -> bool:
    """Whether it is there to fail a test: it holds an `assert` or a `raise`, calls what asserts (`assert_allclose`,
    `assertEqual`, `pytest.raises`), or names one of `asserting`; and it is no definition."""
    ends = ast.unparse(statement).endswith((".tearDownClass()", ".doClassCleanups()"))
    return not isinstance(statement, _DEFINITIONS) and not ends and _asserts(statement, asserting)


def _asserts(tree: ast.AST, asserting: Container[str] = ()) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert | ast.Raise):
            return True
        function = node.func if isinstance(node, ast.Call) else None
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name.startswith("assert") or name in ("raises", "warns", "fail", "failUnless", "failIf"):
            return True
    return mentions(tree, asserting)


def asserting_definitions(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """Functions and classes of tests among the statements that assert something, or call such a one."""
    classes = [s for s in statements if isinstance(s, ast.ClassDef) and (s.bases or _test_methods(s, {}))]
    defined = [*(s for s in statements if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)), *classes]
    found: frozenset[str] = frozenset()
    while True:
        more = frozenset(node.name for node in defined if _asserts(node, found))
        if more == found:
            return found
        found = more


def with_test_calls(statements: Sequence[ast.stmt], *, functions: bool) -> list[ast.stmt]:
    """The statements with a call of each test that a runner would find: the methods of unittest's classes and, if
    `functions`, what pytest finds: functions named test_... that nothing calls, and those of classes named Test...
    Calls of the runner itself are gone."""
    running = [statement for statement in statements if not isinstance(statement, _DEFINITIONS)]
    classes = {node.name: node for node in statements if isinstance(node, ast.ClassDef)}
    kept: list[ast.stmt] = []
    around = bound_names(statements) & {"setUpModule", "tearDownModule"}
    for statement in statements:
        if isinstance(statement, ast.Expr) and ast.unparse(statement).startswith(("unittest.main(", "pytest.main(")):
            continue
        kept.append(statement)
        name, found = getattr(statement, "name", ""), []
        if isinstance(statement, ast.ClassDef) and _is_test_class(statement, classes):
            methods = [f"{name}({m!r}).debug()" for m in _test_methods(statement, classes)]
            found = [*sorted(around & {"setUpModule"}), *methods, f"{name}.tearDownClass", f"{name}.doClassCleanups"]
            around -= {"setUpModule"}
        elif functions and isinstance(statement, ast.ClassDef) and name.startswith("Test"):
            found = [f"pytest.run({name}, {m!r})" for m in _test_methods(statement, classes)]
        elif functions and isinstance(statement, ast.FunctionDef) and name.startswith("test") and _asserts(statement):
            alone = not (statement.args.args or statement.decorator_list)
            alone |= "patch" in "".join(map(ast.unparse, statement.decorator_list))  # it gives its own arguments
            called = any(mentions(other, {name}) for other in running)
            found = [] if called else [f"{name}()" if alone else f"pytest.run({name})"]
        kept += [_statement(call if call.endswith(")") else f"{call}()") for call in found]
        if any(call.startswith("pytest") for call in found) and isinstance(statement, ast.FunctionDef | ast.ClassDef):
            _refuse_fixtures(statement)
    imported = [_statement("import pytest")] if any(calls(s, "pytest") for s in kept) else []
    return [*imported, *kept, *map(_statement, [f"{name}()" for name in around & {"tearDownModule"}])]


def _refuse_fixtures(test: ast.FunctionDef | ast.ClassDef) -> None:
    """Unusable for a test that needs more of pytest than the judge has (sandbox.child.judge.PYTEST)."""
    known = {"self"}
    for node in (test, *(n for n in ast.walk(test) if isinstance(n, ast.FunctionDef) and n.name.startswith("test"))):
        for decorator in node.decorator_list:
            if not ast.unparse(decorator).startswith("pytest.mark.parametrize("):
                raise Unusable(f"cannot be judged here: {node.name} is decorated by {ast.unparse(decorator)}")
            known |= {w for n in ast.walk(decorator.args[0]) for w in re.findall(r"\w+", str(getattr(n, "value", "")))}  # type: ignore[attr-defined]
        for argument in node.args.args if isinstance(node, ast.FunctionDef) else ():
            if argument.arg not in known:
                raise Unusable(f"cannot be judged here: {node.name} needs the fixture {argument.arg} of pytest")


def _is_test_class(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> bool:
    """A class of unittest's kind, by its bases and theirs."""
    bases = [ast.unparse(base) for base in node.bases]
    found = [classes[base] for base in bases if base in classes and base != node.name]
    return any(base.endswith("TestCase") for base in bases) or any(_is_test_class(base, classes) for base in found)


def _test_methods(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> list[str]:
    """Its own, then those that it inherits from classes of the tests."""
    found = [part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes and base.id != node.name:
            found += _test_methods(classes[base.id], classes)
    return [name for name in dict.fromkeys(found) if name.startswith("test")]


def _statement(source: str) -> ast.stmt:
    return parse_source(source).body[0]


def is_vacuous(statement: ast.stmt) -> bool:
    """`assert True, "..."`, which some data sets use as a heading."""
    return isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant) and bool(statement.test.value)


def targets(statement: ast.stmt) -> frozenset[str]:
    """The names that it assigns or imports."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return bound_names([statement]) - {"*"}
    found = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    assigns = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
    return bound_names(ast.Expr(node) for node in found if node) if assigns else frozenset()


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


def split_pairs(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The same statements with a loop over pairs replaced by `for TARGET in [PAIR]: BODY`, one for every pair, if
    nothing else names a list; the lists that nothing names any more are gone."""
    lists: dict[str, ast.List] = {}
    for statement in statements:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.List) and len(statement.targets) == 1:
            lists[ast.unparse(statement.targets[0])] = statement.value
    users = [s for s in statements if mentions(s, lists) and getattr(s, "value", None) not in lists.values()]
    pairs = _pairs(users[0], lists) if len(users) == 1 and isinstance(users[0], ast.For) else None
    if pairs is None:
        return list(statements)
    split: list[ast.stmt] = []
    for statement in statements:
        if statement is not users[0]:
            split.append(statement)
            continue
        for pair in pairs:
            made = copy.copy(statement)
            made.iter = ast.List([pair], ast.Load())  # type: ignore[attr-defined]
            split.append(ast.fix_missing_locations(made))
    named = {
        node.id for s in split for node in ast.walk(s) if isinstance(node, ast.Name) and type(node.ctx) is ast.Load
    }
    return [s for s in split if getattr(s, "value", None) not in lists.values() or ast.unparse(s.targets[0]) in named]  # type: ignore[attr-defined]


def _pairs(loop: ast.For, lists: Mapping[str, ast.List]) -> list[ast.expr] | None:
    """What the loop's target takes apart, one after another; None for a loop of another form."""
    source, numbered = loop.iter, False
    if isinstance(source, ast.Call) and ast.unparse(source.func) == "enumerate" and len(source.args) == 1:
        source, numbered = source.args[0], True
    zipped = isinstance(source, ast.Call) and ast.unparse(source.func) == "zip"
    names = [ast.unparse(a) for a in source.args] if isinstance(source, ast.Call) and zipped else [ast.unparse(source)]
    ending = any(isinstance(node, ast.Break | ast.Continue) for part in loop.body for node in ast.walk(part))
    if loop.orelse or ending or not (numbered or zipped) or not all(name in lists for name in names):
        return None
    columns = [lists[name].elts for name in names]
    rows: list[ast.expr] = [
        ast.Tuple(list(row), ast.Load()) if zipped else row[0] for row in zip(*columns, strict=False)
    ]
    if numbered:
        rows = [ast.Tuple([ast.Constant(k), row], ast.Load()) for k, row in enumerate(rows)]
    return rows
