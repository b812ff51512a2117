"""From a data set's test statements to cases and the judge's code.

Tests in the form of EvalPlus: `inputs`, `results`, and a loop over both that asserts each pair.

    inputs = [[1, 2], [3, 4]]
    results = [3, 7]
    for i, (inp, exp) in enumerate(zip(inputs, results)):
        assertion(candidate(*inp), exp, 0)

Where `assertion` is one that EvalPlus writes, each pair becomes a CallCase, which the parent compares. Any other loop
over pairs becomes a loop per pair, which a judge decides by the file's own assertion. A loop without `results` asks a
function of the file, `assertion(candidate(*inp), ref_func(*inp), 0)`: its value is worked out in the sandbox.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from problems.programs import assertions
from problems.programs.assertions import literal_value, mentions
from problems.programs.cases import CallCase, Case, JudgeCase, Relation, Unusable
from problems.programs.judge import PROXIES
from problems.programs.test_bounds import gives_object, refuse_unjudgeable, stays_together, without_main_guard
from problems.python_syntax import parse_source

_PROXY = "def {name}(*args, **kwargs):\n    return _evo_answer({name!r}, *args, **kwargs)\n"
_PYTEST = """
class pytest:
    class raises:
        def __init__(self, kinds, *call, match=None, **named):
            self.kinds, self.match, self.value = kinds, match, None
            if call:
                with self:
                    call[0](*call[1:], **named)

        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            import re

            if kind is None:
                raise AssertionError(f"DID NOT RAISE {self.kinds}")
            if not issubclass(kind, self.kinds):
                return False
            self.type, self.value = kind, error
            if self.match is not None:
                assert re.search(self.match, str(error)), f"{self.match!r} does not match {str(error)!r}"
            return True

    class approx:
        def __init__(self, expected, rel=1e-6, abs=1e-12, nan_ok=False):
            self.expected, self.rel, self.abs = expected, rel, abs

        def __eq__(self, other):
            return self.near(other, self.expected)

        def near(self, got, wanted):
            import math

            if isinstance(wanted, dict):
                return got.keys() == wanted.keys() and all(self.near(got[key], wanted[key]) for key in wanted)
            if isinstance(wanted, (list, tuple)):
                return len(got) == len(wanted) and all(map(self.near, got, wanted))
            if isinstance(wanted, (int, float)):
                return math.isclose(got, wanted, rel_tol=self.rel, abs_tol=self.abs)
            return got == wanted
"""
"""What tests use of pytest, for a sandbox that has none of it."""


def cases_of(
    statements: Sequence[ast.stmt],
    names: Sequence[str],
    *,
    helpers: str = "",
    setup: str = "",
    aliases: Sequence[str] = (),
    classes: Container[str] = (),
    exceptions: Mapping[str, str] | None = None,
    public: int = 0,
) -> tuple[tuple[Case, ...], str]:
    """The cases in `statements`, and the judge's code for those that need one ("" if none does).

    names: what the answer defines and the tests call; aliases: further names for the first of them (HumanEval's
    `candidate`); helpers: trusted code that the tests may use; setup: the part of it that is there
    beside the answer too; classes: names that make objects, which cannot reach a
    judge; exceptions: that the answer defines, name -> base; public: how many leading cases the statement shows.
    Raises Unusable for a test that only an object or a function of the test's own could pass
    """
    entries = frozenset((*names, *aliases))
    rename = dict.fromkeys(aliases, names[0]) if names else {}
    cases: list[Case] = []
    functions: list[ast.stmt] = []
    preceding: list[ast.stmt] = []
    helping_tree = parse_source(helpers)
    module, relation = helping_tree.body, _relation(helping_tree)
    asserting = assertions.asserting_definitions(module)
    helping = assertions.defined_names(helpers)
    apart = assertions.bound_names(module) - assertions.bound_names(parse_source(setup).body)
    touching = entries | {node.name for node in module if _defines(node, entries)}
    idle = False  # whether a use of the answer has come that no judged case runs
    remaining = split_pairs(assertions.with_test_calls(without_main_guard(statements), functions=False))
    if stays_together(remaining):
        remaining = _as_one(remaining)
    for place, statement in enumerate([*remaining, _END]):
        if assertions.is_vacuous(statement) or (statement is _END and not idle):
            continue
        failing = asserting | assertions.asserting_definitions(preceding)
        if statement is not _END and not assertions.bears_assertion(statement, failing):
            preceding.append(statement)
            if mentions(statement, touching):
                touching |= assertions.bound_names([statement])
                idle = idle or not isinstance(statement, ast.FunctionDef | ast.ClassDef)
            continue
        shown = len(cases) < public
        # a call that uses variables of the test must be judged where those variables are
        local = assertions.bound_names(preceding)
        inlined = statement
        if preceding:
            inlined = ast.fix_missing_locations(assertions.InlinedLambdas(preceding).visit(copy.deepcopy(statement)))
        call = None
        if not mentions(inlined, local):
            beside = None if mentions(inlined, apart) else assertions.call_case(inlined, entries, shown)
            call = beside or pair_case(statement, entries, relation)
        if call is not None:
            shown = shown and not call.accepts
            cases.append(replace(call, expression=_rename(call.expression, rename), public=shown))
            continue
        idle = False
        about = ast.unparse(preceding[-1] if statement is _END else statement)[:120]
        if any(mentions(part, classes) for part in (*preceding, statement)):
            raise Unusable(f"the test `{about}` makes objects of a class, and a judge sees values")
        defined = helping | {part.name for part in preceding if isinstance(part, ast.FunctionDef)}
        objects = {part.name for part in (*module, *preceding) if isinstance(part, ast.ClassDef)}
        parts = (*preceding, inlined)
        if any(assertions.passes_function(part, entries, defined) for part in parts) or gives_object(
            parts, entries, local, objects
        ):
            raise Unusable(f"the test `{about}` passes a function or an object to the answer, and a judge sends values")
        case, function = assertions.judge_function(f"case_{len(cases) + 1}", preceding, statement)
        cases.append(replace(case, source=_rename(case.source, rename, "exec"), public=shown))
        functions.append(function)
        changed = assertions.changed_names(statement, local)
        if any(mentions(later, changed) for later in remaining[place + 1 :]):
            preceding.append(assertions.without_assertion(statement))
    if not any(isinstance(case, JudgeCase) for case in cases):
        return tuple(cases), ""
    return tuple(cases), _judge_code(functions, names, helping_tree, helping, entries, rename, exceptions or {})


_END = ast.Pass()
"""Stands for the end of a test: what uses the answer and is part of no case must run to it."""


def _defines(node: ast.stmt, names: Container[str]) -> TypeGuard[ast.FunctionDef | ast.ClassDef]:
    """Whether it is a definition that uses one of the names."""
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and mentions(node, names)


def _as_one(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements as the body of one function, and its call: a case of its own."""
    define, call = parse_source("def _whole():\n    assert True\n_whole()").body
    assert isinstance(define, ast.FunctionDef)
    define.body += statements
    return [define, call]


