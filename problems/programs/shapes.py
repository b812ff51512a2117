"""The shapes of published data sets: a row of HumanEval or MBPP as a Task.

HumanEval: `prompt` (a function without its body), `entry_point`, `test` with `check(candidate)`. Each assertion of
`check` is one case (problems.programs.tests). What the file asserts outside of `check` counts as well. Helpers that the
prompt defines before the function are given to the answer, as they are when the data set's own harness appends a
completion to the prompt. Its examples are in the docstring, so no case is public. HumanEval+ of the hub has this shape
too, with a loop over pairs. A file without `entry_point` names the function in the call `check(NAME)` after the
definition, or defines it last.

MBPP: `text` (or `prompt`), `code`, `test_list`, and set-up as `test_setup_code` or `test_imports`. A file may carry
`test` instead of `test_list`: the same as lines or as one script, in which MBPP+ of the hub has a loop over pairs.
Where both are there `test` is what decides, for it holds more. The first assertion is public: the description alone
leaves the function's name and the form of its result open. The reference `code` lends the signature and nothing else.
`test_setup_code` builds objects of classes that the answer defines, so it runs after the answer, in the answer's own
process.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from problems.programs.cases import Case, Task, Unusable, public_examples
from problems.programs.tests import called_names, calls, guess_header, header_of, read_cases, without_main_guard
from problems.python_syntax import bound_names, defined_names, parse_source

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
    module = _parsed(str(row["test"]), "`test` does not parse")
    entry = str(row.get("entry_point") or _named_entry(module, seed))
    helpers = _before(seed, entry)
    check = next((s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "check"), None)
    if check is None or not check.args.args:
        raise ValueError("`test` defines no check(candidate)")
    outside = [s for s in without_main_guard(module.body) if s is not check and not calls(s, "check")]
    body = row.get("canonical_solution")
    statements = [*(s for s in outside if not _is_metadata(s)), *check.body]
    cases = read_cases(statements, [entry], check.args.args[0].arg)
    return Task(
        text=f"Complete this Python function.\n\n```python\n{prompt.rstrip()}\n```",
        seed=seed,
        cases=tuple(cases),
        entry=entry,
        setup=helpers,
        epilogue=_imports(statements, cases),
        reference=f"{prompt.rstrip()}\n{body}" if body else None,
        extra={"id": row.get("task_id")},
    )


def _imports(statements: Sequence[ast.stmt], cases: Sequence[Case]) -> str:
    """The imports of the tests that their cases use, as lines."""
    sources = [node for case in cases for node in ast.walk(parse_source(case.source, "eval"))]
    used = {node.id for node in sources if isinstance(node, ast.Name)}
    imports = (s for s in statements if isinstance(s, ast.Import | ast.ImportFrom))
    return "\n".join(ast.unparse(s) for s in imports if bound_names([s]) & used)


def _named_entry(module: ast.Module, prompt: str) -> str:
    """The function under test, if no key names it. Raises ValueError."""
    for statement in module.body:
        if calls(statement, "check") and isinstance(name := statement.value.args[0], ast.Name):  # type: ignore[attr-defined]
            return name.id
    defined = [s.name for s in _parsed(prompt, _HEADER).body if isinstance(s, ast.FunctionDef)]
    if not defined:
        raise ValueError("no `entry_point`, and `prompt` defines no function")
    return defined[-1]


_ASKING = {
    "globals",
    "locals",
    "vars",
    "dir",
    "eval",
    "exec",
    "callable",
    "isinstance",
    "issubclass",
    "hasattr",
    "getattr",
}
"""Functions that no answer is asked for."""
_HEADER = "`prompt` is no function header"


def _parsed(source: str, fault: str) -> ast.Module:
    """Raises ValueError, which begins with `fault`."""
    try:
        return parse_source(source)
    except SyntaxError as error:
        raise ValueError(f"{fault}: {error}") from None


def _before(prompt: str, entry: str) -> str:
    """What the prompt defines besides the function itself: imports and helpers."""
    tree = _parsed(prompt, _HEADER)
    if not any(isinstance(s, ast.FunctionDef) and s.name == entry for s in tree.body):
        raise ValueError(f"`prompt` does not define the entry point {entry}")
    kept = [s for s in tree.body if not (isinstance(s, ast.FunctionDef) and s.name == entry)]
    return ast.unparse(ast.Module(kept, []))


def _is_metadata(statement: ast.stmt) -> bool:
    """A constant that nothing asserts, such as METADATA."""
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict)


def is_mbpp(row: Mapping[str, Any]) -> bool:
    """Detected from its keys."""
    return ("test_list" in row or "test" in row) and ("text" in row or "prompt" in row)


def mbpp_task(row: Mapping[str, Any]) -> Task:
    """The task of one line. Raises ValueError with what is wrong with it."""
    text = _text(row, "text" if "text" in row else "prompt").strip()
    code = _reference(row, text)
    key = "test" if row.get("test") else "test_list"
    found = without_main_guard(_statements(row[key], key))
    setup = "\n".join(_lines(row.get("test_imports") or ()))
    epilogue = _text(row, "test_setup_code").replace("\r\n", "\n").strip() if row.get("test_setup_code") else ""
    entry = str(row.get("entry_point") or _entry(found, code, setup))
    names = _names(found, code, entry, setup)
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
        extra={"id": row.get("task_id"), "difficulty": row.get("difficulty"), "wrong": row.get("wrong")},
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


def _entry(statements: Sequence[ast.stmt], code: str, imports: str) -> str:
    """The function under test: the one that the most tests call, of those that the reference defines."""
    defined = defined_names(code)
    known = set(defined_names(imports)) | _ASKING
    known |= bound_names(s for s in parse_source(imports).body if isinstance(s, ast.ImportFrom))
    local = bound_names(statements)
    called = [name for name in called_names(statements) if name in defined or name not in known]
    called.sort(key=lambda name: name in local)  # a function that the answer returned is not the one under test
    named = [node.id for s in statements for node in ast.walk(s) if isinstance(node, ast.Name)]
    free = [name for name in named if name not in {*known, *local, *vars(builtins), *sys.stdlib_module_names}]
    free.sort(key=lambda name: name not in called)
    texts = [
        n.value for s in statements for n in ast.walk(s) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]
    for name in (*called, *named, *texts):
        if name in defined:
            return name
    if not (called or free):
        raise Unusable("cannot be judged here: its tests call no function")
    return (free or called)[0]  # raises(ValueError, f, -1) names what it calls


def _names(statements: Sequence[ast.stmt], code: str, entry: str, imports: str) -> tuple[str, ...]:
    """The entry and whatever else of the reference the tests call (classes they build). Without a reference it is
    what they call and nothing else defines."""
    called = [name for name in called_names(statements) if name != entry]
    if code:
        defined = defined_names(code) - defined_names(imports)
        return (entry, *(name for name in called if name in defined))
    known = bound_names([*statements, *parse_source(imports).body]) | vars(builtins).keys()
    return (entry, *(name for name in called if name not in known))
