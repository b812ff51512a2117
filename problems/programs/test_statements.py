"""From a data set's test statements to cases and the judge's code."""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence
from dataclasses import replace

from problems.programs import assertions
from problems.programs.asserted_pairs import pair_case, split_pairs
from problems.programs.cases import Case, JudgeCase, Unusable
from problems.python_syntax import parse_source

_PROXY = "def {name}(*args, **kwargs):\n    return host_call({name!r}, *args, **kwargs)\n"


def cases_of(
    statements: Sequence[ast.stmt],
    names: Sequence[str],
    *,
    helpers: str = "",
    aliases: Sequence[str] = (),
    classes: Container[str] = (),
    public: int = 0,
) -> tuple[tuple[Case, ...], str]:
    """The cases in `statements`, and the judge's code for those that need one ("" where none does).

    names: what the answer defines and the tests call; aliases: further names for the first of them (HumanEval's
    `candidate`); helpers: trusted code that the tests may use; classes: names that make objects, which cannot reach a
    judge; public: how many leading cases the statement shows. Raises Unusable for a test that only an object could pass
    """
    entries = frozenset((*names, *aliases))
    rename = dict.fromkeys(aliases, names[0]) if names else {}
    cases: list[Case] = []
    functions: list[ast.stmt] = []
    preceding: list[ast.stmt] = []
    asserting = assertions.asserting_functions(helpers)
    for statement in split_pairs(statements):
        if assertions.is_vacuous(statement):
            continue
        if not assertions.bears_assertion(statement, asserting):
            preceding.append(statement)
            continue
        shown = len(cases) < public
        # a call that uses variables of the test must be judged where those variables are
        local = _bound_names(preceding)
        call = None
        if not assertions.mentions(statement, local):
            call = assertions.call_case(statement, entries, shown) or pair_case(statement, entries, helpers)
        if call is not None:
            shown = shown and not call.accepts
            cases.append(replace(call, expression=_rename(call.expression, rename), public=shown))
            continue
        if any(assertions.mentions(part, classes) for part in (*preceding, statement)):
            raise Unusable(
                f"the test `{ast.unparse(statement)[:120]}` makes objects of a class, and a judge sees values"
            )
        case, function = assertions.judge_function(f"case_{len(cases) + 1}", preceding, statement)
        cases.append(replace(case, source=_rename(case.source, rename, "exec"), public=shown))
        functions.append(function)
    if not any(isinstance(case, JudgeCase) for case in cases):
        return tuple(cases), ""
    body = "\n\n".join(ast.unparse(f) for f in functions)
    known = assertions.defined_names(helpers) | entries | _bound_names(parse_source(helpers).body)
    imports = assertions.module_imports(functions, known)
    proxies = "\n\n".join(_PROXY.format(name=name) for name in names)
    bound = "".join(f"{alias} = {names[0]}\n" for alias in aliases)
    return tuple(cases), "\n".join(part for part in (imports, helpers, proxies, bound, body) if part)


def _bound_names(statements: Sequence[ast.stmt]) -> frozenset[str]:
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


def _rename(source: str, rename: dict[str, str], mode: str = "eval") -> str:
    if not rename:
        return source
    tree = parse_source(source, mode=mode)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in rename:
            node.id = rename[node.id]
    return ast.unparse(tree)