def _judge_code(
    functions: Sequence[ast.stmt],
    names: Sequence[str],
    helpers: ast.Module,
    defined: frozenset[str],
    entries: frozenset[str],
    rename: Mapping[str, str],
    exceptions: Mapping[str, str],
) -> str:
    bodies = [statement for function in functions for statement in function.body]  # type: ignore[attr-defined]
    refuse_unjudgeable([*bodies, *helpers.body], entries)
    helping = _without_pytest(helpers)
    body = _without_pytest(ast.Module(list(functions), []))
    known = defined | entries | assertions.bound_names(helping.body) | {"pytest"}
    imports = assertions.module_imports(body.body, known)
    classes = "".join(f"class {name}({base}):\n    pass\n" for name, base in exceptions.items())
    proxies = "\n\n".join(_PROXY.format(name=name) for name in names if name not in exceptions)
    bound = "".join(f"{alias} = {name}\n" for alias, name in rename.items())
    shim = _PYTEST if any(mentions(part, {"pytest"}) for part in (helping, body)) else ""
    parts = (PROXIES, shim, imports, ast.unparse(helping), classes, proxies, bound, ast.unparse(body))
    return "\n".join(part for part in parts if part)


def _without_pytest(module: ast.Module) -> ast.Module:
    """The module with its imports of pytest as names of the substitute. Raises Unusable for what that lacks."""

    class Imports(ast.NodeTransformer):
        def visit_Import(self, node: ast.Import) -> ast.stmt:
            aliases = [alias for alias in node.names if alias.name != "pytest"]
            renamed = [alias.asname for alias in node.names if alias.name == "pytest" and alias.asname]
            if len(aliases) == len(node.names):
                return node
            if renamed:
                return parse_source(f"{renamed[0]} = pytest").body[0]
            return ast.Import(aliases) if aliases else ast.Pass()

        def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
            if node.module != "pytest":
                return node
            known = [f"{alias.asname or alias.name} = pytest.{alias.name}" for alias in node.names]
            for alias in node.names:
                _known_of_pytest(alias.name)
            return parse_source("if True:\n    " + "; ".join(known)).body[0]

        def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
            if isinstance(node.value, ast.Name) and node.value.id == "pytest":
                _known_of_pytest(node.attr)
            return node

    found: ast.Module = Imports().visit(copy.deepcopy(module))
    return ast.fix_missing_locations(found)


def _known_of_pytest(name: str) -> None:
    if name not in ("raises", "approx"):
        raise Unusable(f"a test uses pytest.{name}; of pytest a judge has raises and approx")


def _rename(source: str, rename: dict[str, str], mode: str = "eval") -> str:
    if not rename:
        return source
    tree = parse_source(source, mode=mode)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in rename:
            node.id = rename[node.id]
    return ast.unparse(tree)


_RELATIONS: Mapping[str, Relation] = {
    "exact_match = out == exp": "close",
    "exact_match = set(out) == set(exp)": "set",
}


