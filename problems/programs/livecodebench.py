"""The LiveCodeBench shape: `question_content`, `starter_code`, public and private test cases, `metadata.func_name`.

Answers run as in the benchmark's own harness (lcb_runner.evaluation.testing_util): after its preamble of imports, one
`Solution` object for all tests of a process.

Private tests come as JSON or packed, as said below. Tests above 8 KiB are dropped and the 16 smallest
kept, as in the VPO paper's experiments. Those judge by private tests alone, which is `private` here; a row without any
is judged by its public ones. Problems of the data set's errata are not posed.

Private tests as LiveCodeBench packs them: base64 of zlib of a pickled JSON text.

A pickle can run code. So it is never unpickled: its instructions are read, and any but those that make one text are
refused before anything comes of them.
"""

from __future__ import annotations

import ast
import base64
import binascii
import builtins
import json
import pickletools
import typing
import zlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from problems.programs.cases import MOST_COMPONENTS, Case, Task, Unusable, public_examples, source_of
from problems.python_syntax import parse_source

LARGEST_TEST = 8 << 10
"""Characters of input and output together; larger tests are dropped."""

_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json"),
)
PREAMBLE = "".join(
    [
        *(f"from {module} import *\n" for module in (*_MODULES, "builtins", "typing")),
        *(f"import {module}\n" for module in _MODULES),
        "sys.setrecursionlimit(50000)\n",
        "sys.set_int_max_str_digits(50000)\n",
    ]
)
"""What the harness puts before every answer, in its order: `import datetime` has the last word over the class."""

_SEVERAL, _INTERACTIVE, _WRONG = "several outputs are right", "it is interactive", "its tests are wrong"
ERRATA: Mapping[str, str] = {
    **dict.fromkeys(("abc311_c", "abc326_d", "abc327_b", "abc333_e", "abc343_a", "abc343_e", "abc362_c"), _SEVERAL),
    **dict.fromkeys(("find-words-containing-character", "find-the-peaks"), _SEVERAL),
    "generate-binary-strings-without-adjacent-zeros": _SEVERAL,
    **dict.fromkeys(("abc337_e", "abc355_e"), _INTERACTIVE),
    "abc350_c": _WRONG,
}
"""Problems by id or title that the data set's ERRATA.md names, with why."""


def is_livecodebench(row: Mapping[str, Any]) -> bool:
    """Detected from its keys."""
    return "question_content" in row and ("public_test_cases" in row or "private_test_cases" in row)


def livecodebench_task(row: Mapping[str, Any], private: bool = False) -> Task:
    """The task of one line. Raises ValueError with what is wrong with it, Unusable for one of the errata.

    private: judged by its private tests alone
    """
    for named in (row.get("question_id"), row.get("question_title")):
        if isinstance(named, str) and named in ERRATA:
            raise Unusable(f"{named} is in the data set's errata: {ERRATA[named]}")
    metadata = _json(row.get("metadata") or "{}", "metadata")
    function = metadata.get("func_name") if isinstance(metadata, dict) else None
    starter = str(row.get("starter_code") or "").replace("\r\n", "\n")
    cases = _smallest(row, function, private)
    if function:
        _refuse_instances(starter, function)
    stdin = cases[0].rule == "printed"
    examples = "\n\n".join(public_examples(cases))
    parts = [str(row["question_content"]).strip()]
    if stdin:
        parts.append("Write a Python program that reads standard input and prints the answer.")
    else:
        parts.append(f"Start from:\n```python\n{starter.rstrip()}\n```")
    if examples:
        parts.append(f"For example:\n{examples}")
    return Task(
        text="\n\n".join(parts),
        seed=_PROGRAM if stdin else starter.rstrip() + "\n        pass\n",
        cases=cases,
        entry=None if stdin else function,
        setup=PREAMBLE,
        epilogue="" if stdin else _ENTRY.format(function=function),
        reference=row.get("code"),
    )


_ENTRY = "_entry = Solution().{function} if 'Solution' in globals() else {function}"
_PROGRAM = "import sys\n\n\ndef main():\n    lines = sys.stdin.read().splitlines()\n\n\nmain()\n"


def _smallest(row: Mapping[str, Any], function: str | None, private: bool) -> tuple[Case, ...]:
    """The MOST_COMPONENTS smallest tests, in the data set's order, public ones marked; repeats dropped."""
    found: dict[tuple[str, str], tuple[int, bool, str]] = {}
    tests = {key: _tests(row.get(key) or "[]", key) for key in ("private_test_cases", "public_test_cases")}
    if private and tests["private_test_cases"]:
        del tests["public_test_cases"]
    for key, public in (("public_test_cases", True), ("private_test_cases", False)):
        for number, test in enumerate(tests.get(key, ()), 1):
            try:
                pair = str(test["input"]), str(test["output"])
                kind = str(test.get("testtype", "functional" if function else "stdin"))
            except (KeyError, TypeError, AttributeError):
                raise ValueError(f"test {number} of `{key}` lacks input or output") from None
            size = len(pair[0]) + len(pair[1])
            if size <= LARGEST_TEST:
                found.setdefault(pair, (size, public, kind))
    kept = sorted(found, key=lambda pair: found[pair][0])[:MOST_COMPONENTS]
    if not kept:
        raise Unusable(f"no test case of at most {LARGEST_TEST} characters")
    if function is not None and not str(function).isidentifier():
        raise ValueError(f"metadata.func_name {function!r} is no name")
    cases: list[Case] = []
    for given, expected in found:  # insertion order: public first, as published
        if (given, expected) not in kept:
            continue
        _, public, kind = found[given, expected]
        if kind == "stdin":
            cases.append(Case(given, expected, "printed", public))
        elif function:
            arguments = ", ".join(source_of(_json(line, "input")) for line in given.splitlines() if line.strip())
            call = f"{function}({arguments})"
            cases.append(Case(f"_entry({arguments})", _json(expected, "output"), "json", public, call))
        else:
            raise ValueError("a functional test without metadata.func_name")
    if len({case.rule for case in cases}) > 1:
        raise ValueError("stdin and functional tests are mixed")
    return tuple(cases)


def _refuse_instances(starter: str, function: str) -> None:
    """Unusable where the signature names a class (TreeNode, ListNode): no JSON test can hold an object of it."""
    try:
        tree = parse_source(starter.rstrip() + "\n        pass\n")
    except (SyntaxError, ValueError):
        return
    known = {*vars(builtins), *vars(typing)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != function:
            continue
        annotations = [*(argument.annotation for argument in (*node.args.args, *node.args.kwonlyargs)), node.returns]
        for annotation in filter(None, annotations):
            parts = [part for part in ast.walk(annotation) if isinstance(part, ast.Name | ast.Constant)]
            names = [str(part.id if isinstance(part, ast.Name) else part.value) for part in parts]
            if unknown := [name for name in names if name not in known]:
                raise Unusable(f"{function} takes or returns a {unknown[0]}, an object that no test in JSON can hold")


def _json(text: object, what: str) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text, parse_int=lambda digits: int(Decimal(digits)))  # int() reads 4,300 digits at most
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`{what}` is not JSON: {error}") from None


def _tests(packed: object, key: str) -> list[Mapping[str, Any]]:
    if isinstance(packed, str) and not packed.lstrip().startswith("["):
        packed = unpack_tests(packed, key)
    tests = _json(packed, key)
    if not isinstance(tests, list):
        raise ValueError(f"`{key}` is no list of tests")
    return tests


_LARGEST = 512 << 20  # what the tests may unpack to, against a decompression bomb
_TEXT = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE")
_AROUND = ("PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP")
"""What a pickler writes around a text: the version, sizes, and a note to itself for repeats."""


def unpack_tests(packed: str, key: str) -> str:
    """The JSON text. Raises ValueError, one line that names the key."""
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(base64.b64decode(packed, validate=True), _LARGEST)
        if not stream.eof:
            raise ValueError("truncated, or larger than any test set")
        return text_of_pickle(data) if data[:1] == b"\x80" else data.decode()
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"`{key}` is neither JSON nor packed tests: {' '.join(str(error).split())[:200]}") from None


def text_of_pickle(data: bytes) -> str:
    """The text that a pickle holds. Raises ValueError for one that holds anything else."""
    found: list[str] = []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in _TEXT:
            found.append(str(argument))
        elif opcode.name not in _AROUND:
            raise ValueError(f"refused: the pickle holds more than one text (its instruction {opcode.name})")
    if len(found) != 1:
        raise ValueError(f"refused: the pickle holds {len(found)} texts, not one")
    return found[0]