def split_pairs(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The same statements with each loop over pairs replaced by `for TARGET in [PAIR]: BODY`, one for every pair; the
    lists that nothing else names are gone."""
    lists: dict[str, ast.List] = {}
    split: list[ast.stmt] = []
    for statement in statements:
        if (name := _assigned_list(statement)) is not None:
            lists[name] = statement.value  # type: ignore[attr-defined]
        pairs = _pairs(statement, lists) if isinstance(statement, ast.For) else None
        if pairs is None or not isinstance(statement, ast.For):
            split.append(statement)
            continue
        for pair in pairs:
            made = ast.For(statement.target, ast.List([pair], ast.Load()), statement.body, [])
            split.append(ast.fix_missing_locations(ast.copy_location(made, statement)))
    if len(split) == len(statements):
        return split
    return [s for s in split if _assigned_list(s) is None or _used(_assigned_list(s), s, split)]


def pair_case(statement: ast.stmt, entries: frozenset[str], relation: Relation | None) -> CallCase | None:
    """A loop over one pair that `split_pairs` made, as a call; None if only the file's own assertion can tell.

    relation: what the file's `assertion` asserts, None if it is not one that EvalPlus writes
    """
    if not isinstance(statement, ast.For) or not isinstance(statement.iter, ast.List) or len(statement.body) != 1:
        return None
    call = statement.body[0].value if isinstance(statement.body[0], ast.Expr) else None
    if relation is None or not isinstance(call, ast.Call) or ast.unparse(call.func) != "assertion":
        return None
    bound = _bound(statement.target, statement.iter.elts[0])
    if len(call.args) != 3 or not isinstance(call.args[2], ast.Constant):
        return None
    asked, wanted = _applied(call.args[0], bound), _applied(call.args[1], bound)
    if asked is None or ast.unparse(asked.func) not in entries:
        return None
    known, tolerance = literal_value(call.args[2])
    source = ast.unparse(asked)
    if wanted is not None:
        return CallCase(source, None, relation, tolerance=float(tolerance), accepts=(ast.unparse(wanted),))
    expected = bound.get(ast.unparse(call.args[1]))
    known, value = literal_value(expected) if expected is not None else (False, None)
    return CallCase(source, value, relation, tolerance=float(tolerance)) if known else None


def _assigned_list(statement: ast.stmt) -> str | None:
    """The name in `NAME = [...]`."""
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.List) and len(statement.targets) == 1:
        return ast.unparse(statement.targets[0])
    return None


def _used(name: str | None, assignment: ast.stmt, statements: Sequence[ast.stmt]) -> bool:
    return any(mentions(other, {name or ""}) for other in statements if other is not assignment)


def _pairs(loop: ast.For, lists: Mapping[str, ast.List]) -> list[ast.expr] | None:
    """What the loop's target takes apart, one after another; None for a loop of another form."""
    source, numbered = loop.iter, False
    if isinstance(source, ast.Call) and ast.unparse(source.func) == "enumerate" and len(source.args) == 1:
        source, numbered = source.args[0], True
    zipped = isinstance(source, ast.Call) and ast.unparse(source.func) == "zip"
    names = [ast.unparse(a) for a in source.args] if isinstance(source, ast.Call) and zipped else [ast.unparse(source)]
    if loop.orelse or not (numbered or zipped) or not all(name in lists for name in names):
        return None
    columns = [lists[name].elts for name in names]
    rows: list[ast.expr] = [
        ast.Tuple(list(row), ast.Load()) if zipped else row[0] for row in zip(*columns, strict=False)
    ]
    if numbered:
        rows = [ast.Tuple([ast.Constant(k), row], ast.Load()) for k, row in enumerate(rows)]
    return rows


def _bound(target: ast.expr, value: ast.expr) -> dict[str, ast.expr]:
    """The names of a loop's target with the parts of the written-out pair that they stand for."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return {name: part for t, v in zip(target.elts, value.elts, strict=True) for name, part in _bound(t, v).items()}
    return {ast.unparse(target): value}


def _applied(call: ast.expr, bound: Mapping[str, ast.expr]) -> ast.Call | None:
    """`f(*inp)` with its arguments written out; None for anything else."""
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        return None
    starred = call.args[0]
    given = bound.get(ast.unparse(starred.value)) if isinstance(starred, ast.Starred) else None
    if not isinstance(given, ast.List | ast.Tuple):
        return None
    return ast.Call(call.func, list(given.elts), [])


def _relation(helpers: ast.Module) -> Relation | None:
    """What the file's `assertion` asserts, if it is one that EvalPlus writes."""
    for node in helpers.body:
        if isinstance(node, ast.FunctionDef) and node.name == "assertion":
            assigned = [ast.unparse(inner) for inner in ast.walk(node) if isinstance(inner, ast.Assign)]
            matched = [line for line in assigned if line.startswith("exact_match")]
            return _RELATIONS.get(matched[0]) if len(matched) == 1 else None
    return None
